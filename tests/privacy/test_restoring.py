"""What an import refuses, what it leaves alone, and how an export ends that can't be whole."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.db import Connection
from app.db.tables import audit_log, messages, sessions
from app.erased import pseudonym
from app.errors import NotFound
from app.privacy import export
from tests.api.calls import Json, answered, at, chat, key, put, read, refused
from tests.privacy.life import ok
from tests.served import served

LAWFUL = {"memory_enabled": True, "pii_storage_allowed": True}
FORMAT = "conversational-rag.user/1"
SEEN = "2026-01-02T03:04:05.000006+00:00"
SESSION: Json = {
    "session_id": "s1",
    "state": "open",
    "last_seq": 1,
    "covered_seq": 0,
    "memory_revision": 0,
    "created_at": SEEN,
    "last_message_at": SEEN,
    "tokens": 3,
}
MESSAGE: Json = {
    "id": "m1",
    "session_id": "s1",
    "seq": 1,
    "role": "user",
    "content": "hello",
    "status": "complete",
    "memory": "on",
    "created_at": SEEN,
}

FACT: Json = {
    **dict.fromkeys(("fact_id", "key", "value_key", "subject", "predicate"), "f1"),
    **dict.fromkeys(("value", "statement"), "Ada likes tea."),
    **dict.fromkeys(("learned_at", "valid_from", "last_seen_at"), SEEN),
    **dict.fromkeys(("created_at", "updated_at"), SEEN),
    **{"kind": "fact", "said_by": "user", "session_id": "s1", "is_many": False},
    **{"confidence": 1.0, "sightings": 1, "version": 1, "uses": 0},
}


async def imported(client: httpx.AsyncClient, body: Any, user: str = "ada") -> httpx.Response:
    text = body if isinstance(body, str) else json.dumps(body)
    return await client.post(at("users", user) + "/import", content=text.encode())


def document(**parts: Any) -> Json:
    return {"format": FORMAT, "user_id": "ada", **parts}


def said(**changed: Any) -> Json:
    return document(sessions=[SESSION], messages=[{**MESSAGE, **changed}])


async def exported(client: httpx.AsyncClient, user: str = "ada", **options: Any) -> Json:
    return answered(await client.get(at("users", user) + "/export", **options))


WRONG: list[tuple[Any, int, str]] = [
    ("{", 400, "not JSON"),
    ("[]", 400, "expected {"),
    ('{"format": "x", "a": NaN}', 400, "NaN"),
    ('{"a": ' + "[" * 100_000, 400, "can't be read"),
    ('{"a": ' + "1" * 5_000 + "}", 400, "can't be read"),
    ('{"sessions": {}}', 400, "expected ["),
    ('{"sessions": [1', 400, "the end: it is incomplete"),
    (json.dumps(document()) + "x", 400, "expected the end"),
    ({"user_id": "ada"}, 422, f"expected '{FORMAT}', came null"),
    ({**document(), "user_id": "bo"}, 422, "another user than the one in the path"),
    (document(secrets=[]), 422, "secrets: an export has no such part"),
    (document(sessions=[7]), 422, "sessions.0: expected an object, came a number"),
    (document(sessions=[SESSION, SESSION]), 422, "sessions.1: the same row"),
    (document(sessions=[{**SESSION, "hash": "x"}]), 422, "sessions.0: there is no 'hash'"),
    (document(sessions=[{**SESSION, "state": "shut"}]), 422, "one of closed, open"),
    (document(sessions=[{**SESSION, "last_seq": 2**30}]), 422, "from 0 to below 1073741824"),
    (document(sessions=[{**SESSION, "covered_seq": 2}]), 422, "expected 0 to 1, came 2"),
    (document(sessions=[{**SESSION, "created_at": "2026-01-02T03:04"}]), 422, "offset"),
    (document(sessions=[{**SESSION, "session_id": "a\nb"}]), 422, "control characters"),
    (document(messages=[MESSAGE]), 422, "messages.0: its session is not in the export"),
    (said(seq=2), 422, "messages.0.seq: expected 0 to 1, came 2"),
    (said(content=None), 422, "messages.0.content: expected a value, came null"),
    (said(content="a\x00b"), 422, "messages.0.content: expected a text without NUL"),
    (said(content="\ud800"), 422, "half surrogate"),
    (said(status="pending"), 422, "one of complete, failed, interrupted"),
    (said(receipt=[]), 422, "messages.0.receipt: expected an object, as a reply has it"),
    (said(receipt={"memory": []}), 422, "messages.0.receipt: expected an object, as a reply"),
    (said(receipt={"memory": {"used": [{"id": "m"}]}}), 422, "as a reply has it"),
    (said(receipt={"documents": {"used": [7]}}), 422, "as a reply has it"),
    (said(receipt={"flagged": [{"kind": "fact"}]}), 422, "as a reply has it"),
    (said(steps=[{"name": "search"}]), 422, "id, name, arguments and result, came a list"),
    (document(consent={**LAWFUL, "retention_days": 1e300, "updated_at": SEEN}), 422, "at most"),
    (document(consent={**LAWFUL, "retention_days": -1, "updated_at": SEEN}), 422, "more than 0"),
    (document(sessions=[{**SESSION, "tokens": 2**63 - 1}]), 422, "from 0 to below"),
    (document(facts=[{**FACT, "number": 1}]), 422, "facts.0: its session is not in the export"),
]


async def test_a_wrong_document_is_refused_with_the_place() -> None:
    async with served() as (client, _):
        for body, status, told in WRONG:
            assert told in refused(await imported(client, body), status)["message"]
        assert (await exported(client))["sessions"] == []


async def test_bytes_that_are_no_text_are_refused() -> None:
    async with served() as (client, _):
        response = await client.post("/users/ada/import", content=b'{"a": "\xff"}')
        assert refused(response, 400)["message"] == "the body is not UTF-8"


async def test_an_import_may_be_as_large_as_an_upload_and_no_other_body() -> None:
    async with served(max_body_bytes=500, max_upload_bytes=2_000) as (client, _):
        assert answered(await imported(client, json.dumps(said()) + " " * 1_000))
        refused(await imported(client, " " * 2_001), 413)
        refused(await client.put("/users/ada/consent", content=b" " * 501), 413)


async def test_something_else_under_the_same_id_is_a_conflict_and_nothing_is_stored() -> None:
    async with served() as (client, _):
        await chat(client, "hello", session_id="s1", user_id="bo")
        new = {**SESSION, "session_id": "new"}
        error = refused(await imported(client, document(sessions=[new, SESSION])), 409)
        assert error["message"] == "sessions: 's1' is there already, and something else"
        assert (await exported(client))["sessions"] == []
        answered(await imported(client, document(sessions=[new])))
        (stolen,) = (await exported(client, "bo"))["messages"][:1]
        own = {**MESSAGE, "id": stolen["id"], "session_id": "new"}
        error = refused(await imported(client, document(sessions=[new], messages=[own])), 409)
        assert "another message's already" in error["message"]


async def test_what_is_of_another_user_is_not_given_a_fact_or_a_mark() -> None:
    async with served() as (client, _):
        await chat(client, "My dog is called Rex.", session_id="s1", user_id="bo")
        error = refused(await imported(client, document(facts=[FACT])), 409)
        assert error["message"] == "facts: the session 's1' is another user's"
        mark = {"flags": [], "state": "blocked", "created_at": SEEN, "fingerprint": "x"}
        marks = [{**mark, "kind": "episode", "ref": ref} for ref in ("s1", "none")]
        body = answered(await imported(client, document(quarantine=marks)))
        assert (body["restored"], body["left_out"]) == ({}, {"quarantine": 2})
        assert (await read(client, "/quarantine"))["entries"] == []


async def test_an_import_that_contradicts_itself_is_a_conflict() -> None:
    async with served() as (client, _):
        two = {**SESSION, "last_seq": 2}
        both = [
            {**MESSAGE, "client_message_id": "c"},
            {**MESSAGE, "id": "m2", "seq": 2, "client_message_id": "c"},
        ]
        body = document(sessions=[two], messages=both)
        assert "contradicts itself" in refused(await imported(client, body), 409)["message"]


async def test_an_import_that_was_cut_off_is_completed_by_a_repeat() -> None:
    async with served() as (client, runtime):
        for n in range(3):
            await chat(client, f"I like tea number {n}.", session_id=f"s{n}", user_id="ada")
            ok(await client.post(at("sessions", f"s{n}", "close"), params={"user_id": "ada"}))
        while await runtime.worker.drain():
            pass
        whole = (await client.get("/users/ada/export")).text
    async with served() as (client, runtime):
        answered(await imported(client, whole))

        def lose_some(connection: Connection) -> None:
            connection.execute(messages.delete().where(messages.c.seq == 2))
            connection.execute(sessions.delete().where(sessions.c.session_id == "s1"))

        await runtime.database.write(lose_some)
        result = answered(await imported(client, whole))
        assert result["restored"] == {"sessions": 1, "messages": 3}
        assert (await client.get("/users/ada/export")).text == whole


async def test_what_moved_on_since_stands_as_it_is() -> None:
    async with served() as (client, _):
        who = {"user_id": "ada"}
        ok(await client.put("/memories/blocks/human", json={"value": "A nurse."}, params=who))
        whole = await exported(client)
        ok(await client.put("/memories/blocks/human", json={"value": "A doctor."}, params=who))
        result = answered(await imported(client, whole))
        assert result["restored"] == {}
        assert (await read(client, "/memories/blocks/human", params=who))["value"] == "A doctor."


async def test_an_erased_user_is_not_brought_back_until_consent_is_said_anew() -> None:
    async with served() as (client, _):
        await chat(client, "hello", session_id="s1", user_id="ada")
        whole = await exported(client)
        ok(await client.delete("/users/ada"))
        assert "was erased" in refused(await imported(client, whole), 409)["message"]
        assert (await exported(client))["messages"] == []
        ok(await client.put("/users/ada/consent", json=LAWFUL))
        answered(await imported(client, whole))
        assert (await exported(client))["messages"] == whole["messages"]


async def test_documents_that_name_an_erased_user_are_left_out_and_counted() -> None:
    async with served() as (client, _):
        both = {"id": "d1", "text": "Ada and Bo.", "metadata": {"user_id": ["ada", "bo"]}}
        await put(client, both, {"id": "d2", "text": "Ada.", "metadata": {"user_id": "ada"}})
        whole = await exported(client)
        assert [one["document_id"] for one in whole["documents"]] == ["d1", "d2"]
    async with served() as (client, _):
        ok(await client.delete("/users/bo"))
        result = answered(await imported(client, whole))
        assert (result["restored"], result["left_out"]) == ({"documents": 1}, {"documents": 1})


async def test_an_export_holds_pages_of_a_long_conversation() -> None:
    number = export.PAGE * 2 + 1
    lines = [{"role": "user", "content": f"m{n}", "created_at": SEEN} for n in range(number)]
    async with served() as (client, _):
        body = {"user_id": "ada", "conversations": [{"session_id": "s", "messages": lines}]}
        ok(await client.post("/memories/import", json=body))
        found = (await exported(client))["messages"]
        assert [one["content"] for one in found] == [f"m{n}" for n in range(number)]


async def test_a_session_that_goes_meanwhile_breaks_the_export_off() -> None:
    async with served() as (client, runtime):
        for n in range(2):
            await chat(client, "hello", session_id=f"s{n}", user_id="ada")
        caller = await runtime.keys.caller(None, is_local=True, now=runtime.clock())
        pieces = await runtime.exports.begin("default", "ada", actor=caller.actor, within=None)
        seen = ""

        async def read_on() -> None:
            nonlocal seen
            async for piece in pieces:
                if piece.startswith(',\n"messages"'):
                    ok(await client.delete("/sessions/s1", params={"user_id": "ada"}))
                seen += piece

        with pytest.raises(NotFound, match="deleted meanwhile"):
            await read_on()
        with pytest.raises(json.JSONDecodeError):
            json.loads(seen)


async def test_what_is_said_meanwhile_leaves_an_export_that_can_be_imported() -> None:
    async with served() as (client, runtime):
        await chat(client, "My dog is called Rex.", session_id="s1", user_id="ada")
        caller = await runtime.keys.caller(None, is_local=True, now=runtime.clock())
        pieces = await runtime.exports.begin("default", "ada", actor=caller.actor, within=None)
        seen = ""
        async for piece in pieces:
            if piece.startswith((',\n"episodes"', ',\n"fact_sightings"')):
                new = f"s{len(seen)}"
                cat = f"My cat is called Tom{len(seen)}."
                await chat(client, cat, session_id=new, user_id="ada")
                ok(await client.post(at("sessions", new, "close"), params={"user_id": "ada"}))
                told = {"predicate": "likes", "value": new, "user_id": "ada"}
                ok(await client.post("/memories/facts", json=told))
            seen += piece
        assert len(json.loads(seen)["sessions"]) == 1
    async with served() as (client, _):
        answered(await imported(client, seen))


async def test_exports_and_imports_are_noted_with_counts_and_no_name() -> None:
    async with served() as (client, runtime):
        await chat(client, "hello", session_id="s1", user_id="ada")
        whole = await exported(client)
        answered(await imported(client, whole))
        rows = await runtime.database.read(
            lambda c: c.execute(audit_log.select().order_by(audit_log.c.id)).all()
        )
    acts = [(row.action, row.subject) for row in rows if row.action.startswith("user.")]
    subject = pseudonym("default", "ada")
    assert acts == [("user.export", subject), ("user.restore", subject)]
    assert rows[-2].counts["sessions"] == 1


async def test_a_user_nobody_knows_has_an_empty_export() -> None:
    async with served() as (client, _):
        assert await exported(client, "nobody") == {
            "format": FORMAT,
            "user_id": "nobody",
            "consent": None,
            **{name: [] for name in export.NAMES},
        }


async def test_a_filter_of_documents_holds_for_an_export_too() -> None:
    async with served() as (client, runtime):
        for number, department in enumerate(("sales", "legal")):
            about = {"user_id": "ada", "department": department}
            await put(
                client, {"id": f"d{number}", "text": f"A {department} paper.", "metadata": about}
            )
        bound = await key(runtime, "user", user="ada", document_filter={"department": "sales"})
        found = await exported(client, headers=bound)
        assert [one["document_id"] for one in found["documents"]] == ["d0"]
        assert found["deliveries"] == []
