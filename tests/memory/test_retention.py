"""Raw messages go once they are old and summarised; what was made of them stays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.lexical.store import scope_of
from app.memory import tally
from app.sessions.base import NewTurn
from app.wiring import Runtime
from tests.api.calls import at, chat, close, read, refused
from tests.knowledge.calls import do_what_is_due, try_jobs
from tests.memory.stores import (
    Clock,
    Rows,
    converse,
    every_row,
    found,
    learn,
    of_user,
    serving,
    two_replicas,
    vectors,
)
from tests.wire.openai import ModelServer, model_server
from tests.wire.pinecone import API_KEY, Faults, serving_pinecone

MONTH: dict[str, Any] = {"message_retention_days": 30.0, "memory_exchanges": True}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


def transcript_words(rows: Rows, user: str) -> set[str]:
    """Return the words that the lexical index holds of what a user's conversations said."""
    scope = scope_of("memory", "default", user)
    return {row["term"] for row in rows["lexical_postings"] if row["scope"] == scope}


async def seqs(runtime: Runtime, session_id: str) -> list[int]:
    stored = await runtime.sessions.messages_after("default", session_id, 0, limit=1000)
    return [message.seq for message in stored]


async def test_old_messages_go_with_words_exchanges_and_receipts_and_the_memory_stays(
    store: dict[str, Any],
) -> None:
    clock = Clock()
    async with serving(clock, **MONTH, **store) as (client, runtime):
        for user in ("ada", "bob"):
            said = (f"The zither of {user} is called Rex.", f"{user} had a marmalade pancake.")
            await converse(client, clock, f"{user}-old", *said, days_ago=90 if user == "ada" else 1)
            await learn(runtime, f"{user}-old", found("zither", "Rex", clock()))
        before = await every_row(runtime)
        listed = await read(client, at("sessions", "ada-old"))
        swept = await runtime.monitor.sweep(clock())
        await do_what_is_due(runtime)
        after = await every_row(runtime)
        ids = await vectors(runtime)
        session = await read(client, at("sessions", "ada-old"))
        reply = listed["messages"][1]["message_id"]
        gone = await client.get(f"/messages/{reply}/receipt")
        facts = (await read(client, "/memories/facts", params={"user_id": "ada"}))["facts"]
        recalled = await read(client, "/memories", params={"user_id": "ada", "query": "zither Rex"})
        counted = (await read(client, "/stats"))["forgotten"]
    refused(gone, 404)
    assert swept.removed == counted["removed_messages"] == 4
    assert (listed["removed_up_to_seq"], session["removed_up_to_seq"]) == (0, 4)
    assert (session["messages"], session["message_count"]) == ([], 4)
    assert session["summary"] == listed["summary"] is not None
    assert [(fact["value"], fact["quote"]) for fact in facts] == [("Rex", "Rex")]
    assert [memory["session_id"] for memory in recalled["memories"]] == ["ada-old"]
    assert "pancak" in " ".join(transcript_words(before, "ada"))
    assert "pancak" not in " ".join(transcript_words(after, "ada"))
    assert "bob-old#x1" in ids
    assert "ada-old" in ids
    assert not [found for found in ids if found.startswith("ada-old#x")]
    assert of_user(after, "bob") == of_user(before, "bob")
    kept = ("sessions", "episodes", "facts", "fact_sightings", "entities")
    assert all(of_user(after, "ada")[name] == of_user(before, "ada")[name] for name in kept)


async def test_a_conversation_loses_its_old_turns_and_keeps_the_others(
    store: dict[str, Any],
) -> None:
    clock = Clock()
    async with serving(clock, **MONTH, **store) as (client, runtime):
        await converse(client, clock, "ada-1", "My zither.", "My pancake.", days_ago=90)
        await converse(client, clock, "ada-1", "My marmalade.", days_ago=10)
        first = await runtime.monitor.sweep(clock())
        second = await runtime.monitor.sweep(clock())
        await do_what_is_due(runtime)
        session = await read(client, at("sessions", "ada-1"))
        words = transcript_words(await every_row(runtime), "ada")
        ids = await vectors(runtime)
        third = await runtime.monitor.sweep(clock() + timedelta(days=25))
        left = await seqs(runtime, "ada-1")
    assert (first.removed, second.removed, third.removed) == (4, 0, 2)
    assert [message["seq"] for message in session["messages"]] == [5, 6]
    assert session["removed_up_to_seq"] == 4
    assert [found for found in sorted(ids) if "#x" in found] == ["ada-1#x3"]
    assert any(word.startswith("marmalad") for word in words)
    assert not [word for word in words if word.startswith(("zither", "pancak"))]
    assert left == []


