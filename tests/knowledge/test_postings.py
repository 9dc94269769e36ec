"""The words of few documents, kept in memory: the same as what SQL finds, whoever wrote last."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from app.db import Connection, Database, open_database
from app.knowledge.asked import Looked, Question, look, read_question
from app.knowledge.postings import Postings
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


def assert_same(connection: Connection, kept: Postings) -> None:
    for text in QUESTIONS:
        question = read_question(text)
        for limit in (1, 40):
            found = [("d1", 0), ("gone", 3)]
            told = [
                look(connection, "acme", question, found, postings, limit=limit)
                for postings in (kept, Postings(most_parts=0))
            ]
            assert_alike(*told)


def assert_alike(one: Looked, other: Looked) -> None:
    assert (one.items, one.is_all) == (other.items, other.is_all)
    assert one.chunks.keys() == other.chunks.keys()
    for chunk, shared in one.chunks.items():
        same = other.chunks[chunk]
        assert (shared.score, shared.share) == pytest.approx((same.score, same.share))
        assert (shared.count, shared.rarest, shared.is_named) == (
            same.count,
            same.rarest,
            same.is_named,
        )


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
        return set(look(connection, "acme", question, (), kept, limit=40).chunks)

    await database.write(lambda c: put(c, TEXTS))
    assert await database.read(ask) == {("d0", 0), ("d0", 1)}
    await database.write(lambda c: store.remove(c, SCOPE, ["d0"]))
    assert await database.read(ask) == set()


async def test_questions_at_once_do_not_lose_one_another_s_words(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'service.db'}")
    try:
        await database.write(lambda c: put(c, [f"Item {n} costs {n * 7}." for n in range(100)]))
        for _ in range(5):
            kept = Postings()
            asked = [read_question(f"Item {n}, at {n * 7}, or {n + 1}?") for n in range(64)]
            reads = [partial(_look, kept, question) for question in asked]
            found = await asyncio.gather(*map(database.read, reads))
            assert all(("d" + str(n // 2), n % 2) in one.chunks for n, one in enumerate(found))
    finally:
        await database.close()


def _look(kept: Postings, question: Question, connection: Connection) -> Looked:
    return look(connection, "acme", question, (), kept, limit=40)
