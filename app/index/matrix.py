"""The vectors of one namespace in memory, for wide questions. Touches nothing.

Rows are only ever appended, in the order of `seq`, and a row's place never holds another row, so a
thread may multiply what it was given while another appends.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Seqs = NDArray[np.int64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]

# The most by which a float32 product of unit vectors is off, for up to some 4,096 numbers.
TOLERANCE = 1e-5
GONE = np.float32(-2.0)  # below every cosine
GROWTH = 1.5
MIN_CAPACITY = 1_024
COMPACT_ABOVE = 1_024


@dataclass(frozen=True, slots=True)
class View:
    """The rows at one moment: unit values (n, dimension), seqs (n,) ascending, alive (n,)."""

    values: Floats
    seqs: Seqs
    alive: Flags

    @property
    def last_seq(self) -> int:
        return int(self.seqs[-1]) if len(self.seqs) else 0

    def scores(self, direction: Doubles, only: Seqs | None = None) -> tuple[Seqs, Floats]:
        """Return seqs and rough cosines of all rows, `GONE` for a dead one, or of `only`."""
        rough = direction.astype(np.float32)
        if only is None:
            scores = self.values @ rough
            scores[~self.alive] = GONE
            return self.seqs, scores
        places = self._places(only)
        return self.seqs[places], self.values[places] @ rough

    def exact(self, direction: Doubles, seqs: Seqs) -> Doubles:
        return cosines(self.values[self._places(seqs)], direction)

    def _places(self, seqs: Seqs) -> Places:
        return places_of(self.seqs, seqs)


def places_of(held: Seqs, wanted: Seqs) -> Places:
    """Return where in `held` (ascending) the `wanted` seqs are, without those that it lacks."""
    places: Places = np.searchsorted(held, wanted)
    inside = places < len(held)
    places, wanted = places[inside], wanted[inside]
    present: Places = places[held[places] == wanted]
    return present


def cosines(values: Floats, direction: Doubles) -> Doubles:
    """Return the cosines of unit rows and a unit vector.

    In float64 and row by row: equal rows get equal scores wherever they lie, which a BLAS product
    does not promise and ties need.
    """
    product: Doubles = (values.astype(np.float64) * direction).sum(axis=1)
    return product


def take_best(scores: Floats, count: int) -> tuple[Places, float]:
    """Take the `count` best rows, and all that may tie with them, out of `scores`.

    Returns their places, and the exact cosine above which no row is left that was not taken.
    """
    if count < len(scores):
        bar = float(np.partition(scores, len(scores) - count)[len(scores) - count])
        if bar > GONE:
            places = np.flatnonzero(scores >= np.float32(bar - 2 * TOLERANCE))
            scores[places] = GONE
            return places, bar - TOLERANCE
    places = np.flatnonzero(scores > GONE)
    scores[places] = GONE
    return places, -np.inf


class Matrix:
    """Grows by `append`, forgets by `bury`; both may be called from any thread."""

    def __init__(self, dimension: int) -> None:
        self.is_loaded = False  # whether it has held all rows of some moment
        self._lock = threading.Lock()
        self._values: Floats = np.empty((0, dimension), np.float32)
        self._seqs: Seqs = np.empty(0, np.int64)
        self._alive: Flags = np.empty(0, np.bool_)
        self._size = 0
        self._dead = 0
        self._last_seq = 0

    @property
    def last_seq(self) -> int:
        """The newest `seq` that was appended; 0 before the first."""
        return self._last_seq

    def __len__(self) -> int:
        return self._size - self._dead

    @property
    def none(self) -> Floats:
        """Return the values of no row."""
        return self._values[:0]

    def view(self) -> View:
        with self._lock:
            size = self._size
            return View(self._values[:size], self._seqs[:size], self._alive[:size].copy())

    def append(self, seqs: Sequence[int], values: Floats) -> None:
        """Add rows in ascending order of `seq`, but those that another caller added first."""
        with self._lock:
            known = int(np.searchsorted(np.asarray(seqs, np.int64), self._last_seq, side="right"))
            fresh = len(seqs) - known
            if fresh == 0:
                return
            start, end = self._size, self._size + fresh
            if end > len(self._seqs):
                self._move(np.arange(start), max(int(end * GROWTH), MIN_CAPACITY))
            self._values[start:end] = values[known:]
            self._seqs[start:end] = seqs[known:]
            self._alive[start:end] = True
            self._size, self._last_seq = end, seqs[-1]

    def bury(self, seqs: Seqs) -> None:
        """Leave out rows that the table no longer has.

        What may have replaced them must have been appended before: who sees the gap must see it.
        """
        with self._lock:
            places = places_of(self._seqs[: self._size], seqs)
            self._dead += int(np.count_nonzero(self._alive[places]))
            self._alive[places] = False
            if self._dead > max(COMPACT_ABOVE, self._size // 2):
                living = np.flatnonzero(self._alive[: self._size])
                self._move(living, max(int(len(living) * GROWTH), MIN_CAPACITY))
                self._size, self._dead = len(living), 0

    def _move(self, places: Places, capacity: int) -> None:
        """Copy the rows at `places` to new arrays; views keep the old ones."""
        values = np.empty((capacity, self._values.shape[1]), np.float32)
        seqs = np.empty(capacity, np.int64)
        alive = np.empty(capacity, np.bool_)
        count = len(places)
        # The mode "raise" would copy twice.
        np.take(self._values, places, axis=0, out=values[:count], mode="clip")
        seqs[:count] = self._seqs[places]
        alive[:count] = self._alive[places]
        self._values, self._seqs, self._alive = values, seqs, alive
