"""Who holds a job: taken under a lease, kept by a fence. Touches: the `jobs` table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from app.db import Connection, db_now
from app.db.tables import after_given, jobs

EARLIER = jobs.alias("earlier")
# Of jobs that are done in order: it has to be done before a row of `jobs`.
IS_BEFORE = sa.and_(
    EARLIER.c.tenant_id == jobs.c.tenant_id,
    EARLIER.c.subject == jobs.c.subject,
    EARLIER.c.kind == jobs.c.kind,
    EARLIER.c.state != "done",
    EARLIER.c.id < jobs.c.id,
)


class LostClaim(Exception):
    """Another worker has taken the job over, or it was cancelled: commit nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that this worker holds until its lease runs out.

    is_taken_over: another worker held it, whose lease ran out.
    """

    id: int
    tenant_id: str
    kind: str
    key: str
    payload: Mapping[str, Any]
    attempts: int
    fence: int
    is_taken_over: bool = False

    @property
    def is_again(self) -> bool:
        """Say whether somebody was at it before, whether or not that counts as a try."""
        return self.fence > 1


def take(
    connection: Connection,
    kinds: list[str],
    lease_seconds: float,
    in_order: list[str],
    *,
    tenant_id: str | None = None,
    key: str | None = None,
) -> Claim | None:
    """Claim the longest-due job of some kinds, or one by its tenant and key, due or not.

    in_order: kinds of which the jobs about one subject are done one after the other.
    """
    named = {} if key is None else {"whose": tenant_id, "named": key}
    finding = _finding(tuple(kinds), tuple(in_order), is_named=key is not None)
    found = connection.execute(finding, named).first()
    if found is None:
        return None
    taken = connection.execute(_TAKE, {"found": found.id, "lease": int(lease_seconds * 1_000_000)})
    return replace(Claim(*taken.one()), is_taken_over=found.state == "running")


@lru_cache(maxsize=64)
def _finding(
    kinds: tuple[str, ...], in_order: tuple[str, ...], *, is_named: bool
) -> sa.Select[tuple[int, str]]:
    """Return what finds and locks a free job. It is asked for often, and takes long to build."""
    lapsed = sa.and_(jobs.c.state == "running", jobs.c.lease_until < db_now())
    if not is_named:
        free = sa.or_(sa.and_(jobs.c.state == "due", jobs.c.due_at <= db_now()), lapsed)
    else:
        free = sa.and_(
            jobs.c.tenant_id == sa.bindparam("whose"),
            jobs.c.key == sa.bindparam("named"),
            sa.or_(jobs.c.state == "due", lapsed),
        )
    is_first = ~sa.exists().where(IS_BEFORE)
    if set(kinds) & set(in_order):
        free = sa.and_(free, sa.or_(jobs.c.kind.not_in(in_order), is_first))
    return (
        sa.select(jobs.c.id, jobs.c.state)
        .where(jobs.c.kind.in_(kinds), free)
        .order_by(jobs.c.due_at, jobs.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )


_TAKE = (
    jobs.update()
    .where(jobs.c.id == sa.bindparam("found"))
    .values(
        state="running",
        fence=jobs.c.fence + 1,
        attempts=jobs.c.attempts + 1,
        lease_until=after_given("lease"),
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


_IS_HELD = sa.and_(
    jobs.c.id == sa.bindparam("which"),
    jobs.c.fence == sa.bindparam("held"),
    jobs.c.state == "running",
)
_HOLD = sa.select(jobs.c.payload).where(_IS_HELD).with_for_update()
_END_HELD = (
    jobs.update()
    .where(_IS_HELD)
    .values(state="done", finished_at=db_now(), lease_until=None, last_error=None)
)


def hold(connection: Connection, claim: Claim) -> Mapping[str, Any]:
    """Keep a claim for the length of the transaction; returns the payload as it is now.

    Raises `LostClaim`, which voids the transaction.
    """
    held = connection.execute(_HOLD, {"which": claim.id, "held": claim.fence}).first()
    if held is None:
        raise LostClaim
    payload: Mapping[str, Any] = held.payload
    return payload


def end_held(connection: Connection, claim: Claim) -> None:
    """Declare a job done in one statement. Raises `LostClaim`, which voids the transaction."""
    which = {"which": claim.id, "held": claim.fence}
    if not connection.execute(_END_HELD, which).rowcount:
        raise LostClaim
