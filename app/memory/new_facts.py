"""A found fact as one that can be stored, and as a point in time. Touches nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection
from datetime import datetime

from app.memory.base import USER, Fact, FoundFact
from app.memory.keys import (
    fact_key,
    many_of_name,
    predicate_name,
    subject_name,
    value_key_of_name,
)
from app.memory.timeline import Point


def new_ids(count: int) -> list[str]:
    """Return ids as `uuid4` makes them, from one draw: the system takes its time for each."""
    drawn = os.urandom(16 * count)
    return [uuid.UUID(bytes=drawn[at : at + 16], version=4).hex for at in range(0, len(drawn), 16)]


def as_new(
    fact_id: str,
    tenant_id: str,
    user_id: str,
    session_id: str | None,
    one: FoundFact,
    names: Collection[str],
    now: datetime,
) -> Fact:
    """Return a fact that nobody stored yet. names: what the user is called."""
    subject = subject_name(one.subject, names)
    predicate = predicate_name(one.predicate, of_user=subject == USER)
    usual = predicate_name(predicate)
    is_recommendation = one.kind == "recommendation"
    return Fact(
        tenant_id=tenant_id,
        fact_id=fact_id,
        user_id=user_id,
        key=fact_key(subject, predicate),
        value_key=value_key_of_name(one.value, usual),
        subject=subject,
        predicate=predicate,
        value=one.value,
        statement=one.statement,
        kind=one.kind,
        is_many=is_recommendation or many_of_name(usual, one.is_many),
        confidence=one.confidence,
        said_by=one.said_by,
        session_id=session_id,
        number=None,
        seq=one.seq,
        quote=one.quote,
        learned_at=one.said_at,
        valid_from=one.valid_from,
        ends_at=one.ends_at,
        valid_to=None,
        superseded_by=None,
        sightings=1,
        last_seen_at=one.said_at,
        mark=one.mark,
        used_at=None,
        uses=0,
        version=0,
        indexed_version=0,
        created_at=now,
        updated_at=now,
    )


def point_of(fact: Fact, one: FoundFact, session_id: str) -> Point:
    return Point(
        fact_id=fact.fact_id,
        value_key=fact.value_key,
        session_id=session_id,
        seq=one.seq or 0,
        quote=one.quote or one.statement,
        said_by=one.said_by,
        said_at=one.said_at,
        value=one.value,
        statement=one.statement,
        valid_from=one.valid_from,
        ends_at=one.ends_at,
    )
