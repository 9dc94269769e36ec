"""A fact that a tool stored for a message belongs to its session, before and after its summary."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import NotFound
from app.index.base import namespace
from tests.api.calls import chat, close
from tests.knowledge.calls import finish_jobs
from tests.memory.stores import Clock, converse, every_row, found, learn, serving


async def test_what_a_tool_stored_goes_with_its_session(store: dict[str, Any]) -> None:
    clock = Clock()
    async with serving(clock, **store) as (client, runtime):

        async def tell(session_id: str, value: str) -> str:
            told = found("instrument", value, clock.now)
            kept = await runtime.facts.store("default", "ada", told, session_id=session_id)
            assert kept.is_indexed
            return kept.fact.fact_id

        await converse(client, clock, "ada-old", "I play the zither.", days_ago=3)
        summarised = await tell("ada-old", "zither")
        twice = await tell("ada-old", "zither")
        await chat(client, "I play the lute.", session_id="ada-open", user_id="ada")
        alone = await tell("ada-open", "lute")
        await close(client, "ada-open")
        # the checkpoint reads the same in the same message
        await learn(runtime, "ada-open", found("instrument", "lute", clock.now))
        held = await runtime.facts.of_user("default", "ada", include_past=True, limit=9)
        numbers = {fact.fact_id: (fact.number is None, fact.sightings) for fact in held}
        for session_id in ("ada-open", "ada-old"):
            await client.delete(f"/memories/{session_id}", params={"user_id": "ada"})
        await finish_jobs(runtime)
        rows = await every_row(runtime)
        vectors = await runtime.index.fetch(
            namespace("memory", "default"), [f"facts#{alone}", "ada-old", "ada-old#f1", "ada-open"]
        )
        with pytest.raises(NotFound):
            await tell("ada-never", "harp")
        await chat(client, "hello", session_id="bob-open", user_id="bob")
        with pytest.raises(NotFound):
            await tell("bob-open", "harp")
    assert twice == summarised
    assert {id: numbers[id] for id in (summarised, alone)} == {
        summarised: (False, 1),
        alone: (True, 1),
    }
    assert rows["facts"] == rows["fact_sightings"] == []
    assert vectors == {}
