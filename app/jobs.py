"""Durable work that happens exactly once across replicas. Touches: the `jobs` table.

A row is claimed under a lease; a lease that ran out is simply due again. A result is committed
only while the claim's fence is the newest, so a worker that was frozen and comes back commits
nothing. Leases run on the database's clock.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa

from app.claims import EARLIER, IS_BEFORE, take
from app.claims import Claim as Claim
from app.claims import LostClaim as LostClaim
from app.claims import end_held as end_held
from app.claims import hold as hold
from app.db import Connection, Database, db_now
from app.db.insert import insert_into
from app.db.tables import after, after_given, jobs
from app.tracing import carried

T = TypeVar("T")

FIRST_RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 900.0
LONGEST_ASKED_SECONDS = 3600.0
DEFERRED = "deferred: "  # begins the reason of a job that waits and did not fail
CALLER_SECONDS = 60.0  # a job whose caller does it itself is left alone for so long
GATHERED_AT_ONCE = 500  # subjects in one statement
LATE_SECONDS = 600.0  # by then, whoever was at something when it was deleted has ended
LATE = ":late"  # ends the key of a second look after so long
_KEY = ["tenant_id", "kind", "key"]


class Postpone(Exception):
    """Raised by a handler: not now, try again. `reason` is shown in /health/ready."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Defer(Postpone):
    """Raised by a handler that has not begun: nothing failed, the job waits for `seconds`."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands. `state`: due, running or done; `result`: what it left so far.

    waits_for: the first of the jobs that have to be done before it.
    """

    id: int
    kind: str
    state: str
    attempts: int
    last_error: str | None
    result: Mapping[str, Any] | None
    created_at: datetime
    finished_at: datetime | None
    waits_for: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that is not done, locked by whoever reads this."""

    id: int
    key: str
    subject: str
    payload: Mapping[str, Any]
    result: Mapping[str, Any] | None


Handler = Callable[[Claim], Awaitable[None]]

_is_undone = jobs.c.state.in_(["due", "running"])
# Not yet tried, and not yet due: nothing is behind while it waits.
IS_LATE = sa.and_(
    jobs.c.key.endswith(LATE),
    jobs.c.state == "due",
    jobs.c.attempts == 0,
    jobs.c.due_at > db_now(),
)
_LATE = sa.select(jobs.c.kind, sa.func.count()).where(IS_LATE).group_by(jobs.c.kind)


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
    row = _row(tenant_id, kind, key, payload, subject, now)
    row["delay"] = int(delay_seconds * 1_000_000)
    return connection.execute(_putting(connection.dialect.name), row).first() is not None


@lru_cache(maxsize=2)
def _putting(dialect: str) -> Any:
    new = insert_into(dialect, jobs).values({"due_at": after_given("delay")})
    return new.on_conflict_do_nothing(index_elements=_KEY).returning(jobs.c.id)


def gather(
    connection: Connection,
    tenant_id: str,
    kind: str,
    payloads: Mapping[str, Mapping[str, Any]],
    *,
    now: datetime,
    delay_seconds: float,
) -> None:
    """Have a job of a kind waiting for each subject; what is already waiting will do.

    payloads: by subject. A job that waits is locked until the caller's transaction ends, so that
    whoever claims it afterwards sees what the caller wrote; one that runs may not, and gets a
    successor, as does one that failed, since its pause may be long.
    """
    subjects = sorted(payloads)
    for start in range(0, len(subjects), GATHERED_AT_ONCE):
        some = subjects[start : start + GATHERED_AT_ONCE]
        waiting = (
            sa.select(jobs.c.subject)
            .where(
                jobs.c.tenant_id == tenant_id,
                jobs.c.subject.in_(some),
                jobs.c.kind == kind,
                jobs.c.state == "due",
                jobs.c.attempts == 0,
            )
            .order_by(_as_python_sorts(connection, jobs.c.subject))  # so nobody waits in a circle
            .with_for_update()
        )
        known = set(connection.execute(waiting).scalars())
        rows = [
            _row(tenant_id, kind, uuid.uuid4().hex, payloads[subject], subject, now)
            for subject in some
            if subject not in known
        ]
        if rows:
            connection.execute(jobs.insert().values({"due_at": after(delay_seconds)}), rows)


def _as_python_sorts(connection: Connection, column: sa.Column[str]) -> sa.ColumnElement[str]:
    """Return the column to sort by; Postgres sorts as its language does, unless it is told."""
    return sa.collate(column, "C") if connection.dialect.name == "postgresql" else column


def _row(
    tenant_id: str,
    kind: str,
    key: str,
    payload: Mapping[str, Any],
    subject: str,
    now: datetime,
) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "kind": kind,
        "key": key,
        "subject": subject,
        "payload": {**payload, **carried()},
        "state": "due",
        "attempts": 0,
        "fence": 0,
        "created_at": now,
    }


def cancel(connection: Connection, tenant_id: str, subject: str) -> int:
    """Remove the jobs about a subject, running ones included; returns how many."""
    gone = jobs.delete().where(jobs.c.tenant_id == tenant_id, jobs.c.subject == subject)
    return connection.execute(gone).rowcount


def undone(
    connection: Connection, tenant_id: str, kind: str, subjects: Collection[str]
) -> list[Waiting]:
    """Return the jobs of a kind about some subjects that wait or run, locked."""
    wanted = (
        sa.select(*(jobs.c[name] for name in Waiting.__dataclass_fields__))
        .where(
            jobs.c.tenant_id == tenant_id,
            jobs.c.subject.in_(subjects),
            jobs.c.kind == kind,
            _is_undone,
        )
        .order_by(jobs.c.id)
        .with_for_update()
    )
    return [Waiting(*row) for row in connection.execute(wanted)]


def is_other_undone(connection: Connection, claim: Claim, subject: str) -> bool:
    """Say if another job of the claim's kind about this subject waits or runs."""
    other = sa.exists().where(
        jobs.c.tenant_id == claim.tenant_id,
        jobs.c.subject == subject,
        jobs.c.kind == claim.kind,
        jobs.c.id != claim.id,
        _is_undone,
    )
    return bool(connection.execute(sa.select(other)).scalar())


