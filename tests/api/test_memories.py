"""Memories: listed, searched, forgotten; and what `memory: on | read | off` means."""

from __future__ import annotations

import json

import httpx
import pytest

from app.index.base import vector_id
from tests.api.calls import Json, answered, at, chat, close, read, refused, vectors
from tests.served import served

PORTO = "I moved to Porto on 2026-03-04."
LISBON = "I signed the lease of a flat in Lisbon."


async def texts(client: httpx.AsyncClient, **params: str) -> list[str]:
    found = await read(client, "/memories", params=params)
    return [memory["text"] for memory in found["memories"]]


async def test_memories_are_listed_the_latest_first_and_searched_with_scores() -> None:
    async with served() as (client, _):
        for session_id, said in {"s1": PORTO, "s2": LISBON}.items():
            await chat(client, said, session_id=session_id)
            await close(client, session_id)
        listed = await read(client, "/memories")
        one = await read(client, "/memories", params={"top_k": 1})
        found = await read(client, "/memories", params={"query": "Where?", "min_score": 0})
        none = await read(client, "/memories", params={"query": "Where?", "min_score": 1})
        other = await read(client, "/memories", params={"user_id": "bob"})
    assert [m["session_id"] for m in listed["memories"]] == ["s2", "s1"]
    assert [m["session_id"] for m in one["memories"]] == ["s2"]
    assert (listed["threshold"], listed["best_below"]) == (None, None)
    assert {m["session_id"] for m in found["memories"]} == {"s1", "s2"}
    scores = [m["score"] for m in found["memories"]]
    assert scores == sorted(scores, reverse=True)
    assert (found["threshold"], found["best_below"]) == (0, None)
    assert (none["memories"], none["threshold"]) == ([], 1)
    assert none["best_below"] == scores[0]
    assert {m["memory_type"] for m in listed["memories"]} == {"episode"}
    assert other["memories"] == []


@pytest.mark.parametrize("session_id", ["s1", "a/b", "a%2Fb", "x#m1", "ü✓", "ü" * 256, "x" * 512])
async def test_a_forgotten_memory_does_not_come_back(session_id: str) -> None:
    async with served() as (client, runtime):
        await chat(client, PORTO, session_id=session_id)
        await close(client, session_id)
        (memory,) = (await read(client, "/memories"))["memories"]
        assert memory["id"] == vector_id(session_id)
        gone = answered(await client.delete(at("memories", memory["id"])))
        assert gone == {"id": memory["id"], "vectors": "removed"}
        assert await vectors(runtime, "memory") == []
        refused(await client.delete(at("memories", memory["id"])), 404)
        assert (await close(client, session_id))["summary"] is None
        assert await texts(client) == await texts(client, query="Porto") == []
        detail = await read(client, at("sessions", session_id))
        assert [detail["messages"][0]["content"], detail["message_count"]] == [PORTO, 2]
        # what is said afterwards is remembered, without what was forgotten
        await chat(client, LISBON, session_id=session_id)
        summary = (await close(client, session_id))["summary"]
        assert "Lisbon" in summary
        assert "Porto" not in summary


async def test_a_message_that_is_not_summarised_yet_can_be_forgotten() -> None:
    async with served() as (client, _):
        await chat(client, PORTO, session_id="s1")
        found = await read(client, "/memories", params={"query": "Porto"})
        (memory,) = found["memories"]
        answered(await client.delete(at("memories", memory["id"])))
        assert await texts(client, query="Porto") == []


async def test_a_receipt_holds_no_text_of_a_memory() -> None:
    async with served() as (client, _):
        await chat(client, PORTO, session_id="s1")
        await close(client, "s1")
        said = await chat(client, "Which city?", session_id="s2")
        assert [m["session_id"] for m in said["memories"]] == ["s1"]
        answered(await client.delete(at("memories", "s1")))
        receipt = await read(client, at("messages", said["message_id"], "receipt"))
        again = await chat(client, "Which city?", session_id="s3")
    assert [m["id"] for m in receipt["receipt"]["memory"]["used"]] == ["s1"]
    assert "Porto" not in json.dumps(receipt)
    assert again["memories"] == []
    assert "Porto" not in again["reply"]


@pytest.mark.parametrize("mode", ["off", "read"])
async def test_what_is_said_without_memory_is_never_remembered(mode: str) -> None:
    async with served() as (client, runtime):
        await chat(client, PORTO, session_id="s1", memory=mode)
        assert await texts(client, query="Porto") == []
        before = await chat(client, "Which city?", session_id="s2")
        closed = await close(client, "s1")
        assert (closed["state"], closed["summary"]) == ("closed", None)
        assert await vectors(runtime, "memory") == []
        assert await texts(client) == await texts(client, query="Porto") == []
        after = await chat(client, "Which city?", session_id="s3")
        inside = await chat(client, "Which city?", session_id="s1")
    assert before["memories"] == after["memories"] == []
    assert "Porto" not in before["reply"] + after["reply"]
    assert inside["receipt"]["history"]["messages"] == 2  # within its session it is history


async def test_only_the_turns_with_memory_enter_a_summary() -> None:
    async with served() as (client, _):
        await chat(client, PORTO, session_id="s1", memory="off")
        await chat(client, LISBON, session_id="s1")
        await chat(client, "I decided to learn Portuguese.", session_id="s1", memory="read")
        summary = (await close(client, "s1"))["summary"]
    assert "Lisbon" in summary
    assert "Port" not in summary


async def test_recall_follows_the_mode_of_the_question() -> None:
    async with served() as (client, _):
        await chat(client, PORTO, session_id="s1")
        found: dict[tuple[bool, str], Json] = {}
        for is_closed in (False, True):
            if is_closed:
                await close(client, "s1")
            for mode in ("on", "read", "off"):
                found[is_closed, mode] = await chat(client, "Which city?", memory=mode)
    for (is_closed, mode), body in found.items():
        expected = [] if mode == "off" else ["episode" if is_closed else "message"]
        assert [memory["memory_type"] for memory in body["memories"]] == expected
        assert ("Porto" in json.dumps(body)) is (mode != "off")
        assert body["receipt"]["memory"]["mode"] == mode
        assert body["receipt"]["route"] == ("knowledge" if mode == "off" else "hybrid")
