"""What users let be kept for some days is forgotten after them. Touches: consents, the memory.

Marks don't hold it: it is the user's own wish, and stricter than any policy. Each transaction looks
again at what the user allows, and at what is old by that; so passes of several replicas do no harm
to each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from app.consents import Consents
from app.db import Connection, Database
from app.memory.evictor import RunNow
from app.memory.expiry import Expired, due_sessions, due_users, forget_of_session, forget_told
from app.memory.recall_rows import Whose
from app.sessions.base import SessionStore

log = logging.getLogger(__name__)
T = TypeVar("T")

AT_ONCE = 500  # things that one pass forgets, about; the next one goes on


class UserRetention:
    """Forgets what is older than its user's `retention_days`.

    timezone: an IANA name, of sessions that name none. run_now: does the job of a tenant, kind and
    key at once; None when it is done, else the failure.
    """

    def __init__(
        self,
        database: Database,
        consents: Consents,
        sessions: SessionStore,
        *,
        timezone: str,
        run_now: RunNow,
    ) -> None:
        self._database = database
        self._consents = consents
        self._sessions = sessions
        self._timezone = timezone
        self._run_now = run_now

    async def sweep(self, now: datetime) -> Expired:
        """Forget what is too old by now, of all tenants."""
        gone = Expired()
        last = Whose("", "")
        while gone.things < AT_ONCE:
            page = await self._database.read(partial(due_users, now=now, after=last, most=AT_ONCE))
            for user in page:
                if gone.things < AT_ONCE:
                    gone += await self._forget(user, now)
            if len(page) < AT_ONCE:
                break
            last = page[-1]
        if gone.things:
            log.info(
                "users' retention: %s memories, %s messages and %s sessions are forgotten",
                *(gone.memories, gone.messages, gone.sessions),
            )
        return gone

    async def _forget(self, user: Whose, now: datetime) -> Expired:
        """Forget what is too old of a user; of each kind, at most `AT_ONCE`."""
        await self._sessions.settle(user.tenant_id, user.user_id)
        told = partial(forget_told, user=user, now=now, most=AT_ONCE)
        gone = await self._database.write(partial(self._since, user, now, told)) or Expired()
        find = partial(due_sessions, user=user, most=AT_ONCE)
        for session_id in await self._database.read(partial(self._since, user, now, find)) or ():
            said = partial(
                forget_of_session,
                user=user, session_id=session_id, now=now, timezone=self._timezone,
            )  # fmt: skip
            # It may go as a whole: not with a message that came a moment ago.
            if not await self._sessions.withhold(user.tenant_id, session_id):
                continue  # in use; the next pass looks again
            try:
                more = await self._database.write(partial(self._since, user, now, said))
            finally:
                await self._sessions.let_go(user.tenant_id, [session_id])
            gone += more or Expired()
        for job in gone.jobs:
            if await self._run_now(user.tenant_id, job.kind, job.key) is not None:
                break  # the index fails: a worker tries it again
        return gone

    def _since(
        self, user: Whose, now: datetime, act: Callable[..., T], connection: Connection
    ) -> T | None:
        """Do something of what is too old by what a user allows now; None without a retention."""
        days = self._consents.within(connection, user.tenant_id, user.user_id).retention_days
        return None if days is None else act(connection, before=now - timedelta(days=days))
