"""Durable work that happens exactly once across replicas. Touches: the `jobs` table.

A row is claimed under a lease; a lease that ran out is simply due again. A result is committed
only while the claim's fence is the newest, so a worker that was frozen and comes back commits
nothing. Leases run on the database's clock.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from app.db import Connection, Database, db_now
from app.db.insert import insert_new
from app.db.tables import after, jobs

T = TypeVar("T")

FIRST_RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 900.0
LONGEST_ASKED_SECONDS = 3600.0
CALLER_SECONDS = 60.0  # a job whose caller does it itself is left alone for so long
LATE_SECONDS = 600.0  # by then, whoever was at something when it was deleted has ended


class LostClaim(Exception):
    """Another worker has taken the job over, or it was cancelled: commit nothing."""


class Postpone(Exception):
    """Raised by a handler: not now, try again. `reason` is shown in /health/ready."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that this worker holds until its lease runs out."""

    id: int
    tenant_id: str
    kind: str
    key: str
    payload: Mapping[str, Any]
    attempts: int
    fence: int


Handler = Callable[[Claim], Awaitable[None]]


def put(
    connection: Connection,
    tenant_id: str,
    kind: str,
    key: str,
    payload: Mapping[str, Any],
    *,
    subject: str,
    now: datetime,
    delay_seconds: float = 0.0,
) -> bool:
    """Add a job in the caller's transaction; a second `(kind, key)` of a tenant changes nothing.

    Returns whether it is new. `subject` names what it is about, so that `cancel` finds it. A
    caller that is about to do the job itself delays it, so that workers leave it alone until then.
    """
    row = {
        "tenant_id": tenant_id,
        "kind": kind,
        "key": key,
        "subject": subject,
        "payload": dict(payload),
        "state": "due",
        "attempts": 0,
        "fence": 0,
        "due_at": after(delay_seconds),
        "created_at": now,
    }
    return insert_new(connection, jobs, row, key=["tenant_id", "kind", "key"])


def cancel(connection: Connection, tenant_id: str, subject: str) -> int:
    """Remove the jobs about a subject, running ones included; returns how many."""
    gone = jobs.delete().where(jobs.c.tenant_id == tenant_id, jobs.c.subject == subject)
    return connection.execute(gone).rowcount


