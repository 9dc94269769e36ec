"""People, places and things that a user speaks of. Touches: `entities`, `facts`.

Each session has its own rows, so that forgetting one takes with it what it alone said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.locks import lock_user
from app.db.parts import in_parts
from app.db.tables import entities, facts
from app.memory.base import USER, FoundEntity
from app.memory.fact_rows import own_names
from app.memory.keys import SEPARATOR, subject_key, subject_name
from app.memory.names import Names, name_key

MOST_ROWS = 5_000  # of a user's entities, the latest seen
MOST_FACTS = 5_000  # that relate them
MOST_ALIASES = 40  # of an entity in a session
MOST_ATTRIBUTES = 40
MOST_RELATIONS = 10_000  # of all a user's entities; a fact's value may name very many
MOST_OF_ONE = 20  # relations that are listed with an entity; the graph has more
MOST_NAMES = 20  # of one entity that facts about it are looked for by
MOST_NAMED = 5  # entities that a question is followed from
MOST_RELATED = 20

_row, _fact = entities.c, facts.c
_OF_USER = sa.and_(_row.tenant_id == sa.bindparam("tenant"), _row.user_id == sa.bindparam("user"))
_THIS = sa.and_(
    _OF_USER, _row.key == sa.bindparam("which"), _row.session_id == sa.bindparam("session")
)
_IN_SESSION = sa.select(entities).where(
    _OF_USER,
    _row.session_id == sa.bindparam("session"),
    _row.key.in_(sa.bindparam("keys", expanding=True)),
)
_INSERT = entities.insert()
_UPDATE = (
    entities.update()
    .where(_THIS)
    .values(
        {
            name: sa.bindparam(f"new_{name}", type_=_row[name].type)
            for name in ("name", "type", "aliases", "attributes", "seen_at")
        }
    )
)
_LATEST = sa.select(entities).where(_OF_USER).order_by(_row.seen_at.desc(), _row.key)
_ROWS = _LATEST.limit(MOST_ROWS)
_TOLD = sa.select(
    _fact.fact_id, _fact.subject, _fact.predicate, _fact.value, _fact.statement, _fact.key
).where(
    _fact.tenant_id == sa.bindparam("tenant"),
    _fact.user_id == sa.bindparam("user"),
    _fact.kind != "recommendation",
    _fact.valid_from <= sa.bindparam("at", type_=_fact.valid_from.type),
    sa.or_(
        _fact.valid_to.is_(None), _fact.valid_to > sa.bindparam("at", type_=_fact.valid_to.type)
    ),
)
_CURRENT = _TOLD.order_by(_fact.last_seen_at.desc(), _fact.fact_id).limit(MOST_FACTS)


@dataclass(frozen=True, slots=True)
class Relation:
    """What a current fact says of one entity and another, by their names."""

    fact_id: str
    predicate: str
    subject: str
    value: str
    statement: str


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity, as all sessions together speak of it."""

    name: str
    type: str
    aliases: tuple[str, ...]
    attributes: Mapping[str, str]
    relations: tuple[Relation, ...]
    sessions: int
    last_seen_at: datetime


def take(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    session_id: str,
    found: Sequence[FoundEntity],
    seen_at: datetime,
) -> None:
    """Add what a session says of entities to what it said before."""
    if not found:
        return
    lock_user(connection, tenant_id, user_id)
    named: dict[str, list[FoundEntity]] = {}
    for one in found:
        key = name_key(one.name)
        if key and subject_name(one.name) != USER:
            named.setdefault(key, []).append(one)
    here = {"tenant": tenant_id, "user": user_id, "session": session_id}
    known = {
        row.key: row
        for keys in in_parts(named)
        for row in connection.execute(_IN_SESSION, {**here, "keys": keys})
    }
    rows = {key: _told(key, known.get(key), these, seen_at) for key, these in named.items()}
    again = [{**here, "which": key, **_new(row)} for key, row in rows.items() if key in known]
    first = [
        {"tenant_id": tenant_id, "user_id": user_id, "key": key, "session_id": session_id, **row}
        for key, row in rows.items()
        if key not in known
    ]
    for statement, some in ((_UPDATE, again), (_INSERT, first)):
        if some:
            connection.execute(statement, some)


def _told(key: str, known: Any, found: Sequence[FoundEntity], seen_at: datetime) -> dict[str, Any]:
    """Return what a session says of an entity: what it did before, and what it does now."""
    aliases = [*(known.aliases if known else ()), *(a for one in found for a in one.aliases)]
    attributes = dict(known.attributes) if known else {}
    for one in found:
        attributes |= one.attributes
    return {
        "name": found[-1].name,
        "type": found[-1].type,
        "aliases": _distinct(a for a in aliases if name_key(a) != key)[-MOST_ALIASES:],
        "attributes": dict(list(attributes.items())[-MOST_ATTRIBUTES:]),
        "seen_at": max(seen_at, known.seen_at) if known else seen_at,
    }


def _new(row: Mapping[str, Any]) -> dict[str, Any]:
    return {f"new_{name}": value for name, value in row.items()}


class Entities:
    """Reads a user's entities, merged."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def of_user(self, tenant_id: str, user_id: str, *, limit: int) -> list[Entity]:
        """Return a user's entities with their relations, the last seen first."""
        now = self._clock()
        known = await self._database.read(lambda c: read_known(c, tenant_id, user_id, now))
        return known.entities()[:limit]

    async def related(self, tenant_id: str, user_id: str, text: str) -> list[str]:
        """Return names and values that current facts relate to whom a text names.

        What the text says itself is left out; at most 20, what was said last first.
        """
        now = self._clock()
        return await self._database.read(lambda c: related(c, tenant_id, user_id, text, now))


