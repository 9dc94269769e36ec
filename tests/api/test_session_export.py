"""The whole of a conversation as one document: what is in it, and that it can be taken in again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from app.api.session_exports import PAGE
from app.sessions.base import NewTurn
from app.wiring import Runtime
from tests.api.calls import Json, answered, at, chat, close, key, read, refused
from tests.memory.stores import Clock, serving
from tests.served import listening, served

PORTO = "I moved to Porto on 2026-03-04."


async def exported(client: httpx.AsyncClient, session_id: str, **params: Any) -> str:
    response = await client.get(at("sessions", session_id) + "/export", params=params)
    assert response.status_code == 200, response.text
    return response.text


async def store_turn(runtime: Runtime, session_id: str, text: str, **ended: Any) -> None:
    new = NewTurn("default", session_id, "default", text, None, "on", "run-1")
    turn = await runtime.sessions.begin_turn(new, now=runtime.clock())
    fields: dict[str, Any] = {
        "status": "complete",
        "content": f"Reply to {text}",
        "receipt": None,
        "error": None,
    }
    await runtime.sessions.end_turn(turn, **{**fields, **ended}, now=runtime.clock())


def imported(*lines: Json, session_id: str) -> Json:
    return {"conversations": [{"session_id": session_id, "messages": list(lines)}]}


async def test_an_export_has_the_session_its_summary_its_facts_and_its_messages() -> None:
    async with served() as (client, _):
        await chat(client, PORTO, session_id="s1", timezone="Europe/Lisbon")
        said = await chat(client, "Which city?", session_id="s1")
        await close(client, "s1")
        answered(await client.patch(at("sessions", "s1"), json={"metadata": {"channel": "web"}}))
        detail = await read(client, at("sessions", "s1"))
        plain = json.loads(await exported(client, "s1"))
        full = json.loads(await exported(client, "s1", receipts="true"))
        facts = (await read(client, "/memories/facts"))["facts"]
    assert plain["session"] == {name: detail[name] for name in plain["session"]}
    assert plain["session"]["metadata"] == {"channel": "web"}
    assert plain["timezone"] == "Europe/Lisbon"
    assert (plain["summary"], plain["summary_covers_seq"]) == (detail["summary"], 4)
    assert plain["messages"] == detail["messages"]
    assert plain["facts"]
    assert {fact["fact_id"] for fact in plain["facts"]} == {fact["fact_id"] for fact in facts}
    assert [message.pop("receipt") for message in full["messages"]][3] == said["receipt"]
    assert full["messages"] == plain["messages"]


async def test_a_long_session_is_exported_whole_and_in_order() -> None:
    start = datetime(2023, 5, 8, tzinfo=UTC).timestamp()
    lines = [
        {
            "role": "user",
            "content": f"Message {n}.",
            "created_at": datetime.fromtimestamp(start + n, UTC).isoformat(),
        }
        for n in range(2 * PAGE + 1)
    ]
    async with served() as (client, _):
        stored = await client.post("/memories/import", json=imported(*lines, session_id="long"))
        assert stored.status_code == 202
        found = json.loads(await exported(client, "long"))
    assert [m["content"] for m in found["messages"]] == [line["content"] for line in lines]
    assert [m["seq"] for m in found["messages"]] == list(range(1, 2 * PAGE + 2))


async def test_what_is_exported_can_be_imported_by_another_service_and_changes_nothing_here() -> (
    None
):
    async with served() as (client, _), served() as (elsewhere, _):
        ada = {"session_id": "s1", "user_id": "ada"}
        await chat(client, PORTO, **ada, timezone="Europe/Lisbon")
        await chat(client, "Which city do I live in?", **ada)
        body = await exported(client, "s1", format="import")
        headers = {"Content-Type": "application/json"}
        back = await client.post("/memories/import", content=body, headers=headers)
        there = await elsewhere.post("/memories/import", content=body, headers=headers)
        here = await read(client, at("sessions", "s1"))
        copy = await read(elsewhere, at("sessions", "s1"))
    assert back.json()["conversations"][0]["state"] == "unchanged"
    assert there.json()["conversations"][0]["state"] == "imported"
    assert there.json()["user_id"] == "ada"
    kept = ("seq", "role", "content", "created_at")
    assert [[m[name] for name in kept] for m in copy["messages"]] == [
        [m[name] for name in kept] for m in here["messages"]
    ]


async def test_an_export_to_import_leaves_out_replies_that_say_nothing() -> None:
    async with served() as (client, runtime):
        failed = {"status": "failed", "content": "", "error": {"code": "x", "message": "y"}}
        await store_turn(runtime, "s1", "one", **failed)
        await store_turn(runtime, "s1", "two", status="interrupted", content="Half a repl")
        everything = json.loads(await exported(client, "s1"))
        body = json.loads(await exported(client, "s1", format="import"))
        async with served() as (elsewhere, _):
            taken = await elsewhere.post("/memories/import", json=body)
    assert [m["status"] for m in everything["messages"]] == [
        "complete",
        "failed",
        "complete",
        "interrupted",
    ]
    (conversation,) = body["conversations"]
    assert [m["content"] for m in conversation["messages"]] == ["one", "two", "Half a repl"]
    assert taken.status_code == 202


async def test_tool_calls_of_a_reply_are_shown_and_exported() -> None:
    step = {
        "id": "call_1",
        "name": "search_memory",
        "arguments": {"query": "city"},
        "result": "The user lives in Porto.",
        "is_error": False,
    }
    async with served() as (client, runtime):
        await store_turn(runtime, "s1", "Which city?", steps=[step])
        question, reply = (await read(client, at("sessions", "s1")))["messages"]
        document = json.loads(await exported(client, "s1"))
        readable = await exported(client, "s1", format="markdown")
    assert (question["steps"], reply["steps"]) == ([], [step])
    assert document["messages"][1]["steps"] == [step]
    assert "*Tools: search_memory*" in readable


async def test_a_readable_export_tells_who_said_what_and_when() -> None:
    clock = Clock()
    async with serving(clock) as (client, runtime):
        await chat(client, PORTO, session_id="s1")
        await close(client, "s1")
        answered(await client.patch(at("sessions", "s1"), json={"title": "The move"}))
        await store_turn(runtime, "s1", "And?", status="failed", content="")
        response = await client.get(at("sessions", "s1") + "/export?format=markdown")
        summary = (await read(client, at("sessions", "s1")))["summary"]
    text = response.text
    assert response.headers["content-type"] == "text/markdown; charset=utf-8"
    assert 'filename="session.md"' in response.headers["content-disposition"]
    assert text.startswith("# The move\n\n- Session: s1\n- User: default\n")
    assert f"## Summary\n\n{summary}\n" in text
    assert f"\n**User**, 2026-03-01 12:00 UTC\n\n{PORTO}\n" in text
    assert "\n**Assistant**, 2026-03-01 12:00 UTC\n" in text
    assert text.endswith("\n*(failed)*\n")


async def test_an_export_says_which_messages_are_gone() -> None:
    clock = Clock()
    async with serving(clock, message_retention_days=10) as (client, runtime):
        today = clock.now
        clock.ago(30)
        await chat(client, PORTO, session_id="s1")
        await close(client, "s1")
        clock.now = today
        await runtime.retention.sweep(today)
        document = json.loads(await exported(client, "s1"))
        readable = await exported(client, "s1", format="markdown")
    assert (document["messages"], document["removed_up_to_seq"]) == ([], 2)
    assert "Porto" in document["summary"]
    assert "The first 2 messages were old" in readable


@pytest.mark.parametrize("session_id", ["y", "a/b", "y/export", "ü#1?x=1"])
async def test_any_session_can_be_read_and_exported_whatever_its_id(session_id: str) -> None:
    async with served() as (client, _):
        await chat(client, "hello", session_id=session_id)
        await chat(client, "something else", session_id="y/export/export")
        assert (await read(client, at("sessions", session_id)))["session_id"] == session_id
        document = json.loads(await exported(client, session_id))
        assert document["session"]["session_id"] == session_id


async def test_an_export_is_for_its_user_only_and_knows_its_formats() -> None:
    async with served() as (client, runtime):
        ada, bob = (
            await key(runtime, "user", user="ada"),
            await key(runtime, "user", user="bob"),
        )
        await chat(client, "hello", session_id="s1", headers=ada)
        path = at("sessions", "s1", "export")
        refused(await client.get(path, headers=bob), 404)
        refused(await client.get(at("sessions", "none", "export"), headers=ada), 404)
        refused(await client.get(path, headers=ada, params={"format": "pdf"}), 422)


async def test_an_export_whose_session_goes_meanwhile_is_broken_off_and_not_just_short() -> None:
    async with listening() as (client, runtime):
        for n in range(PAGE // 2 + 1):  # a page more than what can be on its way to a slow reader
            await store_turn(runtime, "long", f"Question {n}", content="x" * 150_000)
        async with client.stream("GET", at("sessions", "long", "export")) as response:
            assert response.status_code == 200
            body = response.aiter_bytes()
            await anext(body)
            answered(await client.delete(at("sessions", "long")))
            with pytest.raises(httpx.RemoteProtocolError):
                [piece async for piece in body]
