"""Sessions as they are shown: one, or a page of them, with what a title is made of.

Touches: `sessions`, `messages`.

A title that is made of a message is made when it is read: it goes with its message, and is never
left behind by one that was removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import messages, sessions
from app.sessions.base import Session, State
from app.sessions.rows import SESSION, THIS_SESSION

OPENING_CHARS = 400  # of a message: enough for a title, however it is spaced

_first = messages.alias("first")
_opening = (
    sa.select(sa.func.substr(_first.c.content, 1, OPENING_CHARS))
    .where(
        _first.c.tenant_id == sessions.c.tenant_id,
        _first.c.session_id == sessions.c.session_id,
        _first.c.role == "user",
        _first.c.content != "",
    )
    .order_by(_first.c.seq)
    .limit(1)
    .correlate(sessions)
    .scalar_subquery()
)
_SHOWN = sa.select(*SESSION, sa.case((sessions.c.title.is_(None), _opening)).label("opening"))

# Built once: SQLAlchemy takes longer to build a statement than SQLite to answer it.
_ONE = _SHOWN.where(THIS_SESSION)
_PAGE = _SHOWN.where(sessions.c.tenant_id == sa.bindparam("tenant")).order_by(
    sessions.c.last_message_at.desc(), sessions.c.session_id
)
_AFTER = sa.or_(
    sessions.c.last_message_at < sa.bindparam("moment", type_=sessions.c.last_message_at.type),
    sa.and_(
        sessions.c.last_message_at == sa.bindparam("moment", type_=sessions.c.last_message_at.type),
        sessions.c.session_id > sa.bindparam("last"),
    ),
)


def shown(connection: Connection, tenant_id: str, session_id: str) -> Session | None:
    row = connection.execute(_ONE, {"tenant": tenant_id, "session": session_id}).first()
    return None if row is None else Session(*row)


def page(
    connection: Connection,
    tenant_id: str,
    user_id: str | None,
    state: State | None,
    *,
    limit: int,
    after: tuple[datetime, str] | None,
) -> Sequence[Session]:
    """See `SessionStore.list_sessions`."""
    which: dict[str, object] = {"tenant": tenant_id}
    statement = _PAGE.limit(limit)
    if user_id is not None:
        statement = statement.where(sessions.c.user_id == sa.bindparam("user"))
        which["user"] = user_id
    if state is not None:
        statement = statement.where(sessions.c.state == sa.bindparam("state"))
        which["state"] = state
    if after is not None:
        statement = statement.where(_AFTER)
        which |= {"moment": after[0], "last": after[1]}
    return [Session(*row) for row in connection.execute(statement, which)]


def counts(connection: Connection, tenant_id: str) -> dict[str, int]:
    """See `SessionStore.counts`."""
    states = connection.execute(
        sa.select(sessions.c.state, sa.func.count())
        .where(sessions.c.tenant_id == tenant_id)
        .group_by(sessions.c.state)
    )
    by_state = {row[0]: int(row[1]) for row in states}
    stored = connection.execute(
        sa.select(sa.func.count()).where(
            messages.c.tenant_id == tenant_id, messages.c.content != ""
        )
    ).scalar_one()
    return {
        "open": by_state.get("open", 0),
        "closed": by_state.get("closed", 0),
        "messages": stored,
    }
