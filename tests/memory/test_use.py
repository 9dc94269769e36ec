"""What stood in a prompt counts as used; what did not stand there does not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from app.memory.episodes import Episode
from app.wiring import Runtime
from tests.api.calls import chat, read
from tests.memory.stores import Clock, converse, every_row, found, learn, serving


async def episode(runtime: Runtime, session_id: str) -> Episode:
    row = await runtime.episodes.get("default", session_id)
    assert row is not None
    return row


async def used(runtime: Runtime, session_id: str, *, uses: int) -> Episode:
    """Return an episode once it was used so often; it is noted after the reply."""
    async with asyncio.timeout(10):
        while (row := await episode(runtime, session_id)).uses < uses:
            await asyncio.sleep(0.01)
    return row


async def test_a_memory_that_answers_is_used_and_another_is_not(store: dict[str, Any]) -> None:
    clock = Clock()
    chosen = {"memory_threshold": 0.0, "memory_top_k": 1, **store}
    async with serving(clock, **chosen) as (client, runtime):
        await converse(client, clock, "ada-zither", "My zither is tuned in fifths.", days_ago=9)
        await converse(client, clock, "bob-zither", "My zither is tuned in fifths.", days_ago=9)
        before = await episode(runtime, "ada-zither")
        asked = "Is my zither tuned in fifths?"
        first = await chat(client, asked, session_id="ada-today", user_id="ada")
        row = await used(runtime, "ada-zither", uses=1)
        clock.ago(-1)
        await chat(client, asked, session_id="ada-today", user_id="ada")
        again = await used(runtime, "ada-zither", uses=2)
        clock.ago(5)
        await chat(client, asked, session_id="ada-tomorrow", user_id="ada")
        late = await used(runtime, "ada-zither", uses=3)
        unused = await episode(runtime, "bob-zither")
        ready = await read(client, "/health/ready")
    assert [memory["session_id"] for memory in first["memories"]] == ["ada-zither"]
    assert (before.uses, before.used_at) == (0, None)
    assert row.used_at == Clock().now
    assert again.used_at == late.used_at == Clock().now + timedelta(days=1)
    assert (row.version, row.updated_at) == (before.version, before.updated_at)
    assert (unused.uses, unused.used_at) == (0, None)
    assert ready["late_failures"] == 0


async def test_uses_at_once_are_all_counted(store: dict[str, Any]) -> None:
    clock = Clock()
    async with serving(clock, memory_top_k=0, **store) as (client, runtime):
        names = [f"ada-{n}" for n in range(4)]
        for name in names:
            await converse(client, clock, name, f"Zither {name}.", days_ago=1)
            await learn(runtime, name, found("zither", name, clock(), is_many=True))
        before = await every_row(runtime)
        facts = [row["fact_id"] for row in before["facts"]]
        await asyncio.gather(
            *(
                runtime.use.record(
                    "default", names[:: 1 - 2 * (n % 2)], facts[:: 1 - 2 * (n % 2)], clock()
                )
                for n in range(20)
            )
        )
        await runtime.use.record("default", ["unknown"], ["unknown"], clock())
        await runtime.use.record("acme", names, facts, clock())
        await runtime.use.record("default", [], [], clock())
        after = await every_row(runtime)
    for table, key in (("episodes", "session_id"), ("facts", "fact_id")):
        earlier = {row[key]: row["uses"] for row in before[table]}
        used = {row[key]: row["uses"] - earlier[row[key]] for row in after[table]}
        assert used == dict.fromkeys(earlier, 20)
        assert len(earlier) == 4
