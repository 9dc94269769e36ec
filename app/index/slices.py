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
    has_none: NDArray[np.bool_]  # no session
    is_plain: bool
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
        is_settled: bool = False,
    ) -> Callable[[Connection], list[Match] | None]:
        """Return what reads the best rows that meet a condition and pass a test.

        It returns None where they are more than `limit` in all, or change meanwhile.
        only_keys: what a search found before comes without its texts, and out of memory.
        is_settled: what meets the condition passes the test, where the columns tell all.
        """

        def read(connection: Connection) -> list[Match] | None:
            held = self._slice(connection, namespace, condition, limit)
            if held is None or not len(held.seqs):
                return None if held is None else []
            must_pass = None if is_settled and held.is_plain else test
            scores: Floats = held.values @ direction.astype(np.float32)
            if condition.left_out is not None:  # no row without a session is meant either
                scores[(held.sessions == condition.left_out) | held.has_none] = GONE
            found: list[tuple[float, Known]] = []
            look = top_k
            while True:
                places, sure_above = take_best(scores, look)
                if not len(places):
                    return best_of(found, top_k)
                seqs = held.seqs[places].tolist()
                rows = _known(connection, held, seqs) if only_keys else _whole(connection, seqs)
                if rows is None:
                    self._drop(_key(namespace, condition))
                    return None
                exact = cosines(held.values[places], direction).tolist()
                some = zip(exact, rows, strict=True)
                found += some if must_pass is None else [it for it in some if must_pass(it[1][1])]
                is_all = sure_above == -np.inf
                if is_all or sum([cosine >= sure_above for cosine, _ in found]) >= top_k:
                    return best_of(found, top_k)
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
            held = self._keep(key, read)
        return held or _laid_out(table.no_columns(self._dimension), {})

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

    def _keep(self, key: _Key, read: table.Columns) -> _Slice:
        before = self._drop(key)
        # A row under a `seq` never changes.
        still = {} if before is None else before.known
        held = _laid_out(read, {seq: still[seq] for seq in read.seqs.tolist() if seq in still})
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


def _laid_out(read: table.Columns, known: dict[int, Known]) -> _Slice:
    return _Slice(
        read.seqs,
        read.ids,
        read.values,
        read.sessions,
        np.array([session is None for session in read.sessions], np.bool_),
        read.is_plain,
        int(read.seqs.max(initial=0)),
        time.monotonic(),
        known,
    )


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
    return best_of([(one.cosine, (one.id, one.metadata)) for one in found], top_k)


def best_of(found: Sequence[tuple[float, Known]], top_k: int) -> list[Match]:
    """Choose by cosine, then order by score: all that point away have the same score, 0.

    found: (cosine, (id, metadata)); of cosines that are equal, the first id is the better.
    """
    ranked = sorted([(-cosine, id, at) for at, (cosine, (id, _)) in enumerate(found)])[:top_k]
    if ranked and (ranked[-1][0] > 0 or ranked[0][0] < -1):
        ranked = sorted(
            [(0.0 if away > 0 else -1.0 if away < -1 else away, id, at) for away, id, at in ranked]
        )
    return [Match(id, 0.0 - away, found[at][1][1]) for away, id, at in ranked]
