"""What several readings of a question say of the same memories, made one rank. Touches nothing.

Scores are fused, not ranks, for how much better one is than another tells most. Each reading is
brought to one scale by a usual value and a usual spread that do not depend on what is ranked: so a
higher score never costs a rank, one memory alone is judged as among many, and nobody's rank moves
because another's is removed. Z-scores of each question measured the same (LoCoMo: 87.4 / 90.7
recall@3/@5 against 87.2 / 90.7), and two nearly equal memories would have been far apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """A kind of score. `usual`, `spread`: measured over the sessions of LoCoMo's questions."""

    usual: float
    spread: float
    weight: float


# Cosines (all-MiniLM-L6-v2) with the nearest vector of a kind; shares of the words' weight. The
# weights were searched by hand on five conversations; fitted ones, tried on conversations that
# they had not seen, were no better.
READINGS = {
    "summary": Reading(0.50, 0.07, 0.5),  # the episode, or one of its sentences
    "fact": Reading(0.53, 0.08, 1.0),
    "exchange": Reading(0.40, 0.07, 0.7),
    "said": Reading(0.18, 0.24, 1.0),  # by words: all that was said
    "passage": Reading(0.19, 0.19, 1.0),  # and the best three messages in a row
    "noted": Reading(0.15, 0.22, 1.0),  # and the summary with the facts
    "widened": Reading(0.17, 0.135, 0.5),  # and these by the words of the facts that fit best
}
# Where few facts were read in what was said, as without a model, these tell little: offline, LoCoMo
# rises from 82.3 to 84.4 recall@3 with a tenth of their weight.
OF_NOTES = frozenset({"fact", "noted", "widened"})
ENOUGH_FACTS = 0.1  # a message
# Readings agree by half: what one would have said where it could not read.
AGREEMENT = 0.5
STEEPNESS = 1.5
ALIKE = 0.5  # the share of common words that makes two texts about the same thing
LONGEST_WORD = 15  # on average, with its space


def fuse(scores: Mapping[str, Floats], facts_a_message: float = 1.0) -> Floats:
    """Return one number for each memory, higher is better.

    scores: the reading's name -> its scores, NaN where it does not apply to a memory (no facts
    were read in it, say): there the others speak for it.
    facts_a_message: how many were read in all that the user's sessions say.
    """
    kinds = [READINGS[name] for name in scores]
    every = np.array(
        [(s - k.usual) / k.spread for s, k in zip(scores.values(), kinds, strict=True)]
    )
    trust = min(1.0, max(facts_a_message, ENOUGH_FACTS / 10) / ENOUGH_FACTS)
    trusted = [trust if name in OF_NOTES else 1.0 for name in scores]
    weights = (np.array([kind.weight for kind in kinds]) * trusted)[:, np.newaxis]
    known = ~np.isnan(every)
    read = weights * known
    share = read.sum(axis=0)
    told = (read * np.where(known, every, 0.0)).sum(axis=0) / np.maximum(share, 1e-9)
    left = 1 - share / weights.sum()
    return np.asarray(told * (1 - left + AGREEMENT * left), np.float64)


def relevance(fused: Floats) -> Floats:
    """Return numbers in 0..1: 1 for the best, and how near to it the others come."""
    if not len(fused):
        return fused
    return np.asarray(np.exp(STEEPNESS * (fused - fused.max())), np.float64)


def faded(base: Floats, days: Floats, weight: float) -> Floats:
    """Let what is older count for less: base / (1 + weight * days)."""
    return np.asarray(base / (1 + weight * np.maximum(days, 0.0)), np.float64)


def varied(ranked: Sequence[str]) -> list[int]:
    """Return the places of some texts in a new order.

    One that says about the same as an earlier one steps back behind the rest, so that a thing that
    was talked about three times does not crowd out others.
    """
    told = Apart()
    for text in ranked:
        told.add(text)
    return told.first + told.later


class Apart:
    """Texts as they come, by place: those that say what no earlier one does, and the others."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.later: list[int] = []
        self._words: list[frozenset[str]] = []  # of the former

    def add(self, text: str) -> None:
        words = _words(text)
        place = len(self.first) + len(self.later)
        if any(_overlap(words, other) >= ALIKE for other in self._words):
            self.later.append(place)
        else:
            self.first.append(place)
            self._words.append(words)


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, or its pairs of signs where it has hardly a space."""
    text = text.casefold()
    words = text.split()
    if len(words) * LONGEST_WORD < len(text):
        return frozenset(text[at : at + 2] for at in range(len(text) - 1))
    return frozenset(words)


def _overlap(one: Set[str], other: Set[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0
