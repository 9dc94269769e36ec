"""What passes the gate, and in which order: meaning and words together."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.knowledge.asked import RARE, Shared
from app.knowledge.fusion import NOTHING, Candidate, passes, rank

GATE = 0.35


def candidate(id: str, score: float | None, shared: Shared = NOTHING) -> Candidate:
    return Candidate(id, id, score, shared)


@pytest.mark.parametrize(
    ("score", "shared", "is_let_through"),
    [
        (0.35, NOTHING, True),
        (0.34, NOTHING, False),
        (None, NOTHING, False),
        (None, Shared(9.0, 0.1, 1, 9.0, is_named=True), True),
        (0.0, Shared(9.0, 0.6, 2, RARE, is_named=False), True),
        (0.0, Shared(9.0, 0.6, 1, RARE, is_named=False), False),
        (0.3, Shared(9.0, 0.6, 1, RARE, is_named=False), True),
        (0.3, Shared(9.0, 0.3, 2, 2.0, is_named=False), True),
        (0.2, Shared(9.0, 0.4, 3, RARE, is_named=False), False),
        (0.3, Shared(9.0, 0.4, 1, RARE, is_named=False), False),
        (0.3, Shared(9.0, 0.6, 3, 2.0, is_named=False), True),
        (0.2, Shared(9.0, 1.0, 2, 2.0, is_named=False), False),
    ],
)
def test_the_gate(score: float | None, shared: Shared, is_let_through: bool) -> None:
    assert passes(candidate("d", score, shared), GATE) is is_let_through


@pytest.mark.parametrize(
    ("shared", "is_let_through"),
    [
        (NOTHING, False),
        (Shared(9.0, 0.1, 1, 9.0, is_named=True), True),
        (Shared(9.0, 0.1, 1, 0.3, has_name=True), True),
        (Shared(9.0, 0.1, 1, RARE), True),
        (Shared(9.0, 0.3, 1, 2.0), True),
        (Shared(9.0, 0.2, 3, 2.0), False),
    ],
)
def test_where_meaning_can_not_be_had_fewer_words_have_to_tell(
    shared: Shared, is_let_through: bool
) -> None:
    assert passes(candidate("d", None, shared), None) is is_let_through


def test_what_both_sides_find_comes_before_what_one_finds() -> None:
    ranked = rank(
        [
            candidate("words", 0.1, Shared(8.0)),
            candidate("both", 0.5, Shared(8.0)),
            candidate("meaning", 0.6),
            candidate("not there yet", None, Shared(4.0)),
        ]
    )
    assert [it.candidate.id for it in ranked] == ["both", "words", "meaning", "not there yet"]
    assert ranked[0].why == {"dense": pytest.approx(0.5 / 0.6), "lexical": 1.0}
    assert ranked[-1].why == {"dense": 0.0, "lexical": 0.5}


def test_without_words_the_order_is_that_of_the_meaning() -> None:
    ranked = rank([candidate("b", 0.2), candidate("a", 0.2), candidate("c", 0.9)])
    assert [it.candidate.id for it in ranked] == ["c", "a", "b"]
    assert rank([]) == []


SCORES = st.one_of(st.none(), st.floats(0.0, 1.0))
SHARED = st.builds(Shared, st.floats(0.0, 50.0))


@effort(deadline=None)
@given(st.lists(st.tuples(SCORES, SHARED), max_size=6))
def test_a_relevance_is_between_0_and_1_and_who_is_better_on_both_sides_is_first(
    sides: list[tuple[float | None, Shared]],
) -> None:
    ranked = rank([candidate(f"d{n}", *each) for n, each in enumerate(sides)])
    assert len(ranked) == len(sides)
    assert all(0.0 <= it.relevance <= 1.0 for it in ranked)
    for first, second in pairwise(ranked):
        one, other = first.candidate, second.candidate
        assert (one.score or 0.0) >= (other.score or 0.0) or one.shared.score >= other.shared.score
