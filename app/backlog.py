"""What waits in the database: jobs by kind and state, webhook deliveries. Touches: both tables.

One short read, for whoever watches the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import deliveries, jobs
from app.jobs import DEFERRED, IS_LATE

SUMMARIES = ("summarise", "close")

_HAS_FAILED = sa.not_(jobs.c.last_error.startswith(DEFERRED))  # null without an error
_JOBS = (
    sa.select(
        jobs.c.kind,
        jobs.c.state,
        sa.func.count(),
        sa.func.sum(sa.case((_HAS_FAILED, 1), else_=0)),
    )
    .where(jobs.c.state.in_(["due", "running"]), sa.not_(IS_LATE))
    .group_by(jobs.c.kind, jobs.c.state)
)
# Written out: SQLite takes a partial index only for what it sees in the statement.
_IS_OPEN: sa.BindParameter[str] = sa.bindparam(
    "open", ["pending", "failed"], expanding=True, literal_execute=True
)
_DELIVERIES = (
    sa.select(deliveries.c.state, sa.func.count(), sa.func.min(deliveries.c.received_at))
    .where(deliveries.c.state.in_(_IS_OPEN))
    .group_by(deliveries.c.state)
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """jobs: by kind and state ("due", "running"); failed: by kind, those whose last try failed.

    deliveries: by state ("pending", "failed"). oldest_delivery: when the first that waits came.
    """

    jobs: Mapping[tuple[str, str], int]
    failed: Mapping[str, int]
    deliveries: Mapping[str, int]
    oldest_delivery: datetime | None

    @property
    def pending_summaries(self) -> int:
        return sum(number for (kind, _), number in self.jobs.items() if kind in SUMMARIES)

    @property
    def failed_summaries(self) -> int:
        return sum(self.failed.get(kind, 0) for kind in SUMMARIES)


async def read_backlog(database: Database) -> Backlog:
    """Raises `StorageUnavailable`."""
    return await database.read(_read)


def _read(connection: Connection) -> Backlog:
    waiting: dict[tuple[str, str], int] = {}
    failed: dict[str, int] = {}
    for kind, state, number, of_them_failed in connection.execute(_JOBS):
        waiting[kind, state] = number
        failed[kind] = failed.get(kind, 0) + int(of_them_failed or 0)
    states = {row[0]: (row[1], row[2]) for row in connection.execute(_DELIVERIES)}
    return Backlog(
        waiting,
        failed,
        {state: states.get(state, (0, None))[0] for state in ("pending", "failed")},
        states.get("pending", (0, None))[1],
    )
