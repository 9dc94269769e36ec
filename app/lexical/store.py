"""The lexical index: who holds a term, in the transaction of what is indexed.

Touches: `lexical_items`, `lexical_postings`.

An inverted index of our own in plain SQL, and neither FTS5 nor Postgres's full text: the counts
behind BM25 are then those of one tenant's documents or of one user's memory, the same on both
databases, and nobody's rank tells of another's words.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from app.db import Connection
from app.db.parts import AT_ONCE, in_parts
from app.db.tables import lexical_items, lexical_postings
from app.lexical.terms import index_terms

CLEARED_AT_ONCE = 5_000
MOST_COUNTED_AT_ONCE = 100  # terms; SQLite joins no more than 500 selects

_item, _posting = lexical_items.c, lexical_postings.c
_OF_REFS = sa.and_(
    _item.scope == sa.bindparam("of"), _item.ref.in_(sa.bindparam("refs", expanding=True))
)
_HELD = sa.select(_item.id, _item.ref, _item.part, _item.terms).where(_OF_REFS)
_HELD_PARTS = _HELD.where(_item.part.in_(sa.bindparam("parts", expanding=True)))
_SOME_HELD = _HELD.limit(AT_ONCE)
_NEW_POSTING = lexical_postings.insert()
_DROP_POSTING = lexical_postings.delete().where(
    _posting.scope == sa.bindparam("of", type_=sa.BigInteger),
    _posting.term == sa.bindparam("word", type_=sa.Text),
    _posting.item == sa.bindparam("whose", type_=sa.BigInteger),
)
_DROP_ITEMS = lexical_items.delete().where(_item.id.in_(sa.bindparam("ids", expanding=True)))
_LOOKUP = (
    sa.select(_posting.term, _item.ref, _item.part, _item.units, _item.length, _posting.places)
    .join(lexical_items, _item.id == _posting.item)
    .where(
        _posting.scope == sa.bindparam("of"),
        _posting.term.in_(sa.bindparam("words", expanding=True)),
        _item.ref != sa.bindparam("left_out"),
    )
)
_ITEMS = sa.select(_item.id, _item.ref, _item.part, _item.length).where(
    _OF_REFS, _item.part.in_(sa.bindparam("parts", expanding=True))
)
_COUNTS = sa.select(_posting.item, _posting.term, _posting.places).where(
    _posting.scope == sa.bindparam("of"),
    _posting.term.in_(sa.bindparam("words", expanding=True)),
    _posting.item.in_(sa.bindparam("ids", expanding=True)),
)
_NEW_ITEMS = lexical_items.insert().returning(_item.id, _item.ref, _item.part)
_STATE = sa.select(
    sa.func.count(),
    sa.func.coalesce(sa.func.sum(_item.length), 0),
    sa.func.coalesce(sa.func.max(_item.id), 0),
    sa.func.coalesce(sa.func.sum(_item.id), 0),
).where(_item.scope == sa.bindparam("of"))
_mine = lexical_items.alias("mine")
_LEFT_OUT = (
    sa.select(size)
    .where(_mine.c.scope == _item.scope, _mine.c.ref == sa.bindparam("left_out"))
    .scalar_subquery()
    for size in (sa.func.count(), sa.func.coalesce(sa.func.sum(_mine.c.length), 0))
)
# A row of seven numbers for each scope that holds anything. Parameters: `one`, `other`, `left_out`.
TWO_STATES = (
    sa.select(_item.scope, *_STATE.selected_columns, *_LEFT_OUT)
    .where(_item.scope.in_([sa.bindparam("one"), sa.bindparam("other")]))
    .group_by(_item.scope)
)
_LAYOUT = sa.select(_item.id, _item.ref, _item.part, _item.units).where(
    _item.scope == sa.bindparam("of")
)
_ALL_ITEMS = (
    sa.select(_item.id, _item.ref, _item.part, _item.length)
    .where(_item.scope == sa.bindparam("of"))
    .order_by(_item.id)
)
_PLACES = sa.select(_posting.scope, _posting.term, _posting.item, _posting.places).where(
    _posting.scope.in_(sa.bindparam("scopes", expanding=True)),
    _posting.term.in_(sa.bindparam("words", expanding=True)),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is indexed of a ref in one part: unit number -> text."""

    ref: str
    units: Mapping[int, str]
    part: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """An entry as it is stored: `postings` is term -> places."""

    ref: str
    part: int
    units: str
    length: int
    postings: Mapping[str, str]


