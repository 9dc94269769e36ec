"""A user's vectors, kept in memory while they are as they were. Touches: the database.

A slice is known by its number of rows and its newest `seq`: a `seq` is given once, and later ones
are greater, so that a slice with the same two is the same, whoever wrote it. Each question has SQL
tell them, unless another did since it was asked. Of a slice that changed, only the vectors that are
new are read. Numbers, ids and times are kept, no words.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from app.db import Connection
from app.index import index_table as table
from app.index.base import KEYS, Match, Metadata, Vector
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
    """Rows as they were at a state. known: the id and keys of some, by `seq`.

    place: of each id, once vectors were asked for by their ids. checked_at: a moment, after which
    SQL said that these are all the rows.
    """

    seqs: Seqs
    ids: list[str]
    values: Floats
    sessions: NDArray[np.object_]
    has_none: NDArray[np.bool_]  # no session
    is_plain: bool
    newest: int
    used_at: float
    known: dict[int, Known]
    place: dict[str, int] = field(default_factory=dict)
    checked_at: float = -math.inf

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

        asked_at = time.monotonic()

        def read(connection: Connection) -> list[Match] | None:
            held = self._slice(connection, namespace, condition, limit, asked_at)
            if held is None or not len(held.seqs):
                return None if held is None else []
            must_pass = None if is_settled and held.is_plain else test
            scores: Floats = held.values @ direction.astype(np.float32)
            if condition.left_out is not None:  # no row without a session is meant either
                scores[(held.sessions == condition.left_out) | held.has_none] = GONE
            cosines_found: list[float] = []
            found: list[Known] = []
            look = top_k
            while True:
                places, sure_above = take_best(scores, look)
                if not len(places):
                    return best_of(cosines_found, found, top_k)
                seqs = held.seqs[places].tolist()
                rows = _known(connection, held, seqs) if only_keys else _whole(connection, seqs)
                if rows is None:
                    self._drop(_key(namespace, condition))
                    return None
                exact = cosines(held.values[places], direction).tolist()
                if must_pass is not None:
                    passed = [must_pass(metadata) for _, metadata in rows]
                    exact, rows = list(compress(exact, passed)), list(compress(rows, passed))
                cosines_found += exact
                found += rows
                is_all = sure_above == -np.inf
                if is_all or sum([cosine >= sure_above for cosine in cosines_found]) >= top_k:
                    return best_of(cosines_found, found, top_k)
                look = min(look * 4, max(LONGEST_LOOK, top_k))

        return read

    def vectors(
        self, namespace: str, ids: Sequence[str], limit: int
    ) -> Callable[[Connection], dict[str, Vector] | None]:
        """Return what reads the vectors of some rows of a namespace with `limit` rows at most."""

        asked_at = time.monotonic()

        def read(connection: Connection) -> dict[str, Vector] | None:
            held = self._slice(connection, namespace, WHOLE, limit, asked_at)
            if held is None:
                return None
            place = held.place
            if not place:
                place = held.place = {id: at for at, id in enumerate(held.ids)}
            return {id: Vector(id, held.values[place[id]]) for id in ids if id in place}

        return read

    def _slice(
        self,
        connection: Connection,
        namespace: str,
        condition: table.Narrow,
        limit: int,
        asked_at: float,
    ) -> _Slice | None:
        """Return all rows that meet a condition as they were at some moment after `asked_at`.

        None if they are too many.
        """
        key = _key(namespace, condition)
        held = self._last(key)
        if held is not None and held.checked_at > asked_at and len(held.seqs) <= limit:
            return held
        checked_at = time.monotonic()
        count, newest = table.state_of(connection, namespace, condition, limit + 1)
        if count > limit:
            return None
        if held is None or (len(held.seqs), held.newest) != (count, newest):
            if not count:
                self._drop(key)  # nor are the numbers of what was erased kept
                return _laid_out(table.no_columns(self._dimension), {})
            held = self._keep(key, self._read(connection, namespace, condition, held), held)
        held.checked_at = checked_at
        return held

    def _read(
        self,
        connection: Connection,
        namespace: str,
        condition: table.Narrow,
        before: _Slice | None,
    ) -> table.Columns:
        """Read a slice; the vectors of rows that it had before are taken from there."""
        if before is None:
            return table.vectors_of(connection, namespace, condition, self._dimension)
        read = table.vectors_of(
            connection, namespace, condition, self._dimension, after=before.newest
        )
        old = read.seqs[: len(read.seqs) - len(read.values)].tolist()
        place = {seq: at for at, seq in enumerate(before.seqs.tolist())}
        if not place.keys() >= set(old):  # it is from a later moment than this read
            return table.vectors_of(connection, namespace, condition, self._dimension)
        kept = before.values[[place[seq] for seq in old]]
        return read._replace(values=np.concatenate([kept, read.values]))

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._numbers = 0

    def _last(self, key: _Key) -> _Slice | None:
        """Return a slice as it was when it was last asked for; it may have changed since."""
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                held.used_at = time.monotonic()
                self._held.move_to_end(key)
            return held

    def _keep(self, key: _Key, read: table.Columns, before: _Slice | None) -> _Slice:
        # A row under a `seq` never changes.
        still = {} if before is None else before.known
        held = _laid_out(read, {seq: still[seq] for seq in read.seqs.tolist() if seq in still})
        with self._lock:
            gone = self._held.pop(key, None)  # it may be another thread's by now
            self._held[key] = held
            self._numbers += held.size - (0 if gone is None else gone.size)
            for other, old in list(self._held.items()):
                is_idle = held.used_at - old.used_at > IDLE_SECONDS
                if not is_idle and self._numbers <= MOST_NUMBERS:
                    break
                del self._held[other]
                self._numbers -= old.size
        return held

    def _drop(self, key: _Key) -> None:
        with self._lock:
            gone = self._held.pop(key, None)
            self._numbers -= 0 if gone is None else gone.size


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


def matches(found: Sequence[Found], top_k: int) -> list[Match]:
    return best_of([one.cosine for one in found], [(one.id, one.metadata) for one in found], top_k)


def best_of(cosines: Sequence[float], found: Sequence[Known], top_k: int) -> list[Match]:
    """Choose by cosine, then order by score: all that point away have the same score, 0.

    Of cosines that are equal, the first id is the better.
    """
    away_from, ids = [-cosine for cosine in cosines], [id for id, _ in found]
    ranked = sorted(zip(away_from, ids, range(len(found)), strict=True))[:top_k]
    if ranked and (ranked[-1][0] > 0 or ranked[0][0] < -1):
        ranked = sorted(
            [(0.0 if away > 0 else -1.0 if away < -1 else away, id, at) for away, id, at in ranked]
        )
    return [Match(id, 0.0 - away, found[at][1]) for away, id, at in ranked]