class Jobs:
    """The table with the calls that a worker needs."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds

    async def claim(self, kinds: list[str]) -> Claim | None:
        """Take the longest-due job of these kinds, or None."""
        return await self._database.write(lambda c: _claim(c, kinds, self._lease_seconds))

    async def claim_key(self, tenant_id: str, kind: str, key: str) -> Claim | None:
        """Take one named job if nobody works on it, due or not yet due."""
        return await self._database.write(
            lambda c: _claim(c, [kind], self._lease_seconds, tenant_id=tenant_id, key=key)
        )

    async def extend(self, claim: Claim) -> None:
        """Renew the lease. Raises `LostClaim`."""

        def renew(connection: Connection) -> None:
            _hold(connection, claim)
            connection.execute(
                jobs.update()
                .where(jobs.c.id == claim.id)
                .values(lease_until=after(self._lease_seconds))
            )

        await self._database.write(renew)

    async def commit(self, claim: Claim, fn: Callable[[Connection], T]) -> T:
        """Run `fn` in a transaction that is void unless the claim still holds."""

        def held(connection: Connection) -> T:
            _hold(connection, claim)
            return fn(connection)

        return await self._database.write(held)

    async def finish(self, claim: Claim, fn: Callable[[Connection], T]) -> T:
        """Like `commit`, and the job is done with it."""

        def held(connection: Connection) -> T:
            _hold(connection, claim)
            result = fn(connection)
            connection.execute(
                jobs.update()
                .where(jobs.c.id == claim.id)
                .values(state="done", finished_at=db_now(), lease_until=None, last_error=None)
            )
            return result

        return await self._database.write(held)

    async def fail(self, claim: Claim, reason: str, *, after_seconds: float | None = None) -> None:
        """Put the job back with its reason, due after a growing, jittered pause.

        `after_seconds` is what the failing part asked for; it is believed up to an hour.
        """
        backoff = FIRST_RETRY_SECONDS * 2 ** min(claim.attempts - 1, 20)
        asked = min(after_seconds or 0.0, LONGEST_ASKED_SECONDS)
        pause = max(asked, min(backoff, LONGEST_RETRY_SECONDS)) * random.uniform(1.0, 1.25)  # noqa: S311

        def put_back(connection: Connection) -> None:
            connection.execute(
                jobs.update()
                .where(
                    jobs.c.id == claim.id,
                    jobs.c.fence == claim.fence,
                    jobs.c.state == "running",  # what was done in the last moment stays done
                )
                .values(state="due", due_at=after(pause), lease_until=None, last_error=reason[:500])
            )

        await self._database.write(put_back)

    async def state(self, tenant_id: str, kind: str, key: str) -> tuple[str, str | None] | None:
        """Return a job's state ("due", "running", "done") and its last error; None if unknown."""
        statement = sa.select(jobs.c.state, jobs.c.last_error).where(
            jobs.c.tenant_id == tenant_id, jobs.c.kind == kind, jobs.c.key == key
        )
        row = await self._database.read(lambda c: c.execute(statement).first())
        return None if row is None else (row.state, row.last_error)

    async def pending(self) -> dict[str, dict[str, Any]]:
        """Return, by kind, how many jobs are not done, how many of them failed, and one reason."""
        return await self._database.read(_pending)

    async def purge_done(self, *, older_than_seconds: float) -> int:
        """Forget finished jobs; their keys may come again afterwards."""
        old = jobs.delete().where(
            jobs.c.state == "done", jobs.c.finished_at < after(-older_than_seconds)
        )
        return await self._database.write(lambda c: c.execute(old).rowcount)


def _claim(
    connection: Connection,
    kinds: list[str],
    lease_seconds: float,
    *,
    tenant_id: str | None = None,
    key: str | None = None,
) -> Claim | None:
    lapsed = sa.and_(jobs.c.state == "running", jobs.c.lease_until < db_now())
    if key is None:
        free = sa.or_(sa.and_(jobs.c.state == "due", jobs.c.due_at <= db_now()), lapsed)
    else:
        free = sa.and_(
            jobs.c.tenant_id == tenant_id,
            jobs.c.key == key,
            sa.or_(jobs.c.state == "due", lapsed),
        )
    due = (
        sa.select(jobs.c.id)
        .where(jobs.c.kind.in_(kinds), free)
        .order_by(jobs.c.due_at, jobs.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    taken = (
        jobs.update()
        .where(jobs.c.id.in_(sa.select(due.c.id)))
        .values(
            state="running",
            fence=jobs.c.fence + 1,
            attempts=jobs.c.attempts + 1,
            lease_until=after(lease_seconds),
        )
        .returning(
            jobs.c.id,
            jobs.c.tenant_id,
            jobs.c.kind,
            jobs.c.key,
            jobs.c.payload,
            jobs.c.attempts,
            jobs.c.fence,
        )
    )
    row = connection.execute(taken).first()
    return None if row is None else Claim(*row)


def _hold(connection: Connection, claim: Claim) -> None:
    held = connection.execute(
        sa.select(jobs.c.id)
        .where(jobs.c.id == claim.id, jobs.c.fence == claim.fence, jobs.c.state == "running")
        .with_for_update()
    ).first()
    if held is None:
        raise LostClaim


def _pending(connection: Connection) -> dict[str, dict[str, Any]]:
    failed = jobs.c.last_error.is_not(None)
    rows = connection.execute(
        sa.select(
            jobs.c.kind,
            sa.func.count(),
            sa.func.sum(sa.case((failed, 1), else_=0)),
            sa.func.max(jobs.c.last_error),
        )
        .where(jobs.c.state.in_(["due", "running"]))
        .group_by(jobs.c.kind)
    )
    return {
        kind: {"pending": count, "failed": int(failures or 0), "last_error": reason}
        for kind, count, failures, reason in rows
    }
