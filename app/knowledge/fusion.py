"""What passes, and in which order: meaning and words together. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.knowledge.asked import RARE, Shared
from app.knowledge.postings import Flags, Floats

MOST = 0.5  # of what a question's terms weigh: tells by itself
SOME = 0.3  # tells beside a score that is not far from the gate
MANY = 3  # terms that tell together what none of them tells
SUPPORT = 0.6  # of the gate: not far from it


@dataclass(frozen=True, slots=True)
class Candidates:
    """Chunks by their ids, column by column.

    scores: max(0, cosine); 0.0 of one that the index does not hold yet.
    """

    ids: Sequence[str]
    document_ids: Sequence[str]
    scores: Floats
    shared: Shared


@dataclass(frozen=True, slots=True)
class Ranked:
    """relevance: 0 to 1, within one search; why: what each side says, 0 to 1 as well."""

    id: str
    document_id: str
    score: float
    relevance: float
    why: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates in order. passed: places of those that pass, the best first; short: of the others,
    those nearest in meaning first. dense, lexical: what each side says of each candidate.
    """

    candidates: Candidates
    dense: Floats
    lexical: Floats
    passed: Sequence[int]
    short: Sequence[int]

    def of(self, places: Sequence[int]) -> list[Ranked]:
        found = []
        for place in places:
            dense, lexical = float(self.dense[place]), float(self.lexical[place])
            found.append(
                Ranked(
                    self.candidates.ids[place],
                    self.candidates.document_ids[place],
                    float(self.candidates.scores[place]),
                    (dense + lexical) / 2,
                    {"dense": dense, "lexical": lexical},
                )
            )
        return found


def passes(candidates: Candidates, gate: float | None) -> Flags:
    """Say of each chunk whether it is about the question: by its meaning, or by words that tell.

    gate: None where meaning can't be had: then fewer words have to tell, since what they do not
    find is not found at all.
    """
    scores, shared = candidates.scores, candidates.shared
    is_rare = shared.rarest >= RARE
    if gate is None:
        return shared.is_named | shared.has_name | is_rare | (shared.share >= SOME)
    is_near, are_two = scores >= SUPPORT * gate, shared.count >= 2
    is_telling = (shared.share >= MOST) & (is_rare | (shared.count >= MANY))
    by_words = are_two & is_near & (shared.share >= SOME) | is_telling & (are_two | is_near)
    passed: Flags = shared.is_named | (scores >= gate) | by_words
    return passed


def rank(candidates: Candidates, gate: float | None) -> Ranking:
    """Order by the mean of both sides, each as a share of its best candidate's score.

    On tables of mixed rows, this found more than z-scores, or scores from the worst candidate's 0
    to the best one's 1 (see `tests/benchmarks/found.py`): how weak the worst one is says nothing.
    """
    dense, lexical = _shares(candidates.scores), _shares(candidates.shared.score)
    behind = (-(dense + lexical) / 2).tolist()
    best_first = sorted(zip(behind, candidates.ids, range(len(behind)), strict=True))
    is_passed, farness = passes(candidates, gate).tolist(), (-candidates.scores).tolist()
    passed = [place for _, _, place in best_first if is_passed[place]]
    short = [place for _, _, place in best_first if not is_passed[place]]
    short.sort(key=farness.__getitem__)
    return Ranking(candidates, dense, lexical, passed, short)


def _shares(scores: Floats) -> Floats:
    best = scores.max(initial=0.0)
    return scores / best if best > 0.0 else np.zeros(len(scores))
