"""What passes, and in which order: meaning and words together. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.knowledge.asked import RARE, Shared

MOST = 0.5  # of what a question's terms weigh: tells by itself
SOME = 0.3  # tells beside a score that is not far from the gate
MANY = 3  # terms that tell together what none of them tells
SUPPORT = 0.6  # of the gate: not far from it
NOTHING = Shared()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk by its id. score: max(0, cosine); None: the index does not hold it yet."""

    id: str
    document_id: str
    score: float | None
    shared: Shared


@dataclass(frozen=True, slots=True)
class Ranked:
    """relevance: 0 to 1, within one search; why: what each side says, 0 to 1 as well."""

    candidate: Candidate
    relevance: float
    why: Mapping[str, float]


def passes(candidate: Candidate, gate: float | None) -> bool:
    """Say whether a chunk is about the question: by its meaning, or by words that tell.

    gate: None where meaning can't be had: then fewer words have to tell, since what they do not
    find is not found at all.
    """
    score, shared = candidate.score or 0.0, candidate.shared
    if shared.is_named:
        return True
    if gate is None:
        return shared.has_name or shared.rarest >= RARE or shared.share >= SOME
    if score >= gate:
        return True
    if shared.count >= 2 and score >= SUPPORT * gate and shared.share >= SOME:
        return True
    is_telling = shared.share >= MOST and (shared.rarest >= RARE or shared.count >= MANY)
    return is_telling and (shared.count >= 2 or score >= SUPPORT * gate)


def rank(candidates: Sequence[Candidate]) -> list[Ranked]:
    """Order by the mean of both sides, each as a share of its best candidate's score.

    On tables of mixed rows, this found more than z-scores, or scores from the worst candidate's 0
    to the best one's 1 (see `tests/benchmarks/found.py`): how weak the worst one is says nothing.
    """
    scores = _shares([candidate.score or 0.0 for candidate in candidates])
    words = _shares([candidate.shared.score for candidate in candidates])
    ranked = [
        Ranked(candidate, (dense + lexical) / 2, {"dense": dense, "lexical": lexical})
        for candidate, dense, lexical in zip(candidates, scores, words, strict=True)
    ]
    return sorted(ranked, key=lambda it: (-it.relevance, it.candidate.id))


def _shares(scores: Sequence[float]) -> list[float]:
    best = max(scores, default=0.0)
    return [score / best if best > 0.0 else 0.0 for score in scores]
