"""The embedded index beyond what every index promises: many processes, the matrix, exactness."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db import Database, open_database
from app.errors import InvalidFilter, Misconfigured, StorageUnavailable
from app.index.base import Filter, Values, Vector
from app.index.embedded import SLICE_BESIDE_MATRIX, SLICE_WITHOUT_MATRIX, SMALL, EmbeddedIndex
from tests.index.plain import assert_right

ROOT = Path(__file__).parents[2]
DIMENSION = 8
MEMORY = "memory"
SHARED = "shared"
QUESTION = np.array([1, 0, 0, 0, 0, 0, 0, 0], np.float32)


@dataclass
class Shared:
    """A database that several replicas open at once, each as it would in a process of its own."""

    url: str
    stack: AsyncExitStack

    async def replica(self) -> EmbeddedIndex:
        database = await open_database(self.url)
        self.stack.push_async_callback(database.close)
        index = EmbeddedIndex(database, DIMENSION)
        await index.open()
        return index


@pytest.fixture(params=["sqlite-disk", "postgres"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_database")
    async with AsyncExitStack() as stack:
        yield Shared(url, stack)


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    database = await open_database("sqlite:///:memory:")
    yield database
    await database.close()


@pytest.fixture
def index(database: Database) -> EmbeddedIndex:
    return EmbeddedIndex(database, DIMENSION)


def some(number: int, seed: int = 0, **metadata: Any) -> list[Vector]:
    numbers = np.random.default_rng(seed).standard_normal((number, DIMENSION), np.float32)
    return [Vector(f"v{n:05}", row, metadata) for n, row in enumerate(numbers)]


def near(id: str, away: float, **metadata: Any) -> Vector:
    """Return a row whose cosine with `QUESTION` falls with `away`."""
    return Vector(id, np.array([1, away, 0, 0, 0, 0, 0, 0], np.float32), metadata)


async def ids(index: EmbeddedIndex, top_k: int = 3, filter: Filter | None = None) -> list[str]:
    found = await index.query(MEMORY, QUESTION, top_k=top_k, filter=filter)
    return [match.id for match in found]


@pytest.mark.parametrize("filter", [None, {"user_id": "ann"}])
async def test_replicas_see_each_others_changes_at_once(
    shared: Shared, filter: Filter | None
) -> None:
    one, two = await shared.replica(), await shared.replica()
    await one.upsert(MEMORY, [near(f"r{n}", n, user_id="ann") for n in range(1, 6)])
    assert await ids(one, filter=filter) == await ids(two, filter=filter) == ["r1", "r2", "r3"]
    await two.upsert(MEMORY, [near("new", 0.5, user_id="ann")])
    assert await ids(one, filter=filter) == ["new", "r1", "r2"]
    await one.upsert(MEMORY, [near("r1", 9, user_id="ann")])
    assert await ids(two, filter=filter) == ["new", "r2", "r3"]
    await two.delete(MEMORY, ["new"])
    assert await ids(one, filter=filter) == ["r2", "r3", "r4"]
    await one.clear(MEMORY)
    assert await ids(two, filter=filter) == []
    await two.upsert(MEMORY, [near("again", 1, user_id="ann")])
    assert await ids(one, filter=filter) == ["again"]


@pytest.mark.parametrize("few", [True, False], ids=["by SQL", "by matrix"])
@pytest.mark.parametrize("left_out", ["s1", "*", "s" * 300, "s\0", "s\N{REPLACEMENT CHARACTER}", 1])
async def test_a_session_that_is_left_out_leaves_all_others(
    shared: Shared, left_out: str | int, few: bool
) -> None:
    """Values whose key in SQL is another's too are told apart by the filter itself."""
    index = await shared.replica()
    sessions: list[Any] = ["s1", "s2", ["s1"], ["s2"], "*", "s" * 300, "s" * 256, "s\0"]
    sessions += ["s\N{REPLACEMENT CHARACTER}", 1, "1"]
    stored = {
        f"v{n}": near(f"v{n}", n, user_id="ann", session_id=session)
        for n, session in enumerate(sessions)
    }
    stored["none"] = near("none", 0.5, user_id="ann")
    await index.upsert(MEMORY, list(stored.values()))
    if not few:
        await index.upsert(MEMORY, some(SLICE_WITHOUT_MATRIX, user_id="ann", session_id="s9"))
        stored |= {v.id: v for v in some(SLICE_WITHOUT_MATRIX, user_id="ann", session_id="s9")}
    wanted: Filter = {"$and": [{"user_id": "ann"}, {"session_id": {"$ne": left_out}}]}
    got = await index.query(MEMORY, QUESTION, top_k=2_100, filter=wanted)
    assert_right(got, stored, QUESTION, 2_100, wanted)
    assert (index.rows_in_memory(MEMORY) > 0) is not few


