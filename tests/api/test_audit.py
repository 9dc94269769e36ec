"""The audit log: who did what to what is shared, or to another's things; no content."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from app.audit import Actor
from app.cli import _calibrate, _parser, _reindex
from app.erased import pseudonym
from tests.api.calls import Json, answered, at, chat, close, key, names, put, read, refused
from tests.served import served, served_at, settings

ADA = pseudonym("default", "ada")
LIKES = {"predicate": "likes", "value": "tea"}


async def acts(client: httpx.AsyncClient, headers: Json, **params: Any) -> list[Json]:
    """Return what was noted, the oldest first, without the making of the tests' own keys."""
    page = await read(client, "/audit", params=params, headers=headers)
    return [act for act in reversed(page["acts"]) if act["action"] != "key.create"]


def told(act: Json) -> tuple[str, str | None, Json | None]:
    return act["action"], act["subject"], act["counts"]


async def test_acts_on_documents_are_noted_with_who_did_them_and_how_many() -> None:
    async with served() as (client, runtime):
        admin = await key(runtime, "admin")
        key_id = (await runtime.keys.list_keys("default"))[0].id
        one = {"id": "d1", "text": "A secret text.", "source": "handbook"}
        two = [{"id": f"e{n}", "text": f"Text {n}.", "source": "faq"} for n in range(3)]
        await put(client, one, headers=admin)
        await put(client, one, headers=admin)  # unchanged: nothing was done
        await put(client, *two, headers=admin)
        await put(client, one | {"text": "New."}, two[0] | {"text": "New."}, headers=admin)
        answered(await client.delete(at("documents", "d1"), headers=admin))
        refused(await client.delete(at("documents", "d1"), headers=admin), 404)
        some = {"ids": ["e0", "e1", "gone"]}
        answered(await client.post("/documents/delete", json=some, headers=admin))
        source = {"source": "faq"}
        answered(await client.delete("/documents", params=source, headers=admin))
        file = {"file": ("notes.md", b"# Notes\n\nSome text.")}
        answered(await client.post("/documents/file", files=file, headers=admin))
        noted = await acts(client, admin)
    assert [told(act) for act in noted] == [
        ("documents.put", "d1", {"documents": 1}),
        ("documents.put", "faq", {"documents": 3}),
        ("documents.put", None, {"documents": 2}),
        ("documents.delete", "d1", {"documents": 1}),
        ("documents.delete", "faq", {"documents": 2}),
        ("documents.delete_source", "faq", {"documents": 1}),
        ("documents.upload", "notes.md", None),
    ]
    assert {(act["actor"], act["role"]) for act in noted} == {(f"key:{key_id}", "admin")}
    assert all(act["request_id"] for act in noted)


async def test_what_is_done_to_a_person_s_things_on_their_behalf_is_noted() -> None:
    async with served() as (client, runtime):
        admin, gateway = await key(runtime, "admin"), await key(runtime, "gateway")
        ada = {"user_id": "ada"}
        for session in ("s1", "s2"):
            await chat(client, "I moved to Porto.", session_id=session, headers=gateway, **ada)
            await close(client, session, params=ada, headers=gateway)
        fact = answered(
            await client.post("/memories/facts", json={**LIKES, **ada}, headers=gateway)
        )["fact_id"]
        human = at("memories", "blocks", "human")
        block = {"value": "A nurse."}
        answered(await client.put(human, json=block, params=ada, headers=gateway))
        by_ada: Json = {"params": ada, "headers": gateway}
        answered(await client.get(at("sessions", "s1"), **by_ada))  # everyday traffic
        answered(await client.get("/memories", **by_ada))
        assert await acts(client, admin) == []

        answered(await client.get(at("sessions", "s1", "export"), **by_ada))
        answered(await client.delete(human, **by_ada))
        answered(await client.delete(at("memories", "facts", fact), **by_ada))
        answered(await client.delete(at("memories", "s1"), **by_ada))
        answered(await client.delete(at("sessions", "s1"), **by_ada))
        old = {
            "messages": [{"role": "user", "content": "Hi", "created_at": "2023-05-08T13:56:00Z"}]
        }
        taken = {"conversations": [old], **ada}
        for _ in range(2):  # the second time, nothing is stored
            response = await client.post("/memories/import", json=taken, headers=gateway)
            assert response.status_code == 202
        (imported,) = response.json()["conversations"]
        await close(client, imported["session_id"], **by_ada)
        evict = {"policy": "time", "max_age_days": 0.000001, **ada}
        asked = {**evict, "dry_run": True}
        answered(await client.post("/memories/evict", json=asked, headers=gateway))
        answered(await client.post("/memories/evict", json=evict, headers=gateway))
        noted = await acts(client, admin)
        of_ada = await acts(client, admin, user_id="ada")
        of_bo = await acts(client, admin, user_id="bo")
    assert [told(act) for act in noted] == [
        ("session.export", ADA, None),
        ("block.delete", ADA, None),
        ("fact.delete", ADA, {"facts": 1}),
        ("memory.delete", ADA, {"episodes": 1, "facts": 0}),
        ("session.delete", ADA, {"messages": 2}),
        ("memories.import", ADA, {"conversations": 1, "messages": 1}),
        ("memories.evict", ADA, None),
        ("memories.evicted", ADA, {"episodes": 2, "facts": 0}),
    ]
    assert {act["role"] for act in noted} == {"gateway"}
    assert (of_ada, of_bo) == (noted, [])
    assert not names(str(noted), "ada")


