"""The words of memories that were stored without, in the background. Touches: the lexical index.

A job does some sessions and leaves a job for the next ones, so that it stands in nobody's way.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database
from app.db.locks import lock_user
from app.db.tables import facts, sessions
from app.jobs import Claim, Handler, Jobs, Postpone
from app.lexical import store
from app.lexical.store import Counted
from app.lexical.version import SUBJECT
from app.memory import lexicon
from app.memory.base import Fact
from app.sessions.base import Message, Session
from app.sessions.rows import SESSION, lock_session

REINDEX = "reindex_memory_words"
SESSIONS_AT_ONCE = 50
FACTS_AT_ONCE = 200
MESSAGES_OF_A_PART = 200
READINGS = 5  # of a session whose memory moves meanwhile

_PAGE = (
    sa.select(*SESSION)
    .where(
        sessions.c.tenant_id == sa.bindparam("tenant"),
        sessions.c.session_id > sa.bindparam("after"),
        sessions.c.covered_seq > 0,
    )
    .order_by(sessions.c.session_id)
    .limit(SESSIONS_AT_ONCE)
)
_STILL_THERE = sa.select(sa.func.count()).select_from(lexicon.COVERED.order_by(None).subquery())
_ALONE = (
    sa.select(facts)
    .where(
        facts.c.tenant_id == sa.bindparam("tenant"),
        facts.c.number.is_(None),
        facts.c.fact_id > sa.bindparam("after"),
    )
    .order_by(facts.c.fact_id)
    .limit(FACTS_AT_ONCE)
)


def tenants(connection: Connection) -> list[str]:
    """Return the tenants that have memories."""
    of_sessions = sa.select(sessions.c.tenant_id).where(sessions.c.covered_seq > 0)
    return list(connection.execute(of_sessions.union(sa.select(facts.c.tenant_id))).scalars())


class Refill:
    """Indexes a tenant's memories by their words, from SQL. `timezone`: as for `lexicon`."""

    def __init__(
        self, database: Database, queue: Jobs, *, timezone: str, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._queue = queue
        self._timezone = timezone
        self._clock = clock

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {REINDEX: self.run}

    async def all(self, tenant_id: str) -> None:
        """Empty what is indexed and fill it anew."""
        for user_id in await self._database.read(partial(_users, tenant_id)):
            await self._database.write(partial(_clear, tenant_id, user_id))
        await self._facts(tenant_id)
        last: str | None = ""
        while last is not None:
            last = await self._page(tenant_id, last)

    async def run(self, claim: Claim) -> None:
        """Index some sessions, and ask for the next ones."""
        after = claim.payload.get("after", "")
        if not after:
            await self._facts(claim.tenant_id)
        last = await self._page(claim.tenant_id, after)
        now = self._clock()

        def go_on(connection: Connection) -> None:
            if last is not None:
                key, left = uuid.uuid4().hex, {"after": last}
                jobs.put(connection, claim.tenant_id, REINDEX, key, left, subject=SUBJECT, now=now)

        await self._queue.finish(claim, go_on)

    async def _page(self, tenant_id: str, after: str) -> str | None:
        """Index the sessions after an id; returns the last one, or None at the end."""
        wanted = {"tenant": tenant_id, "after": after}
        rows = await self._database.read(lambda c: c.execute(_PAGE, wanted).all())
        for row in rows:
            await self.session(Session(*row))
        return str(rows[-1].session_id) if rows else None

    async def session(self, session: Session) -> None:
        """Index one session; again if its memory moved while its words were counted."""
        for _ in range(READINGS):
            said = await self._database.read(partial(lexicon.covered, session=session))
            counted = await asyncio.to_thread(_counted, session, said, self._timezone)
            moved = await self._database.write(partial(self.put_unless_moved, session, counted))
            if moved is None:
                return
            session = moved
        raise Postpone("the session's memory keeps changing")

    def put_unless_moved(
        self, session: Session, counted: Sequence[Counted], connection: Connection
    ) -> Session | None:
        """Return the session as it is now if that is not what was read; nothing is put then."""
        current = lock_session(connection, session.tenant_id, session.session_id)
        if current is None:
            return None  # deleted, with its words
        if current.memory_revision != session.memory_revision:
            return current
        counts = sum(len(part.units.split()) - 1 for part in counted)  # one unit is the days
        if connection.execute(_STILL_THERE, _where(session)).scalar_one() != counts:
            return current  # old messages went
        lock_user(connection, session.tenant_id, session.user_id)
        of = (session.tenant_id, session.user_id, session.session_id)
        lexicon.drop(connection, *of)
        scope = store.scope_of(lexicon.SAID, session.tenant_id, session.user_id)
        store.put(connection, scope, counted)
        lexicon.index_notes(connection, *of, timezone=self._timezone)
        return None

    async def _facts(self, tenant_id: str) -> None:
        """Index the facts that stand alone: few beside all that was said."""
        last: str | None = ""
        while last is not None:
            last = await self._database.write(partial(_put_facts, tenant_id, last))


def _users(tenant_id: str, connection: Connection) -> list[str]:
    each = (sa.select(t.c.user_id).where(t.c.tenant_id == tenant_id) for t in (sessions, facts))
    return sorted(connection.execute(sa.union(*each)).scalars())


def _clear(tenant_id: str, user_id: str, connection: Connection) -> None:
    lock_user(connection, tenant_id, user_id)
    for kind in (lexicon.SAID, lexicon.NOTED):
        store.clear(connection, store.scope_of(kind, tenant_id, user_id))


def _where(session: Session) -> dict[str, Any]:
    return {
        "tenant": session.tenant_id,
        "session": session.session_id,
        "covered": session.covered_seq,
    }


def _counted(session: Session, said: Sequence[Message], timezone: str) -> list[Counted]:
    parts = [said[at : at + MESSAGES_OF_A_PART] for at in range(0, len(said), MESSAGES_OF_A_PART)]
    return [store.count(lexicon.said_entry(session, part, timezone)) for part in parts]


def _put_facts(tenant_id: str, after: str | None, connection: Connection) -> str | None:
    """Index some facts; returns the last one, or None at the end."""
    which = {"tenant": tenant_id, "after": after}
    for user_id in sorted({row.user_id for row in connection.execute(_ALONE, which)}):
        lock_user(connection, tenant_id, user_id)
    rows = connection.execute(_ALONE, which).all()  # as they are now: one may be gone
    lexicon.index_facts(connection, [Fact(*row) for row in rows])
    return str(rows[-1].fact_id) if rows else None
