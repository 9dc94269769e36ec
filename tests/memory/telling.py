"""Facts as tests tell them, and what a database holds of them then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from app.db import Database
from app.db.tables import episodes, facts, sessions
from app.memory import fact_rows
from app.memory.base import Fact, FoundFact
from app.memory.fact_rows import Taken
from app.memory.forgetting import Forgotten, forget_session

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def said(value: str, on: float, predicate: str = "lives_in", **changed: Any) -> FoundFact:
    """Return what a user says of themselves on a day."""
    subject = changed.get("subject", "user")
    fields: dict[str, Any] = {
        "subject": subject,
        "predicate": predicate,
        "value": value,
        "statement": f"{subject} {predicate.replace('_', ' ')} {value}.",
        "kind": "fact",
        "is_many": False,
        "confidence": 0.9,
        "said_by": "user",
        "seq": 1,
        "quote": f"… {value} …",
        "said_at": day(on),
        "valid_from": day(on),
    }
    return FoundFact(**{**fields, **changed})


async def take(
    database: Database,
    session_id: str | None,
    *found: FoundFact,
    user: str = "ada",
    tenant: str = "default",
) -> Taken:
    """Take facts as a checkpoint of a session does, which has an episode then."""

    def store(connection: Any) -> Taken:
        taken = fact_rows.take(connection, tenant, user, session_id, found, NOW)
        if session_id is not None:
            _hold_episode(connection, tenant, user, session_id)
        return taken

    return await database.write(store)


def _hold_episode(connection: Any, tenant: str, user: str, session_id: str) -> None:
    row = {"tenant_id": tenant, "session_id": session_id, "user_id": user, "created_at": NOW}
    which = sa.and_(sessions.c.tenant_id == tenant, sessions.c.session_id == session_id)
    if connection.execute(sa.select(sessions.c.user_id).where(which)).first() is None:
        connection.execute(
            sessions.insert().values(
                **row, state="open", last_seq=2, covered_seq=2, memory_revision=1,
                last_message_at=NOW,
            )
        )  # fmt: skip
        connection.execute(
            episodes.insert().values(
                **row, text="They talked.", covered_seq=2, version=1, indexed_version=0,
                dropped_sentences=0, started_at=NOW, ended_at=NOW, updated_at=NOW,
            )
        )  # fmt: skip


async def forget(database: Database, session_id: str, **chosen: Any) -> Forgotten:
    return await database.write(
        lambda c: forget_session(c, "default", "ada", session_id, NOW, **chosen)
    )


async def stored(database: Database, *, user: str = "ada", tenant: str = "default") -> list[Fact]:
    """Return a user's facts, in the order of their periods."""
    statement = (
        sa.select(facts)
        .where(facts.c.user_id == user, facts.c.tenant_id == tenant)
        .order_by(facts.c.key, facts.c.valid_from, facts.c.learned_at, facts.c.value_key)
    )
    return [Fact(*row) for row in await database.read(lambda c: c.execute(statement).all())]


def timeline(found: Sequence[Fact]) -> list[tuple[str, float, float | None]]:
    """Return (value, day it holds from, day it holds until)."""
    return [
        (
            fact.value,
            _days(fact.valid_from),
            None if fact.valid_to is None else _days(fact.valid_to),
        )
        for fact in found
    ]


def current(found: Sequence[Fact], at: datetime = NOW) -> list[str]:
    return [fact.value for fact in found if fact.holds(at)]


def _days(moment: datetime) -> float:
    return (moment - START) / timedelta(days=1)