class Hit(NamedTuple):
    """A term in one part of a ref. places: unit -> times; lengths: unit -> terms it has."""

    term: str
    ref: str
    part: int
    places: Mapping[int, int]
    lengths: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Item:
    """A part of a ref, and how many terms it has in all."""

    id: int
    ref: str
    part: int
    length: int


@dataclass(frozen=True, slots=True)
class Size:
    """How much a scope holds: parts of refs, and terms in all."""

    items: int
    length: int


class State(NamedTuple):
    """What a scope holds, told by four numbers: parts of refs, terms in all, newest and all ids.

    An id is given once, so that a scope in the same state holds the same.
    """

    items: int
    length: int
    newest: int
    ids: int


def scope_of(kind: str, tenant_id: str, user_id: str = "") -> int:
    """Return the scope of a kind ("documents", "memory", "notes") of a tenant or of its user.

    A hash of 63 bits: should two ever meet, the refs of the other are unknown to the reader.
    """
    name = "\x00".join([kind, tenant_id, user_id])
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 1


def count(entry: Entry, known: dict[str, Counter[str]] | None = None) -> Counted:
    """Count the terms of an entry: what takes the time, and needs no connection.

    known: texts that were counted for it, and that entries beside it may have as well.
    """
    lengths: dict[int, int] = {}
    places: dict[str, dict[int, int]] = {}
    known = {} if known is None else known
    for number, text in entry.units.items():
        counts = known.get(text)
        if counts is None:
            counts = known[text] = Counter(index_terms(text))
        lengths[number] = counts.total()
        for term, times in counts.items():
            places.setdefault(term, {})[number] = times
    postings = {term: _written(times) for term, times in places.items()}
    length = sum(lengths.values())
    return Counted(entry.ref, entry.part, _written(lengths), length, postings)


def put(connection: Connection, scope: int, entries: Sequence[Entry | Counted]) -> None:
    """Index some parts of refs, in place of what these parts held before."""
    latest = {(entry.ref, entry.part): entry for entry in entries}
    held = [
        row
        for refs in in_parts({entry.ref for entry in entries})
        for parts in in_parts({entry.part for entry in entries})
        for row in connection.execute(_HELD_PARTS, {"of": scope, "refs": refs, "parts": parts})
        if (row.ref, row.part) in latest
    ]
    _drop(connection, held, scope)
    for some in in_parts(latest.values()):
        _insert(connection, scope, some)


def remove(connection: Connection, scope: int, refs: Collection[str]) -> None:
    """Forget all parts of some refs; unknown ones are fine."""
    for some in in_parts(refs):
        while held := connection.execute(_SOME_HELD, {"of": scope, "refs": some}).all():
            _drop(connection, held, scope)


def clear(connection: Connection, scope: int) -> None:
    """Forget all of a scope."""
    connection.execute(lexical_postings.delete().where(_posting.scope == scope))
    connection.execute(lexical_items.delete().where(_item.scope == scope))


def clear_some(connection: Connection, scope: int) -> dict[str, int]:
    """Forget some of a scope, by table how many rows; nothing is left once there were none."""
    gone: dict[str, int] = {}
    for table, key in (
        (lexical_postings, (_posting.term, _posting.item)),
        (lexical_items, (_item.id,)),
    ):
        here = table.c.scope == scope
        some = sa.tuple_(*key).in_(sa.select(*key).where(here).limit(CLEARED_AT_ONCE))
        gone[table.name] = connection.execute(table.delete().where(here, some)).rowcount
        if gone[table.name] == CLEARED_AT_ONCE:
            break
    return gone


def state(connection: Connection, scope: int) -> State:
    items, length, newest, ids = connection.execute(_STATE, {"of": scope}).one()
    return State(items, int(length), newest, int(ids))


