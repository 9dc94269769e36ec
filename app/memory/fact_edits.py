"""A fact corrected by hand. Touches: `facts`, `fact_sightings`, the lexical index, the jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

import sqlalchemy as sa

from app.db import Connection
from app.db.locks import lock_user
from app.db.tables import Instant, fact_sightings, facts
from app.errors import InvalidRequest, NotFound
from app.memory.base import USER, Fact, FactKind, Mark
from app.memory.fact_groups import Groups, group_of
from app.memory.fact_sync import Job, publish
from app.memory.fact_writes import Changes, content, note, write_facts
from app.memory.keys import is_many, value_key
from app.memory.retiming import retime
from app.sessions.rows import lock_session

# Predicates that make no sentence behind a name: what somebody has, and what somebody is.
_OWNED = frozenset(
    {"name", "nickname", "email", "phone", "address", "birthday", "birthplace", "age", "diet"}
    | {"nationality", "job_title", "industry", "hobby", "partner", "friend", "colleague"}
)
_STATES = frozenset({"allergic_to", "married_to", "from"})
_BY_ID = sa.select(facts).where(
    facts.c.tenant_id == sa.bindparam("tenant"), facts.c.fact_id == sa.bindparam("fact")
)
_OF_VALUE = sa.select(facts).where(
    facts.c.tenant_id == sa.bindparam("tenant"),
    facts.c.user_id == sa.bindparam("user"),
    facts.c.key == sa.bindparam("key"),
    facts.c.value_key == sa.bindparam("value"),
)
_SINCE = sa.bindparam("since", type_=facts.c.valid_from.type)
_PART_OF = (
    _OF_VALUE.where(facts.c.valid_from <= _SINCE).order_by(facts.c.valid_from.desc()).limit(1)
)
_PART_OF_LATER = _OF_VALUE.where(facts.c.valid_from > _SINCE).order_by(facts.c.valid_from).limit(1)
_said = fact_sightings.c
_ITS_SIGHTINGS = sa.and_(
    _said.tenant_id == sa.bindparam("tenant"), _said.fact_id == sa.bindparam("fact")
)
_LAST_TOLD = sa.select(sa.func.coalesce(sa.func.max(_said.seq), 0)).where(
    _said.tenant_id == sa.bindparam("tenant"),
    _said.session_id == "",
    _said.fact_id.in_(
        sa.select(facts.c.fact_id).where(
            facts.c.tenant_id == sa.bindparam("tenant"),
            facts.c.user_id == sa.bindparam("user"),
            facts.c.key == sa.bindparam("key"),
        )
    ),
)
_FIRST_TOLD = sa.select(sa.func.coalesce(sa.func.min(_said.seq), 1)).where(
    _ITS_SIGHTINGS, _said.session_id == ""
)


class Unset(Enum):
    """For a field that may be emptied: it was not sent."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to change; None, or UNSET, leaves it as it is."""

    value: str | None = None
    statement: str | None = None
    kind: FactKind | None = None
    confidence: float | None = None
    valid_from: datetime | None = None
    ends_at: datetime | Unset | None = UNSET
    mark: Mark | Unset | None = UNSET


def one(connection: Connection, tenant_id: str, user_id: str | None, fact_id: str) -> Fact:
    """Return a fact of a user, or of anybody (`user_id` None). Raises `NotFound`."""
    row = connection.execute(_BY_ID, {"tenant": tenant_id, "fact": fact_id}).first()
    if row is None or user_id not in (None, row.user_id):
        raise NotFound("there is no such fact", param="fact_id")
    return Fact(*row)


