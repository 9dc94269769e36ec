"""How well one threshold tells related scores from unrelated ones. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_PAIRS = 30
FROM_BELOW = 0.25
TELLS_APART = 0.6  # an AUC below this is nearly chance, and its best threshold an accident


@dataclass(frozen=True, slots=True)
class At:
    """What a threshold does: `precision` and `recall` of the related pairs that it lets pass."""

    threshold: float
    f1: float
    precision: float
    recall: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The scores of related and of unrelated pairs, each max(0, cosine); as many of both."""

    related: NDArray[np.float64]
    unrelated: NDArray[np.float64]

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Spread:
        """pairs: for each question its score with what is related, and with what is not."""
        both = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return cls(both[:, 0], both[:, 1])

    @property
    def is_enough(self) -> bool:
        return len(self.related) >= FEWEST_PAIRS

    def auc(self) -> float:
        """Return how often a related pair scores higher than an unrelated one; ties count half."""
        ordered = np.sort(self.unrelated)
        below = np.searchsorted(ordered, self.related, side="left")
        up_to = np.searchsorted(ordered, self.related, side="right")
        return float((below + up_to).mean() / 2 / len(ordered))

    def at(self, threshold: float) -> At:
        """Return what a threshold does; a score that equals it passes."""
        passed = int((self.related >= threshold).sum())
        wrong = int((self.unrelated >= threshold).sum())
        precision = passed / (passed + wrong) if passed + wrong else 0.0
        recall = passed / len(self.related)
        f1 = 2 * passed / (passed + wrong + len(self.related))
        return At(threshold, f1, precision, recall)

    def best(self) -> At:
        """Return the threshold with the highest F1.

        Of those between two scores, which do the same, one nearer to the lower: what users ask is
        less like the text than questions that are made of it. Of several places, the lowest.
        """
        scores = np.unique(np.concatenate([[0.0], self.related, self.unrelated]))
        places = {0.0, *map(_between, scores[:-1].tolist(), scores[1:].tolist())}
        return max(map(self.at, sorted(places)), key=lambda found: (found.f1, -found.threshold))


def _between(lower: float, upper: float) -> float:
    """Return a threshold that lets the upper score pass and not the lower, short if one is."""
    place = lower + (upper - lower) * FROM_BELOW
    short = round(place, 3)
    return short if lower < short <= upper else place
