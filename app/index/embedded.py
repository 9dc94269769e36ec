"""The index that needs no other service: SQL holds it, numpy searches it. Touches: the database.

A question bound to a user, a session or some documents reads just their rows, whose vectors stay in
memory for a while (`app.index.slices`). A wider one
multiplies a matrix of the whole namespace, kept in memory and kept current, across threads and
processes, by reading the rows with a newer `seq` before each question; what was deleted betrays
itself when it would win, since the table no longer has its `seq`. Every answer is exact.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from app.db import Connection, Database
from app.errors import Misconfigured
from app.index import index_table as table
from app.index.base import Filter, Match, Values, Vector
from app.index.filters import Test
from app.index.matrix import Doubles, Floats, Matrix, Seqs, View, cosines, take_best
from app.index.reading import Readings
from app.index.rows import check_id, check_ids, check_namespace, check_query, check_vector
from app.index.slices import WHOLE, Found, Slices, matches, passing

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

# A slice of up to so many rows is read by SQL; gathering from a matrix in memory beats it sooner.
SLICE_BESIDE_MATRIX = 500
SLICE_WITHOUT_MATRIX = 2_000
SMALL = 1_000  # rows of a namespace that is kept like a slice
LOAD_ROWS = 2_000
LIST_ROWS = 5_000
CLEAR_ROWS = 5_000
# Rows looked up for a ranking: at first, and at most in one read.
FIRST_LOOK = 16
FIRST_FILTERED_LOOK = 64
LONGEST_LOOK = 4_000
# So many dead winners at once mean that much was deleted: then all are found out together.
MANY_DEAD = 64
# A question begins again when very much has changed under its hands, but not for ever.
TRIES = 4
# Below it, the product takes less time than handing it to another thread.
INLINE_NUMBERS = 2_000_000
SORT_COST = 10_000  # of one row of a slice, in multiplied numbers
PARSE_COST = 20_000  # of one row of JSON, in multiplied numbers


class EmbeddedIndex:
    """An `Index` in the tables `index_rows` and `index_vectors` of `db`, which its owner closes.

    Vectors are stored at length 1, so `fetch` returns them normalised. A failing database raises
    `StorageUnavailable` or `StorageFull`. An upsert of many rows is several transactions; it
    returns when all are durable, and checks all rows before the first.
    """

    lag_seconds = 1.0  # none, but for a query that began before the write ended

    def __init__(self, db: Database, dimension: int) -> None:
        self.dimension = dimension
        self._db = db
        self._matrices: dict[str, Matrix] = {}
        self._slices = Slices(dimension)
        self._readings = Readings()
        self._loading: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    async def open(self) -> None:
        stored = await self._db.read(table.a_stored_dimension)
        if stored is not None and stored != self.dimension:
            raise Misconfigured(
                f"the index holds vectors of {stored} numbers, the embedding model gives "
                f"{self.dimension}: set the model back, or run `python -m app reindex`"
            )

    async def upsert(self, namespace: str, vectors: Sequence[Vector]) -> None:
        check_namespace(namespace)
        writes = await asyncio.to_thread(self._writes, namespace, vectors)
        for write in writes:
            await self._db.write(write)

    def _writes(
        self, namespace: str, vectors: Sequence[Vector]
    ) -> list[Callable[[Connection], None]]:
        for vector in vectors:
            check_vector(vector, self.dimension)
        latest = list({vector.id: vector for vector in vectors}.values())
        return [table.store(namespace, part) for part in _parts(latest)]

    async def query(
        self,
        namespace: str,
        values: Values,
        *,
        top_k: int,
        filter: Filter | None = None,
        only_keys: bool = False,
    ) -> list[Match]:
        check_namespace(namespace)
        check_query(values, self.dimension, top_k)
        exact = values.astype(np.float64)
        direction: Doubles = exact / np.linalg.norm(exact)
        test, narrow, is_settled = None, None, False
        if filter is not None:
            asked = self._readings.of(filter)
            test, narrow, is_settled = asked.test, asked.narrow, asked.is_settled
            only_keys = only_keys and asked.is_of_keys
        elif only_keys and self.rows_in_memory(namespace) <= SMALL:
            best = await self._db.read(
                self._slices.best(namespace, WHOLE, SMALL, direction, top_k, None, only_keys=True)
            )
            if best is not None:
                return best
        if narrow is not None:
            few = SLICE_BESIDE_MATRIX if self._is_loaded(namespace) else SLICE_WITHOUT_MATRIX
            best = await self._db.read(
                self._slices.best(
                    namespace,
                    narrow,
                    few,
                    direction,
                    top_k,
                    test,
                    only_keys=only_keys,
                    is_settled=is_settled,
                )
            )
            if best is not None:
                return best
            found = await self._db.read(table.slice_up_to(namespace, narrow, few, self.dimension))
            if found is not None:
                cost = len(found[0]) * SORT_COST
                return await _compute(cost, _best_of, *found, direction, top_k, test)
        matrix = self._matrices.setdefault(namespace, Matrix(self.dimension))
        search = _WideSearch(self._db, namespace, matrix, direction, top_k, test)
        if narrow is None and (known := await search.as_it_is()) is not None:
            return matches(known, top_k)
        tries = 1
        while (wide := await self._search(search, narrow, may_restart=tries < TRIES)) is None:
            tries += 1
        return matches(wide, top_k)

    async def fetch(
        self, namespace: str, ids: Sequence[str], *, only_values: bool = False
    ) -> dict[str, Vector]:
        """Return the rows that exist, by id; `values` at length 1, as they are stored."""
        check_namespace(namespace)
        check_ids(ids)
        if only_values and self.rows_in_memory(namespace) <= SMALL:
            known = await self._db.read(self._slices.vectors(namespace, ids, SMALL))
            if known is not None:
                return known
        found: dict[str, Vector] = {}
        for part in _parts(list(dict.fromkeys(ids))):
            rows = await self._db.read(table.rows_by_id(namespace, part, self.dimension))
            found.update((id, Vector(id, values, json.loads(text))) for id, text, values in rows)
        return found

    async def delete(self, namespace: str, ids: Sequence[str]) -> None:
        check_namespace(namespace)
        check_ids(ids)
        for part in _parts(list(dict.fromkeys(ids))):
            await self._db.write(table.remove(namespace, part))

    async def clear(self, namespace: str) -> None:
        """Remove all rows that are there now, some thousand at a time."""
        check_namespace(namespace)
        while seqs := await self._db.read(table.seqs_after(namespace, 0, CLEAR_ROWS)):
            await self._db.write(table.remove_seqs(namespace, seqs))
        self._matrices.pop(namespace, None)

    async def list_ids(self, namespace: str, *, prefix: str = "") -> AsyncIterator[str]:
        check_namespace(namespace)
        if prefix:
            check_id(prefix)
        after, inclusive = prefix, True
        while ids := await self._db.read(
            table.ids_after(namespace, after, LIST_ROWS, inclusive=inclusive)
        ):
            for id in ids:
                if not id.startswith(prefix):
                    return
                yield id
            after, inclusive = ids[-1], False

    async def counts(self) -> dict[str, int]:
        return await self._db.read(table.counts)

    async def ping(self) -> None:
        """Return if the database answers, else raise `StorageUnavailable`."""
        await self._db.read(table.answer)

    async def close(self) -> None:
        self._matrices.clear()
        self._slices.clear()

    def rows_in_memory(self, namespace: str) -> int:
        """Return how many rows the matrix holds: 0 until a question was too wide for SQL alone."""
        matrix = self._matrices.get(namespace)
        return 0 if matrix is None else len(matrix)

    async def _search(
        self, search: _WideSearch, narrow: table.Narrow | None, *, may_restart: bool
    ) -> list[Found] | None:
        only, newest = None, None
        if narrow is not None:  # before the matrix catches up, so that it holds all of them
            only, newest = await self._db.read(table.seqs_of(search.namespace, narrow))
        if search.matrix.is_loaded:
            await search.catch_up()
        else:  # once, for all who wait for it
            async with self._loading.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                await search.catch_up()
        return await search.run(only, newest, may_restart=may_restart)

    def _is_loaded(self, namespace: str) -> bool:
        matrix = self._matrices.get(namespace)
        return matrix is not None and matrix.is_loaded


class _WideSearch:
    """One question to the matrix: rank, look the winners up, go on where they don't pass."""

    def __init__(
        self,
        db: Database,
        namespace: str,
        matrix: Matrix,
        direction: Doubles,
        top_k: int,
        test: Test | None,
    ) -> None:
        self.namespace = namespace
        self.matrix = matrix
        self._db = db
        self._direction = direction
        self._top_k = top_k
        self._test = test

    async def as_it_is(self) -> list[Found] | None:
        """Return the best in one read, if the matrix holds all rows and no winner is gone."""
        if not self.matrix.is_loaded:
            return None
        view = self.matrix.view()
        size = len(view.seqs) * self._direction.size
        seqs, scores = await _compute(size, view.scores, self._direction, None)
        look = self._first_look()
        places, sure_above = await _compute(size, take_best, scores, look)
        taken = seqs[places]
        rows = await self._db.read(table.unless_news(self.namespace, view.last_seq, taken))
        if rows is None or len(rows) < len(taken):
            return None
        seen = table.LookUp(rows, [], self.matrix.none)
        found = await _compute(len(taken) * PARSE_COST, self._passing, view, taken, seen)
        is_all = sure_above == -np.inf
        is_enough = sum(one.cosine >= sure_above for one in found) >= self._top_k
        return found if is_all or is_enough else None

    async def catch_up(self) -> None:
        """Append to the matrix what was committed since it did so last."""
        while True:
            seqs, values = await self._db.read(
                table.news(self.namespace, self.matrix.last_seq, LOAD_ROWS, self._direction.size)
            )
            if seqs:
                await asyncio.to_thread(self.matrix.append, seqs, values)
            if len(seqs) < LOAD_ROWS:
                self.matrix.is_loaded = True
                return

    async def run(
        self, only: Seqs | None, newest: int | None, *, may_restart: bool
    ) -> list[Found] | None:
        """Return at least the `top_k` best of the matrix, or of the rows `only`.

        A winner that is gone may have been replaced since: then the rows newer than `newest` (of
        the matrix, if it isn't given) take part too, so that an overwritten row is never missing.
        None asks to begin again, since too much has changed.
        """
        view = self.matrix.view()
        newest = view.last_seq if newest is None else newest
        size = (len(view.seqs) if only is None else len(only)) * self._direction.size
        seqs, scores = await _compute(size, view.scores, self._direction, only)
        if may_restart and only is not None and len(seqs) < len(only):
            return None
        found: dict[str, Found] = {}
        look = self._first_look()
        while True:
            places, sure_above = await _compute(size, take_best, scores, look)
            if len(places) == 0:
                return list(found.values())
            taken = seqs[places]
            seen = await self._db.read(
                table.look_up(self.namespace, taken, newest, LOAD_ROWS, self._direction.size)
            )
            if len(seen.rows) < len(taken):
                has_changed = await self._bury(view, taken, seen.rows)
                if may_restart and (has_changed or len(seen.fresh) == LOAD_ROWS):
                    return None
            cost = (len(taken) + len(seen.fresh)) * PARSE_COST
            for one in await _compute(cost, self._passing, view, taken, seen):
                if one.id not in found or found[one.id].seq < one.seq:
                    found[one.id] = one
            if sum(one.cosine >= sure_above for one in found.values()) >= self._top_k:
                return list(found.values())
            look = min(look * 4, max(LONGEST_LOOK, self._top_k))

    def _first_look(self) -> int:
        look = self._top_k + FIRST_LOOK
        return look if self._test is None else max(FIRST_FILTERED_LOOK, look * 4)

    def _passing(self, view: View, seqs: Seqs, seen: table.LookUp) -> list[Found]:
        scores = view.exact(self._direction, seqs).tolist()
        present = [
            (seen.rows[seq], cosine)
            for seq, cosine in zip(seqs.tolist(), scores, strict=True)
            if seq in seen.rows
        ]
        fresh_scores = cosines(seen.fresh_values, self._direction).tolist()
        fresh = zip(seen.fresh, fresh_scores, strict=True)
        return list(passing([*present, *fresh], self._test))

    async def _bury(self, view: View, taken: Seqs, rows: dict[int, table.Row]) -> bool:
        """Mark what is gone; if that is much, find out all that is. Returns whether it was much."""
        dead = taken[[seq not in rows for seq in taken.tolist()]]
        are_many = len(dead) > MANY_DEAD
        if are_many:
            living: list[int] = []
            while page := await self._db.read(
                table.seqs_after(self.namespace, living[-1] if living else 0, LIST_ROWS)
            ):
                living += page
            dead = np.setdiff1d(view.seqs, np.array(living, np.int64), assume_unique=True)
        await self.catch_up()
        await asyncio.to_thread(self.matrix.bury, dead)
        return are_many


def _best_of(
    rows: Sequence[table.Row], values: Floats, direction: Doubles, top_k: int, test: Test | None
) -> list[Match]:
    scored = zip(rows, cosines(values, direction).tolist(), strict=True)
    best_first = sorted(scored, key=lambda pair: (-pair[1], pair[0].id))
    return matches(list(islice(passing(best_first, test), top_k)), top_k)


async def _compute(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` on about `size` numbers: in a thread where it would hold up the event loop."""
    if size < INLINE_NUMBERS:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


def _parts(items: list[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), table.MAX_IN):
        yield items[start : start + table.MAX_IN]
