"""The lexical index: who holds a term, in the transaction of what is indexed.

Touches: `lexical_items`, `lexical_postings`.

An inverted index of our own in plain SQL, and neither FTS5 nor Postgres's full text: the counts
behind BM25 are then those of one tenant's documents or of one user's memory, the same on both
databases, and nobody's rank tells of another's words.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import lexical_items, lexical_postings
from app.lexical.terms import index_terms

T = TypeVar("T")

AT_ONCE = 400  # values of one statement

_item, _posting = lexical_items.c, lexical_postings.c
_OF_REFS = sa.and_(
    _item.scope == sa.bindparam("of"), _item.ref.in_(sa.bindparam("refs", expanding=True))
)
_HELD = sa.select(_item.id, _item.ref, _item.part, _item.terms).where(_OF_REFS)
_DROP_POSTING = lexical_postings.delete().where(
    _posting.scope == sa.bindparam("of"),
    _posting.term == sa.bindparam("word"),
    _posting.item == sa.bindparam("whose"),
)
_DROP_ITEMS = lexical_items.delete().where(_item.id.in_(sa.bindparam("ids", expanding=True)))
_LOOKUP = (
    sa.select(_posting.term, _item.ref, _item.part, _item.units, _item.length, _posting.places)
    .join(lexical_items, _item.id == _posting.item)
    .where(
        _posting.scope == sa.bindparam("of"),
        _posting.term.in_(sa.bindparam("words", expanding=True)),
    )
)
_SIZE = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_item.length), 0)).where(
    _item.scope == sa.bindparam("of")
)
_LENGTHS = sa.select(_item.ref, _item.part, _item.units).where(_item.scope == sa.bindparam("of"))


@dataclass(frozen=True, slots=True)
class Entry:
    """What is indexed of a ref in one part: unit number -> text."""

    ref: str
    units: Mapping[int, str]
    part: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A term in one part of a ref. places: unit -> times; lengths: unit -> terms it has."""

    term: str
    ref: str
    part: int
    places: Mapping[int, int]
    lengths: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Size:
    """How much a scope holds: parts of refs, and terms in all."""

    items: int
    length: int


def scope_of(kind: str, tenant_id: str, user_id: str = "") -> int:
    """Return the scope of a kind ("documents", "memory", "notes") of a tenant or of its user.

    A hash of 63 bits: should two ever meet, the refs of the other are unknown to the reader.
    """
    name = "\x00".join([kind, tenant_id, user_id])
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 1


def put(connection: Connection, scope: int, entries: Sequence[Entry]) -> None:
    """Index some parts of refs, in place of what these parts held before."""
    latest = {(entry.ref, entry.part): entry for entry in entries}
    held = [
        row
        for refs in _parts({entry.ref for entry in entries})
        for row in connection.execute(_HELD, {"of": scope, "refs": refs})
        if (row.ref, row.part) in latest
    ]
    _drop(connection, scope, held)
    for some in _parts(latest.values()):
        _insert(connection, scope, some)


def remove(connection: Connection, scope: int, refs: Collection[str]) -> None:
    """Forget all parts of some refs; unknown ones are fine."""
    for some in _parts(refs):
        held = connection.execute(_HELD, {"of": scope, "refs": some}).all()
        _drop(connection, scope, held)


def clear(connection: Connection, scope: int) -> None:
    """Forget all of a scope."""
    connection.execute(lexical_postings.delete().where(_posting.scope == scope))
    connection.execute(lexical_items.delete().where(_item.scope == scope))


def size(connection: Connection, scope: int) -> Size:
    return Size(*connection.execute(_SIZE, {"of": scope}).one())


def frequencies(
    connection: Connection, scope: int, terms: Collection[str], *, most: int
) -> dict[str, int]:
    """Return in how many items each term is; the count of a common one ends above `most`."""
    if not terms:
        return {}
    counts = [
        sa.select(sa.literal(term).label("term"), sa.func.count().label("items")).select_from(
            sa.select(_posting.item)
            .where(_posting.scope == scope, _posting.term == term)
            .limit(most + 1)
            .subquery()
        )
        for term in terms
    ]
    return {row.term: row.items for row in connection.execute(sa.union_all(*counts)) if row.items}


def lookup(connection: Connection, scope: int, terms: Collection[str]) -> list[Hit]:
    """Return where each term is."""
    return [
        Hit(row.term, row.ref, row.part, _pairs(row.places), _pairs(row.units))
        for some in _parts(terms)
        for row in connection.execute(_LOOKUP, {"of": scope, "words": some})
    ]


def lengths(connection: Connection, scope: int) -> list[tuple[str, int, dict[int, int]]]:
    """Return (ref, part, unit -> terms it has) of all that a scope holds."""
    return [
        (row.ref, row.part, _pairs(row.units))
        for row in connection.execute(_LENGTHS, {"of": scope})
    ]


def _insert(connection: Connection, scope: int, entries: Sequence[Entry]) -> None:
    counted = {
        (entry.ref, entry.part): {n: Counter(index_terms(t)) for n, t in entry.units.items()}
        for entry in entries
    }
    rows = []
    for (ref, part), units in counted.items():
        sizes = {n: sum(found.values()) for n, found in units.items()}
        terms = sorted(set().union(*units.values()))
        rows.append(
            {
                "scope": scope,
                "ref": ref,
                "part": part,
                "units": _written(sizes),
                "length": sum(sizes.values()),
                "terms": " ".join(terms),
            }
        )
    new = lexical_items.insert().returning(_item.id, _item.ref, _item.part)
    ids = {(row.ref, row.part): row.id for row in connection.execute(new, rows)}
    postings = [
        {"scope": scope, "term": term, "item": ids[which], "places": _written(places)}
        for which, units in counted.items()
        for term, places in _by_term(units).items()
    ]
    if postings:
        connection.execute(lexical_postings.insert(), postings)


def _by_term(units: Mapping[int, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for number, counts in units.items():
        for term, times in counts.items():
            found.setdefault(term, {})[number] = times
    return found


def _drop(connection: Connection, scope: int, held: Sequence[Any]) -> None:
    gone = [
        {"of": scope, "word": term, "whose": row.id} for row in held for term in row.terms.split()
    ]
    if gone:
        connection.execute(_DROP_POSTING, gone)
    for ids in _parts([row.id for row in held]):
        connection.execute(_DROP_ITEMS, {"ids": ids})


def _written(numbers: Mapping[int, int]) -> str:
    return " ".join(f"{key}:{value}" for key, value in numbers.items())


def _pairs(written: str) -> dict[int, int]:
    return {int(key): int(value) for key, _, value in (p.partition(":") for p in written.split())}


def _parts(items: Iterable[T]) -> Iterator[list[T]]:
    every = list(items)
    for start in range(0, len(every), AT_ONCE):
        yield every[start : start + AT_ONCE]
