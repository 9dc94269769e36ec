"""The facts of a key, brought to what was said of it. Touches: `facts`, `fact_sightings`.

What was said is what counts: facts are the periods that follow from it, each under an id that
stays with it. So nothing depends on the order in which conversations are read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import sqlalchemy as sa

from app.db import Connection
from app.db.parts import in_parts
from app.db.tables import episodes, fact_sightings, facts
from app.memory.base import Fact, Mark
from app.memory.fact_groups import Draft, Group, Groups, by_group
from app.memory.fact_writes import Changes, Said, write_changes, write_sightings
from app.memory.timeline import A_CHANGE, Period, Point, periods

RANK: dict[Mark | None, int] = {"critical": 2, "pinned": 1, None: 0}

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)

_fact, _said = facts.c, fact_sightings.c
_OF_USER = sa.and_(_fact.tenant_id == sa.bindparam("tenant"), _fact.user_id == sa.bindparam("user"))
_OF_KEYS = sa.select(facts).where(_OF_USER, _fact.key.in_(sa.bindparam("keys", expanding=True)))
_ONE_AT_A_TIME = (_OF_USER, _fact.key == sa.bindparam("key"), _fact.is_many.is_(False))
_BEGINNINGS = (
    sa.select(_fact.valid_from)
    .distinct()
    .where(*_ONE_AT_A_TIME, _fact.valid_from <= sa.bindparam("since", type_=_fact.valid_from.type))
    .order_by(_fact.valid_from.desc())
    .limit(2)
)
_SINCE = sa.select(facts).where(
    *_ONE_AT_A_TIME, _fact.valid_from >= sa.bindparam("since", type_=_fact.valid_from.type)
)
_OF_VALUES = _OF_KEYS.where(
    _fact.is_many.is_(True), _fact.value_key.in_(sa.bindparam("values", expanding=True))
)
_SAID = sa.select(
    _said.fact_id,
    _said.session_id,
    _said.seq,
    _said.quote,
    _said.said_by,
    _said.said_at,
    _said.value,
    _said.statement,
    _said.valid_from,
    _said.ends_at,
).where(
    _said.tenant_id == sa.bindparam("tenant"),
    _said.fact_id.in_(sa.bindparam("ids", expanding=True)),
)
_EPISODE = sa.select(episodes.c.version).where(
    episodes.c.tenant_id == sa.bindparam("tenant"),
    episodes.c.session_id == sa.bindparam("session"),
)
_LAST_NUMBER = sa.select(sa.func.coalesce(sa.func.max(_fact.number), 0)).where(
    _fact.tenant_id == sa.bindparam("tenant"), _fact.session_id == sa.bindparam("session")
)


def retime(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    groups: Groups,
    now: datetime,
    changes: Changes,
) -> Mapping[str, str]:
    """Bring the facts of some groups to what was said, with their drafts said as well.

    Returns the id of each draft that counts -> the id of the fact that it became, or is part of.
    """
    held = _held(connection, tenant_id, user_id, groups)
    every = [fact for mine in held.values() for fact in mine]
    points = _points(connection, tenant_id, every)
    wanted: list[Fact] = []
    said = Said()
    for group, work in groups.items():
        mine = held.get(group, [])
        stored = [point for fact in mine for point in points.get(fact.fact_id, ())]
        wanted += _retimed(connection, mine, stored, work.drafts, now, changes, said)
    write_changes(connection, tenant_id, every, wanted, now, changes)
    write_sightings(connection, tenant_id, said)
    changes.noted |= _told_of(points, said, changes)
    created = {fact.fact_id for fact in wanted} - {fact.fact_id for fact in every}
    changes.new += len(created)
    changes.seen_again += len(said.new_ids - created)
    return {
        point.fact_id: fact_id for point, fact_id in said.points if point.fact_id in said.new_ids
    }


def _told_of(points: Mapping[str, Sequence[Point]], said: Said, changes: Changes) -> set[str]:
    """Return the sessions that say something of facts that moved, or now of another fact."""
    now_of = {id(point): fact_id for point, fact_id in said.points}
    stored = [point for mine in points.values() for point in mine]
    told = [
        point
        for point in (*stored, *(point for point, _ in said.points))
        if {point.fact_id, now_of.get(id(point), "")} & changes.moved
        or now_of.get(id(point)) != point.fact_id
    ]
    return {point.session_id for point in told if point.session_id}


def _retimed(
    connection: Connection,
    held: Sequence[Fact],
    stored: Sequence[Point],
    drafts: Sequence[Draft],
    now: datetime,
    changes: Changes,
    said: Said,
) -> list[Fact]:
    """Return the facts of one group as they should be, and add to `said` what was said of them."""
    points: dict[tuple[str, str, int], Point] = {}
    drafts = _told_apart(drafts, stored)
    for point in (*stored, *(draft.point for draft in drafts)):
        points.setdefault((point.value_key, *point.place), point)
    kept = set(map(id, points.values()))
    fresh = [draft for draft in drafts if id(draft.point) in kept]
    found = periods(points.values())
    claims = _claims(found, held, fresh)
    wanted = _wanted(connection, found, claims, held, fresh, now, changes)
    said.surplus += [point for point in stored if id(point) not in kept]
    said.new_ids |= {draft.fact.fact_id for draft in fresh}
    for period, fact in zip(found, wanted, strict=True):
        said.points += [(point, fact.fact_id) for point in period.points]
    return wanted


def _told_apart(drafts: Sequence[Draft], stored: Sequence[Point]) -> list[Draft]:
    """Number what was told by itself: no message tells one time from another."""
    last = max((point.seq for point in stored if not point.session_id), default=0)
    numbers = count(last + 1)
    return [
        draft
        if draft.point.session_id
        else Draft(draft.fact, replace(draft.point, seq=next(numbers)))
        for draft in drafts
    ]


def _held(
    connection: Connection, tenant_id: str, user_id: str, groups: Groups
) -> dict[Group, list[Fact]]:
    rows: list[Any] = []
    who = {"tenant": tenant_id, "user": user_id}
    for group, work in groups.items():
        if group.value_key is None:
            rows += _since(connection, {**who, "key": group.key, "since": work.since})
    for some in in_parts([group for group in groups if group.value_key is not None]):
        keys, values = {group.key for group in some}, {group.value_key for group in some}
        rows += connection.execute(_OF_VALUES, {**who, "keys": list(keys), "values": list(values)})
    unique = {row.fact_id: Fact(*row) for row in rows}
    return {
        group: sorted(held, key=lambda fact: (fact.created_at, fact.fact_id))
        for group, held in by_group(unique.values()).items()
        if group in groups
    }


def _since(connection: Connection, which: dict[str, Any]) -> Iterable[Any]:
    """Return the rows of a key that a change at a time may concern, and one before them.

    What is said at a time splits, ends or joins the period there; the one before that follows it.
    """
    which = {**which, "since": which["since"] - A_CHANGE}
    begin = connection.execute(_BEGINNINGS, which).scalars().all()
    since = begin[1] if len(begin) == 2 else BEGINNING
    return connection.execute(_SINCE, {**which, "since": since})


def _points(connection: Connection, tenant_id: str, held: Sequence[Fact]) -> dict[str, list[Point]]:
    values = {fact.fact_id: fact.value_key for fact in held}
    found: dict[str, list[Point]] = {}
    for ids in in_parts(values):
        for row in connection.execute(_SAID, {"tenant": tenant_id, "ids": ids}):
            point = Point(value_key=values[row.fact_id], **row._mapping)
            found.setdefault(row.fact_id, []).append(point)
    return found


def _claims(
    found: Sequence[Period], held: Sequence[Fact], fresh: Sequence[Draft]
) -> list[list[Fact]]:
    """Return, by period, the facts that it may be: the first gives the id, the others go into it.

    A fact stays where it was first said; if that is forgotten, where it was said next.
    """
    first_of: dict[str, int] = {}
    home_of: dict[tuple[str, str, int], int] = {}
    for n, period in enumerate(found):
        for point in period.points:
            first_of.setdefault(point.fact_id, n)
            home_of[(point.fact_id, *point.place)] = n
    claims: list[list[Fact]] = [[] for _ in found]
    for fact in (*held, *(draft.fact for draft in fresh)):
        home = home_of.get((fact.fact_id, fact.session_id or "", fact.seq or 0))
        at = first_of.get(fact.fact_id) if home is None else home
        if at is not None:
            claims[at].append(fact)
    return claims


def _wanted(
    connection: Connection,
    found: Sequence[Period],
    claims: Sequence[Sequence[Fact]],
    held: Sequence[Fact],
    fresh: Sequence[Draft],
    now: datetime,
    changes: Changes,
) -> list[Fact]:
    """Return the facts as they should be, by period."""
    templates = {fact.fact_id: fact for fact in (*(d.fact for d in fresh), *held)}
    wanted = []
    for period, mine in zip(found, claims, strict=True):
        base = mine[0] if mine else _split_off(templates[period.points[0].fact_id], now)
        wanted.append(_told(connection, base, mine or [base], period, changes))
    for n, period in enumerate(found):
        following = wanted[n + 1].fact_id if period.is_superseded else None
        if wanted[n].superseded_by != following:
            wanted[n] = wanted[n].but(superseded_by=following)
    return wanted


def _split_off(fact: Fact, now: datetime) -> Fact:
    """Return a fact like another, for a time when its value held again."""
    return fact.but(
        fact_id=uuid.uuid4().hex,
        session_id=None,
        number=None,
        superseded_by=None,
        used_at=None,
        uses=0,
        version=0,
        indexed_version=0,
        created_at=now,
    )


def _told(
    connection: Connection, base: Fact, mine: Sequence[Fact], period: Period, changes: Changes
) -> Fact:
    first = period.first_said
    session_id = first.session_id or None
    is_at_home = session_id == base.session_id and base.version > 0
    number = base.number if is_at_home else _next_number(connection, base, session_id, changes)
    return base.but(
        value=first.value,
        statement=first.statement,
        said_by=first.said_by,
        session_id=session_id,
        number=number,
        seq=None if session_id is None else first.seq,
        quote=None if session_id is None else first.quote,
        learned_at=first.said_at,
        valid_from=period.valid_from,
        ends_at=period.ends_at,
        valid_to=period.valid_to,
        sightings=len(period.points),
        last_seen_at=max(point.said_at for point in period.points),
        confidence=max(fact.confidence for fact in mine),
        mark=max((fact.mark for fact in mine), key=lambda mark: RANK[mark]),
        uses=sum(fact.uses for fact in mine),
        used_at=max((fact.used_at for fact in mine if fact.used_at), default=None),
    )


def _next_number(
    connection: Connection, base: Fact, session_id: str | None, changes: Changes
) -> int | None:
    """Return a number within a session; None, for a fact stands alone, if that has no episode."""
    if session_id is None:
        return None
    which = {"tenant": base.tenant_id, "session": session_id}
    if session_id not in changes.numbers:
        if session_id != changes.live and connection.execute(_EPISODE, which).first() is None:
            return None
        changes.numbers[session_id] = connection.execute(_LAST_NUMBER, which).scalar_one()
    changes.numbers[session_id] += 1
    return changes.numbers[session_id]
