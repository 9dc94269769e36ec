"""The words of few documents, kept in memory: the same as what SQL finds, whoever wrote last."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from app.db import Connection, Database, open_database
from app.knowledge.asked import Chunk, Question, look, read_question, share
from app.knowledge.postings import MOST_HELD, Postings
from app.knowledge.words import KIND
from app.lexical import store
from app.lexical.store import Entry
from tests.seams.stores import database as database

SCOPE = store.scope_of(KIND, "acme")
TEXTS = [
    "The pump BX-17 is served by van Dijk within 9 days.",
    "The pump BX-18 is served by Peeters, and the pump again, within 12 days.",
    "Offers are free until June; later changes cost 40 euros.",
    "Nothing of it.",
]
QUESTIONS = [
    "Who serves pump BX-17?",
    "What does a change cost in June?",
    "pump",
    "van Dijk",
    "xyz",
]


def put(connection: Connection, texts: Sequence[str]) -> None:
    store.clear(connection, SCOPE)
    entries = [Entry(f"d{n // 2}", {0: text}, n % 2) for n, text in enumerate(texts)]
    store.put(connection, SCOPE, entries)


Told = dict[Chunk, tuple[float, ...]]


def told(
    connection: Connection,
    question: Question,
    found: Sequence[Chunk],
    postings: Postings,
    limit: int = 40,
) -> tuple[Told, bool]:
    """Return what each chunk that shares anything shares, and whether no more do."""
    looked = look(connection, "acme", question, postings, limit=limit)
    rows, shared = share(connection, looked, found)
    named = shared.is_named + 2.0 * shared.has_name
    columns = (shared.score, shared.share, shared.count, shared.rarest, named)
    each = {chunk: tuple(float(column[row]) for column in columns) for chunk, row in rows.items()}
    return {chunk: numbers for chunk, numbers in each.items() if any(numbers)}, looked.is_all


def assert_same(connection: Connection, kept: Postings) -> None:
    for text in QUESTIONS:
        question = read_question(text)
        for limit in (1, 40):
            found = [("d1", 0), ("gone", 3)]
            one, other = [
                told(connection, question, found, postings, limit)
                for postings in (kept, Postings(most_parts=0))
            ]
            assert one[1] == other[1]
            assert one[0].keys() == other[0].keys()
            for chunk, numbers in one[0].items():
                assert numbers == pytest.approx(other[0][chunk])


async def test_what_is_kept_finds_what_sql_finds(database: Database) -> None:
    kept = Postings()

    def follow(connection: Connection) -> None:
        for texts in (TEXTS, TEXTS[::-1], TEXTS[1:], [], TEXTS[:2]):
            put(connection, texts)  # as another replica would
            assert_same(connection, kept)
        store.remove(connection, SCOPE, ["d0"])
        assert_same(connection, kept)

    await database.write(follow)


async def test_a_chunk_that_has_the_words_is_found_and_one_that_is_gone_is_not(
    database: Database,
) -> None:
    kept = Postings()

    def ask(connection: Connection) -> set[tuple[str, int]]:
        question = read_question("pump BX-17")
        return set(told(connection, question, (), kept)[0])

    await database.write(lambda c: put(c, TEXTS))
    assert await database.read(ask) == {("d0", 0), ("d0", 1)}
    await database.write(lambda c: store.remove(c, SCOPE, ["d0"]))
    assert await database.read(ask) == set()


async def test_words_that_no_chunk_has_are_kept_up_to_a_number_of_them(database: Database) -> None:
    kept = Postings()

    def ask(connection: Connection) -> None:
        put(connection, TEXTS)
        state = store.state(connection, SCOPE)
        for n in range(MOST_HELD // 50 + 2):
            terms = ["pump", *[f"unheard{n}x{m}" for m in range(50)]]
            held = kept.find(connection, SCOPE, state, terms)
            assert held is not None
            assert held.holding(terms) == {"pump": 2}
            assert len(held.terms) <= MOST_HELD
            assert held.size >= len(held.terms)
        assert_same(connection, kept)

    await database.write(ask)


async def test_questions_at_once_do_not_lose_one_another_s_words(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'service.db'}")
    try:
        await database.write(lambda c: put(c, [f"Item {n} costs {n * 7}." for n in range(100)]))
        for _ in range(5):
            kept = Postings()
            asked = [read_question(f"Item {n}, at {n * 7}, or {n + 1}?") for n in range(64)]
            reads = [partial(_look, kept, question) for question in asked]
            found = await asyncio.gather(*map(database.read, reads))
            assert all(("d" + str(n // 2), n % 2) in one[0] for n, one in enumerate(found))
    finally:
        await database.close()


def _look(kept: Postings, question: Question, connection: Connection) -> tuple[Told, bool]:
    return told(connection, question, (), kept)
