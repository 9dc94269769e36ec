"""What is evicted is gone from every store, and stays gone; everything else is as it was."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from app.memory import tally
from app.memory.eviction import Policy
from app.wiring import Runtime
from tests.api.calls import answered, at, chat, close, read
from tests.knowledge.calls import do_what_is_due, finish_jobs, try_jobs
from tests.memory.stores import (
    Clock,
    about,
    converse,
    every_row,
    found,
    learn,
    of_user,
    serving,
    two_replicas,
    vectors,
)
from tests.wire.pinecone import API_KEY, Faults, PineconeServer, serving_pinecone

BY_TIME: dict[str, Any] = {"eviction_policy": "time", "eviction_max_age_days": 100.0}


async def two_users(client: httpx.AsyncClient, runtime: Runtime, clock: Clock) -> None:
    """Give Ada and Bob an old conversation and a new one each, with a fact in each."""
    for user in ("ada", "bob"):
        for name, days_ago in (("old", 200), ("new", 3)):
            session = f"{user}-{name}"
            said = f"I keep {name} zithers called {session} at home."
            await converse(client, clock, session, said, days_ago=days_ago)
            told_at = clock.now - timedelta(days=days_ago)
            await learn(runtime, session, found(f"{name}_zither", session, told_at))


async def sessions_with_episodes(runtime: Runtime, user: str) -> list[str]:
    rows = await runtime.episodes.of_user("default", user, limit=100)
    return sorted(row.session_id for row in rows)


async def test_an_evicted_conversation_is_gone_from_every_store_and_nothing_else_is(
    store: dict[str, Any],
) -> None:
    clock = Clock()
    policy = Policy("time", 100, 1000, 0.2, keep_facts=False)
    async with serving(clock, **store) as (client, runtime):
        await two_users(client, runtime, clock)
        before = await every_row(runtime)
        evicted = await runtime.evictor.evict("default", "ada", policy, clock())
        await finish_jobs(runtime)
        after = await every_row(runtime)
        ids = await vectors(runtime)
        transcript = await read(client, at("sessions", "ada-old"))
    assert (evicted.memories, evicted.episodes, evicted.facts) == (1, 1, 1)
    assert "ada-old" in str(before["lexical_items"])
    assert about(after, "ada-old") == {"sessions", "messages"}
    words = {(row["scope"], row["item"]) for row in after["lexical_postings"]}
    assert words == {(row["scope"], row["id"]) for row in after["lexical_items"]}
    assert not [found for found in ids if found.startswith("ada-old")]
    assert [found for found in ids if found.startswith("ada-new")]
    assert (transcript["summary"], len(transcript["messages"])) == (None, 2)
    assert of_user(after, "bob") == of_user(before, "bob")
    assert any(of_user(before, "bob").values())


async def test_kept_facts_stay_as_facts_by_themselves_and_are_found(
    store: dict[str, Any],
) -> None:
    clock = Clock()
    policy = Policy("time", 100, 1000, 0.2, keep_facts=True)
    async with serving(clock, **store) as (client, runtime):
        await two_users(client, runtime, clock)
        before = await every_row(runtime)
        evicted = await runtime.evictor.evict("default", "ada", policy, clock())
        again = await runtime.evictor.evict("default", "ada", policy, clock())
        await finish_jobs(runtime)
        facts = (await read(client, "/memories/facts", params={"user_id": "ada"}))["facts"]
        episodes = await sessions_with_episodes(runtime, "ada")
        after = await every_row(runtime)
        texts = [row["metadata"] for row in after["index_rows"]]
        words = {row["term"] for row in of_user(after, "ada")["lexical_postings"]}
        history = await read(client, f"/memories/facts/{_fact(facts)['fact_id']}/history")
    assert (evicted.memories, evicted.episodes, evicted.facts, evicted.kept_facts) == (1, 1, 0, 1)
    assert again.memories == 0
    assert episodes == ["ada-new"]
    assert {fact["value"] for fact in facts} == {"ada-old", "ada-new"}
    assert _fact(facts)["session_id"] == "ada-old"
    assert [said["quote"] for said in history["sightings"]] == ["ada-old"]
    assert [text for text in texts if "old_zither is ada-old" in text]
    assert not [text for text in texts if "at home" in text and "ada-old" in text]
    assert "zither" in words
    assert of_user(after, "bob") == of_user(before, "bob")


def _fact(facts: list[dict[str, Any]]) -> dict[str, Any]:
    (old,) = (fact for fact in facts if fact["value"] == "ada-old")
    return old


async def test_the_monitors_pass_evicts_by_the_settings(store: dict[str, Any]) -> None:
    clock = Clock()
    async with serving(clock, **store, **BY_TIME) as (client, runtime):
        for user in ("ada", "bob"):
            await converse(client, clock, f"{user}-old", "My zither.", days_ago=101)
            await converse(client, clock, f"{user}-new", "My parrot.", days_ago=99)
        swept = await runtime.monitor.sweep(clock())
        left = [await sessions_with_episodes(runtime, user) for user in ("ada", "bob")]
        second = await runtime.monitor.sweep(clock())
        counted = (await read(client, "/stats"))["forgotten"]
    assert (swept.evicted, second.evicted) == (2, 0)
    assert left == [["ada-new"], ["bob-new"]]
    assert counted == {"evicted_episodes": 2, "evicted_facts": 0, "removed_messages": 0}


async def test_nothing_is_evicted_unless_it_is_asked_for() -> None:
    clock = Clock()
    async with serving(clock) as (client, runtime):
        await converse(client, clock, "ada-old", "My zither.", days_ago=9000)
        before = await every_row(runtime)
        swept = await runtime.monitor.sweep(clock())
        assert (swept.evicted, swept.removed) == (0, 0)
        assert await every_row(runtime) == before


async def test_what_is_marked_stays_until_the_mark_is_taken_away(store: dict[str, Any]) -> None:
    clock = Clock()
    async with serving(clock, **store, **BY_TIME) as (client, runtime):
        for name in ("pinned", "critical", "plain"):
            await converse(client, clock, f"ada-{name}", f"A {name} zither.", days_ago=200)
        for name in ("pinned", "critical"):
            marked = await client.patch(at("memories", f"ada-{name}"), json={"mark": name})
            assert answered(marked) == {"id": f"ada-{name}", "mark": name}
        await runtime.monitor.sweep(clock())
        marked_ones = await sessions_with_episodes(runtime, "ada")
        answered(await client.patch(at("memories", "ada-pinned"), json={"mark": None}))
        await runtime.monitor.sweep(clock())
        left = await sessions_with_episodes(runtime, "ada")
    assert marked_ones == ["ada-critical", "ada-pinned"]
    assert left == ["ada-critical"]


async def test_a_marked_fact_keeps_its_conversation_where_facts_would_go_with_it() -> None:
    clock = Clock()
    policy = Policy("time", 100, 1000, 0.2, keep_facts=False)
    async with serving(clock) as (client, runtime):
        await two_users(client, runtime, clock)
        told_at = clock.now - timedelta(days=200)
        await learn(runtime, "ada-old", found("allergy", "ada-nuts", told_at, mark="critical"))
        await runtime.evictor.evict("default", None, policy, clock())
        left = [await sessions_with_episodes(runtime, user) for user in ("ada", "bob")]
    assert left == [["ada-new", "ada-old"], ["bob-new"]]


async def test_a_conversation_that_is_used_outlives_one_that_is_not() -> None:
    clock = Clock()
    chosen = {"eviction_policy": "importance", "memory_threshold": 0.0}
    async with serving(clock, **chosen) as (client, runtime):
        for user in ("ada", "bob"):
            said = "My zither is tuned in fifths."
            await converse(client, clock, f"{user}-zither", said, days_ago=150)
        await chat(client, "My zither?", session_id="ada-today", user_id="ada")
        await runtime.background.close()  # it is noted by then
        await runtime.monitor.sweep(clock() + timedelta(days=10))
        left = [await sessions_with_episodes(runtime, user) for user in ("ada", "bob")]
    assert left == [["ada-zither"], []]


async def test_the_oldest_beyond_the_count_go_and_those_still_written_count() -> None:
    clock = Clock()
    chosen = {"eviction_policy": "count", "eviction_max_memories": 2}
    async with serving(clock, **chosen) as (client, runtime):
        for n in (4, 3, 2, 1):
            await converse(client, clock, f"ada-{n}", f"Zither number {n}.", days_ago=n)
        # It goes on: what is new in it is covered by no summary yet.
        await chat(client, "And another.", session_id="ada-4", user_id="ada")
        await runtime.monitor.sweep(clock())
        left = await sessions_with_episodes(runtime, "ada")
    assert left == ["ada-1", "ada-4"]


async def test_an_evicted_conversation_that_goes_on_remembers_only_what_is_new() -> None:
    clock = Clock()
    async with serving(clock, **BY_TIME) as (client, runtime):
        await converse(client, clock, "ada-old", "My zither is called Rex.", days_ago=200)
        await runtime.monitor.sweep(clock())
        await chat(client, "My parrot is called Polly.", session_id="ada-old", user_id="ada")
        closed = await close(client, "ada-old")
        await runtime.checkpoints.refill("default")
        rows = await every_row(runtime)
        words = {row["term"] for row in rows["lexical_postings"]}
        texts = " ".join(row["metadata"] for row in rows["index_rows"])
        transcript = await read(client, at("sessions", "ada-old"))
    assert "Polly" in closed["summary"]
    assert "Rex" not in closed["summary"]
    assert "polli" in words or "polly" in words
    assert not words & {"rex", "zither"}
    assert "Polly" in texts
    assert "Rex" not in texts
    assert "Rex" in transcript["messages"][0]["content"]


async def test_replicas_that_evict_at_once_evict_each_memory_once(
    tmp_path: Path, postgres_state: str
) -> None:
    for url in (f"sqlite:///{tmp_path / 'service.db'}", postgres_state):
        clock = Clock()
        async with two_replicas(clock, database_url=url, **BY_TIME) as replicas:
            client, runtime = replicas[0]
            for n in range(4):
                await converse(client, clock, f"ada-{n}", f"Zither {n}.", days_ago=200)
            swept = await asyncio.gather(*(r.monitor.sweep(clock()) for _, r in replicas))
            left = await sessions_with_episodes(runtime, "ada")
            counted = await tally.read(runtime.database, "default")
            ids = await vectors(runtime)
        assert sum(each.evicted for each in swept) == 4
        assert (left, ids, counted["evicted_episodes"]) == ([], [], 4)


def in_pinecone(pinecone: PineconeServer, folder: Path) -> dict[str, Any]:
    return {
        **BY_TIME,
        "database_url": f"sqlite:///{folder / 'service.db'}",
        "pinecone_api_key": API_KEY,
        "pinecone_host": pinecone.url,
        "pinecone_timeout_seconds": 5.0,
    }


async def test_a_pass_that_a_restart_cuts_off_is_ended_by_the_next(tmp_path: Path) -> None:
    clock = Clock()
    with serving_pinecone(dimension=32) as pinecone:
        chosen = in_pinecone(pinecone, tmp_path)
        async with serving(clock, **chosen) as (client, runtime):
            for n in range(3):
                await converse(client, clock, f"ada-{n}", f"Zither {n}.", days_ago=200)
            pinecone.faults = Faults(latency_seconds=2.0)
            before = len(pinecone.calls)
            cut_off = asyncio.create_task(runtime.monitor.sweep(clock()))
            async with asyncio.timeout(10):
                while "/vectors/delete" not in pinecone.paths()[before:]:
                    await asyncio.sleep(0.01)
            cut_off.cancel()
            await asyncio.gather(cut_off, return_exceptions=True)
            half = await sessions_with_episodes(runtime, "ada")
        pinecone.faults = Faults()
        async with serving(clock, **chosen) as (client, runtime):
            await runtime.monitor.sweep(clock())
            await try_jobs(runtime)
            left = await sessions_with_episodes(runtime, "ada")
            ids = await vectors(runtime)
            counted = await tally.read(runtime.database, "default")
    assert len(half) == 2
    assert (left, ids, counted["evicted_episodes"]) == ([], [], 3)


async def test_vectors_that_could_not_be_removed_go_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    with serving_pinecone(dimension=32) as pinecone:
        chosen = in_pinecone(pinecone, tmp_path)
        async with serving(clock, **chosen) as (client, runtime):
            for n in range(3):
                await converse(client, clock, f"ada-{n}", f"Zither {n}.", days_ago=200)
            pinecone.faults = Faults(status=500)
            policy = runtime.evictor.policy
            evicted = await runtime.evictor.evict(None, None, policy, clock())
        pinecone.faults = Faults()
        async with serving(clock, **chosen) as (client, runtime):
            before = await vectors(runtime)
            listed = await read(client, "/memories", params={"user_id": "ada"})
            await try_jobs(runtime)
            await do_what_is_due(runtime)
            after = await vectors(runtime)
    assert (evicted.memories, evicted.waiting_vectors) == (3, 3)
    assert before
    assert listed["memories"] == []
    assert after == []