def size(connection: Connection, scope: int) -> Size:
    whole = state(connection, scope)
    return Size(whole.items, whole.length)


def states_in(rows: Mapping[int, Sequence[int]], scopes: Sequence[int]) -> list[tuple[State, Size]]:
    """Return the states of scopes, and how much each holds without the ref that is left out.

    rows: those of `TWO_STATES`, by their scope.
    """
    found = []
    for scope in scopes:
        items, length, newest, ids, less, less_length = rows.get(scope, (0, 0, 0, 0, 0, 0))
        size = Size(items - less, length - less_length)
        found.append((State(items, length, newest, ids), size))
    return found


def layout(connection: Connection, scope: int) -> list[tuple[int, str, int, Mapping[int, int]]]:
    """Return (id, ref, part, unit -> terms it has) of all that a scope holds, by ref and part."""
    rows = connection.execute(_LAYOUT, {"of": scope}).all()
    found = [(id, ref, part, _pairs(units)) for id, ref, part, units in rows]
    return sorted(found, key=lambda it: it[1:3])


def all_items(connection: Connection, scope: int) -> list[Item]:
    """Return all parts of refs that a scope holds, by id."""
    return [Item(*row) for row in connection.execute(_ALL_ITEMS, {"of": scope}).all()]


def places(
    connection: Connection, scope: int, terms: Collection[str]
) -> list[tuple[str, int, Mapping[int, int]]]:
    """Return (term, id of a part, unit -> times) of some terms."""
    return places_in(connection, [scope], terms)[scope]


def places_in(
    connection: Connection, scopes: Sequence[int], terms: Collection[str]
) -> dict[int, list[tuple[str, int, Mapping[int, int]]]]:
    """Return the same of several scopes at once."""
    found: dict[int, list[tuple[str, int, Mapping[int, int]]]] = {scope: [] for scope in scopes}
    for some in in_parts(terms):
        wanted = {"scopes": scopes, "words": some}
        for scope, term, item, written in connection.execute(_PLACES, wanted).all():
            found[scope].append((term, item, _few_pairs(written)))
    return found


def frequencies(
    connection: Connection, scope: int, terms: Collection[str], *, most: int
) -> dict[str, int]:
    """Return in how many items each term is; the count of a common one ends above `most`."""
    return {
        some[row.number]: row.items
        for some in in_parts(terms, MOST_COUNTED_AT_ONCE)
        for row in connection.execute(
            _counting(len(some)),
            {f"term{n}": t for n, t in enumerate(some)} | {"of": scope, "most": most + 1},
        )
        if row.items
    }


@cache
def _counting(terms: int) -> sa.CompoundSelect[Any]:
    """Return what counts so many terms, each as far as is asked."""
    return sa.union_all(
        *(
            sa.select(
                sa.literal_column(str(number)).label("number"), sa.func.count().label("items")
            ).select_from(
                sa.select(_posting.item)
                .where(
                    _posting.scope == sa.bindparam("of"),
                    _posting.term == sa.bindparam(f"term{number}"),
                )
                .limit(sa.bindparam("most"))
                .subquery()
            )
            for number in range(terms)
        )
    )


def best(
    connection: Connection, scope: int, weights: Mapping[str, float], *, length: float, limit: int
) -> list[Item]:
    """Return the items that have the weightiest of some terms, the best first.

    length: of an average item. How often an item has a term is left out: what is found is to be
    scored. Reads every posting of the terms.
    """
    if not weights:
        return []
    told: dict[str, Any] = {"of": scope, "average": 2.0 * length, "most": limit}
    for number, (term, weight) in enumerate(weights.items()):
        told |= {f"term{number}": term, f"weight{number}": weight}
    return [Item(*row) for row in connection.execute(_earning(len(weights)), told).all()]


