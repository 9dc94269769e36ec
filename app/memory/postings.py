"""Where words are in a user's memory, as arrays that are kept while nothing of it changes.

Touches: the lexical index. To lay out the postings of a common word takes longer than all else that
a search does, and the next question has most of its words as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.db import Connection
from app.lexical import store
from app.lexical.kept import Kept
from app.lexical.store import State
from app.memory.lexicon import DAYS
from app.memory.matching import Floats, Matched, Places, matched

MOST_PARTS = 3_000  # of a scope that is laid out; of a larger one, what is found is read each time
MOST_NUMBERS = 8_000_000  # of all scopes together: 64 MB


@dataclass(frozen=True, slots=True)
class _Term:
    """Where one term is: in which units how often, in the days of which parts how often."""

    units: Places
    times: Floats
    parts: Places
    days: Floats
    holders: Places  # all parts that hold it


@dataclass(frozen=True, slots=True)
class _Scope:
    """All parts of a scope by ref and part, and their units in order. of: each part's document."""

    state: State
    part_of: Mapping[int, int]
    refs: NDArray[np.object_]
    of: Places
    sizes: Places
    starts: list[int]
    numbers: Places
    lengths: Floats
    day_lengths: Floats
    terms: Mapping[str, _Term] = field(default_factory=dict)

    @property
    def size(self) -> int:
        of_terms = (
            2 * (len(it.units) + len(it.parts)) + len(it.holders) for it in self.terms.values()
        )
        return 2 * len(self.numbers) + sum(of_terms)


class Postings:
    """Answers where some terms are. May be called from any thread."""

    def __init__(self) -> None:
        self._kept: Kept[_Scope] = Kept(MOST_NUMBERS)

    def find(
        self,
        connection: Connection,
        scope: int,
        state: State,
        terms: Sequence[str],
        *,
        left_out: str = "",
        common: Collection[str] = (),
    ) -> Matched:
        """Return where each term is, but for a ref that is left out; state: the scope's.

        common: terms that too many parts hold: they are not looked for.
        """
        if not terms or not state.items:
            return matched([], terms)
        if state.items > MOST_PARTS:
            rare = [term for term in terms if term not in common]
            return matched(store.lookup(connection, scope, rare, left_out=left_out), terms)
        held = self._kept.get(scope)
        is_new = held is None or held.state != state
        if held is None or is_new:
            held = _read(connection, scope)
        missing = [term for term in terms if term not in held.terms]
        if missing:
            read = _terms(connection, scope, held, missing)
            if read is None:  # it has changed since its state was read
                return matched(store.lookup(connection, scope, terms, left_out=left_out), terms)
            # One of our own: another thread may keep the scope with other terms in this moment.
            held = replace(held, terms={**held.terms, **read})
        if is_new or missing:
            self._kept.keep(scope, held, held.size)
        return _matched(held, [held.terms[term] for term in terms], left_out)


def _read(connection: Connection, scope: int) -> _Scope:
    rows = store.layout(connection, scope)
    refs: dict[str, int] = {}
    numbers: list[int] = []
    lengths: list[int] = []
    starts, of, days = [0], [], []
    length = 0
    for _, ref, _, units in rows:
        length += sum(units.values())
        of.append(refs.setdefault(ref, len(refs)))
        own = sorted(number for number in units if number != DAYS)
        numbers += own
        lengths += [units[number] for number in own]
        starts.append(len(numbers))
        days.append(units.get(DAYS, 0))
    ids = [row[0] for row in rows]
    # It may have changed since its state was read.
    now = State(len(rows), length, max(ids, default=0), sum(ids))
    return _Scope(
        now,
        {row[0]: at for at, row in enumerate(rows)},
        np.array(list(refs), object),
        np.array(of, np.intp),
        np.diff(starts).astype(np.intp),
        starts,
        np.array(numbers, np.intp),
        np.array(lengths, np.float64),
        np.array(days, np.float64),
    )


def _terms(
    connection: Connection, scope: int, held: _Scope, terms: Sequence[str]
) -> dict[str, _Term] | None:
    """Return where terms are; None where the scope is not what was laid out."""
    numbers = held.numbers.tolist()
    found: dict[str, tuple[list[int], list[int], list[int], list[int], list[int]]] = {
        term: ([], [], [], [], []) for term in terms
    }
    for term, item, places in store.places(connection, scope, terms):
        units, times, parts, days, holders = found[term]
        part = held.part_of.get(item)
        if part is None:
            return None
        holders.append(part)
        for number, count in places.items():
            if number == DAYS:
                parts.append(part)
                days.append(count)
            else:
                units.append(bisect_left(numbers, number, held.starts[part], held.starts[part + 1]))
                times.append(count)
    return {
        term: _Term(
            np.array(units, np.intp),
            np.array(times, np.float64),
            np.array(parts, np.intp),
            np.array(days, np.float64),
            np.array(holders, np.intp),
        )
        for term, (units, times, parts, days, holders) in found.items()
    }


def _matched(held: _Scope, terms: Sequence[_Term], left_out: str) -> Matched:
    """Return what `app.memory.matching.matched` does of the same."""
    holds = np.zeros(len(held.of), bool)
    for it in terms:
        holds[it.holders] = True
    if left_out:
        holds &= (held.refs != left_out)[held.of]
    parts = np.flatnonzero(holds)
    documents, of_part = np.unique(held.of[parts], return_inverse=True)
    document = np.full(len(held.of), -1, np.intp)
    document[parts] = of_part
    is_meant = np.repeat(holds, held.sizes)
    unit = np.cumsum(is_meant) - 1
    times = np.zeros((len(terms), int(is_meant.sum())))
    day_times = np.zeros((len(terms), len(documents)))
    for row, it in enumerate(terms):
        mine = is_meant[it.units]
        times[row, unit[it.units[mine]]] = it.times[mine]
        in_days = holds[it.parts]
        np.maximum.at(day_times[row], document[it.parts[in_days]], it.days[in_days])
    day_lengths = np.zeros(len(documents))
    np.maximum.at(day_lengths, of_part, held.day_lengths[parts])
    return Matched(
        tuple(held.refs[documents].tolist()),
        held.numbers[is_meant],
        np.repeat(of_part, held.sizes[parts]).astype(np.intp),
        held.lengths[is_meant],
        times,
        day_times,
        day_lengths,
    )
