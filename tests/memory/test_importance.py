"""What a memory is worth: bounded, and more of each input is never worth less."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.importance import KINDS, STRENGTH_DAYS, MemoryKind, importance, worth_at_least

NOW = datetime(2026, 3, 1, tzinfo=UTC)
STRENGTH = timedelta(days=STRENGTH_DAYS)

kinds = st.sampled_from(list(KINDS))
ages = st.timedeltas(timedelta(days=-10), timedelta(days=700_000))
counts = st.integers(0, 10**9)
memories = st.fixed_dictionaries(
    {"kind": kinds, "age": ages, "uses": counts, "sightings": st.integers(0, 10**9)}
)


def worth(
    kind: MemoryKind = "episode",
    *,
    age: timedelta = timedelta(),
    uses: int = 0,
    sightings: int = 1,
    mark: Any = None,
) -> float:
    return importance(kind, last=NOW - age, uses=uses, sightings=sightings, mark=mark, now=NOW)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ({}, 0.5),
        ({"kind": "fact"}, 1.0),
        ({"kind": "recommendation"}, 0.75),
        ({"age": STRENGTH}, 0.5 / 2.718281828),
        ({"age": STRENGTH, "uses": 1}, 0.5 / 2.718281828**0.5),
        ({"kind": "fact", "age": STRENGTH, "sightings": 2}, 1 / 2.718281828**0.5),
        ({"kind": "fact", "age": STRENGTH, "sightings": 2, "uses": 2}, 1 / 2.718281828**0.25),
        ({"age": timedelta(days=10_000), "mark": "pinned"}, 1.0),
        ({"age": timedelta(days=10_000), "mark": "critical"}, 1.0),
    ],
)
def test_a_memory_fades_by_a_third_of_its_way_and_slower_with_each_use(
    memory: dict[str, Any], expected: float
) -> None:
    assert worth(**memory) == pytest.approx(expected)


@given(memories)
def test_it_is_between_0_and_1(memory: dict[str, Any]) -> None:
    assert 0 <= worth(**memory) <= 1


@given(memories, ages)
def test_what_was_used_later_is_never_worth_less(memory: dict[str, Any], other: timedelta) -> None:
    older, newer = sorted([memory["age"], other], reverse=True)
    assert worth(**memory | {"age": newer}) >= worth(**memory | {"age": older})


@given(memories, counts, st.sampled_from(["uses", "sightings"]))
def test_what_was_used_or_said_more_often_is_never_worth_less(
    memory: dict[str, Any], other: int, name: str
) -> None:
    fewer, more = sorted([memory[name], other])
    assert worth(**memory | {name: more}) >= worth(**memory | {name: fewer})


@given(memories)
def test_a_fact_is_worth_at_least_a_recommendation_and_that_at_least_an_episode(
    memory: dict[str, Any],
) -> None:
    ranked = ("fact", "recommendation", "episode")
    values = [worth(**memory | {"kind": kind}) for kind in ranked]
    assert values == sorted(values, reverse=True)
    for kind in ("preference", "action"):
        assert worth(**memory | {"kind": kind}) == values[0]


@given(memories, st.sampled_from(["critical", "pinned"]))
def test_a_mark_is_never_worth_less(memory: dict[str, Any], mark: str) -> None:
    assert worth(**memory, mark=mark) == 1.0 >= worth(**memory)


@given(memories, st.floats(0, 1))
def test_what_was_used_since_is_worth_enough(memory: dict[str, Any], least: float) -> None:
    if NOW - memory["age"] >= worth_at_least(least, NOW):
        assert worth(**memory) >= least - 1e-9
