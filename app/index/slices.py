"""A user's vectors, kept in memory for as long as none of them changes. Touches: the database.

A slice is known by its number of rows and its newest `seq`: a `seq` is given once, and later ones
are greater, so that a slice with the same two is the same, whoever wrote it. Numbers and the ids of
sessions are kept, no words.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.db import Connection
from app.index import index_table as table
from app.index.base import Match, Metadata
from app.index.filters import Test
from app.index.matrix import GONE, Doubles, Floats, Seqs, cosines, take_best

MOST_NUMBERS = 16_000_000  # of all slices together: 64 MB
IDLE_SECONDS = 600.0  # so long a slice is kept that nobody asks for
LONGEST_LOOK = 4_000

_Key = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Found:
    """A row that passed. cosine: exact, -1 to 1."""

    seq: int
    cosine: float
    id: str
    metadata: Metadata


@dataclass(slots=True)
class _Slice:
    seqs: Seqs
    values: Floats
    sessions: NDArray[np.object_]
    newest: int
    used_at: float


class Slices:
    """Answers questions bound to a few rows. May be called from any thread."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._lock = threading.Lock()
        self._held: OrderedDict[_Key, _Slice] = OrderedDict()  # the one used last comes last
        self._numbers = 0

    def best(
        self,
        namespace: str,
        condition: table.Narrow,
        limit: int,
        direction: Doubles,
        top_k: int,
        test: Test | None,
    ) -> Callable[[Connection], list[Found] | None]:
        """Return what reads the best rows that meet a condition and pass a test, `top_k` or more.

        It returns None where they are more than `limit` in all, or change meanwhile.
        """
        key = (namespace, condition.field, tuple(sorted(condition.keys)))

        def read(connection: Connection) -> list[Found] | None:
            count, newest = table.state_of(connection, namespace, condition, limit + 1)
            if count > limit:
                return None
            if count == 0:
                return []
            held = self._current(key, count, newest)
            if held is None:
                seqs, sessions, values = table.vectors_of(
                    connection, namespace, condition, self._dimension
                )
                held = _Slice(seqs, values, sessions, int(seqs.max(initial=0)), time.monotonic())
                self._keep(key, held)
            scores: Floats = held.values @ direction.astype(np.float32)
            if condition.left_out is not None:
                scores[held.sessions == condition.left_out] = GONE
            found: list[Found] = []
            look = top_k
            while True:
                places, sure_above = take_best(scores, look)
                if not len(places):
                    return found
                rows = table.rows_of(connection, held.seqs[places].tolist())
                if len(rows) < len(places):
                    self._drop(key)
                    return None
                exact = cosines(held.values[places], direction).tolist()
                seen = [rows[seq] for seq in held.seqs[places].tolist()]
                found += passing(zip(seen, exact, strict=True), test)
                if sum(one.cosine >= sure_above for one in found) >= top_k:
                    return found
                look = min(look * 4, max(LONGEST_LOOK, top_k))

        return read

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._numbers = 0

    def _current(self, key: _Key, count: int, newest: int) -> _Slice | None:
        with self._lock:
            held = self._held.get(key)
            if held is None or (len(held.seqs), held.newest) != (count, newest):
                return None
            held.used_at = time.monotonic()
            self._held.move_to_end(key)
            return held

    def _keep(self, key: _Key, held: _Slice) -> None:
        self._drop(key)
        with self._lock:
            self._held[key] = held
            self._numbers += held.values.size
            for other, old in list(self._held.items()):
                is_idle = held.used_at - old.used_at > IDLE_SECONDS
                if not is_idle and self._numbers <= MOST_NUMBERS:
                    break
                del self._held[other]
                self._numbers -= old.values.size

    def _drop(self, key: _Key) -> None:
        with self._lock:
            gone = self._held.pop(key, None)
            self._numbers -= 0 if gone is None else gone.values.size


def passing(scored: Iterable[tuple[table.Row, float]], test: Test | None) -> Iterator[Found]:
    for row, cosine in scored:
        metadata = json.loads(row.metadata)
        if test is None or test(metadata):
            yield Found(row.seq, cosine, row.id, metadata)


def matches(found: Iterable[Found], top_k: int) -> list[Match]:
    """Choose by cosine, then order by score: all that point away have the same score, 0."""
    best = sorted(found, key=lambda one: (-one.cosine, one.id))[:top_k]
    told = [Match(one.id, min(1.0, max(0.0, one.cosine)), one.metadata) for one in best]
    return sorted(told, key=lambda match: (-match.score, match.id))
