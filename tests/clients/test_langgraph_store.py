"""The store for LangGraph: it does what langgraph's own stores do, over HTTP."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from app.clients.langgraph import MemoryStore, RefusedError, StoreError
from tests.served import in_thread

ADA = ("memories", "ada")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_thread() as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[MemoryStore]:
    with MemoryStore(url, user_id=uuid.uuid4().hex) as store:
        yield store


class Reference(InMemoryStore):
    """langgraph's store in memory, less the empty namespaces: its stores in SQL list none."""

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        for name in [name for name, held in self._data.items() if not held]:
            del self._data[name]
        return super()._handle_list_namespaces(op)


def plain(result: Result) -> Any:
    """Return a result without its times; langgraph's store in memory finds the oldest first, and
    its stores in SQL, like ours, the latest."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list) and result and isinstance(result[0], SearchItem):
        return sorted((plain(item) for item in result), key=str)
    return result


def both(store: BaseStore, batches: Sequence[Sequence[Op]]) -> tuple[list[Any], list[Any]]:
    reference = Reference()
    return tuple(
        [[plain(result) for result in each.batch(ops)] for ops in batches]
        for each in (store, reference)
    )  # type: ignore[return-value]


PIZZA = {"text": "Ada likes pizza.", "stars": 4, "tags": ["food", "it"], "by": {"who": "agent"}}
TEA = {"text": "Ada drinks tea.", "stars": 2.5, "tags": ["drink"], "by": {"who": "ada"}}
FULL: list[Op] = [
    PutOp(ADA, "pizza", PIZZA),
    PutOp(ADA, "tea", TEA),
    PutOp(("memories", "bob"), "tea", {"stars": 5, "ok": True, "none": None}),
    PutOp(("memories", "ada", "old"), "x", {"stars": -1}),
    PutOp(("memories_2",), "x", {"stars": 1e3, "text": "語"}),
]
FILTERS: list[dict[str, Any] | None] = [
    None, {}, {"stars": 4}, {"stars": {"$eq": 4}}, {"stars": {"$ne": 4}}, {"stars": {"$gt": 2.5}},
    {"stars": {"$gte": 2.5}}, {"stars": {"$lt": 4}}, {"stars": {"$lte": 4, "$gt": 0}},
    {"stars": {"$gte": "4"}}, {"tags": ["food", "it"]}, {"tags": ["food"]}, {"by": {"who": "ada"}},
    {"by": {"who": {"$ne": "ada"}}}, {"ok": True}, {"none": None}, {"none": {"$eq": None}},
    {"stars": 4, "text": "Ada likes pizza."}, {"nowhere": 1}, {"tags": [{"$ne": "food"}, "it"]},
]  # fmt: skip


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_a_filter_means_what_it_means_to_langgraph(
    store: MemoryStore, wanted: dict[str, Any] | None
) -> None:
    prefixes: list[tuple[str, ...]] = [(), ("memories",), ADA, ("memories", "eve"), ("mem",)]
    searches: list[Op] = [SearchOp(prefix, wanted, limit=100) for prefix in prefixes]
    ours, theirs = both(store, [FULL, searches])
    assert ours == theirs


def listing(*conditions: tuple[Any, tuple[str, ...]], **more: Any) -> ListNamespacesOp:
    return ListNamespacesOp(tuple(MatchCondition(*each) for each in conditions), **more)


LISTINGS = [
    ListNamespacesOp(), listing(), listing(("prefix", ("memories",))), listing(("suffix", ADA)),
    listing(("prefix", ("memories", "*"))), listing(("prefix", ("*", "ada"))),
    listing(("suffix", ("*", "old"))), listing(("prefix", ("memories",)), ("suffix", ("old",))),
    listing(("suffix", ("ada", "old", "x", "y"))), listing(max_depth=1), listing(max_depth=2),
    listing(max_depth=0), listing(limit=1), listing(limit=2, offset=1), listing(offset=9),
    listing(limit=0), listing(("prefix", ("memories",)), max_depth=1, limit=5),
]  # fmt: skip


def test_namespaces_are_listed_as_langgraph_does(store: MemoryStore) -> None:
    ours, theirs = both(store, [FULL, LISTINGS, [PutOp(("memories_2",), "x", None)], LISTINGS])
    assert ours == theirs
    assert theirs[1][0][0] == ADA
    assert theirs[1] != theirs[3]


BATCHES: dict[str, list[list[Op]]] = {
    "reads see what was there before": [
        [PutOp(ADA, "k", {"a": 1})],
        [GetOp(ADA, "k"), PutOp(ADA, "k", {"a": 2}), GetOp(ADA, "k"), SearchOp(ADA)],
        [GetOp(ADA, "k")],
    ],
    "the last put of a key counts": [
        [PutOp(ADA, "k", {"a": 1}), PutOp(ADA, "k", None), PutOp(ADA, "k", {"a": 3})],
        [GetOp(ADA, "k"), ListNamespacesOp()],
        [PutOp(ADA, "k", {"a": 4}), PutOp(ADA, "k", None)],
        [GetOp(ADA, "k"), ListNamespacesOp()],
    ],
    "what is not there": [[GetOp(ADA, "k"), PutOp(ADA, "k", None), SearchOp(("x",))], []],
    "case, blanks and signs": [
        [PutOp(("A",), "K", {}), PutOp(("a",), "k", {"": []}), PutOp(('a","b',), " ", {"%": "_"})],
        [
            SearchOp(("A",)),
            SearchOp(("a",)),
            SearchOp(('a"',)),
            SearchOp(("a%",)),
            GetOp(("a",), "K"),
        ],
        [GetOp(('a","b',), " "), GetOp(("a", "b"), " "), GetOp((), " "), ListNamespacesOp()],
    ],
    "an empty key and any value": [
        [PutOp(ADA, "", {"deep": {"a": [1, 2.5, None, True, {"b": "🦜"}]}, "big": 2**60})],
        [GetOp(ADA, ""), SearchOp((), limit=0), SearchOp((), offset=3)],
    ],
    "same text under two keys": [
        [PutOp(ADA, "a", PIZZA), PutOp(ADA, "b", PIZZA)],
        [PutOp(ADA, "a", None)],
        [GetOp(ADA, "a"), GetOp(ADA, "b"), SearchOp(ADA)],
    ],
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_gives_what_langgraph_s_own_gives(store: MemoryStore, name: str) -> None:
    ours, theirs = both(store, BATCHES[name])
    assert ours == theirs


names = st.sampled_from([("a",), ("a", "b"), ("a", "b", "c"), ("b",), ("aa",), ADA])
keys = st.sampled_from(["k", "K", "", "é.x"])
values = st.dictionaries(
    st.sampled_from(["n", "text", "m"]),
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(alphabet="ab 語", max_size=4),
    max_size=3,
)
ops = st.lists(
    st.builds(GetOp, names, keys)
    | st.builds(PutOp, names, keys, st.none() | values, st.sampled_from([None, False, ["text"]]))
    | st.builds(
        SearchOp,
        names | st.just(()),
        st.none() | values | st.builds(lambda v: {"n": {"$ne": v}}, st.integers(-5, 5)),
        limit=st.just(100),
        offset=st.just(0),
        query=st.none(),
    )
    | st.builds(
        ListNamespacesOp,
        st.lists(
            st.builds(
                MatchCondition,
                st.sampled_from(["prefix", "suffix"]),
                st.lists(st.sampled_from(["a", "b", "c", "*"]), min_size=1, max_size=3).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
        st.none() | st.integers(0, 3),
        st.integers(0, 4),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(batches=st.lists(ops, min_size=1, max_size=4))
def test_any_sequence_of_operations_ends_the_same_in_both(
    url: str, batches: list[list[Op]]
) -> None:
    with MemoryStore(url, user_id=uuid.uuid4().hex) as store:
        ours, theirs = both(store, batches)
    assert ours == theirs


async def test_the_asynchronous_methods_do_the_same(url: str) -> None:
    async with MemoryStore(url, user_id=uuid.uuid4().hex) as store:
        await store.aput(ADA, "pizza", PIZZA)
        await store.aput(ADA, "tea", TEA, index=False)
        got = await store.aget(ADA, "pizza")
        assert got is not None
        assert (got.value, got.namespace, got.key) == (PIZZA, ADA, "pizza")
        assert got.created_at.utcoffset() is not None
        found = await store.asearch(ADA, filter={"stars": {"$gt": 3}})
        assert [item.key for item in found] == ["pizza"]
        assert await store.alist_namespaces(prefix=("memories",)) == [ADA]
        await store.adelete(ADA, "pizza")
        assert await store.aget(ADA, "pizza") is None
        in_a_thread = await asyncio.to_thread(store.get, ADA, "tea")
        assert in_a_thread is not None
        assert in_a_thread.value == TEA


def test_a_store_outlives_an_event_loop(url: str) -> None:
    store = MemoryStore(url, user_id=uuid.uuid4().hex)

    async def put_and_leave(key: str) -> None:
        async with store:
            await store.aput(ADA, key, {})

    for key in ("first", "second"):
        asyncio.run(put_and_leave(key))
    with store:
        assert {item.key for item in store.search(ADA)} == {"first", "second"}


def test_pages_of_a_search_have_each_item_once_the_latest_first(store: MemoryStore) -> None:
    for number in range(7):
        store.put(ADA, str(number), {"n": number})
    store.put(ADA, "2", {"n": 2})
    pages = [store.search(ADA, limit=3, offset=at) for at in (0, 3, 6)]
    assert [item.key for page in pages for item in page] == ["2", "6", "5", "4", "3", "1", "0"]
    filtered = store.search(ADA, filter={"n": {"$lt": 5}}, limit=2, offset=1)
    assert [item.key for item in filtered] == ["4", "3"]


def test_a_new_value_keeps_when_its_key_was_first_stored(store: MemoryStore) -> None:
    store.put(ADA, "k", {"n": 1})
    first = store.get(ADA, "k")
    store.put(ADA, "k", {"n": 2})
    second = store.get(ADA, "k")
    assert first is not None
    assert second is not None
    assert second.created_at == first.created_at == first.updated_at < second.updated_at


def test_namespaces_and_times_to_live_are_refused_as_langgraph_refuses_them(
    store: MemoryStore,
) -> None:
    for name in ((), ("a.b",), ("",), ("langgraph",), ("a", 5), ("a\x00",)):
        for each in (store, InMemoryStore()):
            with pytest.raises(InvalidNamespaceError):
                each.put(name, "k", {})  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="TTL is not supported"):
        store.put(ADA, "k", {}, ttl=5)
    with pytest.raises(ValueError, match="unknown operation"):
        store.batch(["get"])  # type: ignore[list-item]
    assert store.batch([]) == []
    assert store.list_namespaces() == []


@pytest.mark.parametrize(
    ("op", "told"),
    [
        (SearchOp(ADA, {"n": {"$like": 1}}), r"unsupported operator '\$like'.*\$eq, \$ne, \$gt"),
        (SearchOp(ADA, {"n": {"$gt": "x"}}), r"\$gt in filter needs a number; got str"),
        (SearchOp(ADA, limit=1001), "less than or equal to 1000"),
        (SearchOp(ADA, limit=-1), "greater than or equal to 0"),
        (PutOp((), "k", {}), "at least 1 item"),
        (PutOp(("a.b",), "k", {}), "must not be empty or contain a period; got 'a.b'"),
        (PutOp(("a",) * 21, "k", {}), "at most 20"),
        (PutOp(("x" * 1000,), "k", {}), "at most 1000 bytes"),
        (PutOp(ADA, "k" * 513, {}), "at most 512 bytes"),
        (PutOp(ADA, "a\x00", {}), "must not contain NUL"),
        (PutOp(ADA, "k", {"a": "x" * 65_536}), "at most 65536 bytes as JSON; it has 65545"),
        (PutOp(ADA, "k", {"a": "\x00"}), "must not contain NUL"),
        (ListNamespacesOp(max_depth=-1), "greater than or equal to 0"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_can_not_be_is_refused_with_what_was_expected(
    store: MemoryStore, op: Op, told: str
) -> None:
    store.put(ADA, "there", {})
    with pytest.raises(RefusedError, match=told) as refused:
        store.batch([PutOp(ADA, "not stored", {}), op])
    assert refused.value.status == 422
    assert isinstance(refused.value, ValueError)
    assert [item.key for item in store.search(())] == ["there"]


def test_a_value_that_is_no_json_is_not_sent(store: MemoryStore) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        store.put(ADA, "k", {"a": object()})
    with pytest.raises(ValueError, match="JSON compliant"):
        store.put(ADA, "k", {"a": float("nan")})


def test_a_service_that_is_not_there_or_refuses_the_key_is_told(url: str) -> None:
    with (
        MemoryStore("http://127.0.0.1:1") as nobody,
        pytest.raises(StoreError, match="did not answer: ConnectError") as away,
    ):
        nobody.get(ADA, "k")
    assert isinstance(away.value.__cause__, httpx.ConnectError)
    with (
        MemoryStore(f"{url}/elsewhere", user_id="ada") as lost,
        pytest.raises(StoreError, match="Not Found") as nowhere,
    ):
        lost.get(ADA, "k")
    assert (nowhere.value.status, nowhere.value.code) == (404, "not_found")


def test_a_put_without_the_user_s_consent_says_so_and_reads_and_deletions_go_on(url: str) -> None:
    user = uuid.uuid4().hex
    with MemoryStore(url, user_id=user) as store:
        store.put(ADA, "tea", {"text": "Ada likes tea."})
        consent = {"memory_enabled": False, "pii_storage_allowed": True}
        httpx.put(f"{url}/users/{user}/consent", json=consent).raise_for_status()
        with pytest.raises(StoreError, match="does not allow that anything is remembered") as no:
            store.put(ADA, "coffee", {"text": "Ada likes coffee."})
        there = store.get(ADA, "tea")
        store.delete(ADA, "tea")
        left = store.search(ADA)
    assert (no.value.status, no.value.code) == (403, "memory_disabled")
    assert there is not None
    assert there.value == {"text": "Ada likes tea."}
    assert left == []
