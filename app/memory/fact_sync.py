"""Facts that changed, to the indexes: the lexical one at once, the vectors by jobs.

Touches: the lexical index, `episodes`, the jobs.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from app import jobs
from app.db import Connection
from app.db.tables import episodes
from app.memory import lexicon
from app.memory.fact_writes import Changes
from app.sessions.rows import of_session, put_sync

SYNC_FACT = "sync_fact"


@dataclass(frozen=True, slots=True)
class Job:
    """A job that the caller may have done at once."""

    kind: str
    key: str


def publish(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    changes: Changes,
    now: datetime,
    *,
    leave_out: str | None = None,
    by_caller: bool = True,
) -> list[Job]:
    """Bring the lexical index up to date, and leave jobs that do so for the vectors.

    leave_out: a session that the caller looks after. by_caller: it has the jobs done itself.
    """
    delay = jobs.CALLER_SECONDS if by_caller else 0.0
    left = [
        _sync_session(connection, tenant_id, user_id, session_id, now, delay)
        for session_id in sorted(changes.sessions - {leave_out})
    ]
    for session_id in sorted(changes.noted - changes.sessions - {leave_out}):
        lexicon.index_notes(connection, tenant_id, user_id, session_id)
    for fact in changes.no_longer_alone.values():
        lexicon.drop_fact(connection, fact)
    for fact in changes.alone.values():
        lexicon.index_fact(connection, fact)
    ids = sorted({*changes.no_longer_alone, *changes.alone})
    return left + [put_fact_sync(connection, tenant_id, fact_id, now, delay) for fact_id in ids]


def _sync_session(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    session_id: str,
    now: datetime,
    delay: float,
) -> Job:
    """Have a session's notes and vectors follow its facts.

    Its episode's version moves, so that a push that began before can't win; its memory does not,
    or a checkpoint that a model is at would be thrown away.
    """
    connection.execute(
        episodes.update()
        .where(of_session(episodes, tenant_id, session_id))
        .values(version=episodes.c.version + 1, updated_at=now)
    )
    lexicon.index_notes(connection, tenant_id, user_id, session_id)
    key = put_sync(connection, tenant_id, session_id, now=now, delay_seconds=delay)
    return Job("sync_episode", key)


def put_fact_sync(
    connection: Connection, tenant_id: str, fact_id: str, now: datetime, delay: float
) -> Job:
    """Leave a job that makes the index agree with a fact that stands alone, and a late one, as
    `put_sync` does."""
    key = f"{fact_id}:{uuid.uuid4().hex}"
    for name, delay_seconds in ((key, delay), (f"{key}:late", jobs.LATE_SECONDS)):
        jobs.put(
            connection,
            tenant_id,
            SYNC_FACT,
            name,
            {"fact_id": fact_id},
            subject=f"fact:{fact_id}",
            now=now,
            delay_seconds=delay_seconds,
        )
    return Job(SYNC_FACT, key)
