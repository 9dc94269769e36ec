"""Facts that changed, to the indexes: the lexical one at once, the vectors by jobs.

Touches: the lexical index, `episodes`, the jobs.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app import jobs
from app.db import Connection
from app.db.parts import in_parts
from app.db.tables import episodes
from app.memory import lexicon
from app.memory.fact_writes import Changes
from app.sessions.rows import of_session, put_sync

SYNC_FACT = "sync_fact"
FACTS_OF_A_JOB = 100


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
    lexicon.drop_facts(connection, list(changes.no_longer_alone.values()))
    lexicon.index_facts(connection, list(changes.alone.values()))
    ids = sorted({*changes.no_longer_alone, *changes.alone})
    fresh = {fact_id for fact_id, fact in changes.alone.items() if fact.version == 1}
    return left + put_fact_sync(connection, tenant_id, ids, now, delay, fresh=fresh)


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
    connection: Connection,
    tenant_id: str,
    fact_ids: Sequence[str],
    now: datetime,
    delay: float,
    *,
    fresh: Collection[str] = (),
) -> list[Job]:
    """Leave jobs that make the index agree with facts that stand alone, some facts a job.

    And late ones, as `put_sync` does, but for what is `fresh`: nobody can have begun to push it.
    """
    left = []
    for some in in_parts(fact_ids, FACTS_OF_A_JOB):
        key = uuid.uuid4().hex
        _put(connection, tenant_id, key, some, now, delay)
        if again := [fact_id for fact_id in some if fact_id not in fresh]:
            _put(connection, tenant_id, f"{key}{jobs.LATE}", again, now, jobs.LATE_SECONDS)
        left.append(Job(SYNC_FACT, key))
    return left


def ids_of(payload: Mapping[str, Any]) -> list[str]:
    """Return the facts that a job is about; one that an older release left names a single one."""
    return list(payload["fact_ids"]) if "fact_ids" in payload else [payload["fact_id"]]


def _put(
    connection: Connection,
    tenant_id: str,
    key: str,
    fact_ids: Sequence[str],
    now: datetime,
    delay: float,
) -> None:
    about = f"fact:{fact_ids[0]}" if len(fact_ids) == 1 else f"facts:{key}"
    payload = {"fact_ids": fact_ids}
    jobs.put(
        connection, tenant_id, SYNC_FACT, key, payload, subject=about, now=now, delay_seconds=delay
    )
