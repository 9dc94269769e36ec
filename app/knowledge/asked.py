"""Which chunks share words with a question, and how much that tells. Touches: the lexical index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.db import Connection
from app.knowledge.postings import Flags, Floats, Postings, Scope
from app.knowledge.words import KIND
from app.lexical import bm25, store
from app.lexical.store import Item, scope_of
from app.lexical.terms import code_terms, name_terms, query_terms

MOST_COUNTED = 10_000  # of the chunks that have a term: above, it is merely common
MOST_READ = 10_000  # postings of the rarest terms, among which the best chunks are looked for
MOST_TERMS = 64
RARE = 4.0  # the weight of a term that about one chunk in sixty has
FEW = 3  # chunks that have a code, however few there are in all
NEARLY_ALL = 0.9  # of what a question's terms weigh

Chunk = tuple[str, int]  # the id of a document, and the number of the chunk


@dataclass(frozen=True, slots=True)
class Question:
    """The terms of a question; `codes` and `names` are those that name one thing."""

    terms: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Shared:
    """What some chunks share with a question, column by column.

    score: their BM25. share: of all that the question's terms weigh, 0 to 1. count: of terms, short
    numbers left out. rarest: the weight of the weightiest; 0.0 of a chunk that shares none.
    is_named: one of them names the chunk. has_name: one of them is a name, of however many chunks.
    """

    score: Floats
    share: Floats
    count: NDArray[np.int_]
    rarest: Floats
    is_named: Flags
    has_name: Flags

    def at(self, places: Sequence[int]) -> Shared:
        """Return the rows of some chunks; -1 is one that shares nothing."""
        rows = np.array(places, np.intp)
        is_there = rows >= 0
        return Shared(
            self.score[rows] * is_there,
            self.share[rows] * is_there,
            self.count[rows] * is_there,
            self.rarest[rows] * is_there,
            self.is_named[rows] & is_there,
            self.has_name[rows] & is_there,
        )


_NO_NUMBER, _NO_FLAG = np.zeros(1), np.zeros(1, bool)
NOTHING = Shared(_NO_NUMBER, _NO_NUMBER, np.zeros(1, int), _NO_NUMBER, _NO_FLAG, _NO_FLAG)


@dataclass(frozen=True, slots=True)
class Looked:
    """What the words of a question found.

    best: the chunks that share most, as the lexical index holds them; is_all: no more share any.
    holders: how many chunks have each of its terms that any has; weights: what each term tells;
    average: the length of a chunk. held: all chunks, where they are in memory; else scope: which.
    """

    scope: int = 0
    question: Question = Question()
    best: Sequence[Item] = ()
    is_all: bool = True
    holders: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    average: float = 0.0
    held: Scope | None = None

    @property
    def chunks(self) -> list[Chunk]:
        return [(item.ref, item.part) for item in self.best]


def read_question(text: str) -> Question:
    terms = query_terms(text)[:MOST_TERMS]
    return Question(
        tuple(terms), code_terms(text).intersection(terms), name_terms(text).intersection(terms)
    )


def expect(tenant_id: str, question: Question, postings: Postings, *, limit: int) -> Looked | None:
    """Return what `look` will, unless something has changed; None where nothing is in memory."""
    held = postings.last(scope_of(KIND, tenant_id))
    if held is None:
        return None
    known = tuple([term for term in question.terms if term in held.terms])
    return _look_in(held, replace(question, terms=known), limit)


def look(
    connection: Connection,
    tenant_id: str,
    question: Question,
    postings: Postings,
    *,
    limit: int,
    expected: Looked | None = None,
) -> Looked:
    """Return the chunks that share most with a question; `share` tells how much.

    A term that very many chunks have is not looked for: it only counts in what is found otherwise.
    expected: of `expect`, with the same limit.
    """
    scope = scope_of(KIND, tenant_id)
    state = store.state(connection, scope)
    held = postings.find(connection, scope, state, question.terms)
    if held is not None:
        if expected is not None and expected.held is held:
            return expected
        return _look_in(held, question, limit, expected)
    holders = store.frequencies(connection, scope, question.terms, most=MOST_COUNTED)
    if not holders or not state.items:
        return Looked()
    weights, telling = _weights(question, holders, state.items)
    average = state.length / state.items
    best = store.best(connection, scope, telling, length=average, limit=limit)
    is_all = len(best) < limit and len(telling) == len(holders)
    return Looked(scope, question, best, is_all, holders, weights, average)


def _look_in(held: Scope, question: Question, limit: int, expected: Looked | None = None) -> Looked:
    """Return what is found of a question whose terms are all laid out.

    expected: with the same limit, of a question that may have lacked some terms.
    """
    holders = held.holding(question.terms)
    if not holders:
        return Looked(held=held)
    weights, telling = _weights(question, holders, held.state.items)
    average = held.state.length / held.state.items
    best: Sequence[Item]
    if expected is not None and _is_found_alike(expected, held, holders):
        best = expected.best
    else:
        places = held.best(telling, length=average, limit=limit).tolist()
        best = [held.items[at] for at in places]
    is_all = len(best) < limit and len(telling) == len(holders)
    return Looked(0, question, best, is_all, holders, weights, average, held)


def _is_found_alike(expected: Looked, held: Scope, holders: Mapping[str, int]) -> bool:
    """Say whether the terms that any chunk has are the same, in the same chunks."""
    before = expected.held
    return before is not None and before.items is held.items and expected.holders == holders


def _weights(
    question: Question, holders: Mapping[str, int], items: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what each term of a question weighs, and of those that are looked for."""
    weights = {term: bm25.weight(holders.get(term, 0), items) for term in question.terms}
    return weights, {term: weights[term] for term in _rarest(holders)}


