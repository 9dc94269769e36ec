"""BM25 over counts that are already at hand. Touches nothing.

Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; k1 and
b as in SQLite's FTS5.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

K1 = 1.2
B = 0.75


@lru_cache(maxsize=16_384)
def weight(holders: int, all_items: int) -> float:
    """Return how much a term tells that `holders` of `all_items` have; never below zero."""
    return math.log(1 + (all_items - holders + 0.5) / (holders + 0.5))


def share(times: float, length: float, average_length: float) -> float:
    """Return how much of a term's weight an item of `length` terms earns that has it so often."""
    scale = 1 - B + B * length / average_length if average_length else 1.0
    return times * (K1 + 1) / (times + K1 * scale)


def shares(times: Floats, lengths: Floats, average_length: float) -> Floats:
    """Return what `share` does of (terms, items)."""
    scale = 1 - B + B * lengths / (average_length or 1.0)
    return np.asarray(times * (K1 + 1) / (times + K1 * scale), np.float64)
