"""The filter language and the checks of rows, against tables and a second implementation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidFilter, InvalidRequest
from app.index.base import Filter, Metadata, Scalar, Vector
from app.index.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_VALUES,
    both,
    fields,
    matches,
    refused,
    required,
    validate,
)
from app.index.rows import check_vector
from tests.wire import pinecone_filters
from tests.wire.pinecone_data import Data, Refused

KEYS = st.sampled_from(["a", "b", "$and", "$or", "$eq", "$in", "$gt", "$ne", "$exists", "$foo"])
SCALARS = st.sampled_from(["x", "y", "1", 0, 1, 1.5, True, False])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | SCALARS | st.text(max_size=2) | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), SCALARS),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.sampled_from([0, 1, 1.5])),
    st.tuples(st.just("$exists"), st.booleans()),
)
FIELDS = st.sampled_from(["a", "b", "c"])
FILTERS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(
        FIELDS, SCALARS | st.lists(OPERATIONS, min_size=1, max_size=3).map(dict), min_size=1
    ),
    lambda inner: st.dictionaries(
        st.sampled_from(["$and", "$or", "$and"]),
        st.lists(inner, min_size=1, max_size=3),
        min_size=1,
    ),
    max_leaves=6,
)
ROWS = st.dictionaries(FIELDS, SCALARS | st.lists(st.sampled_from(["x", "y", "1"]), max_size=3))


@given(filter=FILTERS, metadata=ROWS)
def test_two_readings_of_a_filter_agree(filter: dict[str, Any], metadata: dict[str, Any]) -> None:
    assert matches(filter, metadata) is pinecone_filters.passes(filter, metadata)


@given(bound=FILTERS, asked=FILTERS | JSON, metadata=ROWS)
def test_what_is_asked_for_only_ever_narrows_what_may_be_read(
    bound: dict[str, Any], asked: Any, metadata: dict[str, Any]
) -> None:
    try:
        validate(asked)
    except InvalidFilter:
        with pytest.raises(InvalidFilter):
            matches({"$and": [bound, asked]}, metadata)
        return
    together = both(bound, asked)
    assert together is not None
    expected = matches(bound, metadata) and matches(asked, metadata)
    assert matches(together, metadata) is expected
    assert pinecone_filters.passes(dict(together), metadata) is expected
    if expected:
        assert fields(together) == fields(bound) | fields(asked)


@given(filter=JSON)
def test_what_we_accept_is_what_the_server_accepts(filter: Any) -> None:
    try:
        pinecone_filters.check(filter)
    except pinecone_filters.Illegal:
        with pytest.raises(InvalidFilter):
            validate(filter)
    else:
        validate(filter)


@given(filter=FILTERS, metadata=ROWS)
def test_a_matching_row_has_one_of_the_required_values(
    filter: dict[str, Any], metadata: dict[str, Any]
) -> None:
    if matches(filter, metadata):
        for field, allowed in required(filter).items():
            value = metadata[field]
            assert allowed.intersection(value if isinstance(value, list) else [value])


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"s": {"$ne": "s1"}}, {"s1"}),
        ({"$and": [{"u": "u1"}, {"s": {"$ne": "s1"}}, {"s": {"$ne": "s2"}}]}, {"s1", "s2"}),
        ({"$or": [{"s": {"$ne": "s1"}}, {"u": "u1"}]}, set()),
        ({"s": "s1"}, set()),
        ({"u": {"$ne": "s1"}}, set()),
        ({}, set()),
    ],
)
def test_refused_names_what_no_matching_row_may_hold(filter: Filter, expected: set[Scalar]) -> None:
    assert refused(filter, "s") == expected


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"user_id": "u1"}, {"user_id": {"u1"}}),
        ({"user_id": {"$eq": "u1"}, "year": {"$gt": 3}}, {"user_id": {"u1"}}),
        ({"user_id": {"$in": ["u1", "u2"]}}, {"user_id": {"u1", "u2"}}),
        ({"user_id": "u1", "session_id": {"$nin": ["s1"]}}, {"user_id": {"u1"}}),
        (
            {"$and": [{"user_id": "u1"}, {"$and": [{"session_id": "s1"}]}]},
            {"user_id": {"u1"}, "session_id": {"s1"}},
        ),
        ({"$or": [{"user_id": "u1"}, {"user_id": "u2"}]}, {}),
        ({"$or": [{"user_id": "u1"}], "session_id": "s1"}, {"session_id": {"s1"}}),
        ({"user_id": {"$ne": "u1"}}, {}),
        ({"user_id": {"$exists": True}}, {}),
        ({"user_id": {"$in": ["u1", "u2"], "$eq": "u2"}}, {"user_id": {"u2"}}),
        ({"$and": [{"a": {"$in": ["x", "y"]}}, {"a": "z"}]}, {"a": {"z"}}),
        ({"a": 2**53}, {"a": {2**53}}),
        ({"a": 2**53 + 1}, {}),  # as floats it is 2**53
    ],
)
def test_required_names_the_fields_that_a_filter_binds(
    filter: Filter, expected: dict[str, set[Scalar]]
) -> None:
    assert required(filter) == expected


@pytest.mark.parametrize(
    ("filter", "named"),
    [
        ({"year": {"$gt": "2020"}}, ["'year'", "$gt", "a string", "a finite number"]),
        ({"year": {"$lte": True}}, ["'year'", "$lte", "true", "a finite number"]),
        ({"year": {"$like": 1}}, ["'year'", "'$like'", "$eq", "$exists"]),
        ({"year": {"plain": 1}}, ["'year'", "'plain'"]),
        ({"year": None}, ["'year'", "$eq", "null", "a string"]),
        ({"year": [2020]}, ["'year'", "$eq", "a list", "a string"]),
        ({"year": {}}, ["'year'", "an operator", "an empty object"]),
        ({"year": {"$ne": {"a": 1}}}, ["'year'", "$ne", "an object"]),
        ({"year": float("nan")}, ["'year'", "$eq", "not finite"]),
        ({"year": 10**400}, ["'year'", "$eq", "not finite"]),
        ({"year": {"$lt": float("inf")}}, ["'year'", "$lt", "not finite"]),
        ({"name": "\ud800"}, ["'name'", "$eq"]),
        ({"tags": {"$in": "red"}}, ["'tags'", "$in", "a string", "a list"]),
        ({"tags": {"$in": []}}, ["'tags'", "$in", "an empty list", "at least one"]),
        ({"tags": {"$nin": ["a", None]}}, ["'tags'", "$nin", "null"]),
        ({"tags": {"$exists": "yes"}}, ["'tags'", "$exists", "true or false"]),
        ({}, ["The filter", "at least one field"]),
        (None, ["The filter", "null"]),
        ([{"a": 1}], ["The filter", "a list"]),
        ({"$and": {"a": 1}}, ["$and", "an object", "a list"]),
        ({"$or": []}, ["$or", "an empty list"]),
        ({"$or": [{"a": 1}, {}]}, ["$or", "an empty object"]),
        ({"$eq": 1}, ["$eq", "$and", "$or"]),
        ({"$nor": [{"a": 1}]}, ["$nor"]),
        ({"": 1}, ["field"]),
        ({1: 1}, ["field", "a number"]),
        ({"a": {"$eq": b"bytes"}}, ["'a'", "$eq", "bytes"]),
    ],
)
def test_a_refusal_names_field_operator_and_what_was_expected(
    filter: Any, named: list[str]
) -> None:
    with pytest.raises(InvalidFilter) as refused:
        validate(filter)
    for word in named:
        assert word in refused.value.message


def nested(depth: int) -> dict[str, Any]:
    filter: dict[str, Any] = {"a": 1}
    for _ in range(depth - 1):
        filter = {"$and": [filter]}
    return filter


@pytest.mark.parametrize(
    ("allowed", "hostile"),
    [
        (nested(MAX_DEPTH), nested(MAX_DEPTH + 1)),
        ({"a": 1}, nested(100_000)),
        (
            {"$or": [{"a": n} for n in range(MAX_CONDITIONS - 1)]},
            {"$or": [{"a": n} for n in range(MAX_CONDITIONS)]},
        ),
        (
            {"a": {"$in": [str(n) for n in range(MAX_VALUES)]}},
            {"a": {"$in": [str(n) for n in range(MAX_VALUES)]}, "b": 1},
        ),
    ],
    ids=["too deep", "far too deep", "too many conditions", "too many values"],
)
def test_a_filter_is_bounded(allowed: Filter, hostile: Filter) -> None:
    validate(allowed)
    with pytest.raises(InvalidFilter, match="more than"):
        validate(hostile)


@pytest.mark.parametrize(
    ("filter", "metadata", "expected"),
    [
        ({"n": 1}, {"n": True}, False),
        ({"n": True}, {"n": 1}, False),
        ({"n": {"$in": [1]}}, {"n": True}, False),
        ({"n": 2019}, {"n": 2019.0}, True),
        ({"n": "2019"}, {"n": 2019}, False),
        ({"n": {"$gte": 0}}, {"n": True}, False),
        ({"n": {"$ne": "x"}}, {}, False),
        ({"n": {"$nin": ["x"]}}, {}, False),
        ({"n": {"$ne": "x"}}, {"n": []}, True),
        ({"n": {"$exists": False}}, {}, True),
        ({"n": {"$exists": True}}, {"n": []}, True),
    ],
)
def test_types_are_strict_and_missing_fields_match_nothing(
    filter: Filter, metadata: Metadata, expected: bool
) -> None:
    assert matches(filter, metadata) is expected


@given(
    id=st.text(max_size=4) | st.just("ok"),
    values=st.lists(st.sampled_from([0.0, 1.0, -2.5, float("nan")]), min_size=1, max_size=3),
    metadata=st.dictionaries(st.text(max_size=3) | st.just("$k"), JSON, max_size=3),
)
def test_a_row_that_passes_our_check_is_one_that_the_server_takes(
    id: str, values: list[float], metadata: dict[str, Any]
) -> None:
    try:
        check_vector(Vector(id, np.array(values, np.float32), metadata), dimension=2)
    except InvalidRequest:
        return
    wire = json.loads(json.dumps({"id": id, "values": values, "metadata": metadata}))
    Data(dimension=2).upsert("memory", [wire])


def test_the_server_refuses_what_our_check_is_there_for() -> None:
    for vector in ({"values": [0, 0]}, {"values": [1]}, {"id": "é"}, {"metadata": {"a": None}}):
        with pytest.raises(Refused):
            Data(dimension=2).upsert("memory", [{"id": "a", "values": [1, 2], **vector}])


@pytest.mark.parametrize(
    ("vector", "named"),
    [
        (Vector("v1", np.ones(3, np.float32)), ["'v1'", "(3,)", "2 numbers"]),
        (Vector("v1", np.zeros(2, np.float32)), ["'v1'", "zeros"]),
        (Vector("x" * 513, np.ones(2, np.float32)), ["512", "513 characters"]),
        (Vector("v1", np.ones(2, np.float32), {"k": "x" * 41_000}), ["'v1'", "41008", "40960"]),
        (Vector("v1", np.ones(2, np.float32), {"k": 2**53 + 1}), ["'k'", "2**53", "string"]),
        (Vector("v1", np.ones(2, np.float32), {"$k": 1}), ["'$k'"]),
    ],
)
def test_a_refused_row_says_what_was_expected_and_what_came(
    vector: Vector, named: list[str]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_vector(vector, dimension=2)
    for word in named:
        assert word in refused.value.message
