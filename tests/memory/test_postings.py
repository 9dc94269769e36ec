"""Words laid out and kept: the same as what is looked up anew, whatever came in between."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.db import Connection, Database
from app.lexical import store
from app.lexical.store import Entry
from app.memory.matching import Matched, matched
from app.memory.postings import MOST_PARTS, OF_TERM, Postings
from tests.seams.stores import database as database

SCOPE = store.scope_of("memory", "acme", "ada")
WORDS = ["tea", "rex", "rome", "jazz"]
REFS = st.sampled_from(["s1", "s2", "s3", "\x1ff1"])
UNITS = st.dictionaries(
    st.integers(0, 5), st.lists(st.sampled_from([*WORDS, "so"]), max_size=4).map(" ".join)
)
CHANGES = st.one_of(
    st.tuples(st.just("put"), st.tuples(REFS, st.integers(0, 2), UNITS)),
    st.tuples(st.just("remove"), REFS),
    st.tuples(st.just("ask"), st.tuples(st.lists(st.sampled_from(WORDS), unique=True), REFS)),
)


def assert_same(one: Matched, other: Matched) -> None:
    assert one.refs == other.refs
    for name in Matched.__slots__[1:]:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def assert_right(connection: Connection, kept: Postings, terms: list[str], left_out: str) -> None:
    state = store.state(connection, SCOPE)
    got = kept.find(connection, SCOPE, state, terms, left_out=left_out)
    hits = store.lookup(connection, SCOPE, terms, left_out=left_out)
    assert_same(got, matched(hits, terms))


@effort(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(CHANGES, max_size=12))
async def test_what_is_kept_is_what_the_index_holds(database: Database, changes: list[Any]) -> None:
    kept = Postings()

    def follow(connection: Connection) -> None:
        store.clear(connection, SCOPE)
        for what, how in [*changes, ("ask", (WORDS, "")), ("ask", (WORDS[::-1], "s1"))]:
            if what == "put":
                ref, part, units = how
                store.put(connection, SCOPE, [Entry(ref, units, part)])
            elif what == "remove":
                store.remove(connection, SCOPE, [how])
            else:
                assert_right(connection, kept, *how)

    await database.write(follow)


async def test_words_that_nobody_said_take_their_room_as_well(database: Database) -> None:
    kept = Postings()

    def ask(connection: Connection) -> None:
        store.put(connection, SCOPE, [Entry("s1", {0: "rex and tea"})])
        state = {SCOPE: store.state(connection, SCOPE)}
        before = kept.learn(connection, state, ["rex"])[SCOPE]
        after = kept.learn(connection, state, [f"unheard{n}" for n in range(50)])[SCOPE]
        assert after.size == before.size + 50 * OF_TERM

    await database.write(ask)


async def test_another_replicas_change_is_seen_at_once(database: Database) -> None:
    one, other = Postings(), Postings()
    texts = ["rex and tea", "jazz", "rex, rex and rome"]

    def look(connection: Connection) -> None:
        for kept in (one, other):
            assert_right(connection, kept, WORDS, "")

    for text in texts:
        entry = Entry("s1", {1: text})
        await database.write(partial(store.put, scope=SCOPE, entries=[entry]))
        await database.read(look)
    await database.write(lambda c: store.remove(c, SCOPE, ["s1"]))
    await database.read(look)


async def test_a_large_memory_is_looked_up_each_time(database: Database) -> None:
    many = [Entry(f"s{n}", {1: WORDS[n % 2]}) for n in range(MOST_PARTS + 1)]
    await database.write(lambda c: store.put(c, SCOPE, many))

    def look(connection: Connection) -> None:
        assert_right(connection, Postings(), ["rex", "jazz"], "")
        state = store.state(connection, SCOPE)
        common = Postings().find(connection, SCOPE, state, ["tea", "rex"], common={"tea"})
        assert (common.times.sum(axis=1) > 0).tolist() == [False, True]

    await database.read(look)


def test_documents_behind_others_are_as_if_found_together() -> None:
    hits = [
        store.Hit("tea", "a", 0, {0: 1, 1: 2}, {0: 3, 1: 4}),
        store.Hit("rex", "a", 0, {2: 1}, {0: 3, 1: 4, 2: 2}),
        store.Hit("tea", "b", 1, {1: 1}, {1: 1}),
    ]
    together = matched(hits, WORDS)
    for first, second in pairwise([hits[:2], hits[2:]]):
        assert_same(matched(second, WORDS).after(matched(first, WORDS)), together)
