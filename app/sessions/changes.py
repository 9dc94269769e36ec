"""What a user changes of a session: its title, its metadata, that it is open, that it is there.

Touches: `sessions`, `messages`, `episodes`, the jobs.

Plain functions of a connection.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection
from app.db.tables import episodes, messages, sessions
from app.errors import NotFound
from app.sessions.base import Described, Session
from app.sessions.limit import Limit
from app.sessions.rows import THIS_SESSION, lock_session, of_session, put_sync

_DESCRIBE = (
    sessions.update()
    .where(THIS_SESSION)
    .values(title=sa.bindparam("new_title"), metadata=sa.bindparam("new_metadata"))
)
_REOPEN = (
    sessions.update()
    .where(THIS_SESSION)
    .values(
        state="open",
        closed_at=None,
        last_message_at=sa.bindparam("at"),
        memory_revision=sa.bindparam("revision"),
    )
)


def describe(
    connection: Connection, tenant_id: str, session_id: str, user_id: str | None, said: Described
) -> None:
    """See `SessionStore.describe`."""
    session = _locked(connection, tenant_id, session_id, user_id)
    new: dict[str, Any] = {
        "new_title": said.get("title", session.title),
        "new_metadata": said.get("metadata", session.metadata),
    }
    connection.execute(_DESCRIBE, {"tenant": tenant_id, "session": session_id} | new)


def reopen(
    connection: Connection,
    tenant_id: str,
    session_id: str,
    user_id: str | None,
    now: datetime,
    limit: Limit | None,
) -> None:
    """Open a closed session. See `SessionStore.reopen`.

    The revision moves because the job that closed it has used up its key: without, the session
    would never be closed again. Another that is left of before would close it at once, so it goes.
    """
    session = _locked(connection, tenant_id, session_id, user_id)
    if session.state == "open":
        return
    opened = replace(
        session,
        state="open",
        closed_at=None,
        last_message_at=max(now, session.last_message_at),
        memory_revision=session.memory_revision + 1,
    )
    here = {"tenant": tenant_id, "session": session_id}
    moved = {"at": opened.last_message_at, "revision": opened.memory_revision}
    connection.execute(_REOPEN, here | moved)
    jobs.cancel(connection, tenant_id, f"session:{session_id}")
    if limit is not None:
        limit.keep(connection, opened, now)


def delete(connection: Connection, session: Session, now: datetime) -> tuple[str, int]:
    """Remove a locked session with its messages and its episode; cancel its jobs.

    Returns the key of the `sync_episode` job that it leaves, and the number of messages.
    """
    here = (session.tenant_id, session.session_id)
    gone = connection.execute(messages.delete().where(of_session(messages, *here)))
    for table in (episodes, sessions):
        connection.execute(table.delete().where(of_session(table, *here)))
    jobs.cancel(connection, session.tenant_id, f"session:{session.session_id}")
    return put_sync(connection, *here, now=now), gone.rowcount


def _locked(
    connection: Connection, tenant_id: str, session_id: str, user_id: str | None
) -> Session:
    session = lock_session(connection, tenant_id, session_id)
    if session is None or user_id not in (None, session.user_id):
        raise NotFound("there is no such session", param="session_id")
    return session
