"""What passes the gate, and in which order: meaning and words together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.knowledge.asked import RARE
from app.knowledge.asked import Shared as Columns
from app.knowledge.fusion import Candidates, Ranked, passes, rank

GATE = 0.35


@dataclass(frozen=True)
class Shared:
    """What one chunk shares with a question."""

    score: float = 0.0
    share: float = 0.0
    count: int = 0
    rarest: float = 0.0
    is_named: bool = False
    has_name: bool = False


NOTHING = Shared()
One = tuple[str, float, Shared]


def candidate(id: str, score: float, shared: Shared = NOTHING) -> One:
    return id, score, shared


def together(*each: One) -> Candidates:
    ids, shared = [id for id, _, _ in each], [one for _, _, one in each]
    columns = Columns(
        np.array([one.score for one in shared], float),
        np.array([one.share for one in shared], float),
        np.array([one.count for one in shared], int),
        np.array([one.rarest for one in shared], float),
        np.array([one.is_named for one in shared], bool),
        np.array([one.has_name for one in shared], bool),
    )
    return Candidates(ids, ids, np.array([score for _, score, _ in each], float), columns)


def ranked(each: Sequence[One], gate: float | None = 0.0) -> list[Ranked]:
    """Return all that pass, in order; with a gate of 0, these are all."""
    ranking = rank(together(*each), gate)
    return ranking.of(ranking.passed)


@pytest.mark.parametrize(
    ("score", "shared", "is_let_through"),
    [
        (0.35, NOTHING, True),
        (0.34, NOTHING, False),
        (0.0, NOTHING, False),
        (0.0, Shared(9.0, 0.1, 1, 9.0, is_named=True), True),
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
def test_the_gate(score: float, shared: Shared, is_let_through: bool) -> None:
    assert passes(together(candidate("d", score, shared)), GATE).tolist() == [is_let_through]


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
    assert passes(together(candidate("d", 0.0, shared)), None).tolist() == [is_let_through]


def test_each_chunk_passes_or_not_whatever_stands_beside_it() -> None:
    each = [candidate("a", 0.9), candidate("b", 0.1), candidate("c", 0.1, Shared(is_named=True))]
    assert passes(together(*each), GATE).tolist() == [True, False, True]
    assert passes(together(), GATE).tolist() == []


def test_what_falls_short_comes_by_its_meaning_alone() -> None:
    each = [candidate("words", 0.1, Shared(8.0)), candidate("near", 0.3), candidate("in", 0.5)]
    ranking = rank(together(*each), GATE)
    assert [it.id for it in ranking.of(ranking.passed)] == ["in"]
    assert [it.id for it in ranking.of(ranking.short)] == ["near", "words"]


def test_what_both_sides_find_comes_before_what_one_finds() -> None:
    found = ranked(
        [
            candidate("words", 0.1, Shared(8.0)),
            candidate("both", 0.5, Shared(8.0)),
            candidate("meaning", 0.6),
            candidate("not there yet", 0.0, Shared(4.0)),
        ]
    )
    assert [it.id for it in found] == ["both", "words", "meaning", "not there yet"]
    assert found[0].why == {"dense": pytest.approx(0.5 / 0.6), "lexical": 1.0}
    assert found[-1].why == {"dense": 0.0, "lexical": 0.5}


def test_without_words_the_order_is_that_of_the_meaning() -> None:
    found = ranked([candidate("b", 0.2), candidate("a", 0.2), candidate("c", 0.9)])
    assert [it.id for it in found] == ["c", "a", "b"]
    assert ranked([]) == []


SHARED = st.builds(Shared, st.floats(0.0, 50.0))


@effort(deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), SHARED), max_size=6))
def test_a_relevance_is_between_0_and_1_and_who_is_better_on_both_sides_is_first(
    sides: list[tuple[float, Shared]],
) -> None:
    found = ranked([candidate(f"d{n}", *each) for n, each in enumerate(sides)])
    assert len(found) == len(sides)
    assert all(0.0 <= it.relevance <= 1.0 for it in found)
    words = {f"d{n}": shared.score for n, (_, shared) in enumerate(sides)}
    for one, other in pairwise(found):
        assert one.score >= other.score or words[one.id] >= words[other.id]