def share(
    connection: Connection, looked: Looked, found: Collection[Chunk]
) -> tuple[dict[Chunk, int], Shared]:
    """Return what the chunks share that words found, and those that were found otherwise.

    Returns the row of each chunk in the columns; of those found otherwise, one that shares nothing
    may have none.
    """
    items: Sequence[Item]
    if not looked.holders:
        return {}, NOTHING
    if looked.held is None:
        items, times = _read_times(connection, looked, found)
    else:
        held = looked.held
        best = [held.of_id[item.id] for item in looked.best]
        others = [held.place[chunk] for chunk in found if chunk in held.place]
        every = list(dict.fromkeys([*best, *others]))
        items = [held.items[at] for at in every]
        times = held.times(list(looked.holders), np.array(every, np.intp))
    if not items:
        return {}, NOTHING
    rows = {(item.ref, item.part): row for row, item in enumerate(items)}
    return rows, _shared(looked, items, times)


def _read_times(
    connection: Connection, looked: Looked, found: Collection[Chunk]
) -> tuple[list[Item], Floats]:
    """Read how often each chunk has each term: of the best, and of those found otherwise."""
    parts: dict[str, set[int]] = {}
    for document_id, part in found:
        parts.setdefault(document_id, set()).add(part)
    others = store.items(connection, looked.scope, parts)
    items = list({item.id: item for item in (*looked.best, *others)}.values())
    column = {item.id: at for at, item in enumerate(items)}
    terms = list(looked.holders)
    row = {term: at for at, term in enumerate(terms)}
    times = np.zeros((len(terms), len(items)))
    for item, term, count in store.counts(connection, looked.scope, terms, list(column)):
        times[row[term], column[item]] = count
    return items, times


def _shared(looked: Looked, items: Sequence[Item], times: Floats) -> Shared:
    """Return what each item shares with the question; times: (holders, items)."""
    question, holders, terms = looked.question, looked.holders, list(looked.holders)
    telling = np.array([looked.weights[term] for term in terms])
    lengths = np.array([item.length for item in items], np.float64)
    has = times > 0
    scores = telling @ bm25.shares(times, lengths, looked.average)
    shares = telling @ has / sum(looked.weights.values())
    counts = np.array([len(term) >= 3 or not term.isdigit() for term in terms], int) @ has
    rarest = (telling[:, np.newaxis] * has).max(axis=0)
    is_rare = telling >= RARE
    is_code = np.array([term in question.codes for term in terms])
    is_name = np.array([term in question.names for term in terms])
    is_few = np.array([holders[term] <= FEW for term in terms])
    names = has[is_code & (is_rare | is_few) | is_name & is_rare].any(axis=0)
    has_name = has[is_name].any(axis=0)
    names |= (shares >= NEARLY_ALL) & has_name
    return Shared(scores, shares, counts, rarest, names, has_name)


def _rarest(holders: Mapping[str, int]) -> list[str]:
    """Return the terms to look for: as many of the rarest as can be read."""
    taken, left = [], MOST_READ
    for term, count in sorted(holders.items(), key=lambda it: (it[1], it[0])):
        if count > left:
            break
        taken.append(term)
        left -= count
    return taken
