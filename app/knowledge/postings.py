"""Where words are in the chunks of a tenant with few documents, as arrays.

Touches: the lexical index. Kept in memory while nothing of it changes: ids, numbers, and the terms
that were asked for; no texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.db import Connection
from app.lexical import store
from app.lexical.kept import Kept
from app.lexical.store import Item, State

MOST_PARTS = 3_000  # of a scope that is laid out; of a larger one, what is found is read each time
MOST_NUMBERS = 8_000_000  # of all scopes together: 64 MB
MOST_HELD = 10_000  # of a scope: people ask for words that no chunk has, too
OF_ITEM = OF_TERM = 50  # numbers that take as much room as what is kept of one

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Scope:
    """All chunks of a tenant, by id. terms: which have each of some terms, and how often."""

    state: State
    items: Sequence[Item]
    place: Mapping[tuple[str, int], int]
    lengths: Floats
    of_id: Mapping[int, int]
    terms: Mapping[str, tuple[Places, Floats]] = field(default_factory=dict)
    size: int = 0  # in numbers

    def holding(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many chunks have each of some terms, of those that any has."""
        return {term: size for term in terms if (size := len(self.terms[term][0]))}

    def times(self, terms: Sequence[str], places: Places) -> Floats:
        """Return how often each term is in some chunks: (terms, places)."""
        every = np.zeros((len(terms), len(self.items)))
        for row, term in enumerate(terms):
            at, times = self.terms[term]
            every[row, at] = times
        return every[:, places]

    def best(self, weights: Mapping[str, float], *, length: float, limit: int) -> Places:
        """Return what `app.lexical.store.best` does, as places."""
        earned, holds = np.zeros(len(self.items)), np.zeros(len(self.items), bool)
        for term, weight in weights.items():
            at, _ = self.terms[term]
            earned[at] += weight
            holds[at] = True
        places = np.flatnonzero(holds)
        order = np.argsort(-earned[places] / (self.lengths[places] + 2.0 * length), kind="stable")
        best: Places = places[order[:limit]]
        return best


class Postings:
    """Lays out scopes of up to `most_parts`. May be called from any thread."""

    def __init__(self, most_parts: int = MOST_PARTS) -> None:
        self._most_parts = most_parts
        self._kept: Kept[Scope] = Kept(MOST_NUMBERS)

    def last(self, scope: int) -> Scope | None:
        """Return a scope as it was when it was last asked for; it may have changed since."""
        return self._kept.get(scope)

    def find(
        self, connection: Connection, scope: int, state: State, terms: Sequence[str]
    ) -> Scope | None:
        """Return a scope with these terms; None where it is too large, or is not in this state."""
        if state.items > self._most_parts:
            return None
        held = self._kept.get(scope)
        is_new = held is None or held.state != state
        if held is None or is_new:
            held = _read(connection, scope)
        missing = [term for term in terms if term not in held.terms]
        if missing and len(held.terms) + len(missing) > MOST_HELD:
            held, missing = _without_terms(held), list(terms)
        if missing:
            read = _terms(connection, scope, held, missing)
            if read is None:
                return None
            # One of our own: another thread may keep the scope with other terms in this moment.
            size = held.size + sum([OF_TERM + 2 * len(at) for at, _ in read.values()])
            held = replace(held, terms={**held.terms, **read}, size=size)
        if is_new or missing:
            self._kept.keep(scope, held, held.size)
        return held


def _read(connection: Connection, scope: int) -> Scope:
    items = store.all_items(connection, scope)
    ids = [item.id for item in items]
    length = sum(item.length for item in items)
    return Scope(
        State(len(items), length, max(ids, default=0), sum(ids)),
        items,
        {(item.ref, item.part): at for at, item in enumerate(items)},
        np.array([item.length for item in items], np.float64),
        {item.id: at for at, item in enumerate(items)},
        size=OF_ITEM * len(items),
    )


def _without_terms(held: Scope) -> Scope:
    return replace(held, terms={}, size=OF_ITEM * len(held.items))


def _terms(
    connection: Connection, scope: int, held: Scope, terms: Sequence[str]
) -> dict[str, tuple[Places, Floats]] | None:
    found: dict[str, tuple[list[int], list[int]]] = {term: ([], []) for term in terms}
    for term, id, places in store.places(connection, scope, terms):
        at = held.of_id.get(id)
        if at is None:
            return None
        found[term][0].append(at)
        found[term][1].append(sum(places.values()))
    return {
        term: (np.array(at, np.intp), np.array(times, np.float64))
        for term, (at, times) in found.items()
    }
