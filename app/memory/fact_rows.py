"""Facts taken into SQL: new ones, and known ones that were said again. Touches: `facts`,
`fact_sightings`, the lexical index, the jobs.

Plain functions of a connection, in the transaction of whoever writes an episode.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection
from app.db.parts import in_parts
from app.db.tables import fact_sightings, facts
from app.erased import refuse
from app.errors import NotFound
from app.memory.base import USER, Fact, FoundFact
from app.memory.fact_groups import Draft, Group, Groups, group_of
from app.memory.fact_sync import Job, publish
from app.memory.fact_writes import Changes
from app.memory.keys import fact_key, predicate_name, subject_name, value_key
from app.memory.new_facts import as_new, new_ids, point_of
from app.memory.retiming import retime
from app.memory.sameness import Alike, Known, known
from app.sessions.rows import lock_session

COMPARED = 200  # facts of a key or of a value that a found one may be the same as

_fact = facts.c
_OF_USER = sa.and_(_fact.tenant_id == sa.bindparam("tenant"), _fact.user_id == sa.bindparam("user"))
_COMPARED = sa.select(
    _fact.fact_id,
    _fact.key,
    _fact.value_key,
    _fact.predicate,
    _fact.statement,
    _fact.is_many,
    (_fact.kind == "recommendation").label("is_recommendation"),
)
_OF_KEYS = sa.and_(_OF_USER, _fact.key.in_(sa.bindparam("keys", expanding=True)))
_OF_VALUES = sa.and_(_OF_USER, _fact.value_key.in_(sa.bindparam("values", expanding=True)))
_ALIKE = (
    _COMPARED.where(_OF_KEYS, _OF_VALUES),
    *(
        _COMPARED.where(same).order_by(_fact.last_seen_at.desc(), _fact.fact_id).limit(COMPARED)
        for same in (_OF_KEYS, _OF_VALUES)
    ),
)
_NAMES = sa.select(_fact.value).where(_OF_USER, _fact.key == fact_key(USER, "name"))
_SINGLE = sa.select(_fact.fact_id, _fact.key, _fact.value_key, _fact.valid_from).where(
    _OF_KEYS, _OF_VALUES, _fact.is_many.is_(False)
)
_MAKE_MANY = (
    facts.update()
    .where(_fact.tenant_id == sa.bindparam("tenant"), _fact.fact_id == sa.bindparam("which"))
    .values(is_many=True)
)
_ONE = sa.select(facts).where(
    _fact.tenant_id == sa.bindparam("tenant"), _fact.fact_id == sa.bindparam("fact")
)
_SAID_HERE = sa.select(facts).where(
    _fact.tenant_id == sa.bindparam("tenant"),
    _fact.fact_id.in_(
        sa.select(fact_sightings.c.fact_id).where(
            fact_sightings.c.tenant_id == sa.bindparam("tenant"),
            fact_sightings.c.session_id == sa.bindparam("session"),
            fact_sightings.c.seq == sa.bindparam("seq"),
        )
    ),
)
_OF_SESSION = (
    sa.select(facts)
    .where(
        _fact.tenant_id == sa.bindparam("tenant"),
        _fact.session_id == sa.bindparam("session"),
        _fact.number.is_not(None),
    )
    .order_by(_fact.number)
)


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of found facts: how many were new, were known, and ended another."""

    new: int
    seen_again: int
    superseded: int


def take(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    session_id: str | None,
    found: Sequence[FoundFact],
    now: datetime,
) -> Taken:
    """Store what was found in a session, or was told by itself (`session_id` None).

    What is known already is seen again; a new value ends an old one. The caller brings the
    lexical index and the vectors of this session up to date; this does so for any other that
    is concerned.
    """
    if not found:
        return Taken(0, 0, 0)
    changes = Changes(live=session_id)
    _take(connection, tenant_id, user_id, session_id, found, now, changes)
    publish(connection, tenant_id, user_id, changes, now, leave_out=session_id, by_caller=False)
    return Taken(changes.new, changes.seen_again, changes.superseded)


def take_told(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    told: FoundFact,
    now: datetime,
    session_id: str | None = None,
) -> tuple[Fact, list[Job]]:
    """Store a fact that was told by itself, or in a session.

    Returns it, and the jobs of its vectors. Raises `NotFound` for a session that is gone: what was
    said there must not outlive it.
    """
    if session_id is not None:  # first, as whoever writes an episode does
        session = lock_session(connection, tenant_id, session_id)
        if session is None or session.user_id != user_id:
            raise NotFound("the session was deleted meanwhile")
    changes = Changes()
    became = _take(connection, tenant_id, user_id, session_id, [told], now, changes)
    left = publish(connection, tenant_id, user_id, changes, now)
    if became:
        row = connection.execute(_ONE, {"tenant": tenant_id, "fact": became[0]}).one()
        return Fact(*row), left
    # This message was known to say it: nothing was added.
    which = {"tenant": tenant_id, "session": session_id, "seq": told.seq}
    said = [Fact(*row) for row in connection.execute(_SAID_HERE, which)]
    same = [fact for fact in said if fact.value_key == value_key(told.value, fact.predicate)]
    return (same or said)[0], left