@cache
def _earning(terms: int) -> sa.Select[Any]:
    """Return what reads the items that earn most by so many terms."""
    words = [sa.bindparam(f"term{number}", type_=sa.Text) for number in range(terms)]
    weights = [sa.bindparam(f"weight{number}", type_=sa.Float) for number in range(terms)]
    weight = sa.case(dict(zip(words, weights, strict=True)), value=_posting.term)
    average = sa.bindparam("average", type_=sa.Float)
    return (
        sa.select(_item.id, _item.ref, _item.part, _item.length)
        .join(lexical_postings, _posting.item == _item.id)
        .where(_posting.scope == sa.bindparam("of"), _posting.term.in_(words))
        .group_by(_item.id, _item.ref, _item.part, _item.length)
        .order_by((sa.func.sum(weight) / (_item.length + average)).desc(), _item.id)
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


def items(connection: Connection, scope: int, refs: Mapping[str, Collection[int]]) -> list[Item]:
    """Return what is indexed of some parts of refs."""
    return [
        Item(*row)
        for some in in_parts(refs)
        for row in connection.execute(
            _ITEMS, {"of": scope, "refs": some, "parts": sorted({p for r in some for p in refs[r]})}
        )
        if row.part in refs[row.ref]
    ]


def counts(
    connection: Connection, scope: int, terms: Collection[str], ids: Collection[int]
) -> list[tuple[int, str, int]]:
    """Return (item, term, times) of some terms in some items."""
    return [
        (row.item, row.term, _times(row.places))
        for words in in_parts(terms)
        for some in in_parts(ids)
        for row in connection.execute(_COUNTS, {"of": scope, "words": words, "ids": some})
    ]


def lookup(
    connection: Connection, scope: int, terms: Collection[str], *, left_out: str = ""
) -> list[Hit]:
    """Return where each term is, but for a ref that is left out."""
    read: dict[str, dict[int, int]] = {}  # a part holds several of the terms
    found: list[Hit] = []
    for some in in_parts(terms):
        for row in connection.execute(_LOOKUP, {"of": scope, "words": some, "left_out": left_out}):
            lengths = read.get(row.units)
            if lengths is None:
                lengths = read[row.units] = _pairs(row.units)
            found.append(Hit(row.term, row.ref, row.part, _few_pairs(row.places), lengths))
    return found


def _insert(connection: Connection, scope: int, entries: Sequence[Entry | Counted]) -> None:
    known: dict[str, Counter[str]] = {}  # a day is the same in many
    each = [entry if isinstance(entry, Counted) else count(entry, known) for entry in entries]
    rows = [
        {
            "scope": scope,
            "ref": it.ref,
            "part": it.part,
            "units": it.units,
            "length": it.length,
            "terms": " ".join(it.postings),
        }
        for it in each
    ]
    ids = {(row.ref, row.part): row.id for row in connection.execute(_NEW_ITEMS, rows)}
    postings = [
        (scope, term, ids[it.ref, it.part], places)
        for it in each
        for term, places in it.postings.items()
    ]
    _each(connection, _NEW_POSTING, postings)


def _drop(connection: Connection, held: Sequence[Any], scope: int) -> None:
    gone = [(scope, term, row.id) for row in held for term in row.terms.split()]
    _each(connection, _DROP_POSTING, gone)
    for ids in in_parts([row.id for row in held]):
        connection.execute(_DROP_ITEMS, {"ids": ids})


def _each(connection: Connection, statement: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run a statement for each row of values, in their order within it.

    Past SQLAlchemy's handling of values, which takes longer than the database does.
    """
    if rows:
        connection.exec_driver_sql(_written_for(statement, connection.dialect), list(rows))


@cache
def _written_for(statement: Any, dialect: sa.Dialect) -> str:
    return str(statement.compile(dialect=dialect))


def _written(numbers: Mapping[int, int]) -> str:
    return " ".join([f"{key}:{value}" for key, value in numbers.items()])


def _pairs(written: str) -> dict[int, int]:
    return {int(key): int(value) for key, _, value in (p.partition(":") for p in written.split())}


@lru_cache(maxsize=16_384)
def _few_pairs(written: str) -> Mapping[int, int]:
    return _pairs(written)


@lru_cache(maxsize=4_096)
def _times(places: str) -> int:
    return sum(_pairs(places).values())