async def test_an_admin_s_looks_into_a_person_s_things_are_noted() -> None:
    async with served() as (client, runtime):
        admin, ada = await key(runtime, "admin"), await key(runtime, "user", user="ada")
        said = await chat(client, "I moved to Porto.", session_id="s1", headers=ada)
        receipt = at("messages", said["message_id"], "receipt")
        looks = ("/sessions", at("sessions", "s1"), receipt)
        for path in (*looks, "/memories", "/memories/facts"):
            await read(client, path, headers=ada)
        assert await acts(client, admin) == []
        for path in looks:
            await read(client, path, headers=admin)
        for path in ("/sessions", "/memories", "/memories/facts"):
            await read(client, path, params={"user_id": "ada"}, headers=admin)
        noted = await acts(client, admin)
    assert [told(act)[:2] for act in noted] == [
        ("sessions.list", None),
        ("session.read", ADA),
        ("session.read", ADA),
        ("memories.read", ADA),
        ("facts.read", ADA),
    ]


async def test_a_developer_alone_reads_without_a_note_and_acts_with_one() -> None:
    async with served() as (client, _):
        await chat(client, "I moved to Porto.", session_id="s1")
        await read(client, at("sessions", "s1"))
        await read(client, "/memories")
        await put(client, {"id": "d1", "text": "A text."})
        (act,) = await acts(client, {})
    assert (act["actor"], act["action"]) == ("local", "documents.put")


async def test_acts_are_listed_by_what_is_asked_for_page_by_page_and_by_tenant() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    async with served_at(lambda: now) as (client, runtime):
        for day in range(10):
            now = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)
            actor = Actor("default" if day != 4 else "globex", f"key:{day % 2}", "admin")
            action = "documents.put" if day < 5 else "documents.delete"
            await runtime.audit.write(actor, action, subject=f"d{day}", counts={"documents": day})

        async def found(**params: Any) -> list[str]:
            page = await read(client, "/audit", params=params)
            return [act["subject"] for act in page["acts"]]

        assert await found() == ["d9", "d8", "d7", "d6", "d5", "d3", "d2", "d1", "d0"]
        assert await found(action="documents.put") == ["d3", "d2", "d1", "d0"]
        assert await found(actor="key:1") == ["d9", "d7", "d5", "d3", "d1"]
        assert await found(subject="d3") == ["d3"]
        span = {"since": "2026-03-03T00:00:00Z", "until": "2026-03-07T00:00:00Z"}
        assert await found(**span) == ["d5", "d3", "d2"]

        seen, after = [], None
        while True:
            params: Json = {"limit": 4} | ({} if after is None else {"after": after})
            page = await read(client, "/audit", params=params)
            seen += [act["subject"] for act in page["acts"]]
            after = page["next_after"]
            if after is None:
                break
        assert seen == await found()
        named = await client.get("/audit", params={"subject": "d1", "user_id": "ada"})
        assert refused(named, 422)["param"] == "subject"


async def test_no_route_changes_what_was_noted() -> None:
    async with served() as (client, _):
        methods = (await read(client, "/openapi.json"))["paths"]["/audit"]
    assert list(methods) == ["get"]


async def test_an_act_that_fails_is_not_noted() -> None:
    async with served() as (client, runtime):
        gateway, admin = await key(runtime, "gateway"), await key(runtime, "admin")
        whose: Json = {"params": {"user_id": "ada"}, "headers": gateway}
        for path in (
            at("sessions", "s1"),
            at("memories", "s1"),
            at("memories", "facts", "f" * 32),
            at("memories", "blocks", "human"),
        ):
            refused(await client.delete(path, **whose), 404)
        refused(await client.post("/webhooks/inbox/1/replay", headers=admin), 404)
        assert await acts(client, admin) == []


async def test_what_an_operator_does_at_the_command_line_is_noted(tmp_path: Path) -> None:
    disk = {"database_url": f"sqlite:///{tmp_path / 'service.db'}"}
    async with served(**disk) as (client, _):
        await put(client, {"id": "d1", "text": "A text."})
    assert await _reindex(settings(**disk)) == 0
    reset = _parser().parse_args(["calibrate", "--reset"])
    assert await _calibrate(settings(**disk), reset) == 0
    async with served(**disk) as (client, _):
        noted = await acts(client, {}, actor="cli")
    assert [act["action"] for act in noted] == ["service.reindex", "thresholds.reset"]