async def test_what_no_summary_covers_stays_however_old_it_is(store: dict[str, Any]) -> None:
    clock = Clock()
    async with serving(clock, **MONTH, **store) as (client, runtime):
        clock.ago(90)
        await chat(client, "My zither.", session_id="ada-1", user_id="ada")
        clock.ago(-90)
        assert (await runtime.monitor.sweep(clock())).removed == 0
        assert await seqs(runtime, "ada-1") == [1, 2]
        await close(client, "ada-1")
        assert (await runtime.monitor.sweep(clock())).removed == 2
        assert await seqs(runtime, "ada-1") == []


async def test_a_turn_that_is_still_answered_keeps_its_question() -> None:
    clock = Clock()
    async with serving(clock, **MONTH) as (client, runtime):
        await converse(client, clock, "ada-1", "My zither.", days_ago=90)
        clock.ago(80)
        new = NewTurn("default", "ada-1", "ada", "My pancake?", None, "on", "alive")
        await runtime.sessions.begin_turn(new, now=clock())
        clock.ago(-80)
        assert (await runtime.monitor.sweep(clock())).removed == 2
        assert await seqs(runtime, "ada-1") == [3, 4]


async def test_messages_stay_unless_a_time_is_set() -> None:
    clock = Clock()
    async with serving(clock) as (client, runtime):
        await converse(client, clock, "ada-1", "My zither.", days_ago=9000)
        assert (await runtime.monitor.sweep(clock())).removed == 0
        assert await seqs(runtime, "ada-1") == [1, 2]


async def test_a_conversation_that_lost_its_messages_goes_on_from_its_summary(
    model: ModelServer,
) -> None:
    clock = Clock()
    chosen = {"groq_api_key": "gsk_test_of_retention", "groq_api_base": model.url}
    async with serving(clock, **MONTH, **chosen, summary_model="offline") as (client, runtime):
        await converse(client, clock, "ada-1", "My zither is called Rex.", days_ago=90)
        await runtime.monitor.sweep(clock())
        await chat(client, "What is it called?", session_id="ada-1", user_id="ada")
        session = await read(client, at("sessions", "ada-1"))
    assert "My zither is called Rex." in str(model.requests[-1]["messages"][-1])
    assert [message["seq"] for message in session["messages"]] == [3, 4]


async def test_a_client_message_id_is_free_again_once_its_message_is_gone() -> None:
    clock = Clock()
    body = {"message": "My zither.", "session_id": "ada-1", "client_message_id": "c1"}
    async with serving(clock, **MONTH) as (client, runtime):
        clock.ago(90)
        first = (await client.post("/chat", json={**body, "user_id": "ada"})).json()
        await close(client, "ada-1")
        clock.ago(-90)
        repeated = (await client.post("/chat", json={**body, "user_id": "ada"})).json()
        await runtime.monitor.sweep(clock())
        again = (await client.post("/chat", json={**body, "user_id": "ada"})).json()
        left = await seqs(runtime, "ada-1")
    assert repeated["message_id"] == first["message_id"] != again["message_id"]
    assert left == [3, 4]


async def test_replicas_remove_each_message_once(tmp_path: Path, postgres_state: str) -> None:
    for url in (f"sqlite:///{tmp_path / 'service.db'}", postgres_state):
        clock = Clock()
        async with two_replicas(clock, database_url=url, **MONTH) as replicas:
            client, runtime = replicas[0]
            for n in range(3):
                await converse(client, clock, f"ada-{n}", f"Zither {n}.", days_ago=90)
            swept = await asyncio.gather(*(r.monitor.sweep(clock()) for _, r in replicas))
            counted = await tally.read(runtime.database, "default")
        assert sum(each.removed for each in swept) == counted["removed_messages"] == 6


async def test_exchanges_that_could_not_be_removed_go_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    with serving_pinecone(dimension=32) as pinecone:
        chosen = {
            **MONTH,
            "database_url": f"sqlite:///{tmp_path / 'service.db'}",
            "pinecone_api_key": API_KEY,
            "pinecone_host": pinecone.url,
            "pinecone_timeout_seconds": 1.0,
        }
        async with serving(clock, **chosen) as (client, runtime):
            await converse(client, clock, "ada-1", "My zither.", "My pancake.", days_ago=90)
            before = await vectors(runtime)
            pinecone.faults = Faults(status=500)
            await runtime.monitor.sweep(clock())
            await do_what_is_due(runtime)
            waiting = await runtime.jobs.pending()
        pinecone.faults = Faults()
        async with serving(clock, **chosen) as (_, runtime):
            await try_jobs(runtime)
            after = await vectors(runtime)
    assert waiting["drop_exchanges"]["failed"] == 1
    assert {"ada-1#x1", "ada-1#x2"} < set(before)
    assert "ada-1" in after
    assert not [found for found in after if "#x" in found]
