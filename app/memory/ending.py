"""The end of a checkpoint's job, in the transaction that notes what is indexed.

Touches: `sessions`, the jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import sessions
from app.jobs import Claim, Postpone, end_held
from app.sessions.base import Session
from app.sessions.rows import THIS_SESSION, lock_session

_CLOSE = (
    sessions.update()
    .where(THIS_SESSION)
    .values(state="closed", closed_at=sa.bindparam("at", type_=sessions.c.closed_at.type))
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ends. closes_at: when its session is closed with it; None: it stays open."""

    claim: Claim
    closes_at: datetime | None = None

    def done_if(self, is_indexed: Callable[[Connection], bool], connection: Connection) -> bool:
        """End the job unless the index is behind again, and say so. Raises `LostClaim`, `Postpone`.

        A session is locked before its episode is noted: everybody locks in this order.
        """
        session = None
        if self.closes_at is not None:
            session_id = self.claim.payload["session_id"]
            session = lock_session(connection, self.claim.tenant_id, session_id)
        if not is_indexed(connection):
            return False
        if session is not None and session.last_seq == self.claim.payload["last_seq"]:
            self._close(connection, session)  # or it went on: the next quiet spell has its own job
        end_held(connection, self.claim)
        return True

    def _close(self, connection: Connection, session: Session) -> None:
        if session.covered_seq < session.last_seq:
            raise Postpone("a turn of the session is still running")
        here = {"tenant": session.tenant_id, "session": session.session_id}
        connection.execute(_CLOSE, {**here, "at": self.closes_at})