MINE: Filter = {"user_id": "ann"}
ELSEWHERE: Filter = {"session_id": {"$ne": "s1"}}


@pytest.mark.parametrize(
    "wanted",
    [
        MINE,
        {"$and": [MINE, ELSEWHERE]},
        {"$and": [MINE, ELSEWHERE, {"memory_type": "fact"}]},
        {"$and": [MINE, {"user_id": "bob"}]},
        {"$and": [MINE, {"$or": [ELSEWHERE, {"memory_type": "fact"}]}]},
        {"user_id": {"$in": ["ann", "bob"]}, "session_id": {"$ne": "s1"}},
        {"user_id": {"$eq": "ann", "$ne": "bob"}},
    ],
)
@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_slice_holds_what_the_filter_lets_through(
    shared: Shared, wanted: Filter, is_plain: bool
) -> None:
    """Also where columns tell all of its rows: then what SQL narrows to is not tested again."""
    index = await shared.replica()
    stored = [
        near(f"{user}-{session}-{kind}", n, user_id=user, session_id=session, memory_type=kind)
        for n, (user, session, kind) in enumerate(
            product(["ann", "bob"], ["s1", "s2", ""], ["fact", "episode"])
        )
    ]
    stored.append(near("none", 0.5, user_id="ann", memory_type="fact"))
    if not is_plain:
        stored.append(near("both", 2.5, user_id=["ann", "bob"], session_id=["s1", "s2"]))
        stored.append(near("any", 3.5, user_id="*", session_id="s2"))
    await index.upsert(MEMORY, stored)
    for _ in range(2):
        got = await index.query(MEMORY, QUESTION, top_k=50, filter=wanted, only_keys=True)
        assert_right(got, {vector.id: vector for vector in stored}, QUESTION, 50, wanted)
    assert index.rows_in_memory(MEMORY) == 0


async def test_a_users_question_reads_that_users_rows_only(shared: Shared) -> None:
    index = await shared.replica()
    await index.upsert(MEMORY, [near(f"ann{n}", n, user_id="ann") for n in range(3)])
    await index.upsert(MEMORY, [near(f"bob{n}", n, user_id="bob") for n in range(3)])
    assert await ids(index, 9, {"user_id": "bob"}) == ["bob0", "bob1", "bob2"]
    assert await ids(index, 9, {"user_id": {"$in": ["bob", "eve"]}}) == ["bob0", "bob1", "bob2"]
    assert index.rows_in_memory(MEMORY) == 0
    assert len(await ids(index, 9)) == 6
    assert index.rows_in_memory(MEMORY) == 6


@pytest.mark.parametrize("user", ["a" * 5_000, "n\0ul", "*", "O'Brien\\", "日本 100%", ""])
async def test_any_user_id_selects_exactly_its_rows(shared: Shared, user: str) -> None:
    index = await shared.replica()
    await index.upsert(
        MEMORY, [near("mine", 1, user_id=user), near("theirs", 0, user_id="a" * 4_999)]
    )
    await index.upsert(MEMORY, [near("nobody", 0), near("number", 0, user_id=7)])
    assert await ids(index, 9, {"user_id": user}) == ["mine"]
    assert await ids(index, 9, {"user_id": 7}) == ["number"]


async def test_a_list_is_found_by_each_of_its_elements(index: EmbeddedIndex) -> None:
    await index.upsert(
        MEMORY, [near("both", 1, user_id=["ann", "bob"]), near("eve", 0, user_id="eve")]
    )
    assert await ids(index, 9, {"user_id": "bob"}) == ["both"]


