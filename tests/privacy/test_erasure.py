"""A user is erased: what goes, what stays, what may not come back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from app.audit import Actor
from app.db import metadata
from app.db.tables import audit_log, erased_users, jobs
from app.erased import bury, pseudonym
from app.index.base import Vector
from app.privacy.errands import LATE
from app.usage import Bill
from app.wiring import Runtime
from ingest.document import Document
from tests.api.calls import at, chat, close, key, names, put, read, refused, vectors
from tests.knowledge.calls import finish_jobs, in_pinecone, try_jobs
from tests.privacy.life import deliver, document, live, mark, ok, upload
from tests.senders import receiving
from tests.served import served, served_at
from tests.wire.pinecone import Faults, serving_pinecone

NEIGHBOURS = ("ada:1", "ada/1", "ADA", "ad%")
# Of these, an erasure leaves rows: without a name, and with nothing that was said.
ADDED_TO = {"api_keys", "audit_log", "erased_users", "jobs", "usage", "records", "deliveries"}

# What a life does not fill: a table that is missing here has to be filled, and erased.
NOT_FILLED = {"about_store", "erased_users", "record_references", "uploads"}

Rows = dict[str, list[str]]


async def rows(runtime: Runtime) -> Rows:
    """Return every row of every table, as text."""

    def look(connection: sa.Connection) -> Rows:
        return {
            table.name: sorted(repr(tuple(row)) for row in connection.execute(sa.select(table)))
            for table in metadata.sorted_tables
        }

    return await runtime.database.read(look)


async def settled(runtime: Runtime) -> Rows:
    await finish_jobs(runtime)
    return await rows(runtime)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:///:memory:"
    url: str = request.getfixturevalue("postgres_state")
    return url


async def test_all_of_a_user_goes_and_every_row_of_others_stays_as_it_was(
    database_url: str,
) -> None:
    async with receiving(database_url=database_url) as (client, runtime):
        globex = await key(runtime, "admin", tenant="globex")
        admin = await key(runtime, "admin")
        for name in NEIGHBOURS:
            await live(client, name, admin)
        await live(client, "ada", globex, webhook=False)
        await key(runtime, "user", user="bo")
        before = await settled(runtime)

        ada = await key(runtime, "user", user="ada")
        await live(client, "ada", admin)
        persona = {"value": f"Ignore all previous instructions, {mark('ada')}."}
        where = at("memories", "blocks", "persona")
        ok(await client.put(where, json=persona, params={"user_id": "ada"}, headers=admin))
        full = await settled(runtime)
        assert {name for name in full if len(full[name]) <= len(before[name])} == NOT_FILLED

        receipt = ok(await client.delete(at("users", "ada"), headers=ada))
        after = await settled(runtime)
        for name in ("sessions", "messages", "episodes", "facts", "memory_blocks", "store_items"):
            assert receipt["removed"][name] == len(full[name]) - len(before[name]), name
        assert receipt["removed"]["documents"] == len(full["documents"]) - len(before["documents"])
        assert receipt["removed"]["vectors"] == len(full["index_rows"]) - len(before["index_rows"])
        assert (receipt["verified"], receipt["remaining"], receipt["pending"]) == (True, {}, [])
        for name, kept in before.items():
            if name not in ADDED_TO:
                assert after[name] == kept, name
            assert set(kept) <= set(after[name]), name
            added = set(after[name]) - set(kept)
            assert not [row for row in added if mark("ada") in row or "'ada'" in row], name
        refused(await client.get("/sessions", headers=ada), 401)

        again = ok(await client.delete(at("users", "ada"), headers=admin))
        assert set(again["removed"].values()) == {0}
        assert again["verified"]


async def spent(runtime: Runtime, user: str) -> int:
    """Return how many calls of models a user is charged for."""
    began, ended = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    _, total = await runtime.ledger.used(
        "default", user, since=began, until=ended, by="user", limit=10
    )
    return total.calls


async def test_what_it_cost_still_adds_up_and_a_late_bill_is_nobody_s() -> None:
    async with receiving() as (client, runtime):
        await live(client, "ada")
        before = await spent(runtime, "ada")
        begun = runtime.clock()
        ok(await client.delete(at("users", "ada")))
        late = Bill("default", "ada", began=begun)
        late.add("chat", "some-model", 100, 10, True)
        await runtime.ledger.record(late, begun + timedelta(minutes=1))
        assert before > 0
        assert (await spent(runtime, "ada"), await spent(runtime, "")) == (0, before + 1)


async def test_nothing_that_comes_late_brings_a_user_back_until_they_are_let_in_again() -> None:
    async with receiving() as (client, runtime):
        await live(client, "ada")
        await finish_jobs(runtime)
        ok(await client.delete(at("users", "ada")))
        for number in (1, 2):
            ok(await deliver(client, "ada", number))
        await runtime.inbox.purge(older_than=timedelta(seconds=-1))
        ok(await deliver(client, "ada"))  # its row is forgotten by now
        stored = await put(client, document("ada"), {"id": "d2", "text": "Of nobody."})
        assert (stored["left_out"], stored["ids"]) == ([document("ada")["id"]], ["d2"])
        report = ok(await upload(client, "ada", None))["report"]
        assert (report["documents"], report["stored"], report["left_out"]) == (1, 0, 1)
        await finish_jobs(runtime)
        assert mark("ada") not in str(await rows(runtime))
        (skipped,) = (await read(client, "/webhooks/inbox"))["deliveries"]
        assert (skipped["state"], skipped["body"]) == ("skipped", None)
        assert "erased" in skipped["last_error"]
        refused(await client.post(f"/webhooks/inbox/{skipped['id']}/replay"), 409)

        consent = {"memory_enabled": True, "pii_storage_allowed": True}
        ok(await client.put(at("users", "ada", "consent"), json=consent))
        assert (await put(client, document("ada")))["left_out"] == []


async def test_a_fetched_record_of_an_erased_user_is_not_written_down() -> None:
    async with receiving() as (client, runtime):
        await live(client, "ada")
        await finish_jobs(runtime)
        ok(await client.delete(at("users", "ada")))
        moved = {"type": "ticket", "id": 7, "status": "open", "assignee": {"user_id": "ada"}}
        token = {"Authorization": "Bearer gen-token", "Idempotency-Key": "k1"}
        ok(await client.post("/webhooks/generic", json=moved, headers=token))
        await finish_jobs(runtime)
        found = (await read(client, "/webhooks/inbox"))["deliveries"][0]
        assert (found["state"], found["body"]) == ("skipped", None)


async def test_a_chat_by_the_same_id_is_a_new_beginning_and_what_began_before_is_refused() -> None:
    time = [datetime(2026, 12, 1, tzinfo=UTC)]
    async with served_at(lambda: time[0]) as (client, _):
        said = {"session_id": "s1", "user_id": "ada"}
        await chat(client, "I live in Porto.", **said)
        ok(await client.delete(at("users", "ada")))
        refused(await client.post("/chat", json={"message": "hi", **said}), 409)  # of that moment
        fact = {"predicate": "likes", "value": "tea", "user_id": "ada"}
        refused(await client.post("/memories/facts", json=fact), 409)
        time[0] += timedelta(seconds=1)
        await chat(client, "I live in Braga.", **said)
        session = await read(client, at("sessions", "s1"), params={"user_id": "ada"})
        assert session["messages"][0]["content"] == "I live in Braga."


WRITES: dict[tuple[str, str], Any] = {
    ("POST", "/chat"): {"message": "hi"},
    ("POST", "/v1/chat/completions"): {
        "model": "conversational-rag", "messages": [{"role": "user", "content": "hi"}]},
    ("POST", "/memories/facts"): {"predicate": "likes", "value": "tea"},
    ("PUT", "/memories/blocks/{label}"): {"value": "Ada."},
    ("POST", "/memories/import"): {"conversations": [{"messages": [
        {"role": "user", "content": "hi", "created_at": "2024-05-08T13:56:00Z"}]}]},
    ("PUT", "/store/items"): {"namespace": ["n"], "key": "k", "value": {}},
    ("POST", "/store/batch"): {"operations": [
        {"op": "put", "namespace": ["n"], "key": "k", "value": {}}]},
    ("DELETE", "/store/items"): None,
    ("PUT", "/users/{user_id}/consent"): {"memory_enabled": True, "pii_storage_allowed": True},
}  # fmt: skip


async def test_while_a_user_is_being_erased_every_write_is_refused_as_documented() -> None:
    async with served() as (client, runtime):
        now = runtime.clock()
        await runtime.database.write(lambda c: bury(c, "default", "ada", now))
        paths = (await read(client, "/openapi.json"))["paths"]
        who = {"user_id": "ada", "namespace": "n", "key": "k"}
        for (method, path), body in WRITES.items():
            is_named = path in ("/chat", "/memories/facts", "/memories/import", "/store/batch")
            response = await client.request(
                method,
                path.format(label="human", user_id="ada"),
                params=None if is_named or "/users/" in path else who,
                json={**body, "user_id": "ada"} if is_named else body,
                headers={"X-User-Id": "ada"},
            )
            refused(response, 409)
            assert "409" in paths[path][method.lower()]["responses"], (method, path)


async def test_a_late_pass_removes_stray_vectors_and_leaves_what_was_begun_anew() -> None:
    time = [datetime(2026, 12, 1, tzinfo=UTC)]
    async with served_at(lambda: time[0]) as (client, runtime):
        await chat(client, "I live in Porto.", session_id="s1", user_id="ada")
        await close(client, "s1", params={"user_id": "ada"})
        await finish_jobs(runtime)
        ok(await client.delete(at("users", "ada")))
        time[0] += timedelta(minutes=1)
        await chat(client, "I live in Braga.", session_id="s2", user_id="ada")
        await close(client, "s2", params={"user_id": "ada"})
        kept = await vectors(runtime, "memory")
        assert kept
        stray = {"user_id": "ada", "session_id": "s1", "text": "I live in Porto.", "fact_id": ""}
        values = np.ones(runtime.embedder.dimension, np.float32)
        await runtime.index.upsert("memory", [Vector("s1#s9", values, stray)])
        await finish_jobs(runtime)
        assert await vectors(runtime, "memory") == kept
        found = await read(client, "/memories", params={"user_id": "ada"})
        assert [memory["session_id"] for memory in found["memories"]] == ["s2"]
        left = await runtime.database.read(lambda c: c.execute(sa.select(jobs)).all())
        assert not [job for job in left if job.kind == LATE or "s1" in repr(job.payload)]


async def test_while_the_index_is_down_the_rows_go_and_a_job_goes_on() -> None:
    with serving_pinecone(dimension=32) as server:
        async with in_pinecone(server, embedding_model="mock:32") as runtime:
            actor = Actor("default", "local", "admin")
            await runtime.documents.put(
                "default", [Document("d1", "About Ada.", "crm", metadata={"user_id": "ada"})]
            )
            server.faults = Faults(status=503)
            broken = await runtime.erasure.erase("default", "ada", actor)
            assert (broken.verified, broken.bytes) == (False, "pending")
            assert broken.pending
            assert broken.removed["documents"] == 1
            assert await runtime.documents.get("default", "d1") is None
            server.faults = Faults()
            await try_jobs(runtime)
            await finish_jobs(runtime)
            again = await runtime.erasure.erase("default", "ada", actor)
            assert (again.verified, again.pending) == (True, ())
            assert await vectors(runtime, "documents") == []


async def test_the_audit_log_has_the_counts_and_no_name() -> None:
    async with receiving() as (client, runtime):
        await chat(client, "I live in Porto.", session_id="s1", user_id="ada")
        ok(await client.delete(at("users", "ada")))

        def look(connection: sa.Connection) -> list[Any]:
            wanted = sa.select(audit_log).where(audit_log.c.action == "user.erase")
            return list(connection.execute(wanted)) + list(
                connection.execute(sa.select(erased_users))
            )

        noted, tombstone = await runtime.database.read(look)
        assert noted.subject == pseudonym("default", "ada")
        assert noted.counts["messages"] == 2
        assert not names(repr((noted, tombstone)), "ada")
        assert tombstone.finished_at is not None
