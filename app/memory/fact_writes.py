"""What became of facts, written down. Touches: `facts`, `fact_sightings`, the quarantine list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from app import quarantine
from app.db import Connection
from app.db.parts import in_parts
from app.db.tables import fact_sightings, facts
from app.memory.base import Fact
from app.memory.timeline import Point
from app.quarantine import Looked, look_at

_fact, _said = facts.c, fact_sightings.c
_THIS_SIGHTING = sa.and_(
    _said.tenant_id == sa.bindparam("tenant"),
    _said.fact_id == sa.bindparam("whose"),
    _said.session_id == sa.bindparam("where"),
    _said.seq == sa.bindparam("at"),
)
_MOVE_SIGHTING = fact_sightings.update().where(_THIS_SIGHTING).values(fact_id=sa.bindparam("to"))
_DROP_SIGHTING = fact_sightings.delete().where(_THIS_SIGHTING)
_INSERT = facts.insert()
_DROP_FACTS = facts.delete().where(
    _fact.tenant_id == sa.bindparam("tenant"),
    _fact.fact_id.in_(sa.bindparam("ids", expanding=True)),
)
_REWRITE = facts.update().where(
    _fact.tenant_id == sa.bindparam("tenant"), _fact.fact_id == sa.bindparam("which")
)


@dataclass(slots=True)
class Changes:
    """What became of facts, and whose index is behind: sessions, and facts that stand alone.

    live: a session whose episode is about to be written. noted: sessions that say what a fact of
    another one says; their words are behind, and not their vectors. moved: ids of facts.
    """

    live: str | None = None
    new: int = 0
    seen_again: int = 0
    superseded: int = 0
    gone: int = 0
    sessions: set[str] = field(default_factory=set)
    alone: dict[str, Fact] = field(default_factory=dict)
    no_longer_alone: dict[str, Fact] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)  # session -> the last that was given


@dataclass(slots=True)
class Said:
    """Each time that something was said with the fact that it is of now.

    surplus: stored ones that are there twice. new_ids: facts that were found, whose sightings are
    not stored yet.
    """

    points: list[tuple[Point, str]] = field(default_factory=list)
    surplus: list[Point] = field(default_factory=list)
    new_ids: set[str] = field(default_factory=set)


def write_changes(
    connection: Connection,
    tenant_id: str,
    held: Sequence[Fact],
    wanted: Sequence[Fact],
    now: datetime,
    changes: Changes,
) -> None:
    """Make the rows `held` what is `wanted`."""
    before = {fact.fact_id: fact for fact in held}
    after = {fact.fact_id: fact for fact in wanted}
    for old in held:
        if old.fact_id not in after:
            note(changes, old, None)
            changes.gone += 1
    inserted: list[Fact] = []
    changed: list[Fact] = []
    for fact in wanted:
        known = before.get(fact.fact_id)
        if fact == known:
            continue
        is_moved = known is None or content(fact) != content(known)
        fact = fact.but(version=fact.version + is_moved, updated_at=now)
        (inserted if known is None else changed).append(fact)
        changes.superseded += fact.superseded_by is not None and (
            known is None or known.superseded_by is None
        )
        if is_moved:
            note(changes, known, fact)
    for ids in in_parts([old.fact_id for old in held if old.fact_id not in after]):
        connection.execute(_DROP_FACTS, {"tenant": tenant_id, "ids": ids})
        quarantine.drop(connection, tenant_id, "fact", ids)
    for some in in_parts(inserted):
        connection.execute(_INSERT, [_fact_row(fact) for fact in some])
    flagged = [looked for looked in map(_look_at, inserted) if looked.flags]
    quarantine.note(connection, tenant_id, "fact", flagged, now)  # of a new id, none is listed yet
    if changed:
        write_facts(connection, changed)


def write_facts(connection: Connection, changed: Sequence[Fact]) -> None:
    """Overwrite stored facts of a tenant."""
    rows = [
        {**_fact_row(fact), "tenant": fact.tenant_id, "which": fact.fact_id} for fact in changed
    ]
    connection.execute(_REWRITE, rows)
    first = changed[0]
    looked = map(_look_at, changed)
    quarantine.note(connection, first.tenant_id, "fact", looked, first.updated_at)


def _look_at(fact: Fact) -> Looked:
    return look_at(fact.fact_id, f"{fact.statement}\n{fact.value}", fact.user_id)


def content(fact: Fact) -> tuple[object, ...]:
    """Return what an index holds of a fact, and where."""
    return fact.session_id, fact.number, fact.subject, fact.predicate, fact.value, fact.statement


def note(changes: Changes, before: Fact | None, after: Fact | None) -> None:
    """Write down whose index is behind."""
    for fact in (before, after):
        if fact is not None:
            changes.moved.add(fact.fact_id)
        if fact is not None and fact.session_id is not None and fact.number is not None:
            changes.sessions.add(fact.session_id)
    if before is not None and before.number is None:
        changes.alone.pop(before.fact_id, None)
        changes.no_longer_alone[before.fact_id] = before
    if after is not None and after.number is None:
        changes.no_longer_alone.pop(after.fact_id, None)
        changes.alone[after.fact_id] = after


def write_sightings(connection: Connection, tenant_id: str, said: Said) -> None:
    """Store what is new, and give the rest to the fact that it is of."""
    gone = [_where(tenant_id, point) for point in said.surplus]
    moved = [
        {**_where(tenant_id, point), "to": fact_id}
        for point, fact_id in said.points
        if point.fact_id not in said.new_ids and fact_id != point.fact_id
    ]
    rows = [
        {**_row(point), "tenant_id": tenant_id, "fact_id": fact_id}
        for point, fact_id in said.points
        if point.fact_id in said.new_ids
    ]
    if gone:
        connection.execute(_DROP_SIGHTING, gone)
    if moved:
        connection.execute(_MOVE_SIGHTING, moved)
    if rows:
        connection.execute(fact_sightings.insert(), rows)


def _where(tenant_id: str, point: Point) -> dict[str, Any]:
    return {
        "tenant": tenant_id,
        "whose": point.fact_id,
        "where": point.session_id,
        "at": point.seq,
    }


# `asdict` copies each value deeply, which takes longer than the database does.
_FACT, _POINT = (
    tuple(one.name for one in fields(kind) if one.name != "value_key" or kind is Fact)
    for kind in (Fact, Point)
)
_of_fact, _of_point = attrgetter(*_FACT), attrgetter(*_POINT)


def _fact_row(fact: Fact) -> dict[str, Any]:
    return dict(zip(_FACT, _of_fact(fact), strict=True))


def _row(point: Point) -> dict[str, Any]:
    return dict(zip(_POINT, _of_point(point), strict=True))
