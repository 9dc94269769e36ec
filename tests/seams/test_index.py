"""What every index promises, whichever backend holds it: one suite, every adapter."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db import open_database
from app.errors import InvalidFilter, InvalidRequest
from app.index.base import MAX_METADATA_BYTES, Filter, Index, Metadata, Values, Vector
from app.index.embedded import EmbeddedIndex
from app.index.filters import matches
from app.index.pinecone import PineconeIndex
from tests.wire.pinecone import API_KEY, PineconeServer, serving_pinecone

DIMENSION = 8
MEMORY, DOCUMENTS = "memory", "documents--acme"


@pytest.fixture(scope="module")
def server() -> Iterator[PineconeServer]:
    with serving_pinecone(dimension=DIMENSION) as pinecone_server:
        yield pinecone_server


@pytest.fixture(params=["embedded-memory", "embedded-disk", "embedded-postgres", "pinecone"])
async def index(
    request: pytest.FixtureRequest, tmp_path: Path, server: PineconeServer
) -> AsyncIterator[Index]:
    if request.param == "pinecone":
        server.forget()
        opening = opened_pinecone(server)
    elif request.param == "embedded-postgres":
        opening = opened_embedded(request.getfixturevalue("postgres_state"))
    else:
        place = ":memory:" if request.param == "embedded-memory" else str(tmp_path / "rag.db")
        opening = opened_embedded(f"sqlite:///{place}")
    async with opening as opened:
        yield opened


@asynccontextmanager
async def opened_pinecone(server: PineconeServer) -> AsyncIterator[Index]:
    index = PineconeIndex(
        api_key=API_KEY, index_name=server.name, host=server.url, dimension=DIMENSION
    )
    await index.open()
    yield index
    await index.close()


@asynccontextmanager
async def opened_embedded(url: str) -> AsyncIterator[Index]:
    database = await open_database(url)
    index = EmbeddedIndex(database, dimension=DIMENSION)
    await index.open()
    yield index
    await index.close()
    await database.close()


def values(*numbers: float) -> Values:
    """Return a vector that begins with `numbers` and goes on with zeros."""
    return np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], np.float32)


def row(id: str, *numbers: float, **metadata: Any) -> Vector:
    return Vector(id, values(*(numbers or (1.0,))), metadata)


def direction(values: Values) -> Values:
    return values / np.linalg.norm(values)


async def found(index: Index, filter: Filter | None = None, *, namespace: str = MEMORY) -> set[str]:
    """Return the ids of all rows that a query finds."""
    hits = await index.query(namespace, values(1.0), top_k=1_000, filter=filter)
    return {hit.id for hit in hits}


async def listed(index: Index, namespace: str = MEMORY, prefix: str = "") -> list[str]:
    return [id async for id in index.list_ids(namespace, prefix=prefix)]


async def test_a_row_comes_back_as_it_was_stored(index: Index) -> None:
    metadata = {
        "text": 'Zoë zahlt 120 000 € \n an 株式会社 🚀 \u2028 "quoted" \\ \x01',
        "year": 2019,
        "amount": 0.1,
        "active": True,
        "tags": ["grün", "b"],
    }
    stored = row("s%2F1#fact0", 0.25, -3.5, 1e-6, **metadata)
    await index.upsert(MEMORY, [stored])
    fetched = (await index.fetch(MEMORY, ["s%2F1#fact0"]))["s%2F1#fact0"]
    [hit] = await index.query(MEMORY, values(0.25), top_k=1)
    assert fetched.id == hit.id == "s%2F1#fact0"
    assert fetched.values.dtype == np.float32
    # Its length may be lost: only the direction of a vector means something here.
    np.testing.assert_allclose(direction(fetched.values), direction(stored.values), atol=1e-6)
    assert dict(fetched.metadata) == dict(hit.metadata) == metadata
    assert type(hit.metadata["year"]) is type(fetched.metadata["year"]) is int
    assert hit.metadata["active"] is fetched.metadata["active"] is True


async def test_an_upsert_replaces_values_and_metadata_wholly(index: Index) -> None:
    await index.upsert(MEMORY, [row("a", 1.0, old="x"), row("b", 1.0)])
    await index.upsert(MEMORY, [row("a", 0.0, 1.0, new="y")])
    [first, second] = await index.query(MEMORY, values(1.0), top_k=5)
    assert (first.id, second.id) == ("b", "a")
    assert (second.score, dict(second.metadata)) == (0.0, {"new": "y"})
    assert await index.counts() == {MEMORY: 2}


async def test_the_last_of_two_equal_ids_wins(index: Index) -> None:
    await index.upsert(MEMORY, [row("a", n=1), row("b", n=2), row("a", 0.0, 1.0, n=3)])
    [hit] = await index.query(MEMORY, values(0.0, 1.0), top_k=1)
    assert (hit.id, dict(hit.metadata)) == ("a", {"n": 3})
    assert await index.counts() == {MEMORY: 2}


async def test_an_upsert_of_nothing_is_fine(index: Index) -> None:
    await index.upsert(MEMORY, [])
    assert await index.counts() == {}


async def test_matches_come_best_first_and_equal_scores_by_id(index: Index) -> None:
    near, far = (1.0, 0.1), (1.0, 1.0)
    await index.upsert(MEMORY, [row("d", *far), row("c", *near), row("a", *far), row("b", *near)])
    hits = await index.query(MEMORY, values(1.0), top_k=10)
    assert [hit.id for hit in hits] == ["b", "c", "a", "d"]
    assert hits[0].score == hits[1].score > hits[2].score == hits[3].score


@pytest.mark.parametrize(
    ("numbers", "score"),
    [
        ((2.0,), 1.0),
        ((1.0, 1.0), 0.7071068),
        ((0.0, 5.0), 0.0),
        ((-1.0,), 0.0),
        ((-1.0, 0.1), 0.0),
        ((3.0, 4.0), 0.6),
        ((1e-20,), 1.0),
        ((1e20, 1e20), 0.7071068),
    ],
)
async def test_a_score_is_the_cosine_and_never_below_zero(
    index: Index, numbers: tuple[float, ...], score: float
) -> None:
    await index.upsert(MEMORY, [row("a", *numbers)])
    [hit] = await index.query(MEMORY, values(7.0), top_k=1)
    assert hit.score == pytest.approx(score, abs=1e-6)
    assert 0.0 <= hit.score <= 1.0


async def test_a_query_returns_the_same_order_as_plain_arithmetic(index: Index) -> None:
    rng = np.random.default_rng(7)
    matrix = rng.standard_normal((300, DIMENSION)).astype(np.float32)
    await index.upsert(MEMORY, [Vector(f"v{n:03}", matrix[n]) for n in range(300)])
    question = rng.standard_normal(DIMENSION).astype(np.float32)
    cosines = matrix @ question / np.linalg.norm(matrix, axis=1) / np.linalg.norm(question)
    hits = await index.query(MEMORY, question, top_k=20)
    assert [hit.id for hit in hits] == [f"v{n:03}" for n in np.argsort(-cosines)[:20]]
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(cosines)[::-1][:20], atol=1e-5)


async def test_top_k_bounds_the_matches(index: Index) -> None:
    await index.upsert(MEMORY, [row(f"r{n}", 1.0, float(n)) for n in range(5)])
    hits = await index.query(MEMORY, values(1.0), top_k=2)
    assert [hit.id for hit in hits] == ["r0", "r1"]
    assert len(await index.query(MEMORY, values(1.0), top_k=10_000)) == 5


@pytest.mark.parametrize("top_k", [0, -1, 10_001])
async def test_a_top_k_out_of_range_is_refused(index: Index, top_k: int) -> None:
    with pytest.raises(InvalidRequest, match="top_k"):
        await index.query(MEMORY, values(1.0), top_k=top_k)


@pytest.mark.parametrize(
    "question", [np.ones(DIMENSION + 1, np.float32), values(0.0), values(np.nan), values(np.inf)]
)
async def test_a_query_that_has_no_direction_is_refused(index: Index, question: Values) -> None:
    with pytest.raises(InvalidRequest):
        await index.query(MEMORY, question, top_k=1)


async def test_namespaces_do_not_see_each_other(index: Index) -> None:
    await index.upsert(MEMORY, [row("a", n=1), row("b", n=2)])
    await index.upsert(DOCUMENTS, [row("a", n=3)])
    assert await found(index, namespace=DOCUMENTS) == {"a"}
    assert (await index.fetch(DOCUMENTS, ["a", "b"]))["a"].metadata == {"n": 3}
    assert await listed(index, DOCUMENTS) == ["a"]
    await index.delete(DOCUMENTS, ["a", "b"])
    assert await found(index) == {"a", "b"}
    assert (await index.fetch(MEMORY, ["a"]))["a"].metadata == {"n": 1}


async def test_an_unknown_namespace_is_empty(index: Index) -> None:
    await index.upsert(MEMORY, [row("a")])
    assert await found(index, namespace="nobody") == set()
    assert await index.fetch("nobody", ["a"]) == {}
    assert await listed(index, "nobody") == []
    await index.delete("nobody", ["a"])
    await index.clear("nobody")
    assert await index.counts() == {MEMORY: 1}


@pytest.mark.parametrize("namespace", ["", "münchen", "n" * 513])
async def test_a_namespace_that_no_backend_takes_is_refused(index: Index, namespace: str) -> None:
    with pytest.raises(InvalidRequest, match="namespace"):
        await index.upsert(namespace, [row("a")])
    with pytest.raises(InvalidRequest, match="namespace"):
        await index.query(namespace, values(1.0), top_k=1)
    with pytest.raises(InvalidRequest, match="namespace"):
        await index.clear(namespace)


async def test_fetch_returns_what_exists_however_many_are_asked_for(index: Index) -> None:
    ids = [f"document-with-a-rather-long-id-{n:04}#0" for n in range(250)]
    await index.upsert(MEMORY, [row(id, n=n) for n, id in enumerate(ids)])
    fetched = await index.fetch(MEMORY, [*ids, "missing", ids[0]])
    assert {id: vector.metadata["n"] for id, vector in fetched.items()} == {
        id: n for n, id in enumerate(ids)
    }
    assert await index.fetch(MEMORY, []) == {}


async def test_ids_of_the_longest_kind_can_be_fetched_and_deleted(index: Index) -> None:
    ids = [f"{n:03}" + "%2F" * 169 for n in range(40)]
    await index.upsert(MEMORY, [row(id) for id in ids])
    assert set(await index.fetch(MEMORY, ids)) == set(ids)
    await index.delete(MEMORY, ids)
    assert await index.counts() == {}


async def test_deleting_twice_is_the_same_as_deleting_once(index: Index) -> None:
    await index.upsert(MEMORY, [row("a"), row("b"), row("c")])
    await index.delete(MEMORY, ["a", "missing", "a"])
    await index.delete(MEMORY, ["a"])
    await index.delete(MEMORY, [])
    assert await found(index) == {"b", "c"}
    assert await index.fetch(MEMORY, ["a"]) == {}
    assert await index.counts() == {MEMORY: 2}


async def test_a_deleted_row_can_come_back(index: Index) -> None:
    await index.upsert(MEMORY, [row("a", n=1)])
    assert await found(index) == {"a"}
    await index.delete(MEMORY, ["a"])
    assert await found(index) == set()
    await index.upsert(MEMORY, [row("a", n=2)])
    [hit] = await index.query(MEMORY, values(1.0), top_k=3)
    assert dict(hit.metadata) == {"n": 2}


async def test_clear_empties_one_namespace_only(index: Index) -> None:
    await index.upsert(MEMORY, [row("a"), row("b")])
    await index.upsert(DOCUMENTS, [row("a")])
    await index.clear(MEMORY)
    assert await found(index) == set()
    assert await listed(index) == []
    assert await index.counts() == {DOCUMENTS: 1}
    await index.clear(MEMORY)
    await index.upsert(MEMORY, [row("c")])
    assert await found(index) == {"c"}


async def test_ids_are_listed_in_order_by_prefix_past_any_page(index: Index) -> None:
    ids = [f"doc#{n:03}" for n in range(250)]
    others = ["doc", "dod#1", "Doc#1", "doc%23x", "doc_1"]
    await index.upsert(MEMORY, [row(id) for id in [*reversed(ids), *others]])
    assert await listed(index, prefix="doc#") == ids
    assert await listed(index) == sorted([*ids, *others])
    assert await listed(index, prefix="doc_") == ["doc_1"]
    assert await listed(index, prefix="nothing") == []


async def test_counts_are_by_namespace(index: Index) -> None:
    assert await index.counts() == {}
    await index.upsert(MEMORY, [row("a"), row("b")])
    await index.upsert(DOCUMENTS, [row("a")])
    assert await index.counts() == {MEMORY: 2, DOCUMENTS: 1}
    await index.ping()


PEOPLE: dict[str, Metadata] = {
    "ann": {"city": "Oslo", "year": 2019, "active": True, "tags": ["red", "blue"], "score": 0.5},
    "bob": {"city": "Rome", "year": 2020, "active": False, "tags": ["blue"], "score": -1},
    "cid": {"city": "2019", "year": 2021, "active": True, "tags": ["2019"]},
    "dot": {"city": "oslo", "nick": "ann"},
    "eve": {},
}
FILTERS: list[tuple[Filter, set[str]]] = [
    ({"city": "Oslo"}, {"ann"}),
    ({"city": {"$eq": "Rome"}}, {"bob"}),
    ({"year": 2019}, {"ann"}),
    ({"year": {"$eq": 2019.0}}, {"ann"}),
    ({"year": "2019"}, set()),
    ({"city": 2019}, set()),
    ({"active": True}, {"ann", "cid"}),
    ({"active": False}, {"bob"}),
    ({"active": 1}, set()),
    ({"active": {"$ne": 1}}, {"ann", "bob", "cid"}),
    ({"city": {"$ne": "Oslo"}}, {"bob", "cid", "dot"}),
    ({"year": {"$ne": 2019}}, {"bob", "cid"}),
    ({"year": {"$gt": 2019}}, {"bob", "cid"}),
    ({"year": {"$gte": 2020}}, {"bob", "cid"}),
    ({"year": {"$lt": 2020}}, {"ann"}),
    ({"year": {"$lte": 2020}}, {"ann", "bob"}),
    ({"year": {"$gt": 2019, "$lt": 2021}}, {"bob"}),
    ({"score": {"$gte": -1}}, {"ann", "bob"}),
    ({"active": {"$gt": 0}}, set()),
    ({"city": {"$gt": 0}}, set()),
    ({"tags": {"$gt": 0}}, set()),
    ({"city": {"$in": ["Oslo", "Rome", "Paris"]}}, {"ann", "bob"}),
    ({"year": {"$in": [2019, "2020"]}}, {"ann"}),
    ({"city": {"$nin": ["Oslo", "Rome"]}}, {"cid", "dot"}),
    ({"tags": "blue"}, {"ann", "bob"}),
    ({"tags": {"$eq": "red"}}, {"ann"}),
    ({"tags": {"$ne": "red"}}, {"bob", "cid"}),
    ({"tags": {"$in": ["red", "2019"]}}, {"ann", "cid"}),
    ({"tags": {"$nin": ["blue"]}}, {"cid"}),
    ({"tags": 2019}, set()),
    ({"nick": {"$exists": True}}, {"dot"}),
    ({"nick": {"$exists": False}}, {"ann", "bob", "cid", "eve"}),
    ({"city": {"$exists": True, "$ne": "Rome"}}, {"ann", "cid", "dot"}),
    ({"city": "Oslo", "year": 2019}, {"ann"}),
    ({"city": "Oslo", "year": 2020}, set()),
    ({"$and": [{"active": True}, {"year": {"$gt": 2019}}]}, {"cid"}),
    ({"$or": [{"city": "Rome"}, {"nick": "ann"}]}, {"bob", "dot"}),
    ({"$or": [{"$and": [{"active": True}, {"tags": "red"}]}, {"year": 2020}]}, {"ann", "bob"}),
    ({"active": True, "$or": [{"year": 2021}, {"year": 2020}]}, {"cid"}),
    ({"$and": [{"tags": "red"}, {"tags": "blue"}]}, {"ann"}),
]


@pytest.mark.parametrize(("filter", "expected"), FILTERS, ids=[json.dumps(f) for f, _ in FILTERS])
async def test_a_filter_lets_through_exactly_its_rows(
    index: Index, filter: Filter, expected: set[str]
) -> None:
    await index.upsert(MEMORY, [row(name, **dict(metadata)) for name, metadata in PEOPLE.items()])
    assert await found(index, filter) == expected


async def test_a_filter_selects_before_top_k_cuts(index: Index) -> None:
    best = [row(f"best{n}", 1.0, user_id="u1") for n in range(50)]
    await index.upsert(MEMORY, [*best, row("mine", 0.1, 1.0, user_id="u2")])
    [hit] = await index.query(MEMORY, values(1.0), top_k=3, filter={"user_id": "u2"})
    assert hit.id == "mine"


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"a": None},
        {"a": {}},
        {"a": ["x"]},
        {"a": {"$like": "x"}},
        {"a": {"$gt": "2020"}},
        {"a": {"$in": "x"}},
        {"a": {"$in": []}},
        {"a": {"$exists": 1}},
        {"$and": []},
        {"$not": [{"a": 1}]},
        {"$or": [{}]},
    ],
    ids=json.dumps,
)
async def test_a_filter_outside_the_language_is_refused(index: Index, filter: Filter) -> None:
    await index.upsert(MEMORY, [row("a", a="x")])
    with pytest.raises(InvalidFilter):
        await index.query(MEMORY, values(1.0), top_k=1, filter=filter)


FIELDS = st.sampled_from(["user_id", "session_id", "tags", "n"])
SCALARS = st.sampled_from(["u1", "u2", "1", "true", "", 0, 1, 2.5, -3, True, False])
TAGS = st.lists(st.sampled_from(["u1", "u2", "1", "é"]), max_size=3)
ROWS = st.lists(st.dictionaries(FIELDS, SCALARS | TAGS, max_size=4), min_size=1, max_size=6)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), SCALARS),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.sampled_from([-3, 0, 1, 2.5])),
    st.tuples(st.just("$exists"), st.booleans()),
)
CONDITIONS = SCALARS | st.lists(OPERATIONS, min_size=1, max_size=2).map(dict)
ANY_FILTER: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(FIELDS, CONDITIONS, min_size=1, max_size=3),
    lambda parts: st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(parts, min_size=1, max_size=3), min_size=1
    ),
    max_leaves=5,
)
NUMBERS = itertools.count()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=ROWS, filter=ANY_FILTER)
async def test_every_backend_reads_a_filter_alike(
    index: Index, rows: list[dict[str, Any]], filter: dict[str, Any]
) -> None:
    namespace = f"case-{next(NUMBERS)}"
    await index.upsert(namespace, [row(f"r{n}", **metadata) for n, metadata in enumerate(rows)])
    expected = {f"r{n}" for n, metadata in enumerate(rows) if matches(filter, metadata)}
    assert await found(index, filter, namespace=namespace) == expected


def filled(size: int) -> dict[str, str]:
    """Return metadata of exactly `size` bytes of JSON, with two bytes to most characters."""
    frame = len('{"text":""}')
    text = "é" * ((size - frame) // 2)
    return {"text": text + "x" * (size - frame - len(text.encode()))}


async def test_metadata_may_be_as_large_as_the_limit(index: Index) -> None:
    await index.upsert(MEMORY, [row("a", **filled(MAX_METADATA_BYTES))])
    assert (await index.fetch(MEMORY, ["a"]))["a"].metadata == filled(MAX_METADATA_BYTES)


BAD_ROWS = {
    "too many dimensions": Vector("bad", np.ones(DIMENSION + 1, np.float32)),
    "no direction": Vector("bad", values(0.0)),
    "not a number": Vector("bad", values(float("nan"))),
    "an infinite number": Vector("bad", values(float("inf"))),
    "an empty id": row(""),
    "an id that is not ASCII": row("é"),
    "an id with NUL": row("a\0b"),
    "an id that is too long": row("a" * 513),
    "nested metadata": row("bad", nested={"a": 1}),
    "null metadata": row("bad", nothing=None),
    "a list of numbers": row("bad", numbers=[1, 2]),
    "infinite metadata": row("bad", n=float("inf")),
    "metadata that is not a number": row("bad", n=float("nan")),
    "a key with a dollar": row("bad", **{"$key": 1}),
    "metadata above the limit": row("bad", **filled(MAX_METADATA_BYTES + 1)),
    "a number that would lose digits": row("bad", n=2**53 + 1),
    "half a surrogate pair": row("bad", text="\ud800"),
}


@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS.keys())
async def test_one_bad_row_is_refused_and_nothing_is_stored(index: Index, bad: Vector) -> None:
    with pytest.raises(InvalidRequest):
        await index.upsert(MEMORY, [row("good"), bad, row("better")])
    assert await index.counts() == {}
    assert await found(index) == set()


async def test_an_upsert_may_hold_thousands_of_rows(index: Index) -> None:
    many = [row(f"r{n:04}", 1.0, n / 2_500, n=n, text="word " * 100) for n in range(2_500)]
    await index.upsert(MEMORY, many)
    assert await index.counts() == {MEMORY: 2_500}
    assert await listed(index) == [vector.id for vector in many]
    hits = await index.query(MEMORY, values(1.0), top_k=3)
    assert [hit.id for hit in hits] == ["r0000", "r0001", "r0002"]
    await index.delete(MEMORY, [vector.id for vector in many])
    assert await index.counts() == {}


async def test_writers_and_readers_can_work_at_once(index: Index) -> None:
    async def write(writer: int) -> None:
        for n in range(5):
            await index.upsert(MEMORY, [row(f"w{writer}-{n}", user_id=f"u{writer}")])

    async def read(writer: int) -> None:
        for _ in range(5):
            mine = await found(index, {"user_id": f"u{writer}"})
            assert all(id.startswith(f"w{writer}-") for id in mine)

    await asyncio.gather(*(task(n) for n in range(8) for task in (write, read)))
    assert await index.counts() == {MEMORY: 40}
    assert await found(index) == {f"w{writer}-{n}" for writer in range(8) for n in range(5)}
    assert await found(index, {"user_id": "u3"}) == {f"w3-{n}" for n in range(5)}


async def test_what_is_acknowledged_is_found_at_once(index: Index) -> None:
    for n in range(20):
        await index.upsert(MEMORY, [row(f"r{n}")])
        assert f"r{n}" in await found(index)
        await index.delete(MEMORY, [f"r{n}"])
        assert await found(index) == set()
