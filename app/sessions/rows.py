"""Pieces of SQL on sessions that the store and the memory share. Touches: `sessions`, the jobs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, db_now
from app.db.tables import Instant, messages, sessions
from app.sessions.base import Message, Session

SESSION = (
    sessions.c.tenant_id,
    sessions.c.session_id,
    sessions.c.user_id,
    sessions.c.state,
    sessions.c.last_seq,
    sessions.c.covered_seq,
    sessions.c.memory_revision,
    sessions.c.created_at,
    sessions.c.last_message_at,
    sessions.c.closed_at,
    sessions.c.timezone,
    sessions.c.title,
    sessions.c.metadata,
    sessions.c.tokens,
)

MESSAGE = (
    messages.c.id,
    messages.c.tenant_id,
    messages.c.session_id,
    messages.c.seq,
    messages.c.role,
    messages.c.content,
    messages.c.status,
    messages.c.memory,
    messages.c.client_message_id,
    messages.c.created_at,
    messages.c.receipt,
    messages.c.error,
    messages.c.speaker,
    messages.c.steps,
)

IN_SESSION = sa.and_(
    messages.c.tenant_id == sa.bindparam("tenant"), messages.c.session_id == sa.bindparam("session")
)
THIS_SESSION = sa.and_(
    sessions.c.tenant_id == sa.bindparam("tenant"), sessions.c.session_id == sa.bindparam("session")
)
# In the statement itself: a general plan of Postgres takes no partial index for a parameter.
PENDING = messages.c.status == sa.literal_column("'pending'")
EARLIER_PENDING = sa.and_(IN_SESSION, messages.c.seq < sa.bindparam("before"), PENDING)
LEASE_END = sa.type_coerce(db_now() + sa.bindparam("lease", type_=sa.BigInteger), Instant)

# Built once: SQLAlchemy takes longer to build a statement than SQLite to answer it.
SELECT_SESSION = sa.select(*SESSION).where(THIS_SESSION)
_LOCK_SESSION = SELECT_SESSION.with_for_update()

# Without the receipts: they are larger than what was said.
_SAID = [sa.null().label("receipt") if c is messages.c.receipt else c for c in MESSAGE]
_SAID_BEFORE = (
    sa.select(*_SAID)
    .join(
        sessions,
        sa.and_(
            THIS_SESSION,
            # Not of another one that has taken over the id meanwhile.
            sessions.c.user_id == sa.bindparam("user"),
            sessions.c.created_at == sa.bindparam("since"),
        ),
    )
    .where(IN_SESSION, messages.c.seq < sa.bindparam("before"), messages.c.content != "")
    .order_by(messages.c.seq.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)


def of_session(
    table: sa.Table, tenant_id: str, session_id: str | sa.ColumnElement[str]
) -> sa.ColumnElement[bool]:
    """Return the condition that a row belongs to a session."""
    return sa.and_(table.c.tenant_id == tenant_id, table.c.session_id == session_id)


def lock_session(connection: Connection, tenant_id: str, session_id: str) -> Session | None:
    """Return a session and keep others from changing it until the transaction ends."""
    row = connection.execute(_LOCK_SESSION, {"tenant": tenant_id, "session": session_id}).first()
    return None if row is None else as_session(row)


def as_session(row: Any) -> Session:
    """Return a row of the columns `SESSION` as a session."""
    return Session(*row)


def said_before(
    connection: Connection, session: Session, before_seq: int, limit: int
) -> list[Message]:
    """Return what `SessionStore.history` does."""
    which = {
        "tenant": session.tenant_id,
        "session": session.session_id,
        "user": session.user_id,
        "since": session.created_at,
        "before": before_seq,
        "most": limit,
    }
    return [Message(*row) for row in reversed(connection.execute(_SAID_BEFORE, which).all())]


def taken_up(session: Session, *, is_last: bool) -> Session:
    """Open a session again for a turn that is answered late.

    If it is the last one, it is summarised with its answer; what an earlier one would add to the
    summary is not worth to go through all that followed again.
    """
    covered = min(session.covered_seq, session.last_seq - 2) if is_last else session.covered_seq
    return replace(
        session,
        state="open",
        closed_at=None,
        covered_seq=covered,
        memory_revision=session.memory_revision + 1,
    )


def micros(seconds: float) -> int:
    return int(seconds * 1_000_000)


def put_late(connection: Connection, session: Session, *, now: datetime) -> None:
    """Leave a job that indexes a session anew: a reply came that its memory covers already."""
    jobs.put(
        connection,
        session.tenant_id,
        "index_late_reply",
        f"{session.session_id}:{uuid.uuid4().hex}",
        {"session_id": session.session_id},
        subject=f"memory:{session.session_id}",
        now=now,
    )


def put_sync(
    connection: Connection,
    tenant_id: str,
    session_id: str,
    *,
    now: datetime,
    delay_seconds: float = jobs.CALLER_SECONDS,
) -> str:
    """Leave a job that makes the index agree with what SQL holds of a session; returns its key.

    The caller does it at once with `Worker.run_now`; if it dies, a worker does. A second one comes
    late, for a push that was under way meanwhile may have landed after the first.
    """
    key = f"{session_id}:{uuid.uuid4().hex}"
    for name, delay in ((key, delay_seconds), (f"{key}{jobs.LATE}", jobs.LATE_SECONDS)):
        jobs.put(
            connection,
            tenant_id,
            "sync_episode",
            name,
            {"session_id": session_id},
            subject=f"memory:{session_id}",
            now=now,
            delay_seconds=delay,
        )
    return key
