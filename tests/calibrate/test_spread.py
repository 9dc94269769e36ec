"""What a threshold does to scores, and which one is the best."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.calibrate.spread import FEWEST_PAIRS, Spread

SCORES = st.floats(0, 1).map(lambda score: round(score, 3))
PAIRS = st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=40)


def test_scores_that_lie_apart_are_parted_nearer_to_the_lower_ones() -> None:
    spread = Spread.of([(0.8, 0.2), (0.6, 0.4), (0.9, 0.1)])
    best = spread.best()
    assert best.threshold == 0.45
    assert (best.f1, best.precision, best.recall) == (1.0, 1.0, 1.0)
    assert spread.auc() == 1.0


def test_scores_that_overlap_cost_precision_or_recall() -> None:
    spread = Spread.of([(0.9, 0.1), (0.5, 0.6), (0.7, 0.2), (0.8, 0.3)])
    low, high = spread.at(0.45), spread.at(0.65)
    assert (low.precision, low.recall) == (4 / 5, 1.0)
    assert (high.precision, high.recall) == (1.0, 3 / 4)
    assert low.f1 == pytest.approx(8 / 9)
    assert spread.best() == spread.at(0.35)
    assert spread.auc() == 15 / 16


def test_where_nothing_tells_them_apart_everything_passes() -> None:
    spread = Spread.of([(0.3, 0.3)] * 5)
    assert spread.best() == spread.at(0.0)
    assert spread.auc() == 0.5


def test_a_threshold_above_all_scores_lets_nothing_pass() -> None:
    found = Spread.of([(0.8, 0.2)]).at(0.9)
    assert (found.f1, found.precision, found.recall) == (0.0, 0.0, 0.0)


def test_a_few_pairs_are_not_enough() -> None:
    assert not Spread.of([]).is_enough
    assert not Spread.of([(0.8, 0.2)] * (FEWEST_PAIRS - 1)).is_enough
    assert Spread.of([(0.8, 0.2)] * FEWEST_PAIRS).is_enough


@given(PAIRS)
@example([(0.088, 0.086)])
def test_no_score_would_have_been_a_better_threshold(pairs: list[tuple[float, float]]) -> None:
    spread = Spread.of(pairs)
    best = spread.best()
    scores = {score for pair in pairs for score in pair}
    assert all(best.f1 >= spread.at(score + 0.0005).f1 - 1e-9 for score in scores)
    assert best.f1 >= spread.at(0.0).f1


@given(PAIRS)
def test_the_order_of_the_pairs_does_not_matter(pairs: list[tuple[float, float]]) -> None:
    there, back = Spread.of(pairs), Spread.of(pairs[::-1])
    assert there.best() == back.best()
    assert there.auc() == pytest.approx(back.auc())
