"""Readings of a question that become one rank, whatever their number and order."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.fusion import READINGS, Floats, faded, fuse, relevance, varied

KINDS = sorted(READINGS)
scores = st.floats(0, 1, width=32)


@st.composite
def readings(draw: st.DrawFn, fewest: int = 1) -> dict[str, Floats]:
    size = draw(st.integers(fewest, 6))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, unique=True))
    column = st.lists(scores | st.just(float("nan")), min_size=size, max_size=size)
    return {kind: np.array(draw(column)) for kind in kinds}


@given(readings(), st.randoms(use_true_random=False))
def test_neither_the_order_of_memories_nor_that_of_readings_matters(
    given: dict[str, Floats], random: Random
) -> None:
    size = len(next(iter(given.values())))
    order = list(range(size))
    random.shuffle(order)
    shuffled = {kind: given[kind][order] for kind in reversed(given)}
    assert fuse(shuffled) == pytest.approx(fuse(given)[order])


@given(readings(fewest=2), st.data())
def test_a_higher_score_never_costs_a_rank(given: dict[str, Floats], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(given)))
    known = np.flatnonzero(~np.isnan(given[kind]))
    if not len(known):
        return
    at = data.draw(st.sampled_from(known.tolist()))
    raised = given[kind].copy()
    raised[at] += data.draw(st.floats(0, 1, width=32))
    before, after = fuse(given), fuse({**given, kind: raised})
    others = [other for other in range(len(before)) if other != at]
    assert all(after[at] >= after[other] for other in others if before[at] >= before[other] + 1e-9)


@given(readings(fewest=2))
def test_what_is_ranked_beside_a_memory_does_not_move_it(given: dict[str, Floats]) -> None:
    alone = fuse({kind: values[:1] for kind, values in given.items()})
    assert alone[0] == pytest.approx(fuse(given)[0])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_memories_that_score_the_same_are_as_relevant(size: int) -> None:
    same = {kind: np.full(size, 0.4) for kind in KINDS}
    assert relevance(fuse(same)).tolist() == [1.0] * size


def test_two_that_are_nearly_equal_stay_near_each_other() -> None:
    found = relevance(fuse({"summary": np.array([0.601, 0.6]), "said": np.array([0.3, 0.3])}))
    assert found[0] == 1.0
    assert found[1] > 0.98


def test_a_memory_that_a_reading_can_not_judge_is_judged_by_the_others() -> None:
    nan = float("nan")
    with_facts, without, poor = fuse(
        {"summary": np.array([0.6, 0.6, 0.4]), "fact": np.array([0.7, nan, 0.4])}
    )
    assert with_facts > without > poor


def test_facts_count_for_little_where_hardly_any_were_read() -> None:
    given = {"exchange": np.array([0.5, 0.4]), "fact": np.array([0.3, 0.6])}
    assert np.argmax(fuse(given, facts_a_message=0.5)) == 1
    assert np.argmax(fuse(given, facts_a_message=0.01)) == 0


def test_no_memory_at_all_is_no_trouble() -> None:
    assert relevance(np.zeros(0)).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(0, 10))
def test_age_takes_and_never_adds(base: list[float], weight: float) -> None:
    days = np.array([10.0 * at - 5 for at in range(len(base))])  # the first is ahead of now
    after = faded(np.array(base), days, weight)
    assert all(after <= np.array(base))
    assert after[0] == base[0]


def test_age_counts_by_its_weight() -> None:
    assert faded(np.array([1.0]), np.array([10.0]), 0.1).tolist() == [0.5]


def test_what_says_the_same_again_steps_back_behind_the_rest() -> None:
    one = "The user asked why invoice 77 is not paid yet and wants an answer by Friday."
    again = "The user asked why invoice 77 is not paid yet and wants an answer on Friday."
    other = "The user likes jazz."
    assert varied([one, again, again + " ", other]) == [0, 3, 1, 2]


@given(st.lists(st.text(max_size=40)))
def test_stepping_back_loses_nothing_and_keeps_the_first(texts: list[str]) -> None:
    order = varied(texts)
    assert sorted(order) == list(range(len(texts)))
    assert order[:1] == [0][: len(texts)]


def test_texts_without_spaces_are_compared_by_their_signs() -> None:
    one, again = "私は犬を飼っていて名前はポチです。", "私は犬を飼っていて名はポチです。"
    assert varied([one, again, "明日は京都へ行きます。"]) == [0, 2, 1]
