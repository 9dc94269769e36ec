"""Which chunks share words with a question, and how much that tells. Touches: the lexical index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.db import Connection
from app.knowledge.postings import Floats, Postings
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
    """What a chunk shares with a question.

    score: its BM25. share: of all that the question's terms weigh, 0 to 1. count: of terms, short
    numbers left out. rarest: the weight of the weightiest. is_named: one of them names the chunk.
    has_name: one of them is a name, of however many chunks.
    """

    score: float = 0.0
    share: float = 0.0
    count: int = 0
    rarest: float = 0.0
    is_named: bool = False
    has_name: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """`chunks` are the best that share words, and those asked for; `is_all`: no more share any."""

    chunks: Mapping[Chunk, Shared] = field(default_factory=dict)
    items: int = 0
    is_all: bool = True


def read_question(text: str) -> Question:
    terms = query_terms(text)[:MOST_TERMS]
    return Question(
        tuple(terms), code_terms(text).intersection(terms), name_terms(text).intersection(terms)
    )


def look(
    connection: Connection,
    tenant_id: str,
    question: Question,
    found: Collection[Chunk],
    postings: Postings,
    *,
    limit: int,
) -> Looked:
    """Return the chunks that share most with a question, and how much those found by meaning do.

    A term that very many chunks have is not looked for: it only counts in what is found otherwise.
    """
    scope = scope_of(KIND, tenant_id)
    state = store.state(connection, scope)
    held = postings.find(connection, scope, state, question.terms)
    if held is None:
        holders = store.frequencies(connection, scope, question.terms, most=MOST_COUNTED)
    else:
        sizes = ((term, len(held.terms[term][0])) for term in question.terms)
        holders = {term: size for term, size in sizes if size}
    if not holders or not state.items:
        return Looked()
    weights = {t: bm25.weight(holders.get(t, 0), state.items) for t in question.terms}
    average = state.length / state.items
    rare = _rarest(holders)
    telling = {term: weights[term] for term in rare}
    if held is None:
        best = store.best(connection, scope, telling, length=average, limit=limit)
        items, times = _beside(connection, scope, list(holders), best, found)
        looked_for = len(best)
    else:
        places = held.best(telling, length=average, limit=limit).tolist()
        looked_for = len(places)
        others = (held.place[chunk] for chunk in found if chunk in held.place)
        every = list(dict.fromkeys([*places, *others]))
        items = [held.items[at] for at in every]
        times = held.times(list(holders), np.array(every, np.intp))
    chunks = _shared(question, weights, holders, average, items, times)
    return Looked(chunks, state.items, looked_for < limit and len(rare) == len(holders))


def _beside(
    connection: Connection,
    scope: int,
    terms: Sequence[str],
    best: Sequence[Item],
    found: Collection[Chunk],
) -> tuple[list[Item], Floats]:
    """Read the best items and those that were found otherwise, and how often each has each term."""
    parts: dict[str, set[int]] = {}
    for document_id, part in found:
        parts.setdefault(document_id, set()).add(part)
    others = store.items(connection, scope, parts)
    items = list({item.id: item for item in (*best, *others)}.values())
    column = {item.id: at for at, item in enumerate(items)}
    row = {term: at for at, term in enumerate(terms)}
    times = np.zeros((len(terms), len(items)))
    for item, term, count in store.counts(connection, scope, terms, list(column)):
        times[row[term], column[item]] = count
    return items, times


def _shared(
    question: Question,
    weights: Mapping[str, float],
    holders: Mapping[str, int],
    average: float,
    items: Sequence[Item],
    times: Floats,
) -> dict[Chunk, Shared]:
    """Return what each item shares with the question, if anything; times: (holders, items)."""
    terms = list(holders)
    telling = np.array([weights[term] for term in terms])
    lengths = np.array([item.length for item in items], np.float64)
    has = times > 0
    scores = telling @ bm25.shares(times, lengths, average)
    shares = telling @ has / sum(weights.values())
    counts = np.array([len(term) >= 3 or not term.isdigit() for term in terms], int) @ has
    rarest = (telling[:, np.newaxis] * has).max(axis=0)
    is_rare = telling >= RARE
    is_code = np.array([term in question.codes for term in terms])
    is_name = np.array([term in question.names for term in terms])
    is_few = np.array([holders[term] <= FEW for term in terms])
    names = has[is_code & (is_rare | is_few) | is_name & is_rare].any(axis=0)
    has_name = has[is_name].any(axis=0)
    names |= (shares >= NEARLY_ALL) & has_name
    return {
        (items[at].ref, items[at].part): Shared(
            float(scores[at]),
            float(shares[at]),
            int(counts[at]),
            float(rarest[at]),
            bool(names[at]),
            bool(has_name[at]),
        )
        for at in np.flatnonzero(has.any(axis=0)).tolist()
    }


def _rarest(holders: Mapping[str, int]) -> list[str]:
    """Return the terms to look for: as many of the rarest as can be read."""
    taken, left = [], MOST_READ
    for term, count in sorted(holders.items(), key=lambda it: (it[1], it[0])):
        if count > left:
            break
        taken.append(term)
        left -= count
    return taken
