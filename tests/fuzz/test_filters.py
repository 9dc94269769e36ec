"""Whatever JSON comes as a filter: it is read, by all alike, or refused; never anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db import open_database
from app.errors import InvalidFilter
from app.index.base import Vector
from app.index.embedded import EmbeddedIndex
from app.index.filters import both, fields, matcher, refused, required, validate
from tests.fuzz.watched import tried, watched
from tests.wire import pinecone_filters

DIMENSION = 4
OPERATORS = ["$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists"]
NAMES = st.sampled_from(["a", "b", "tenant_id", "$and", "$or", *OPERATORS, "$not", "$", ""])
TEXTS = st.text(st.characters(exclude_categories=[]), max_size=6)
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.sampled_from(
        ["x", "1", 1, 0, -0.0, 1.0, True, False, 2**53 + 1, 10**400, "\x00", "\ud800"]
    )
)
ANY: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXTS, inner, max_size=4),
    max_leaves=20,
)
LIKELY = st.recursive(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        SCALARS
        | st.dictionaries(
            st.sampled_from(OPERATORS), SCALARS | st.lists(SCALARS, max_size=3), max_size=2
        ),
        min_size=1,
        max_size=2,
    ),
    lambda inner: st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(inner, max_size=3), min_size=1
    ),
    max_leaves=6,
)
ROWS: list[dict[str, Any]] = [
    {},
    {"a": "x"},
    {"a": "x", "b": 1},
    {"a": ["x", "1"], "b": 0},
    {"a": True, "b": False},
    {"a": 1, "b": "1"},
    {"a": 1.5, "b": [""], "c": -1},
    {"a": "", "b": 2**53},
    {"a": [], "b": ["x"]},
]


@tried(250)
@given(ANY | LIKELY)
def test_a_filter_is_read_by_all_alike_or_refused(asked: Any) -> None:
    with watched():
        try:
            validate(asked)
        except InvalidFilter:
            with pytest.raises(InvalidFilter):
                matcher(asked)
            return
        test = matcher(asked)
        bound, out = required(asked), refused(asked, "a")
        assert fields(asked) >= set(bound)
        assert both(asked, None) == asked
        for row in ROWS:
            passes = test(row)
            assert passes is pinecone_filters.passes(asked, row)
            if passes:
                for field, allowed in bound.items():
                    value = row[field]
                    assert allowed.intersection(value if isinstance(value, list) else [value])
                value = row.get("a")
                if isinstance(value, str):
                    assert value not in out


@pytest.mark.parametrize("deep", [50, 1_000, 100_000])
@pytest.mark.parametrize("key", ["$and", "$or"])
def test_a_filter_nested_deeper_than_calls_is_refused(deep: int, key: str) -> None:
    nested: Any = {"a": 1}
    for _ in range(deep):
        nested = {key: [nested]}
    with watched(), pytest.raises(InvalidFilter):
        validate(nested)
    while key in nested:  # Python takes such a thing apart by calls, too
        (nested,) = nested[key]


def test_a_filter_of_very_many_conditions_is_refused() -> None:
    for wide in ({"$or": [{"a": n} for n in range(100_000)]}, {"a": {"$in": [*range(100_000)]}}):
        with watched(), pytest.raises(InvalidFilter):
            validate(wide)


async def test_the_embedded_index_finds_what_the_language_says() -> None:
    database = await open_database("sqlite:///:memory:")
    try:
        index = EmbeddedIndex(database, DIMENSION)
        await index.open()
        question = np.array([1, 0, 0, 0], np.float32)
        rows = [row for row in ROWS if row]
        await index.upsert("n", [Vector(f"v{n}", question, row) for n, row in enumerate(rows)])
        found: list[Any] = []
        collected: list[Any] = []

        @tried(60)
        @given(LIKELY)
        def collect(filter: Any) -> None:
            collected.append(filter)

        collect()
        for filter in collected:
            try:
                got = await index.query("n", question, top_k=len(rows), filter=filter)
            except InvalidFilter:
                with pytest.raises(InvalidFilter):
                    validate(filter)
                continue
            expected = {
                f"v{n}" for n, row in enumerate(rows) if pinecone_filters.passes(filter, row)
            }
            assert {match.id for match in got} == expected, filter
            found.append(filter)
        assert found
    finally:
        await database.close()
