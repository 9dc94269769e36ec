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
from app.memory.matching import Floats, Matched, Places, begins, laid_out, matched

MOST_PARTS = 3_000  # of a scope that is laid out; of a larger one, what is found is read each time
MOST_NUMBERS = 8_000_000  # of all scopes together: 64 MB
OF_TERM = 80  # numbers that take as much room as a term that no part has

_Place = tuple[str, int, Mapping[int, int]]  # a term, the id of a part, unit -> times


@dataclass(frozen=True, slots=True)
class _Term:
    """Where one term is: in which units how often, in the days of which parts how often."""

    units: Places
    times: Floats
    parts: Places
    days: Floats
    holders: Places  # all parts that hold it

    @property
    def size(self) -> int:
        return OF_TERM + 2 * (len(self.units) + len(self.parts)) + len(self.holders)


_NO_PLACES, _NO_TIMES = np.empty(0, np.intp), np.empty(0)
_NOWHERE = _Term(_NO_PLACES, _NO_TIMES, _NO_PLACES, _NO_TIMES, _NO_PLACES)


@dataclass(frozen=True, slots=True)
class _Scope:
    """All parts of a scope by ref and part, and their units in order. of: each part's document.

    size: how many numbers all of it has.
    """

    state: State
    part_of: Mapping[int, int]
    refs: NDArray[np.object_]
    of: Places
    sizes: Places
    starts: list[int]
    numbers: Places
    lengths: Floats
    day_lengths: Floats
    size: int
    terms: Mapping[str, _Term] = field(default_factory=dict)


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
        held = self.learn(connection, {scope: state}, terms).get(scope)
        if held is None:
            return matched(store.lookup(connection, scope, terms, left_out=left_out), terms)
        return _matched(held, [held.terms[term] for term in terms], left_out)

    def learn(
        self, connection: Connection, states: Mapping[int, State], terms: Sequence[str]
    ) -> dict[int, _Scope]:
        """Lay out scopes, and where terms are in them, which is read at once.

        Returns them but for large ones, and for what has changed since its state was read.
        """
        scopes: dict[int, _Scope] = {}
        for scope, state in states.items():
            if 0 < state.items <= MOST_PARTS:
                held = self._kept.get(scope)
                is_same = held is not None and held.state == state
                scopes[scope] = held if held is not None and is_same else _read(connection, scope)
        missing = {
            scope: [term for term in terms if term not in held.terms]
            for scope, held in scopes.items()
        }
        wanted = dict.fromkeys([term for some in missing.values() for term in some])
        found = store.places_in(connection, list(scopes), wanted)
        for scope, some in missing.items():
            if not some:
                continue
            held = scopes.pop(scope)
            read = _terms(held, some, found[scope])
            if read is not None:
                size = held.size + sum(term.size for term in read.values())
                # One of our own: another thread may keep the scope with other terms in this moment.
                scopes[scope] = replace(held, size=size, terms={**held.terms, **read})
                self._kept.keep(scope, scopes[scope], size)
        return scopes


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
        2 * len(numbers),
    )


def _terms(held: _Scope, terms: Sequence[str], places: Sequence[_Place]) -> dict[str, _Term] | None:
    """Return where terms are; None where the scope is not what was laid out."""
    numbers = held.numbers.data
    found: dict[str, tuple[list[int], list[int], list[int], list[int], list[int]]] = {
        term: ([], [], [], [], []) for term in terms
    }
    for term, item, counts in places:
        if term not in found:  # known
            continue
        units, times, parts, days, holders = found[term]
        part = held.part_of.get(item)
        if part is None:
            return None
        holders.append(part)
        for number, count in counts.items():
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
        if holders
        else _NOWHERE
        for term, (units, times, parts, days, holders) in found.items()
    }


def _matched(held: _Scope, terms: Sequence[_Term], left_out: str) -> Matched:
    """Return what `app.memory.matching.matched` does of the same."""
    holds = np.zeros(len(held.of), bool)
    holds[np.concatenate([it.holders for it in terms])] = True
    if left_out:
        holds &= (held.refs != left_out)[held.of]
    parts = holds.nonzero()[0]
    of_parts = held.of[parts]
    is_first = begins(of_parts)
    first, of_part = is_first.nonzero()[0], is_first.cumsum() - 1
    documents = of_parts[first]
    is_meant = holds.repeat(held.sizes)
    unit = is_meant.cumsum() - 1
    meant = int(np.count_nonzero(is_meant))
    unit[~is_meant] = meant  # a last column, which is cut off
    times = np.zeros((len(terms), meant + 1))
    for row, it in zip(times, terms, strict=True):
        row[unit[it.units]] = it.times
    day_times = np.zeros((len(terms), len(documents)))
    if any(len(it.parts) for it in terms):
        document = np.full(len(held.of), -1, np.intp)
        document[parts] = of_part
        rows, parts_of_days, counts = _together([(it.parts, it.days) for it in terms])
        mine = holds[parts_of_days]
        at = rows[mine], document[parts_of_days[mine]]
        np.maximum.at(day_times, at, counts[mine])
    day_lengths = held.day_lengths[parts]
    if len(first):
        day_lengths = np.maximum.reduceat(day_lengths, first)
    return laid_out(
        tuple(held.refs[documents].tolist()),
        held.numbers[is_meant],
        of_part.repeat(held.sizes[parts]),
        held.lengths[is_meant],
        times[:, :meant],
        day_times,
        day_lengths,
    )


def _together(found: Sequence[tuple[Places, Floats]]) -> tuple[Places, Places, Floats]:
    """Return what was found of several terms as (terms, places, counts)."""
    sizes = [len(places) for places, _ in found]
    return (
        np.repeat(np.arange(len(found)), sizes),
        np.concatenate([places for places, _ in found]),
        np.concatenate([counts for _, counts in found]),
    )