def end(connection: Connection, job_id: int, result: Mapping[str, Any]) -> None:
    """Declare a job done, whoever is at it: a running one loses its claim."""
    connection.execute(
        jobs.update()
        .where(jobs.c.id == job_id)
        .values(state="done", finished_at=db_now(), lease_until=None, result=dict(result))
    )


def tell(connection: Connection, job_id: int, payload: Mapping[str, Any]) -> None:
    """Change what a job is to do; who runs it learns of it from `hold`."""
    connection.execute(jobs.update().where(jobs.c.id == job_id).values(payload=dict(payload)))


def note(connection: Connection, claim: Claim, result: Mapping[str, Any]) -> None:
    """Write down what a job has come to; for `commit` and `finish`."""
    connection.execute(jobs.update().where(jobs.c.id == claim.id).values(result=dict(result)))


class Jobs:
    """The table with the calls that a worker needs.

    in_order: kinds of which the jobs about one subject are done one after the other.
    """

    def __init__(
        self, database: Database, *, lease_seconds: float, in_order: Collection[str] = ()
    ) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._in_order = list(in_order)
        self._shown = _shown(self._in_order)

    async def claim(self, kinds: list[str]) -> Claim | None:
        """Take the longest-due job of these kinds, or None."""
        return await self._database.write(
            lambda c: take(c, kinds, self._lease_seconds, self._in_order)
        )

    async def claim_key(self, tenant_id: str, kind: str, key: str) -> Claim | None:
        """Take one named job if nobody works on it, due or not yet due."""
        return await self._database.write(
            lambda c: take(
                c, [kind], self._lease_seconds, self._in_order, tenant_id=tenant_id, key=key
            )
        )

    async def extend(self, claim: Claim) -> None:
        """Renew the lease. Raises `LostClaim`."""

        def renew(connection: Connection) -> None:
            hold(connection, claim)
            connection.execute(
                jobs.update()
                .where(jobs.c.id == claim.id)
                .values(lease_until=after(self._lease_seconds))
            )

        await self._database.write(renew)

    async def commit(self, claim: Claim, fn: Callable[[Connection], T]) -> T:
        """Run `fn` in a transaction that is void unless the claim still holds."""

        def held(connection: Connection) -> T:
            hold(connection, claim)
            return fn(connection)

        return await self._database.write(held)

    async def end(self, claim: Claim) -> None:
        """Declare a job done. Raises `LostClaim`."""
        await self._database.write(lambda c: end_held(c, claim))

    async def finish(self, claim: Claim, fn: Callable[[Connection], T]) -> T:
        """Like `commit`, and the job is done with it."""

        def held(connection: Connection) -> T:
            hold(connection, claim)
            result = fn(connection)
            end_held(connection, claim)
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

    async def defer(self, claim: Claim, reason: str, *, seconds: float) -> None:
        """Put a job back that was not begun, so that it counts as no try; it waits an hour at most.

        Its reason is shown, and it does not count as failed.
        """
        pause = min(seconds, LONGEST_ASKED_SECONDS)

        def put_back(connection: Connection) -> None:
            connection.execute(
                jobs.update()
                .where(
                    jobs.c.id == claim.id,
                    jobs.c.fence == claim.fence,
                    jobs.c.state == "running",
                )
                .values(
                    state="due",
                    attempts=claim.attempts - 1,
                    due_at=after(pause),
                    lease_until=None,
                    last_error=f"{DEFERRED}{reason}"[:500],
                )
            )

        await self._database.write(put_back)

    async def state(self, tenant_id: str, kind: str, key: str) -> tuple[str, str | None] | None:
        """Return a job's state ("due", "running", "done") and its last error; None if unknown."""
        statement = sa.select(jobs.c.state, jobs.c.last_error).where(
            jobs.c.tenant_id == tenant_id, jobs.c.kind == kind, jobs.c.key == key
        )
        row = await self._database.read(lambda c: c.execute(statement).first())
        return None if row is None else (row.state, row.last_error)

    async def get(self, tenant_id: str, job_id: int) -> Job | None:
        wanted = self._shown.where(jobs.c.tenant_id == tenant_id, jobs.c.id == job_id)
        row = await self._database.read(lambda c: c.execute(wanted).first())
        return None if row is None else Job(*row)

    async def find(self, tenant_id: str, kind: str, key: str) -> Job | None:
        wanted = self._shown.where(
            jobs.c.tenant_id == tenant_id, jobs.c.kind == kind, jobs.c.key == key
        )
        row = await self._database.read(lambda c: c.execute(wanted).first())
        return None if row is None else Job(*row)

    async def list_jobs(
        self, tenant_id: str, *, kind: str, before: int | None, limit: int
    ) -> list[Job]:
        """Return the jobs of a kind, the newest first, from before the id `before`."""
        wanted = self._shown.where(jobs.c.tenant_id == tenant_id, jobs.c.kind == kind)
        if before is not None:
            wanted = wanted.where(jobs.c.id < before)
        wanted = wanted.order_by(jobs.c.id.desc()).limit(limit)
        rows = await self._database.read(lambda c: c.execute(wanted).all())
        return [Job(*row) for row in rows]

    async def pending(self) -> dict[str, dict[str, Any]]:
        """Return, by kind, how many jobs are not done; how many failed, or wait; and one reason.

        Without second looks whose time has not come.
        """
        return await self._database.read(_pending)

    async def late(self) -> dict[str, int]:
        """Return, by kind, how many second looks wait for their time."""
        return await self._database.read(lambda c: dict(c.execute(_LATE).all()))

    async def purge_done(self, *, older_than_seconds: float) -> int:
        """Forget finished jobs; their keys may come again afterwards."""
        old = jobs.delete().where(
            jobs.c.state == "done", jobs.c.finished_at < after(-older_than_seconds)
        )
        return await self._database.write(lambda c: c.execute(old).rowcount)