def edit(
    connection: Connection,
    tenant_id: str,
    user_id: str | None,
    fact_id: str,
    wanted: Edit,
    now: datetime,
) -> tuple[Fact, list[Job]]:
    """Correct a fact and all that was said of it; returns it, and the jobs of its vectors.

    A fact that now says what another one says becomes part of that. Raises `NotFound`, and
    `InvalidRequest` for an end that lies before the beginning.
    """
    found = one(connection, tenant_id, user_id, fact_id)
    if found.session_id is not None:  # first, as whoever writes an episode does
        lock_session(connection, tenant_id, found.session_id)
    lock_user(connection, tenant_id, found.user_id)
    before = one(connection, tenant_id, user_id, fact_id)
    after = _edited(before, wanted)
    _rewrite_sightings(connection, before, after)
    changes = Changes()
    if content(after) != content(before):
        after = replace(after, version=after.version + 1)
        note(changes, before, after)
    if after != before:
        write_facts(connection, [replace(after, updated_at=now)])
    groups = Groups()
    for fact in (before, after):
        groups.concern(group_of(fact), min(before.valid_from, after.valid_from))
    retime(connection, tenant_id, before.user_id, groups, now, changes)
    left = publish(connection, tenant_id, before.user_id, changes, now)
    which = {
        "tenant": tenant_id,
        "user": after.user_id,
        "fact": fact_id,
        "key": after.key,
        "value": after.value_key,
        "since": after.valid_from,
    }
    row = (
        connection.execute(_BY_ID, which).first()
        or connection.execute(_PART_OF, which).first()
        or connection.execute(_PART_OF_LATER, which).one()
    )
    return Fact(*row), left


def _edited(fact: Fact, wanted: Edit) -> Fact:
    value = fact.value if wanted.value is None else wanted.value
    kind = wanted.kind or fact.kind
    valid_from = wanted.valid_from or fact.valid_from
    ends_at = fact.ends_at if isinstance(wanted.ends_at, Unset) else wanted.ends_at
    if ends_at is not None and ends_at < valid_from:
        raise InvalidRequest(
            f"ends_at ({ends_at.isoformat()}) lies before valid_from ({valid_from.isoformat()})",
            param="ends_at",
        )
    is_same_value = value == fact.value
    was_recommended = fact.kind == "recommendation"
    several = is_many(fact.predicate, fact.is_many and not was_recommended)
    return replace(
        fact,
        value=value,
        value_key=fact.value_key if is_same_value else value_key(value, fact.predicate),
        statement=wanted.statement or _restated(fact, value),
        kind=kind,
        is_many=kind == "recommendation" or (several if was_recommended else fact.is_many),
        confidence=fact.confidence if wanted.confidence is None else wanted.confidence,
        valid_from=valid_from,
        ends_at=ends_at,
        mark=fact.mark if isinstance(wanted.mark, Unset) else wanted.mark,
    )


def stated(subject: str, predicate: str, value: str) -> str:
    """Return a statement of what was told without one."""
    who = "The user" if subject == USER else subject[:1].upper() + subject[1:]
    words = predicate.replace("_", " ")
    if predicate in _OWNED or words.startswith("favorite "):
        return f"{who}'s {words} is {value}."
    return f"{who} {'is ' if predicate in _STATES else ''}{words} {value}."


def _restated(fact: Fact, value: str) -> str:
    """Return the statement with another value in it."""
    if value == fact.value:
        return fact.statement
    told = re.sub(re.escape(fact.value), lambda _: value, fact.statement, flags=re.IGNORECASE)
    return told if told != fact.statement else stated(fact.subject, fact.predicate, value)


def _rewrite_sightings(connection: Connection, before: Fact, after: Fact) -> None:
    """Make what was said agree: facts are what follows from it."""
    which = {"tenant": before.tenant_id, "fact": before.fact_id}
    if group_of(after) != group_of(before):
        # Elsewhere, something else may have been told by itself under the same number.
        about = {**which, "user": before.user_id, "key": before.key}
        last = connection.execute(_LAST_TOLD, about).scalar_one()
        first = connection.execute(_FIRST_TOLD, which).scalar_one()
        moved = fact_sightings.update().where(_ITS_SIGHTINGS, _said.session_id == "")
        connection.execute(moved.values(seq=_said.seq + (last + 1 - first)), which)
    told: dict[str, object] = {}
    if after.value != before.value or after.statement != before.statement:
        told |= {"value": after.value, "statement": after.statement}
    if after.ends_at != before.ends_at:
        told |= {"ends_at": after.ends_at}
    if told:
        connection.execute(fact_sightings.update().where(_ITS_SIGHTINGS).values(told), which)
    if after.valid_from != before.valid_from:
        begins = sa.case(
            (
                _said.valid_from <= max(before.valid_from, after.valid_from),
                sa.literal(after.valid_from, Instant),
            ),
            else_=_said.valid_from,
        )
        moved = fact_sightings.update().where(_ITS_SIGHTINGS).values(valid_from=begins)
        connection.execute(moved, which)
