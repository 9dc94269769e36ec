"""The jobs of an erasure: the rest of it, a late look, the bytes. Touches: the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection
from app.db.tables import jobs as table
from app.erased import user_hash

ERASE, LATE, SCRUB = "erase_user", "erase_user_late", "scrub_files"
BYTES_SUBJECT = "files"


def subject(tenant_id: str, user_id: str) -> str:
    """Return what the jobs about a user's erasure are known by."""
    return f"erase:{user_hash(tenant_id, user_id)}"


def put(
    connection: Connection,
    tenant_id: str,
    kind: str,
    key: str,
    payload: Mapping[str, Any],
    now: datetime,
    delay_seconds: float,
) -> None:
    """Leave a job about the user that its payload names."""
    jobs.put(
        connection,
        tenant_id,
        kind,
        key,
        payload,
        subject=subject(tenant_id, payload["user"]),
        now=now,
        delay_seconds=delay_seconds,
    )


def is_scrub_due(tenant_id: str, connection: Connection) -> bool:
    """Say if files are still to be scrubbed after an erasure."""
    due = sa.exists().where(
        table.c.tenant_id == tenant_id,
        table.c.kind.in_([ERASE, SCRUB]),
        table.c.state != "done",
    )
    return bool(connection.execute(sa.select(due)).scalar())


def put_scrub(
    connection: Connection, tenant_id: str, key: str, now: datetime, delay_seconds: float
) -> None:
    """Leave a job that scrubs the files."""
    jobs.put(
        connection,
        tenant_id,
        SCRUB,
        key,
        {},
        subject=BYTES_SUBJECT,
        now=now,
        delay_seconds=delay_seconds,
    )


def newest_scrub(connection: Connection) -> int:
    """Return the id of the newest job that scrubs: what is rewritten now is rewritten for it."""
    newest = sa.select(sa.func.max(table.c.id)).where(table.c.kind == SCRUB)
    return connection.execute(newest).scalar() or 0


def end_scrubs(up_to: int, connection: Connection) -> None:
    """Declare done what waits for a scrub that began after it was asked for."""
    waiting = sa.select(table.c.id).where(
        table.c.kind == SCRUB, table.c.id <= up_to, table.c.state == "due"
    )
    for job_id in connection.execute(waiting).scalars().all():
        jobs.end(connection, job_id, {})
