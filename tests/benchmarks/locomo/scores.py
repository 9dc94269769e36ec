"""Recall of the sessions that hold the answer, and how sure it is. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.locomo.data import Conversation, Question

CUTS = (1, 3, 5, 10)
RESAMPLES = 2_000

Ranked = Sequence[int]  # session numbers, the best first


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and what was found for it."""

    conversation: str
    question: Question
    ranked: Ranked

    def recall(self, k: int) -> float:
        """Return the share of the evidence sessions among the first `k`."""
        evidence = self.question.evidence
        return len(evidence.intersection(self.ranked[:k])) / len(evidence)


@dataclass(slots=True)
class Result:
    """What one way to search came to."""

    name: str
    answered: list[Answered] = field(default_factory=list)

    def recall(self, k: int, category: str | None = None) -> float | None:
        """Return the mean recall, of a category or of all; None without a question."""
        of = [a.recall(k) for a in self.answered if category in (None, a.question.category)]
        return float(np.mean(of)) if of else None

    def interval(self, k: int, *, by_conversation: bool) -> tuple[float, float]:
        """Return the bootstrap's 95% interval over conversations, or over questions."""
        parts: dict[str, list[float]] = {}
        for number, one in enumerate(self.answered):
            parts.setdefault(one.conversation if by_conversation else str(number), []).append(
                one.recall(k)
            )
        sums = np.array([sum(part) for part in parts.values()])
        sizes = np.array([len(part) for part in parts.values()])
        chance: NDArray[np.int64] = np.random.default_rng(1).integers(
            0, len(sums), (RESAMPLES, len(sums))
        )
        means = sums[chance].sum(axis=1) / sizes[chance].sum(axis=1)
        low, high = np.percentile(means, [2.5, 97.5])
        return float(low), float(high)


def rank(conversation: Conversation, scores: Mapping[int, float]) -> Ranked:
    """Return a conversation's session numbers by score, the best first."""
    numbers = [session.number for session in conversation.sessions]
    return sorted(numbers, key=lambda number: (-scores.get(number, 0.0), number))
