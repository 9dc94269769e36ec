"""Memories with their facts in a chat, from a conversation to the next one's prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.llm.blocks import texts
from tests.api.calls import at, chat, close, groq, read
from tests.served import served, served_at
from tests.wire.memory import lives_in, remembering
from tests.wire.openai import ModelServer, model_server


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(script=remembering(lives_in)) as server:
        yield server


class Calendar:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 5, 10, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


async def moved(
    client: httpx.AsyncClient, clock: Callable[[], datetime], **fields: Any
) -> dict[str, Any]:
    """Say in one conversation "Lisbon", a year later in another "Porto", then ask where."""
    await chat(client, "I live in Lisbon.", session_id="s1", user_id="ada")
    await close(client, "s1")
    assert isinstance(clock, Calendar)
    clock.now = datetime(2026, 3, 1, 10, tzinfo=UTC)
    await chat(client, "I moved to Porto.", session_id="s2", user_id="ada")
    await close(client, "s2")
    return await chat(client, "Where do I live?", session_id="s3", user_id="ada", **fields)


async def test_after_a_move_the_prompt_says_where_the_user_lives_and_since_when(
    model: ModelServer,
) -> None:
    clock = Calendar()
    async with served_at(clock, **groq(model)) as (client, _):
        body = await moved(client, clock)
        stored = await read(client, at("messages", body["message_id"], "receipt"))
    last = model.requests[-1]["messages"][-1]["content"]
    assert texts("profile", last) == ["- The user lives in Porto (since 2026-03-01)"]
    shown = texts("memory", last)
    assert any("- The user lives in Porto (since 2026-03-01)" in text for text in shown)
    assert not any("- The user lives in Lisbon" in text for text in shown)
    receipt = body["receipt"]
    used = {one["session_id"]: one for one in receipt["memory"]["used"]}
    assert used["s2"]["fact_ids"] == [one["fact_id"] for one in receipt["profile"]]
    assert used["s1"]["fact_ids"] == []
    assert all(0 <= one["relevance"] <= 1 and one["why"] for one in used.values())
    assert stored["receipt"] == receipt


async def test_offline_the_answer_is_where_the_user_lives_now(model: ModelServer) -> None:
    clock = Calendar()
    chosen = groq(model, chat_model="offline", embedding_model="local")
    async with served_at(clock, **chosen) as (client, _):
        body = await moved(client, clock)
    assert "Porto" in body["reply"]
    assert "Lisbon" not in body["reply"]


async def test_a_repeat_gives_the_same_memories_in_the_same_order(model: ModelServer) -> None:
    clock = Calendar()
    async with served_at(clock, **groq(model)) as (client, _):
        first = await moved(client, clock, client_message_id="c1")
        again = await chat(
            client, "Where do I live?", session_id="s3", user_id="ada", client_message_id="c1"
        )
    assert len(first["memories"]) == 2
    assert again["memories"] == first["memories"]


async def test_dates_in_the_prompt_are_those_of_the_users_time_zone(model: ModelServer) -> None:
    clock = Calendar()
    clock.now = datetime(2026, 3, 2, 5, 30, tzinfo=UTC)  # 23:30 the day before, in Chicago
    async with served_at(clock, **groq(model)) as (client, _):
        await chat(
            client,
            "I moved to Porto.",
            session_id="s1",
            user_id="ada",
            timezone="America/Chicago",
        )
        await close(client, "s1")
        await chat(
            client,
            "Where do I live?",
            session_id="s2",
            user_id="ada",
            timezone="America/Chicago",
        )
    system = model.requests[-1]["messages"][0]["content"]
    last = model.requests[-1]["messages"][-1]["content"]
    assert "(since 2026-03-01)" in texts("profile", last)[0]
    assert "2026-03-01 23:30 CST" in system


async def test_a_miss_names_the_best_score_and_no_memory_at_all_names_none() -> None:
    async with served(embedding_model="mock:512", memory_threshold=0.9) as (client, _):
        nothing = await chat(client, "Where do I live?", session_id="s0", user_id="bob")
        none_found = await read(client, "/memories", params={"user_id": "bob", "query": "Where?"})
        await chat(client, "I keep bees on the roof.", session_id="s1", user_id="ada")
        await close(client, "s1")
        missed = await chat(client, "Where do I live?", session_id="s2", user_id="ada")
        found = await read(client, "/memories", params={"user_id": "ada", "query": "Where then?"})
    assert nothing["receipt"]["memory"]["used"] == []
    assert nothing["receipt"]["memory"]["best_below"] is None
    assert (none_found["memories"], none_found["best_below"]) == ([], None)
    assert none_found["threshold"] == 0.9
    assert missed["receipt"]["memory"]["used"] == []
    assert 0 <= missed["receipt"]["memory"]["best_below"] < 0.9
    assert found["memories"] == []
    assert 0 <= found["best_below"] < 0.9