@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_large_slice_is_searched_exactly(shared: Shared, is_warm: bool) -> None:
    index = await shared.replica()
    size = (SLICE_BESIDE_MATRIX if is_warm else SLICE_WITHOUT_MATRIX) + 1
    mine, others = some(size, user_id="ann"), some(50, seed=1, user_id="bob")
    others = [Vector(f"other-{row.id}", row.values, row.metadata) for row in others]
    await index.upsert(MEMORY, [*mine, *others])
    if is_warm:
        await ids(index)
    filter = {"user_id": "ann"}
    got = await index.query(MEMORY, QUESTION, top_k=20, filter=filter)
    stored = {row.id: row for row in [*mine, *others]}
    assert_right(got, stored, QUESTION, 20, filter)
    assert index.rows_in_memory(MEMORY) == size + 50


async def test_deleted_winners_are_replaced_by_the_next_best(shared: Shared) -> None:
    asked, other = await shared.replica(), await shared.replica()
    await other.upsert(MEMORY, [near(f"r{n:03}", n) for n in range(300)])
    assert await ids(asked) == ["r000", "r001", "r002"]
    await other.delete(MEMORY, ["r000", "r002"])
    assert await ids(asked) == ["r001", "r003", "r004"]
    await other.delete(MEMORY, [f"r{n:03}" for n in range(250)])
    assert await ids(asked) == ["r250", "r251", "r252"]
    assert asked.rows_in_memory(MEMORY) <= 300 - 3


async def test_memory_is_given_back_when_most_rows_are_gone(index: EmbeddedIndex) -> None:
    rows = some(4_000)
    await index.upsert(MEMORY, rows)
    await ids(index)
    await index.delete(MEMORY, [row.id for row in rows[:-10]])
    got = await index.query(MEMORY, QUESTION, top_k=100)
    assert_right(got, {row.id: row for row in rows[-10:]}, QUESTION, 100, None)
    assert index.rows_in_memory(MEMORY) == 10


async def test_equal_rows_come_by_id_wherever_they_lie(index: EmbeddedIndex) -> None:
    rows = some(1_000, seed=5)
    twins = [Vector(f"twin{n:02}", rows[7].values * 2**n, {}) for n in range(40)]
    mixed = [*rows[:300], *twins[20:], *rows[300:], *twins[:20]]
    await index.upsert(MEMORY, mixed)
    found = await index.query(MEMORY, rows[7].values, top_k=10)
    assert [match.id for match in found] == [f"twin{n:02}" for n in range(10)]


async def test_an_overwritten_row_is_never_missing_while_it_changes(shared: Shared) -> None:
    asked, other = await shared.replica(), await shared.replica()
    names = [f"r{n:02}" for n in range(30)]
    await other.upsert(MEMORY, [near(name, 1, user_id="ann") for name in names])
    is_over = asyncio.Event()

    async def overwrite() -> None:
        for away in count(2):
            if is_over.is_set():
                return
            await other.upsert(MEMORY, [near(name, away, user_id="ann") for name in names[::3]])
            await other.upsert(MEMORY, [near(names[away % 30], away, user_id="ann")])

    writer = asyncio.create_task(overwrite())
    for _ in range(30):
        answers = await asyncio.gather(*(ids(asked, 100) for _ in range(4)))
        narrow = await ids(asked, 100, {"user_id": "ann"})
        assert [sorted(answer) for answer in [*answers, narrow]] == [names] * 5
    is_over.set()
    await writer


async def test_threads_with_loops_of_their_own_share_one_index(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'app.db'}")
    index = EmbeddedIndex(database, DIMENSION)
    rows = some(3_000)
    await index.upsert(MEMORY, rows)
    stored = {row.id: row for row in rows}

    async def ask() -> None:
        for row in rows[:10]:
            found = await index.query(MEMORY, row.values, top_k=5)
            assert_right(found, stored, row.values, 5, None)

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, ask()) for _ in range(4)))
    assert index.rows_in_memory(MEMORY) == 3_000
    await database.close()


async def test_a_weak_filter_finds_the_one_row_at_the_bottom(index: EmbeddedIndex) -> None:
    rows = [near(f"r{n:04}", n, company="common") for n in range(3_000)]
    await index.upsert(MEMORY, [*rows, near("rare", 1e6, company="rare")])
    assert await ids(index, 3, {"company": "rare"}) == ["rare"]
    assert await ids(index, 3, {"company": "none"}) == []


