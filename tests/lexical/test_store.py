"""The lexical index in SQL: the same on every database, whatever came before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.db import Connection, Database, open_database
from app.db.tables import lexical_items, lexical_postings
from app.lexical import store
from app.lexical.store import Entry, Item, Size, scope_of
from tests.seams.stores import database as database

MINE = scope_of("documents", "acme")
THEIRS = scope_of("documents", "globex")


def put(*entries: Entry, scope: int = MINE) -> Callable[[Connection], None]:
    return lambda connection: store.put(connection, scope, entries)


def rows(connection: Connection) -> tuple[list[Any], list[Any]]:
    """Return all that the tables hold, without the numbers of the items."""
    item, posting = lexical_items.c, lexical_postings.c
    items = connection.execute(
        sa.select(item.scope, item.ref, item.part, item.units, item.length)
    ).all()
    postings = connection.execute(
        sa.select(posting.scope, item.ref, item.part, posting.term, posting.places).outerjoin(
            lexical_items, item.id == posting.item
        )
    ).all()
    return sorted(map(tuple, items)), sorted(map(tuple, postings))


def sizes(connection: Connection, left_out: str = "") -> list[Size]:
    which = {"one": MINE, "other": THEIRS, "left_out": left_out}
    rows = {row[0]: row[1:] for row in connection.execute(store.TWO_STATES, which)}
    return [size for _, size in store.states_in(rows, (MINE, THEIRS))]


async def test_a_term_tells_where_it_is_and_how_often(database: Database) -> None:
    await database.write(
        put(
            Entry("s1", {1: "Tea, tea and coffee.", 4: "Some tea?"}),
            Entry("s1", {7: "Cocoa for Ada."}, part=7),
            Entry("s2", {1: "Coffee beans."}),
        )
    )
    hits = await database.read(lambda c: store.lookup(c, MINE, ["tea", "coffe", "nothing"]))
    found = {(hit.term, hit.ref, hit.part): (hit.places, hit.lengths) for hit in hits}
    assert found == {
        ("tea", "s1", 0): ({1: 2, 4: 1}, {1: 3, 4: 1}),
        ("coffe", "s1", 0): ({1: 1}, {1: 3, 4: 1}),
        ("coffe", "s2", 0): ({1: 1}, {1: 2}),
    }
    assert await database.read(sizes) == [Size(3, 8), Size(0, 0)]


async def test_a_ref_that_is_left_out_counts_nowhere(database: Database) -> None:
    await database.write(
        put(
            Entry("s1", {1: "Tea, tea and coffee."}),
            Entry("s1", {7: "Tea for Ada."}, part=7),
            Entry("s2", {1: "Tea and coffee beans."}),
        )
    )
    hits = await database.read(lambda c: store.lookup(c, MINE, ["tea", "coffe"], left_out="s1"))
    await database.write(put(Entry("s1", {1: "Tea."}), Entry("s3", {1: "Tea."}), scope=THEIRS))
    whole = await database.read(sizes)
    rest = await database.read(lambda c: sizes(c, left_out="s1"))
    assert {(hit.term, hit.ref) for hit in hits} == {("tea", "s2"), ("coffe", "s2")}
    assert (whole, rest) == ([Size(3, 8), Size(2, 2)], [Size(1, 3), Size(1, 1)])


async def test_two_scopes_do_not_see_each_other(database: Database) -> None:
    await database.write(put(Entry("d1", {0: "We sell tea."})))
    await database.write(put(Entry("d1", {0: "Tea from Assam."}), scope=THEIRS))
    assert await database.read(sizes) == [Size(1, 2), Size(1, 2)]
    mine = await database.read(lambda c: store.lookup(c, MINE, ["assam"]))
    counts = await database.read(lambda c: store.frequencies(c, MINE, ["assam", "tea"], most=9))
    best = await database.read(lambda c: store.best(c, MINE, {"assam": 1.0}, length=2, limit=9))
    assert (mine, counts, best) == ([], {"tea": 1}, [])
    await database.write(lambda c: store.remove(c, MINE, ["d1"]))
    await database.write(lambda c: store.clear(c, MINE))
    theirs = await database.read(lambda c: store.lookup(c, THEIRS, ["assam", "tea"]))
    assert sorted(hit.term for hit in theirs) == ["assam", "tea"]


async def test_putting_a_part_replaces_it_and_leaves_the_others(database: Database) -> None:
    await database.write(put(Entry("s1", {1: "Tea."}), Entry("s1", {2: "Coffee."}, part=2)))
    await database.write(put(Entry("s1", {1: "Tea."}), Entry("s1", {1: "Cocoa."})))
    hits = await database.read(lambda c: store.lookup(c, MINE, ["tea", "coffe", "cocoa"]))
    assert sorted((hit.term, hit.part) for hit in hits) == [("cocoa", 0), ("coffe", 2)]


async def test_the_count_of_a_common_term_ends_above_the_most(database: Database) -> None:
    entries = [Entry(f"d{n}", {0: "tea" if n else "tea rare"}) for n in range(12)]
    await database.write(put(*entries))
    counts = await database.read(
        lambda c: store.frequencies(c, MINE, ["tea", "rare", "unknown"], most=5)
    )
    assert counts == {"tea": 6, "rare": 1}
    assert await database.read(lambda c: store.frequencies(c, MINE, [], most=5)) == {}


async def test_a_question_of_very_many_terms_is_counted(database: Database) -> None:
    await database.write(put(Entry("d1", {0: "term7 term1999"})))
    many = [f"term{n}" for n in range(2_000)]
    counts = await database.read(lambda c: store.frequencies(c, MINE, many, most=5))
    hits = await database.read(lambda c: store.lookup(c, MINE, many))
    assert counts == {"term7": 1, "term1999": 1}
    assert len(hits) == 2


async def test_the_best_have_the_weightiest_terms_and_say_little_else(database: Database) -> None:
    long = "tea " + " ".join(f"word{n}" for n in range(50))
    await database.write(
        put(
            Entry("both", {0: "tea assam"}),
            Entry("common", {0: "tea leaves"}),
            Entry("long", {0: long}),
            Entry("rare", {0: "assam leaves"}),
            Entry("none", {0: "coffee"}),
        )
    )
    weights = {"tea": 1.0, "assam": 3.0}
    best = await database.read(lambda c: store.best(c, MINE, weights, length=12.0, limit=3))
    assert [item.ref for item in best] == ["both", "rare", "common"]
    assert await database.read(lambda c: store.best(c, MINE, {}, length=1.0, limit=3)) == []
    ids = [item.id for item in best]
    counts = await database.read(lambda c: store.counts(c, MINE, ["tea", "assam"], ids))
    assert sorted(counts) == sorted(
        [(ids[0], "tea", 1), (ids[0], "assam", 1), (ids[1], "assam", 1), (ids[2], "tea", 1)]
    )


async def test_items_are_found_by_ref_and_part(database: Database) -> None:
    parts = [Entry(ref, {0: f"tea {n}"}, part=n) for ref in ("d1", "d2") for n in range(3)]
    await database.write(put(*parts))
    items = await database.read(lambda c: store.items(c, MINE, {"d1": {2}, "d2": {0, 1, 9}}))
    assert sorted((item.ref, item.part) for item in items) == [("d1", 2), ("d2", 0), ("d2", 1)]
    assert all(isinstance(item, Item) and item.length == 2 for item in items)


async def test_a_ref_of_very_many_parts_goes_as_a_whole(database: Database) -> None:
    many = [Entry("d1", {0: f"part{n} tea"}, part=n) for n in range(1_000)]
    await database.write(put(*many, Entry("d2", {0: "tea"})))
    await database.write(lambda c: store.remove(c, MINE, ["d1", "unknown"]))
    items, postings = await database.read(rows)
    assert [(row[1], row[2]) for row in items] == [("d2", 0)]
    assert [(row[1], row[3]) for row in postings] == [("d2", "tea")]


TEXTS = st.sampled_from(["tea", "tea tea coffee", "cocoa 1,200.50", "東京タワー", "", "?!"])
ENTRIES = st.builds(
    Entry,
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.integers(0, 2), TEXTS, max_size=2),
    st.integers(0, 1),
)
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(ENTRIES, max_size=3)),
        st.tuples(st.just("remove"), st.lists(st.sampled_from(["a", "b", "c"]), max_size=2)),
    ),
    max_size=8,
)


async def _is_as_if_built_freshly(database: Database, deeds: Sequence[tuple[str, Any]]) -> None:
    held: dict[tuple[str, int], Entry] = {}
    for deed, things in deeds:
        if deed == "put":
            await database.write(put(*things))
            held |= {(entry.ref, entry.part): entry for entry in things}
        else:
            await database.write(lambda c, refs=things: store.remove(c, MINE, refs))  # type: ignore[misc]
            held = {key: entry for key, entry in held.items() if key[0] not in things}
    grown = await database.read(rows)
    await database.write(lambda c: store.clear(c, MINE))
    assert await database.read(rows) == ([], [])
    await database.write(lambda c: store.put(c, MINE, [store.count(e) for e in held.values()]))
    assert grown == await database.read(rows)
    await database.write(lambda c: store.clear(c, MINE))


@pytest.fixture
async def lasting(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    opened = await open_database("sqlite:///:memory:")
    yield opened
    await opened.close()


@effort(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=DEEDS)
async def test_whatever_came_before_the_index_is_as_if_built_freshly(
    lasting: Database, deeds: list[tuple[str, Any]]
) -> None:
    await _is_as_if_built_freshly(lasting, deeds)


@effort(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=DEEDS)
async def test_so_it_is_on_postgres(postgres_state: str, deeds: list[tuple[str, Any]]) -> None:
    database = await open_database(postgres_state)
    await _is_as_if_built_freshly(database, deeds)
    await database.close()