@dataclass(frozen=True, slots=True)
class Merged:
    """An entity without its relations. `keys`: the normal forms of its name and aliases."""

    name: str
    type: str
    aliases: tuple[str, ...]
    attributes: Mapping[str, str]
    sessions: int
    last_seen_at: datetime | None
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class Known:
    """All that a user's memory knows of entities, the last seen first; the user comes last."""

    merged: tuple[Merged, ...]
    relations: tuple[tuple[Merged, Merged, Relation], ...]

    def find(self, name: str) -> Merged | None:
        wanted = USER if subject_name(name) == USER else name_key(name)
        return next((entity for entity in self.merged if wanted in entity.keys), None)

    def entities(self) -> list[Entity]:
        of: dict[int, list[Relation]] = {}
        for subject, other, relation in self.relations:
            for end in dict.fromkeys((id(subject), id(other))):
                of.setdefault(end, []).append(relation)
        return [
            Entity(
                one.name,
                one.type,
                one.aliases,
                one.attributes,
                tuple(of.get(id(one), ())[:MOST_OF_ONE]),
                one.sessions,
                one.last_seen_at,
            )
            for one in self.merged
            if one.last_seen_at is not None
        ]


def read_known(connection: Connection, tenant_id: str, user_id: str, at: datetime) -> Known:
    """Read a user's entities and relate them by the facts that hold at a time."""
    which = {"tenant": tenant_id, "user": user_id, "at": at}
    names = own_names(connection, tenant_id, user_id)
    keys = frozenset({USER, *map(name_key, names)})
    myself = Merged(USER, "person", tuple(_distinct(names)), {}, 0, None, keys)
    merged = [*merge(connection.execute(_ROWS, which).all()), myself]
    index = _index(merged)
    by_name = Names(index)
    relations = []
    for row in connection.execute(_CURRENT, which):
        subject = index.get(name_key(row.subject))
        for other in by_name.within(row.value) if subject is not None else ():
            if subject is not None and other is not subject:
                told = Relation(row.fact_id, row.predicate, subject.name, other.name, row.statement)
                relations.append((subject, other, told))
        if len(relations) >= MOST_RELATIONS:
            break
    return Known(tuple(merged), tuple(relations))


def merge(rows: Sequence[Any]) -> list[Merged]:
    """Merge the rows of sessions, the latest first: by name, and where one is another's alias."""
    leader: dict[str, str] = {}

    def lead(key: str) -> str:
        while (above := leader.setdefault(key, key)) != key:
            leader[key] = leader.setdefault(above, above)  # a long chain gets shorter
            key = above
        return key

    for row in rows:
        for alias in row.aliases:
            leader[lead(name_key(alias))] = lead(row.key)
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(lead(row.key), []).append(row)
    return [_merged(group) for group in groups.values()]


def _merged(rows: Sequence[Any]) -> Merged:
    name = Counter(row.name for row in rows).most_common(1)[0][0]
    every = _distinct(one for row in rows for one in (row.name, *row.aliases))
    attributes: dict[str, str] = {}
    for row in reversed(rows):  # the newest last, so that it wins
        attributes |= row.attributes
    return Merged(
        name=name,
        type=Counter(row.type for row in rows).most_common(1)[0][0],
        aliases=tuple(one for one in every if name_key(one) != name_key(name)),
        attributes=attributes,
        sessions=len({row.session_id for row in rows}),
        last_seen_at=rows[0].seen_at,
        keys=frozenset(map(name_key, every)),
    )


def related(
    connection: Connection, tenant_id: str, user_id: str, text: str, at: datetime
) -> list[str]:
    """Read what `Entities.related` returns, by the facts that hold at a time."""
    which = {"tenant": tenant_id, "user": user_id, "at": at}
    rows = connection.execute(_ROWS, which).all()
    if not rows:
        return []
    merged = merge(rows)
    by_name = Names(_index(merged))
    named = by_name.within(text)[:MOST_NAMED]
    if not named:
        return []
    spoken = [_fact.value.ilike(f"%{_escaped(one.name)}%", escape="/") for one in named]
    about = [
        _fact.key.startswith(subject_key(name) + SEPARATOR, autoescape=True)
        for one in named
        for name in (one.name, *one.aliases)[:MOST_NAMES]
    ]
    told = connection.execute(
        _CURRENT.where(sa.or_(*spoken, *about)).limit(MOST_RELATED * 4), which
    ).all()
    said = f" {name_key(text)} "
    found: dict[str, str] = {}
    for row in told:
        for name in (*(one.name for one in by_name.within(row.value)), row.subject, row.value):
            key = name_key(name)
            if key and key != USER and f" {key} " not in said:
                found.setdefault(key, name)
    return list(found.values())[:MOST_RELATED]


def _index(merged: Iterable[Merged]) -> dict[str, Merged]:
    index: dict[str, Merged] = {}
    for one in merged:
        for key in one.keys:
            index.setdefault(key, one)
    return index


def _escaped(text: str) -> str:
    return text.replace("/", "//").replace("%", "/%").replace("_", "/_")


def _distinct(names: Iterable[str]) -> list[str]:
    return list({name_key(name): name for name in names}.values())
