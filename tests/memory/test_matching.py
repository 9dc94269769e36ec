"""How well words match: whole sessions, their best passages, and the share that these cover."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lexical import bm25
from app.lexical.store import Hit, Size
from app.memory import matching
from app.memory.matching import Floats, Matched, holders, matched, rarity, whole

WORDS = ["a", "b", "c", "d"]
Documents = dict[str, list[list[str]]]
documents = st.dictionaries(
    st.sampled_from(["s1", "s2", "s3"]),
    st.lists(st.lists(st.sampled_from(WORDS), max_size=4), min_size=1, max_size=5),
    min_size=1,
)


def hits_of(docs: Documents, terms: list[str], *, cut_at: int = 99) -> list[Hit]:
    """Return what the index finds; each document in two parts, where it is longer than `cut_at`."""
    hits = []
    for ref, units in docs.items():
        for first in range(0, len(units), cut_at):
            part = {at + 1: units[at] for at in range(first, min(first + cut_at, len(units)))}
            lengths = {number: len(words) for number, words in part.items()}
            for term in terms:
                places = {n: words.count(term) for n, words in part.items() if term in words}
                if places:
                    hits.append(Hit(term, ref, first + 1, places, lengths))
    return hits


def size_of(docs: Documents) -> Size:
    return Size(len(docs), sum(len(words) for units in docs.values() for words in units))


def best_passage(found: Matched, weights: Floats, size: Size, *, units: int) -> Floats:
    times = matching.passages(found, units)
    return matching.best_passage(found, times, weights, size, units=units)


def covered(found: Matched, telling: Floats, *, units: int) -> Floats:
    return matching.covered(found, matching.passages(found, units), telling)


@given(documents)
def test_a_document_scores_as_bm25_says(docs: Documents) -> None:
    found = matched(hits_of(docs, WORDS), WORDS)
    scores = whole(found, np.ones(len(WORDS)), size_of(docs), len(docs))
    counts = {ref: Counter(w for words in units for w in words) for ref, units in docs.items()}
    weights = {w: bm25.weight(sum(w in c for c in counts.values()), len(docs)) for w in WORDS}
    average = size_of(docs).length / len(docs)
    for ref, score in zip(found.refs, scores, strict=True):
        told = sum(
            weights[w] * bm25.share(n, counts[ref].total(), average) for w, n in counts[ref].items()
        )
        assert score == pytest.approx(told / sum(weights.values()))


@given(documents, st.integers(1, 3))
def test_it_makes_no_difference_how_a_session_was_cut_into_parts(docs: Documents, cut: int) -> None:
    size = size_of(docs)
    docs = {ref: [words or ["x"] for words in units] for ref, units in docs.items()}
    one = matched(hits_of(docs, [*WORDS, "x"]), [*WORDS, "x"])
    other = matched(hits_of(docs, [*WORDS, "x"], cut_at=cut), [*WORDS, "x"])
    even = np.ones(len(WORDS) + 1)
    assert one.refs == other.refs
    assert whole(one, even, size, 3) == pytest.approx(whole(other, even, size, 3))
    assert best_passage(one, even, size, units=3) == pytest.approx(
        best_passage(other, even, size, units=3)
    )


def test_a_passage_ends_with_its_document() -> None:
    docs = {"s1": [["a"], ["x"], ["x"], ["b"]], "s2": [["x"], ["a"], ["b"], ["x"]]}
    found = matched(hits_of(docs, ["a", "b", "x"]), ["a", "b", "x"])
    telling = np.array([1.0, 1.0, 0.0])
    assert covered(found, telling, units=3).tolist() == [0.5, 1.0]
    assert covered(found, telling, units=1).tolist() == [0.5, 0.5]


def test_the_days_count_in_every_passage() -> None:
    hits = [
        Hit("may", "s1", 1, {0: 1}, {0: 4, 1: 3, 2: 3}),
        Hit("dog", "s1", 1, {2: 1}, {0: 4, 1: 3, 2: 3}),
    ]
    found = matched(hits, ["may", "dog"])
    assert covered(found, np.ones(2), units=1).tolist() == [1.0]


def test_a_word_that_all_have_tells_next_to_nothing_and_one_that_none_has_a_lot() -> None:
    common, rare, unknown = rarity(["c", "r", "u"], {"c": 40, "r": 1}, 40)
    assert 0 <= common < 0.05 < rare == unknown
    assert (rarity(["c"], {"c": 9_000}, 3) >= 0).all()


def test_nothing_found_is_no_trouble() -> None:
    found = matched([], ["a"])
    assert holders(found, ["a"]) == {"a": 0}
    assert best_passage(found, np.ones(1), Size(0, 0), units=3).tolist() == []
    assert whole(found, np.ones(1), Size(0, 0), 0).tolist() == []


def test_a_part_that_is_written_anew_between_two_lookups_fails_nothing() -> None:
    before = Hit("a", "s1", 0, {1: 1}, {1: 2})
    after = Hit("b", "s1", 0, {1: 1, 3: 2}, {1: 4, 3: 5})
    found = matched([before, after], ["a", "b"])
    assert (found.of.tolist(), found.numbers.tolist()) == ([0, 0], [1, 3])
    assert found.times.tolist() == [[1, 0], [1, 2]]
    assert found.lengths.tolist() == [4, 5]
