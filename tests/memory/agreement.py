"""Whether a tenant's facts, what was said of them, their words and their vectors agree."""

from __future__ import annotations

from collections import Counter, defaultdict

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import (
    episodes,
    fact_sightings,
    facts,
    lexical_items,
    lexical_postings,
    messages,
    sessions,
)
from app.lexical.store import scope_of
from app.memory.base import Fact
from app.memory.fact_groups import by_group
from app.memory.fact_push import fact_vector_id
from app.memory.timeline import Point, periods
from app.memory.vectors import held, texts_of
from app.wiring import Runtime

Words = Counter[tuple[int, str, int, str, int]]  # scope, ref, unit, term, times


async def assert_memory_agrees(runtime: Runtime, tenant: str = "default") -> None:
    """The lexical index and the vectors are what the rows would give, and the facts what was said.

    To be asked when nothing is going on, and no job is left. It indexes all words anew.
    """
    problems = await runtime.database.read(lambda c: _problems(c, tenant))
    assert problems == []
    indexed = await runtime.database.read(_words)
    await runtime.database.write(_forget_words)
    await runtime.memory_words.all(tenant)
    anew = await runtime.database.read(_words)
    users = await runtime.database.read(lambda c: _users(c, tenant))
    scopes = {scope_of(kind, tenant, user) for kind in ("memory", "notes") for user in users}
    mine = Counter({word: n for word, n in indexed.items() if word[0] in scopes})
    lost, left = anew - mine, mine - anew
    assert not lost, sorted(lost.items())[:20]
    assert not left, sorted(left.items())[:20]
    exchanges = runtime.settings.memory_exchanges
    wanted = await runtime.database.read(lambda c: _vectors(c, tenant, exchanges=exchanges))
    ids = [found async for found in runtime.index.list_ids("memory")]
    rows = await runtime.index.fetch("memory", ids) if ids else {}
    assert {found: row.metadata["text"] for found, row in rows.items()} == wanted


def _problems(connection: Connection, tenant: str) -> list[str]:
    found = [Fact(*row) for row in connection.execute(sa.select(facts)) if row.tenant_id == tenant]
    said = defaultdict(list)
    for row in connection.execute(
        sa.select(fact_sightings).where(fact_sightings.c.tenant_id == tenant)
    ).mappings():
        said[row["fact_id"]].append(row)
    problems = [f"nobody's: {fact_id}" for fact_id in said.keys() - {f.fact_id for f in found}]
    problems += [
        f"{fact.value}: {fact.sightings} sightings, {len(said[fact.fact_id])}"
        for fact in found
        if len(said[fact.fact_id]) != fact.sightings
    ]
    numbers = Counter((f.session_id, f.number) for f in found if f.number is not None)
    problems += [f"a number twice: {which}" for which, n in numbers.items() if n > 1]
    problems += _untold(connection, tenant, [row for rows in said.values() for row in rows])
    for user in {fact.user_id for fact in found}:
        for mine in by_group([fact for fact in found if fact.user_id == user]).values():
            points = [
                Point(
                    value_key=fact.value_key,
                    **{name: value for name, value in row.items() if name != "tenant_id"},
                )
                for fact in mine
                for row in said[fact.fact_id]
            ]
            expected = [
                (p.points[0].value_key, p.valid_from, p.valid_to, len(p.points))
                for p in periods(points)
            ]
            stored = [(f.value_key, f.valid_from, f.valid_to, f.sightings) for f in mine]
            if sorted(map(str, expected)) != sorted(map(str, stored)):
                problems.append(f"{mine[0].key}: {stored}, and said was {expected}")
    return problems


def _untold(connection: Connection, tenant: str, said: list[sa.RowMapping]) -> list[str]:
    """Return what is quoted from a message that does not say it."""
    texts = {
        (row.session_id, row.seq): row.content
        for row in connection.execute(sa.select(messages).where(messages.c.tenant_id == tenant))
    }
    return [
        f"no message says: {row['quote']}"
        for row in said
        if row["session_id"] and row["quote"] not in texts.get((row["session_id"], row["seq"]), "")
    ]


def _words(connection: Connection) -> Words:
    """Return how often each unit has each term, whatever the parts; the days of a stretch once."""
    refs = {
        row.id: (row.scope, row.ref) for row in connection.execute(sa.select(lexical_items)).all()
    }
    found: Words = Counter()
    for row in connection.execute(sa.select(lexical_postings)):
        scope, ref = refs[row.item]
        assert scope == row.scope
        for place in row.places.split():
            unit, _, times = place.partition(":")
            if unit == "0":
                found[(scope, ref, 0, row.term, 0)] = 1
            else:
                found[(scope, ref, int(unit), row.term, int(times))] += 1
    return found


def _forget_words(connection: Connection) -> None:
    connection.execute(lexical_postings.delete())
    connection.execute(lexical_items.delete())


def _users(connection: Connection, tenant: str) -> list[str]:
    of = [
        sa.select(table.c.user_id).where(table.c.tenant_id == tenant) for table in (sessions, facts)
    ]
    return list(connection.execute(sa.union(*of)).scalars())


def _vectors(connection: Connection, tenant: str, *, exchanges: bool) -> dict[str, str]:
    """Return the text of each vector that the index should hold, by id."""
    wanted: dict[str, str] = {}
    for session_id in connection.execute(
        sa.select(episodes.c.session_id).where(episodes.c.tenant_id == tenant)
    ).scalars():
        memory = held(connection, tenant, session_id, exchanges=exchanges, again=True)
        assert memory is not None
        wanted |= {id: text for id, text, _ in texts_of(memory)}
    for row in connection.execute(sa.select(facts).where(facts.c.number.is_(None))):
        wanted[fact_vector_id(row.fact_id)] = row.statement
    return wanted