async def test_keys_alone_come_of_the_same_rows_and_change_with_them(shared: Shared) -> None:
    one, other = await shared.replica(), await shared.replica()
    rows = [
        Vector(f"v{n}", vector.values, {"document_id": f"d{n}", "chunk": n, "text": "so"})
        for n, vector in enumerate(some(20))
    ]
    await one.upsert(SHARED, rows)
    for _ in range(2):
        whole = await one.query(SHARED, QUESTION, top_k=5)
        keys = await one.query(SHARED, QUESTION, top_k=5, only_keys=True)
        assert [(m.id, m.score) for m in keys] == [(m.id, m.score) for m in whole]
        assert [m.metadata for m in keys] == [
            {"document_id": m.metadata["document_id"], "chunk": m.metadata["chunk"]} for m in whole
        ]
        best = whole[0]
        again = Vector(best.id, QUESTION, {"document_id": "another", "chunk": 0})
        await other.upsert(SHARED, [again])
        found = (await one.query(SHARED, QUESTION, top_k=1, only_keys=True))[0]
        assert (found.id, found.metadata["document_id"]) == (best.id, "another")
        await other.delete(SHARED, [best.id])
        left = await one.query(SHARED, QUESTION, top_k=20, only_keys=True)
        assert best.id not in {match.id for match in left}
        assert best.id not in await one.fetch(SHARED, [best.id], only_values=True)


@pytest.mark.parametrize("filter", [{"user_id": "ann"}, None])
async def test_a_slice_that_changed_is_what_the_tables_hold(
    shared: Shared, filter: Filter | None
) -> None:
    """Of what is new, of what is gone, and of both at once."""
    one, other = await shared.replica(), await shared.replica()
    stored: dict[str, Vector] = {}

    async def put(*vectors: Vector) -> None:
        await other.upsert(MEMORY, vectors)
        stored.update({vector.id: vector for vector in vectors})

    async def drop(*ids: str) -> None:
        await other.delete(MEMORY, ids)
        for id in ids:
            del stored[id]

    async def assert_same() -> None:
        for question in (QUESTION, -QUESTION):
            found = await one.query(MEMORY, question, top_k=30, filter=filter, only_keys=True)
            assert_right(found, stored, question, 30, filter)
        held = await one.fetch(MEMORY, [*stored, "v00003"], only_values=True)
        plain = await other.fetch(MEMORY, list(stored))
        assert {id: row.values.tolist() for id, row in held.items()} == {
            id: row.values.tolist() for id, row in plain.items()
        }

    await put(*some(20, user_id="ann", session_id="s1"))
    await assert_same()
    await put(near("new", 0.5, user_id="ann"), near("of another", 0.4, user_id="bob"))
    await assert_same()
    await drop("v00003")
    await assert_same()
    await put(near("v00005", 2.0, user_id="ann", session_id="s2"))
    await assert_same()
    await put(near("v00007", 0.1, user_id="bob"), near("of another", 0.2, user_id="ann"))
    await assert_same()
    await drop("of another", "new")
    await assert_same()
    await drop("v00009", "v00010")
    await put(near("last", 0.3, user_id="ann"), near("v00000", -1.0, user_id=["ann", "bob"]))
    await assert_same()
    await drop(*stored)
    await assert_same()
    await put(near("again", 1.0, user_id="ann"))
    await assert_same()


async def test_a_filter_that_is_nested_far_too_deep_is_refused(index: EmbeddedIndex) -> None:
    filter: Filter = {"user_id": "ann"}
    for _ in range(100_000):
        filter = {"$and": [filter]}
    with pytest.raises(InvalidFilter, match="nested more than"):
        await index.query(MEMORY, QUESTION, top_k=1, filter=filter)


async def test_a_large_namespace_tells_keys_as_well(index: EmbeddedIndex) -> None:
    await index.upsert(SHARED, some(SMALL + 1))
    whole = await index.query(SHARED, QUESTION, top_k=5)
    keys = await index.query(SHARED, QUESTION, top_k=5, only_keys=True)
    assert [(m.id, m.score) for m in keys] == [(m.id, m.score) for m in whole]
    ids = [match.id for match in whole]
    plain, values = await index.fetch(SHARED, ids), await index.fetch(SHARED, ids, only_values=True)
    assert {id: row.values.tolist() for id, row in values.items()} == {
        id: row.values.tolist() for id, row in plain.items()
    }


