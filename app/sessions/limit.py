"""How many sessions of a user stay open: what is quiet longest beyond that is closed.

Touches: `sessions`, `messages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import messages, sessions
from app.sessions.base import Session
from app.sessions.rows import PENDING, SESSION, as_session

AT_ONCE = 5  # a turn waits for it; the next ones go on

_OTHERS = sa.and_(
    sessions.c.tenant_id == sa.bindparam("tenant"),
    sessions.c.user_id == sa.bindparam("user"),
    sessions.c.state == sa.literal_column("'open'"),  # as the partial index has it
    sessions.c.session_id != sa.bindparam("session"),
)
_COUNT = sa.select(sa.func.count()).select_from(sessions).where(_OTHERS)
_BEING_ANSWERED = sa.select(messages.c.session_id).where(
    messages.c.tenant_id == sa.bindparam("tenant"), PENDING
)
_IDLE = (
    sa.select(*SESSION)
    .where(_OTHERS, sessions.c.session_id.not_in(_BEING_ANSWERED))
    .order_by(sessions.c.last_message_at)
    .limit(sa.bindparam("most", type_=sa.Integer))
    .with_for_update(skip_locked=True)  # one that is locked is in use
)


@dataclass(frozen=True, slots=True)
class Limit:
    """most: open sessions of a user. close: asks for a session to be summarised and closed."""

    most: int
    close: Callable[[Connection, Session, datetime], None]

    def keep(self, connection: Connection, session: Session, now: datetime) -> None:
        """Have idle sessions of a user closed to make room for one that has just been opened.

        One with a reply that is under way is not idle. Those that are asked to close count as
        open until they are, so asking again changes nothing.
        """
        here = {
            "tenant": session.tenant_id,
            "user": session.user_id,
            "session": session.session_id,
        }
        excess = connection.execute(_COUNT, here).scalar_one() + 1 - self.most
        if excess <= 0:
            return
        for row in connection.execute(_IDLE, {**here, "most": min(excess, AT_ONCE)}).all():
            self.close(connection, as_session(row), now)
