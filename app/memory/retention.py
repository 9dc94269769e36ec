"""Raw messages go once they are old and summarised; what was made of them stays.

Touches: `messages`, `sessions`, the lexical index, the jobs.

With a message go its receipt, its words in the lexical index and the vector of its exchange. The
session, its episode and its facts stay, and so do the facts' quotes: a quote is the proof of its
fact, and goes with it. A `client_message_id` goes with its message: sent again, it is a new one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database
from app.db.tables import messages, sessions
from app.index.base import Index, namespace
from app.jobs import Claim, Handler, Jobs
from app.memory import lexicon, tally
from app.memory.eviction import LONGEST_DAYS
from app.memory.vectors import exchange_ids
from app.sessions.base import Session, SessionStore
from app.sessions.rows import lock_session, of_session

log = logging.getLogger(__name__)

AT_ONCE = 500  # sessions that one pass takes messages from; the next one goes on
KIND = "drop_exchanges"

# Messages go from the beginning, so a look at the first one left tells if there is one to go.
_first = messages.alias("first")
FIRST_LEFT = (
    sa.select(_first.c.seq)
    .where(_first.c.tenant_id == sessions.c.tenant_id, _first.c.session_id == sessions.c.session_id)
    .order_by(_first.c.seq)
    .limit(1)
    .correlate(sessions)
    .scalar_subquery()
)
_WITH_OLD_MESSAGES = (
    sa.select(sessions.c.tenant_id, sessions.c.session_id)
    .select_from(sessions)
    .join(
        messages,
        sa.and_(
            messages.c.tenant_id == sessions.c.tenant_id,
            messages.c.session_id == sessions.c.session_id,
            messages.c.seq == FIRST_LEFT,
        ),
    )
    .where(
        messages.c.created_at < sa.bindparam("before", type_=messages.c.created_at.type),
        messages.c.seq < sessions.c.covered_seq,
        sa.tuple_(sessions.c.tenant_id, sessions.c.session_id)
        > sa.tuple_(sa.bindparam("last_tenant"), sa.bindparam("last_session")),
    )
    .order_by(sessions.c.tenant_id, sessions.c.session_id)
    .limit(AT_ONCE)
)


@dataclass(frozen=True, slots=True)
class Removed:
    """What one pass removed."""

    sessions: int = 0
    messages: int = 0


class Retention:
    """Removes messages older than `days`; None keeps them all."""

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        index: Index,
        sessions: SessionStore,
        *,
        days: float | None,
        timezone: str,
    ) -> None:
        self._database = database
        self._queue = queue
        self._index = index
        self._sessions = sessions
        self._days = days
        self._timezone = timezone

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {KIND: self._drop_exchanges}

    async def sweep(self, now: datetime) -> Removed:
        """Remove what is old by now, of at most `AT_ONCE` sessions of all tenants.

        A session is one transaction: passes of several replicas take nothing twice.
        """
        if self._days is None:
            return Removed()
        before = now - timedelta(days=min(self._days, LONGEST_DAYS))
        removed = Removed()
        last = ("", "")
        while removed.sessions < AT_ONCE:
            which = {"before": before, "last_tenant": last[0], "last_session": last[1]}
            page = await self._database.read(partial(_page, which))
            for tenant_id, session_id in page:
                count = await self._database.write(
                    partial(_remove, tenant_id, session_id, before, now, self._timezone)
                )
                if count:
                    await self._sessions.let_go(tenant_id, [session_id])
                removed = Removed(removed.sessions + (count > 0), removed.messages + count)
            if len(page) < AT_ONCE:
                break
            last = page[-1]
        if removed.messages:
            log.info("removed %s old messages of %s sessions", removed.messages, removed.sessions)
        return removed

    async def removed_up_to(self, session: Session) -> int:
        """Return up to which message a session has lost its messages; 0: it has them all."""
        here = (session.tenant_id, session.session_id, session.last_seq)
        return await self._database.read(partial(_removed_up_to, *here))

    async def _drop_exchanges(self, claim: Claim) -> None:
        session_id = claim.payload["session_id"]
        last_seq = sa.select(sessions.c.last_seq).where(
            of_session(sessions, claim.tenant_id, session_id)
        )

        def exchanges_gone(connection: Connection) -> int:
            last = connection.execute(last_seq).scalar() or 0
            return _removed_up_to(claim.tenant_id, session_id, last, connection) // 2

        ids = exchange_ids(session_id, await self._database.read(exchanges_gone))
        if ids:
            await self._index.delete(namespace("memory", claim.tenant_id), ids)
        await self._queue.finish(claim, lambda _: None)


def _page(which: Mapping[str, Any], connection: Connection) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in connection.execute(_WITH_OLD_MESSAGES, which)]


def _removed_up_to(tenant_id: str, session_id: str, last_seq: int, connection: Connection) -> int:
    first = sa.select(sa.func.min(messages.c.seq)).where(
        of_session(messages, tenant_id, session_id)
    )
    left: int | None = connection.execute(first).scalar()
    return last_seq if left is None else left - 1


def _remove(
    tenant_id: str,
    session_id: str,
    before: datetime,
    now: datetime,
    timezone: str,
    connection: Connection,
) -> int:
    session = lock_session(connection, tenant_id, session_id)
    if session is None:
        return 0
    return remove_messages(connection, session, before, now, timezone=timezone)


def remove_messages(
    connection: Connection, session: Session, before: datetime, now: datetime, *, timezone: str
) -> int:
    """Remove the turns at a session's beginning that are old and covered, whole; how many.

    The caller holds the lock of the session.
    """
    here = of_session(messages, session.tenant_id, session.session_id)
    stays = sa.or_(
        messages.c.seq > session.covered_seq,
        messages.c.created_at >= before,
        messages.c.status == "pending",
    )
    first = sa.select(sa.func.min(messages.c.seq)).where(here, stays)
    first_left = connection.execute(first).scalar()
    # A question goes with its answer.
    last_gone = session.last_seq if first_left is None else (first_left - 1) // 2 * 2
    gone = connection.execute(messages.delete().where(here, messages.c.seq <= last_gone)).rowcount
    if not gone:
        return 0
    lexicon.index_messages_anew(connection, session, timezone=timezone)
    _put_drops(connection, session, now)
    tally.add(connection, session.tenant_id, removed_messages=gone)
    return gone


def _put_drops(connection: Connection, session: Session, now: datetime) -> None:
    """Leave a job for the vectors; a second one comes late, after a push that is under way."""
    for end, delay_seconds in (("", 0.0), (jobs.LATE, jobs.LATE_SECONDS)):
        jobs.put(
            connection,
            session.tenant_id,
            KIND,
            f"{session.session_id}:{uuid.uuid4().hex}{end}",
            {"session_id": session.session_id},
            subject=f"memory:{session.session_id}",
            now=now,
            delay_seconds=delay_seconds,
        )
