"""What of a user's memory is indexed by words, and that it goes with what it came from."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.db.tables import lexical_items, messages
from app.lexical import store
from app.memory import lexicon
from app.memory.eviction import Policy
from app.sessions.base import Message
from app.sessions.rows import MESSAGE
from app.wiring import Runtime
from tests.api.calls import chat, close, read
from tests.memory.stores import Clock, converse, found, learn, serving
from tests.served import served


async def held(runtime: Runtime, kind: str, term: str) -> dict[str, list[int]]:
    """Return ref -> units that have a term."""
    scope = store.scope_of(kind, "default", "ada")
    hits = await runtime.database.read(lambda c: store.lookup(c, scope, [term]))
    found: dict[str, list[int]] = {}
    for hit in hits:
        found[hit.ref] = sorted([*found.get(hit.ref, []), *hit.places])
    return found


async def items(runtime: Runtime) -> int:
    count = sa.select(sa.func.count()).select_from(lexical_items)
    return int(await runtime.database.read(lambda c: c.execute(count).scalar_one()))


async def remember(client: Any, session_id: str, text: str) -> None:
    await chat(client, text, session_id=session_id, user_id="ada")
    await close(client, session_id)


async def test_messages_are_indexed_by_their_numbers_and_notes_with_the_day() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "I have a terrier.")
        await remember(client, "s1", "The terrier is called Rex.")
        assert await held(runtime, lexicon.SAID, "terrier") == {"s1": [1, 3]}
        assert list(await held(runtime, lexicon.NOTED, "terrier")) == ["s1"]
        year = str(runtime.clock().year)
        assert (await held(runtime, lexicon.NOTED, year))["s1"] == [lexicon.DAYS]


async def test_forgetting_a_memory_leaves_no_word_of_it() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "I have a terrier.")
        assert await items(runtime) > 0
        await client.delete("/memories/s1?user_id=ada")
        assert await items(runtime) == 0


async def test_deleting_a_session_leaves_no_word_of_it() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "I have a terrier.")
        await client.delete("/sessions/s1")
        assert await items(runtime) == 0


async def test_a_refill_gives_what_was_indexed_as_it_was_said() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "I have a terrier.")
        await remember(client, "s1", "The terrier is called Rex.")
        await remember(client, "s2", "My brother lives in Porto.")
        words = ["terrier", "rex", "porto", str(runtime.clock().year)]
        kinds = (lexicon.SAID, lexicon.NOTED)
        before = [await held(runtime, kind, word) for kind in kinds for word in words]
        await runtime.memory_words.all("default")
        after = [await held(runtime, kind, word) for kind in kinds for word in words]
        assert [set(one) for one in before] == [set(one) for one in after]
        assert await items(runtime) == 4


async def test_a_refill_brings_back_nothing_that_was_forgotten() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "I have a terrier.")
        session = await runtime.sessions.get("default", "s1", None)
        said = await runtime.database.read(
            lambda c: [
                Message(*row) for row in c.execute(sa.select(*MESSAGE).order_by(messages.c.seq))
            ]
        )
        await client.delete("/memories/s1?user_id=ada")
        counted = [store.count(lexicon.said_entry(session, said, "UTC"))]
        moved = await runtime.database.write(
            lambda c: runtime.memory_words.put_unless_moved(session, counted, c)
        )
        await runtime.memory_words.all("default")
        assert moved is not None
        assert await items(runtime) == 0


async def test_a_deleted_fact_leaves_no_word_in_a_session_that_said_it_again() -> None:
    clock = Clock()
    async with serving(clock) as (client, runtime):
        for name in ("ada-1", "ada-2"):
            await converse(client, clock, name, "Hello to you.", days_ago=1)
            await learn(runtime, name, found("dog", "a terrier", clock.now))
        said = await held(runtime, lexicon.NOTED, "terrier")
        (fact,) = (await read(client, "/memories/facts?user_id=ada"))["facts"]
        path = f"/memories/facts/{fact['fact_id']}"
        await client.patch(path, json={"value": "a beagle"})
        changed = [await held(runtime, lexicon.NOTED, word) for word in ("terrier", "beagl")]
        await client.delete(path)
        gone = [await held(runtime, lexicon.NOTED, word) for word in ("terrier", "beagl")]
    assert said == {"ada-1": [lexicon.FACTS + 1], "ada-2": [lexicon.SAID_AGAIN]}
    assert changed == [{}, said]
    assert gone == [{}, {}]


async def test_a_conversation_goes_on_after_its_facts_were_kept_without_it() -> None:
    clock = Clock()
    policy = Policy("time", 100, 1000, 0.2, keep_facts=True)
    async with serving(clock) as (client, runtime):
        await converse(client, clock, "ada-old", "I live in Lisbon.", days_ago=101)
        await runtime.evictor.evict("default", "ada", policy, clock())
        await runtime.memory_words.all("default")
        await chat(client, "I have a terrier.", session_id="ada-old", user_id="ada")
        closed = await close(client, "ada-old")
        listed = (await read(client, "/memories/facts?user_id=ada"))["facts"]
        (lisbon,) = await held(runtime, lexicon.NOTED, "lisbon")
    assert closed["state"] == "closed"
    assert "Lisbon" in {fact["value"] for fact in listed}
    assert lisbon.startswith(lexicon.FACT)


async def test_a_refill_brings_back_no_message_that_went_meanwhile() -> None:
    clock = Clock()
    async with serving(clock, message_retention_days=30.0) as (client, runtime):
        await converse(client, clock, "ada-1", "I have a terrier.", days_ago=40)
        session = await runtime.sessions.get("default", "ada-1", None)
        rows = await runtime.sessions.messages_after("default", "ada-1", 0, limit=9)
        counted = [store.count(lexicon.said_entry(session, rows, "UTC"))]
        before = await held(runtime, lexicon.SAID, "terrier")
        await runtime.retention.sweep(clock())
        again = await runtime.database.write(
            lambda c: runtime.memory_words.put_unless_moved(session, counted, c)
        )
        after = await held(runtime, lexicon.SAID, "terrier")
    assert (list(before), after) == (["ada-1"], {})
    assert again is not None


async def test_a_refill_leaves_no_word_that_nothing_stored_says() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "I have a terrier.")
        scope = store.scope_of(lexicon.NOTED, "default", "ada")
        ghost = store.Entry("gone", {0: "a ghost"})
        await runtime.database.write(lambda c: store.put(c, scope, [ghost]))
        await runtime.memory_words.all("default")
        assert await held(runtime, lexicon.NOTED, "ghost") == {}
        assert await held(runtime, lexicon.SAID, "terrier") == {"s1": [1]}
