"""What of a user's memory is indexed by words, and that it goes with what it came from."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.db.tables import lexical_items, messages
from app.lexical import store
from app.memory import lexicon
from app.sessions.base import Message
from app.sessions.rows import MESSAGE
from app.wiring import Runtime
from tests.api.calls import chat, close
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
