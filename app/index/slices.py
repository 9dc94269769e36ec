"""A user's vectors, kept in memory for as long as none of them changes. Touches: the database.

A slice is known by its number of rows and its newest `seq`: a `seq` is given once, and later ones
are greater, so that a slice with the same two is the same, whoever wrote it. Numbers, ids and times
are kept, no words.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.db import Connection
from app.index import index_table as table
from app.index.base import KEYS, Match, Metadata, Values
from app.index.filters import Test
from app.index.matrix import GONE, Doubles, Floats, Seqs, cosines, take_best

MOST_NUMBERS = 16_000_000  # of all slices together: 64 MB
IDLE_SECONDS = 600.0  # so long a slice is kept that nobody asks for
LONGEST_LOOK = 4_000
NUMBERS_OF_KEYS = 200  # what the keys of a row take of memory, beside numbers of 4 bytes
WHOLE = table.Narrow("", ())

_Key = tuple[str, str, tuple[str, ...]]
Known = tuple[str, Metadata]  # an id, and what is known of the row


@dataclass(frozen=True, slots=True)
class Found:
    """A row that passed. cosine: exact, -1 to 1."""

    seq: int
    cosine: float
    id: str
    metadata: Metadata


@dataclass(slots=True)
class _Slice:
    """Rows as they were at a state. known: the id and keys of some, by `seq`."""

    seqs: Seqs
    ids: list[str]
    values: Floats
    sessions: NDArray[np.object_]
    newest: int
    used_at: float
    known: dict[int, Known]

    @property
    def size(self) -> int:
        return self.values.size + NUMBERS_OF_KEYS * len(self.seqs)


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
        *,
        only_keys: bool,
    ) -> Callable[[Connection], list[Found] | None]:
        """Return what reads the best rows that meet a condition and pass a test, `top_k` or more.

        It returns None where they are more than `limit` in all, or change meanwhile.
        only_keys: what a search found before comes without its texts, and out of memory.
        """

        def read(connection: Connection) -> list[Found] | None:
            held = self._slice(connection, namespace, condition, limit)
            if held is None or not len(held.seqs):
                return None if held is None else []
            scores: Floats = held.values @ direction.astype(np.float32)
            if condition.left_out is not None:
                scores[held.sessions == condition.left_out] = GONE
            found: list[Found] = []
            look = top_k
            while True:
                places, sure_above = take_best(scores, look)
                if not len(places):
                    return found
                seqs = held.seqs[places].tolist()
                rows = _known(connection, held, seqs) if only_keys else _whole(connection, seqs)
                if rows is None:
                    self._drop(_key(namespace, condition))
                    return None
                exact = cosines(held.values[places], direction).tolist()
                found += [
                    Found(seq, cosine, id, metadata)
                    for seq, (id, metadata), cosine in zip(seqs, rows, exact, strict=True)
                    if test is None or test(metadata)
                ]
                if sum(one.cosine >= sure_above for one in found) >= top_k:
                    return found
                look = min(look * 4, max(LONGEST_LOOK, top_k))

        return read

    def vectors(
        self, namespace: str, ids: Sequence[str], limit: int
    ) -> Callable[[Connection], dict[str, Values] | None]:
        """Return what reads the vectors of some rows of a namespace with `limit` rows at most."""

        def read(connection: Connection) -> dict[str, Values] | None:
            held = self._slice(connection, namespace, WHOLE, limit)
            if held is None:
                return None
            wanted = set(ids)
            return {id: held.values[at] for at, id in enumerate(held.ids) if id in wanted}

        return read

    def _slice(
        self, connection: Connection, namespace: str, condition: table.Narrow, limit: int
    ) -> _Slice | None:
        """Return all rows that meet a condition as they are now; None if they are too many."""
        count, newest = table.state_of(connection, namespace, condition, limit + 1)
        if count > limit:
            return None
        key = _key(namespace, condition)
        held = self._current(key, count, newest)
        if held is None and count:
            read = table.vectors_of(connection, namespace, condition, self._dimension)
            held = self._keep(key, *read)
        if held is None:
            none = np.empty((0, self._dimension), np.float32)
            return _Slice(np.empty(0, np.int64), [], none, np.empty(0, object), 0, 0.0, {})
        return held

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

    def _keep(
        self,
        key: _Key,
        seqs: Seqs,
        ids: list[str],
        sessions: NDArray[np.object_],
        values: Floats,
    ) -> _Slice:
        before = self._drop(key)
        # A row under a `seq` never changes.
        still = {} if before is None else before.known
        known = {seq: still[seq] for seq in seqs.tolist() if seq in still}
        newest = int(seqs.max(initial=0))
        held = _Slice(seqs, ids, values, sessions, newest, time.monotonic(), known)
        with self._lock:
            self._held[key] = held
            self._numbers += held.size
            for other, old in list(self._held.items()):
                is_idle = held.used_at - old.used_at > IDLE_SECONDS
                if not is_idle and self._numbers <= MOST_NUMBERS:
                    break
                del self._held[other]
                self._numbers -= old.size
        return held

    def _drop(self, key: _Key) -> _Slice | None:
        with self._lock:
            gone = self._held.pop(key, None)
            self._numbers -= 0 if gone is None else gone.size
            return gone


def _key(namespace: str, condition: table.Narrow) -> _Key:
    return namespace, condition.field, tuple(sorted(condition.keys))


def _whole(connection: Connection, seqs: list[int]) -> list[Known] | None:
    """Return the id and metadata of some rows; None if one is gone."""
    rows = table.rows_of(connection, seqs)
    if len(rows) < len(seqs):
        return None
    return [(rows[seq].id, json.loads(rows[seq].metadata)) for seq in seqs]


def _known(connection: Connection, held: _Slice, seqs: list[int]) -> list[Known] | None:
    """Return the id and keys of some rows of a slice; None if one is gone."""
    missing = [seq for seq in seqs if seq not in held.known]
    read = _whole(connection, missing) if missing else []
    if read is None:
        return None
    for seq, (id, metadata) in zip(missing, read, strict=True):
        held.known[seq] = id, {key: metadata[key] for key in KEYS if key in metadata}
    return [held.known[seq] for seq in seqs]


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