async def test_another_dimension_is_refused_at_the_start(database: Database) -> None:
    index = EmbeddedIndex(database, DIMENSION)
    await index.open()
    await index.upsert(MEMORY, [near("r", 1)])
    with pytest.raises(Misconfigured, match=r"8 numbers.*384"):
        await EmbeddedIndex(database, 384).open()


async def test_vectors_come_back_at_length_1(index: EmbeddedIndex) -> None:
    await index.upsert(MEMORY, [Vector("r", np.full(DIMENSION, 1e30, np.float32), {"a": 1})])
    fetched = (await index.fetch(MEMORY, ["r", "missing"]))["r"]
    np.testing.assert_allclose(fetched.values, np.full(DIMENSION, DIMENSION**-0.5), rtol=1e-6)
    assert fetched.values.dtype == np.float32
    assert fetched.metadata == {"a": 1}


async def test_a_closed_database_is_unavailable(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'app.db'}")
    index = EmbeddedIndex(database, DIMENSION)
    await index.ping()
    await database.close()
    with pytest.raises(StorageUnavailable):
        await index.ping()


NUMBERS = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any)
USERS = st.sampled_from(["ann", "bob", "eve"])
IDS = st.integers(0, 12).map(lambda number: f"r{number:02}")
ROWS = st.tuples(IDS, NUMBERS, USERS, st.sampled_from(["red", "blue"]))
FILTERS = st.sampled_from(
    [
        None,
        {"user_id": "ann"},
        {"user_id": {"$in": ["ann", "bob"]}, "colour": "red"},
        {"colour": {"$ne": "red"}},
        {"$or": [{"user_id": "eve"}, {"colour": "blue"}]},
    ]
)
STEPS = st.one_of(
    st.tuples(st.just("upsert"), st.lists(ROWS, max_size=6)),
    st.tuples(st.just("delete"), st.lists(IDS, max_size=4)),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("query"), st.tuples(NUMBERS, st.integers(1, 15), FILTERS)),
)
namespaces = count()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEPS, max_size=30))
async def test_any_history_ends_like_a_dictionary(index: EmbeddedIndex, steps: list[Any]) -> None:
    namespace = f"history-{next(namespaces)}"
    stored: dict[str, Vector] = {}
    for deed, what in [*steps, ("query", ([1, 1, 0], 15, None))]:
        if deed == "upsert":
            rows = [
                Vector(id, _padded(numbers), {"user_id": user, "colour": colour})
                for id, numbers, user, colour in what
            ]
            await index.upsert(namespace, rows)
            stored.update((row.id, row) for row in rows)
        elif deed == "delete":
            await index.delete(namespace, what)
            stored = {id: row for id, row in stored.items() if id not in what}
        elif deed == "clear":
            await index.clear(namespace)
            stored = {}
        else:
            question, top_k, filter = _padded(what[0]), what[1], what[2]
            found = await index.query(namespace, question, top_k=top_k, filter=filter)
            assert_right(found, stored, question, top_k, filter)
    assert [id async for id in index.list_ids(namespace)] == sorted(stored)
    assert (await index.counts()).get(namespace, 0) == len(stored)


def _padded(numbers: list[int]) -> Values:
    return np.array([*numbers, *[0] * (DIMENSION - len(numbers))], np.float32)


async def test_three_processes_end_with_what_each_of_them_left(shared: Shared) -> None:
    asked = await shared.replica()
    names = ("ann", "bob", "eve")
    workers = [_working(shared.url, name) for name in names]
    stored: dict[str, Vector] = {}
    running = [asyncio.to_thread(worker.communicate, None, 60) for worker in workers]
    finished = asyncio.gather(*running)
    while not finished.done():
        await asked.query(SHARED, QUESTION, top_k=100)
        await asyncio.sleep(0.01)
    for name, worker, (printed, _) in zip(
        ("ann", "bob", "eve"), workers, await finished, strict=True
    ):
        assert worker.returncode == 0
        for id, (numbers, round_) in json.loads(printed).items():
            metadata = {"user_id": name, "round": round_}
            stored[id] = Vector(id, np.array(numbers, np.float32), metadata)
    for filter in (None, {"user_id": "ann"}, {"round": {"$gte": 40}}):
        found = await asked.query(SHARED, QUESTION, top_k=1_000, filter=filter)
        assert_right(found, stored, QUESTION, 1_000, filter)
    assert (await asked.counts())[SHARED] == len(stored)


def _working(url: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.index.worker", url, name, "60"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