def take_all_told(
    connection: Connection, tenant_id: str, user_id: str, told: Sequence[FoundFact], now: datetime
) -> tuple[list[str], list[Job]]:
    """Store facts that were told by themselves; returns the id of each, and the vectors' jobs."""
    changes = Changes()
    became = _take(connection, tenant_id, user_id, None, told, now, changes)
    return became, publish(connection, tenant_id, user_id, changes, now)


def _take(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    session_id: str | None,
    found: Sequence[FoundFact],
    now: datetime,
    changes: Changes,
) -> list[str]:
    """Returns the ids of the facts that the found ones became, or are part of."""
    refuse(connection, tenant_id, user_id, now)
    names = _own_names(connection, tenant_id, user_id, found)
    new = [
        as_new(fact_id, tenant_id, user_id, session_id, one, names, now)
        for fact_id, one in zip(new_ids(len(found)), found, strict=True)
    ]
    alike = Alike(_alike(connection, tenant_id, user_id, new))
    groups = Groups()
    for one, fact in zip(found, new, strict=True):
        fact = alike.adopt(fact)
        alike.add(known(fact))
        draft = Draft(fact, point_of(fact, one, session_id or ""))
        groups.concern(group_of(fact), draft.point.at).drafts.append(draft)
    _join(connection, tenant_id, user_id, groups)
    became = retime(connection, tenant_id, user_id, groups, now, changes)
    return [became[fact.fact_id] for fact in new if fact.fact_id in became]


def rows_of_session(connection: Connection, tenant_id: str, session_id: str) -> list[Fact]:
    """Return the facts that were first said in a session, by number.

    Not those that outlived its episode: they stand alone, and have no number.
    """
    which = {"tenant": tenant_id, "session": session_id}
    return [Fact(*row) for row in connection.execute(_OF_SESSION, which)]


def own_names(connection: Connection, tenant_id: str, user_id: str) -> list[str]:
    """Return what the user is known to be called."""
    which = {"tenant": tenant_id, "user": user_id}
    return list(connection.execute(_NAMES, which).scalars())


def _own_names(
    connection: Connection, tenant_id: str, user_id: str, found: Sequence[FoundFact]
) -> Collection[str]:
    told = [
        one.value
        for one in found
        if subject_name(one.subject) == USER and predicate_name(one.predicate) == "name"
    ]
    return [*own_names(connection, tenant_id, user_id), *told]


def _alike(
    connection: Connection, tenant_id: str, user_id: str, new: Sequence[Fact]
) -> list[Known]:
    """Return the stored facts that found ones may be the same as."""
    seen: dict[str, Known] = {}
    for some in in_parts(new):
        which = {
            "tenant": tenant_id,
            "user": user_id,
            "keys": sorted({fact.key for fact in some}),
            "values": sorted({fact.value_key for fact in some}),
        }
        for statement in _ALIKE:
            for fact_id, *compared in connection.execute(statement, which):
                seen.setdefault(fact_id, Known(*compared))
    return list(seen.values())


def _join(connection: Connection, tenant_id: str, user_id: str, groups: Groups) -> None:
    """Let a value hold beside others that so far did not: it was said that it may."""
    many = {
        (group.key, group.value_key): group
        for group in groups
        if group.value_key is not None and not group.is_recommendation
    }
    for some in in_parts(many):
        which = {
            "tenant": tenant_id,
            "user": user_id,
            "keys": list({key for key, _ in some}),
            "values": list({value for _, value in some}),
        }
        for row in connection.execute(_SINGLE, which).all():
            if (row.key, row.value_key) in many:
                connection.execute(_MAKE_MANY, {"tenant": tenant_id, "which": row.fact_id})
                groups.concern(Group(row.key, None, False), row.valid_from)
    for (key, value), group in many.items():
        single = groups.get(Group(key, None, False))
        same = [d for d in single.drafts if d.fact.value_key == value] if single else []
        for draft in same:
            groups[Group(key, None, False)].drafts.remove(draft)
            joined = replace(draft, fact=replace(draft.fact, is_many=True))
            groups[group].drafts.append(joined)