def _shown(in_order: Collection[str]) -> sa.Select[Any]:
    """Return what selects the fields of `Job`."""
    waiting_for = sa.select(sa.func.min(EARLIER.c.id)).where(IS_BEFORE).scalar_subquery()
    waits = sa.and_(jobs.c.kind.in_(in_order), jobs.c.state == "due")
    fields = [name for name in Job.__dataclass_fields__ if name != "waits_for"]
    return sa.select(*(jobs.c[name] for name in fields), sa.case((waits, waiting_for)))


def _pending(connection: Connection) -> dict[str, dict[str, Any]]:
    failed = sa.not_(jobs.c.last_error.startswith(DEFERRED))  # null, so not true, without an error
    why = sa.func.max(sa.case((failed, jobs.c.last_error)))
    rows = connection.execute(
        sa.select(
            jobs.c.kind,
            sa.func.count(),
            sa.func.sum(sa.case((failed, 1), else_=0)),
            sa.func.count(jobs.c.last_error),
            sa.func.coalesce(why, sa.func.max(jobs.c.last_error)),
        )
        .where(_is_undone, sa.not_(IS_LATE))
        .group_by(jobs.c.kind)
    )
    return {
        kind: {
            "pending": count,
            "failed": int(failures or 0),
            "deferred": told - int(failures or 0),
            "last_error": reason,
        }
        for kind, count, failures, told, reason in rows
    }
