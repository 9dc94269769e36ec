"""Which chunks share words with a question, and how much that tells. Touches: the lexical index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from app.db import Connection
from app.knowledge.words import KIND
from app.lexical import bm25, store
from app.lexical.store import scope_of
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
    """

    score: float = 0.0
    share: float = 0.0
    count: int = 0
    rarest: float = 0.0
    is_named: bool = False


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
    *,
    limit: int,
) -> Looked:
    """Return the chunks that share most with a question, and how much those found by meaning do.

    A term that very many chunks have is not looked for: it only counts in what is found otherwise.
    """
    scope = scope_of(KIND, tenant_id)
    holders = store.frequencies(connection, scope, question.terms, most=MOST_COUNTED)
    if not holders:
        return Looked()
    size = store.size(connection, scope)
    weights = {t: bm25.weight(holders.get(t, 0), size.items) for t in question.terms}
    average = size.length / size.items
    rare = _rarest(holders)
    best = store.best(connection, scope, {t: weights[t] for t in rare}, length=average, limit=limit)
    parts: dict[str, set[int]] = {}
    for document_id, part in found:
        parts.setdefault(document_id, set()).add(part)
    others = store.items(connection, scope, parts)
    items = {item.id: item for item in (*best, *others)}
    times: dict[int, dict[str, int]] = {}
    for item, term, count in store.counts(connection, scope, list(holders), list(items)):
        times.setdefault(item, {})[term] = count
    chunks = {
        (items[id].ref, items[id].part): _shared(
            question,
            weights,
            holders,
            found_in,
            [weights[t] * bm25.share(n, items[id].length, average) for t, n in found_in.items()],
        )
        for id, found_in in times.items()
    }
    return Looked(chunks, size.items, len(best) < limit and len(rare) == len(holders))


def _shared(
    question: Question,
    weights: Mapping[str, float],
    holders: Mapping[str, int],
    terms: Collection[str],
    scores: Sequence[float],
) -> Shared:
    share = sum(weights[term] for term in terms) / sum(weights.values())
    names = question.names.intersection(terms)
    return Shared(
        score=sum(scores),
        share=share,
        count=sum(len(term) >= 3 or not term.isdigit() for term in terms),
        rarest=max(weights[term] for term in terms),
        is_named=any(
            holders[term] <= FEW or weights[term] >= RARE
            for term in question.codes.intersection(terms)
        )
        or any(weights[term] >= RARE for term in names)
        or (share >= NEARLY_ALL and bool(names)),
    )


def _rarest(holders: Mapping[str, int]) -> list[str]:
    """Return the terms to look for: as many of the rarest as can be read."""
    taken, left = [], MOST_READ
    for term, count in sorted(holders.items(), key=lambda it: (it[1], it[0])):
        if count > left:
            break
        taken.append(term)
        left -= count
    return taken
