"""Which memories a policy takes, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.base import Mark
from app.memory.eviction import Candidate, Policy, PolicyName, choose

NOW = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = Policy("none", max_age_days=30, max_memories=2, min_importance=0.2, keep_facts=True)


def memory(id: str, *, days: float, importance: float, mark: Mark | None = None) -> Candidate:
    return Candidate(id, "episode", NOW - timedelta(days=days), importance, mark)


# Old ones are beyond 30 days, unimportant ones below 0.2, and two may stay.
OLD = memory("old", days=90, importance=0.5)
OLD_UNIMPORTANT = memory("old and unimportant", days=60, importance=0.1)
UNIMPORTANT = memory("unimportant", days=10, importance=0.15)
FRESH = memory("fresh", days=1, importance=0.4)
PINNED = memory("pinned", days=900, importance=0.0, mark="pinned")
CRITICAL = memory("critical", days=800, importance=0.0, mark="critical")
ALL = [FRESH, PINNED, OLD, UNIMPORTANT, CRITICAL, OLD_UNIMPORTANT]


@pytest.mark.parametrize(
    ("name", "max_memories", "gone"),
    [
        ("none", 1, []),
        ("time", 1, ["old", "old and unimportant"]),
        ("importance", 1, ["old and unimportant", "unimportant"]),
        ("count", 6, []),
        ("count", 4, ["old", "old and unimportant"]),
        ("count", 1, ["old", "old and unimportant", "unimportant", "fresh"]),
        ("hybrid", 6, ["old and unimportant"]),
        ("hybrid", 5, ["old and unimportant"]),
        ("hybrid", 3, ["old and unimportant", "unimportant", "fresh"]),
        ("hybrid", 1, ["old and unimportant", "unimportant", "fresh", "old"]),
    ],
)
def test_a_policy_takes_what_it_says_and_nothing_that_is_marked(
    name: PolicyName, max_memories: int, gone: list[str]
) -> None:
    policy = replace(POLICY, name=name, max_memories=max_memories)
    assert [doomed.id for doomed in choose(ALL, policy, NOW)] == gone


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("time", "older than 30 days"),
        ("count", "beyond the 1 memories that a user may have"),
        ("importance", "importance 0.100 is below 0.2"),
        ("hybrid", "older than 30 days, and its importance 0.100 is below 0.2"),
    ],
)
def test_the_reason_names_the_limit_and_the_value(name: PolicyName, reason: str) -> None:
    policy = replace(POLICY, name=name, max_memories=1)
    first = choose([OLD_UNIMPORTANT, PINNED], policy, NOW)[0]
    assert (first.id, first.kind, first.reason) == ("old and unimportant", "episode", reason)


def test_memories_that_can_not_go_now_count_too() -> None:
    policy = replace(POLICY, name="count", max_memories=3)
    assert choose([OLD, FRESH], policy, NOW, held=1) == []
    assert [doomed.id for doomed in choose([OLD, FRESH], policy, NOW, held=2)] == ["old"]


def test_on_the_limit_it_stays() -> None:
    edge = memory("edge", days=30, importance=0.2)
    for name in ("time", "importance", "hybrid"):
        policy = replace(POLICY, name=name)
        assert choose([edge], policy, NOW) == []


policies = st.builds(
    Policy,
    st.sampled_from(["none", "time", "count", "importance", "hybrid"]),
    st.floats(0.1, 1e9),
    st.integers(1, 20),
    st.floats(0, 1),
    st.booleans(),
)
candidates = st.lists(
    st.builds(
        Candidate,
        st.text(max_size=3),
        st.sampled_from(["episode", "fact"]),
        st.timedeltas(timedelta(), timedelta(days=2000)).map(lambda age: NOW - age),
        st.floats(0, 1),
        st.sampled_from([None, None, None, "pinned", "critical"]),
    ),
    unique_by=lambda candidate: (candidate.kind, candidate.id),
    max_size=30,
)


@given(candidates, policies, st.integers(0, 10))
def test_each_goes_once_the_marked_stay_and_a_second_look_takes_nothing(
    given: list[Candidate], policy: Policy, held: int
) -> None:
    gone = [(doomed.kind, doomed.id) for doomed in choose(given, policy, NOW, held=held)]
    left = [each for each in given if (each.kind, each.id) not in gone]
    marked = [each for each in given if each.mark is not None]
    assert len(set(gone)) == len(gone) == len(given) - len(left)
    assert all(each in left for each in marked)
    assert choose(left, policy, NOW, held=held) == []
    if policy.name in ("count", "hybrid"):
        assert len(left) + held <= policy.max_memories or left == marked


@given(candidates, policies, st.randoms())
def test_the_order_of_the_candidates_does_not_matter(
    given: list[Candidate], policy: Policy, random: object
) -> None:
    shuffled = sorted(given, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert choose(shuffled, policy, NOW) == choose(given, policy, NOW)
