"""Sessions: list, read, close, delete; receipts."""

from __future__ import annotations

from typing import Any

import pytest

from app.index.base import vector_id
from tests.api.calls import answered, at, chat, close, groq, key, read, refused, vectors
from tests.served import served
from tests.wire.openai import model_server

PORTO = "I moved to Porto on 2026-03-04."


async def test_sessions_are_listed_the_latest_first_and_by_pages() -> None:
    async with served() as (client, _):
        for n in range(5):
            await chat(client, "hello", session_id=f"s{n}", user_id="ada" if n % 2 else "bob")
        await chat(client, "hello again", session_id="s1", user_id="ada")
        pages: list[list[str]] = []
        before: dict[str, Any] = {}
        while True:
            page = await read(client, "/sessions", params={"limit": 2, **before})
            pages.append([session["session_id"] for session in page["sessions"]])
            if page["next_cursor"] is None:
                break
            before = {"cursor": page["next_cursor"]}
        of_ada = await read(client, "/sessions", params={"user_id": "ada"})
    assert pages == [["s1", "s4"], ["s3", "s2"], ["s0"]]
    assert [(s["session_id"], s["message_count"]) for s in of_ada["sessions"]] == [
        ("s1", 4),
        ("s3", 2),
    ]
    assert {s["user_id"] for s in of_ada["sessions"]} == {"ada"}


async def test_a_session_is_read_by_pages_in_order() -> None:
    async with served(summary_every_messages=1000) as (client, _):
        for n in range(3):
            await chat(client, f"message {n}", session_id="s1", client_message_id=f"c{n}")
        seen, after = [], 0
        while after is not None:
            page = await read(client, at("sessions", "s1"), params={"limit": 4, "after_seq": after})
            seen += page["messages"]
            after = page["next_after_seq"]
    assert [message["seq"] for message in seen] == [1, 2, 3, 4, 5, 6]
    assert [m["content"] for m in seen if m["role"] == "user"] == [
        "message 0",
        "message 1",
        "message 2",
    ]
    assert [m["client_message_id"] for m in seen] == ["c0", None, "c1", None, "c2", None]
    assert (page["state"], page["summary"], page["summary_covers_seq"]) == ("open", None, 0)


async def test_without_a_session_id_a_new_session_begins() -> None:
    async with served() as (client, _):
        first, second = await chat(client, "hello"), await chat(client, "hello")
        listed = await read(client, "/sessions")
    assert first["session_id"] != second["session_id"]
    assert {s["session_id"] for s in listed["sessions"]} == {
        first["session_id"],
        second["session_id"],
    }


async def test_closing_summarises_and_a_new_message_reopens() -> None:
    async with served() as (client, _):
        await chat(client, PORTO, session_id="s1")
        closed = await close(client, "s1")
        again = await close(client, "s1")
        detail = await read(client, at("sessions", "s1"))
        await chat(client, "I work at Acme Corp now.", session_id="s1")
        reopened = await read(client, at("sessions", "s1"))
        last = await close(client, "s1")
    assert (closed["state"], closed["pending"]) == ("closed", None)
    assert "Porto" in closed["summary"]
    assert again == closed
    assert (detail["summary"], detail["summary_covers_seq"]) == (closed["summary"], 2)
    assert detail["closed_at"] is not None
    assert (reopened["state"], reopened["closed_at"]) == ("open", None)
    assert "Porto" in last["summary"]
    assert "Acme" in last["summary"]


async def test_a_close_whose_model_fails_stays_open_and_visible_until_it_succeeds() -> None:
    with model_server(script=("Hello there, friend.",)) as model:
        async with served(**groq(model)) as (client, _):
            await chat(client, PORTO, session_id="s1")
            model.fault = "server_error"
            failed = await close(client, "s1")
            ready = await read(client, "/health/ready")
            model.fault = "garbage"
            failed_again = await close(client, "s1")
            model.fault, model.script = None, lambda _: "The user moved to Porto on 2026-03-04."
            closed = await close(client, "s1")
            well = await read(client, "/health/ready")
    assert (failed["state"], failed["summary"]) == ("open", None)
    assert failed["pending"]
    assert "secret upstream text" not in failed["pending"]
    assert ready["status"] == "degraded"
    assert (ready["summaries"]["pending"], ready["summaries"]["failed"]) == (1, 1)
    assert ready["summaries"]["last_error"] == failed["pending"]
    assert failed_again["state"] == "open"
    assert (closed["state"], closed["pending"]) == ("closed", None)
    assert closed["summary"] == "The user moved to Porto on 2026-03-04."
    assert well["status"] == "ok"
    assert well["summaries"] == {"pending": 0, "failed": 0, "last_error": None}


async def test_a_retried_message_reopens_its_closed_session() -> None:
    with model_server() as model:
        async with served(**groq(model)) as (client, _):
            model.fault = "server_error"
            failed = await client.post("/chat", json={"message": PORTO, "session_id": "s1"})
            assert failed.status_code == 503
            model.fault, model.script = None, lambda _: "The user moved to Porto on 2026-03-04."
            assert (await close(client, "s1"))["state"] == "closed"
            await chat(client, PORTO, session_id="s1")
            detail = await read(client, at("sessions", "s1"))
    assert len(detail["messages"]) == 2
    assert detail["state"] == "open"


@pytest.mark.parametrize("session_id", ["s1", "y/close", "a%2Fb#1?x=1&y", "ü" * 256, "//x/"])
async def test_a_deleted_session_leaves_nothing(session_id: str) -> None:
    async with served() as (client, runtime):
        said = await chat(client, PORTO, session_id=session_id)
        await chat(client, "Which city?", session_id=session_id)
        await close(client, session_id)
        ids = await vectors(runtime, "memory")
        assert vector_id(session_id) in ids
        gone = answered(await client.delete(at("sessions", session_id)))
        assert gone == {"session_id": session_id, "messages": 4, "vectors": "removed"}
        assert await vectors(runtime, "memory") == []
        refused(await client.get(at("sessions", session_id)), 404)
        refused(await client.delete(at("sessions", session_id)), 404)
        refused(await client.get(at("messages", said["message_id"], "receipt")), 404)
        assert (await read(client, "/memories"))["memories"] == []
        assert (await read(client, "/memories", params={"query": "Porto"}))["memories"] == []
        assert (await read(client, "/stats"))["sessions"] == {"open": 0, "closed": 0, "messages": 0}
        # and the id is free for a conversation that knows nothing of the old one
        await chat(client, "hello", session_id=session_id)
        assert (await read(client, at("sessions", session_id)))["message_count"] == 2


async def test_the_receipt_of_another_user_looks_like_one_that_never_was() -> None:
    async with served() as (client, runtime):
        ada = await key(runtime, "user", user="ada")
        bo = await key(runtime, "user", user="bo")
        said = await chat(client, "hello", headers=ada)
        told = [
            refused(await client.get(at("messages", id, "receipt"), headers=bo), 404)
            for id in (said["message_id"], "never")
        ]
    assert told[0]["message"] == told[1]["message"]


async def test_a_receipt_is_there_for_replies_only() -> None:
    async with served() as (client, _):
        said = await chat(client, "hello", session_id="s1")
        receipt = await read(client, at("messages", said["message_id"], "receipt"))
        history = (await read(client, at("sessions", "s1")))["messages"]
        refused(await client.get(at("messages", history[0]["message_id"], "receipt")), 404)
    assert receipt == {
        "message_id": said["message_id"],
        "session_id": "s1",
        "status": "complete",
        "receipt": said["receipt"],
    }
