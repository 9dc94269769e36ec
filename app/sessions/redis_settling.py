"""Between Redis and SQL: a live session is read from there, and what is new of it brought there.

Touches: `sessions`, `messages`, the jobs.

Both are one transaction under the lock of the session. To settle twice changes nothing, and to
settle late undoes nothing: messages are known by their ids, a whole reply is never written over,
and a session that SQL does not hold is not brought back. Where SQL holds another message under a
number (an import came between, or Redis has lost what it acknowledged), what is new comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.db import Connection, db_now
from app.db.tables import messages, sessions
from app.sessions.base import Message, NewTurn, Session, Turn
from app.sessions.begin import begin, open_session
from app.sessions.limit import Limit
from app.sessions.redis_shapes import Change
from app.sessions.rows import (
    IN_SESSION,
    LEASE_END,
    MESSAGE,
    PENDING,
    THIS_SESSION,
    lock_session,
    put_late,
    taken_up,
)

_HELD = sa.and_(
    messages.c.tenant_id == sa.bindparam("tenant"),
    messages.c.session_id == sa.bindparam("session"),
    messages.c.id == sa.bindparam("message"),
    messages.c.status != "complete",
)
_ENDING: dict[str, sa.BindParameter[Any]] = {
    name: sa.bindparam(f"new_{name}")
    for name in ("status", "content", "receipt", "error", "steps", "created_at", "memory")
}
_INSERT = messages.insert().values(
    {column.name: sa.bindparam(f"new_{column.name}") for column in MESSAGE}
)
_INSERT_PENDING = _INSERT.values(holder=sa.bindparam("by"), lease_until=LEASE_END)
_END = messages.update().where(_HELD).values(**_ENDING, holder=None, lease_until=None)
_PEND = (
    messages.update()
    .where(_HELD)
    .values(**_ENDING, holder=sa.bindparam("by"), lease_until=LEASE_END)
)
_WISH = (
    messages.update()
    .where(IN_SESSION, messages.c.id == sa.bindparam("message"))
    .values(memory=sa.bindparam("wish"))
)
_STORED = sa.select(
    messages.c.id,
    messages.c.seq,
    messages.c.client_message_id,
    messages.c.memory,
    messages.c.status,
).where(
    IN_SESSION,
    sa.or_(
        messages.c.id.in_(sa.bindparam("ids", expanding=True)),
        messages.c.client_message_id.in_(sa.bindparam("client_ids", expanding=True)),
    ),
)
_MOVED = (
    *("state", "closed_at", "last_seq", "last_message_at", "timezone", "tokens"),
    *("covered_seq", "memory_revision"),
)
_MOVE = (
    sessions.update()
    .where(THIS_SESSION)
    .values({name: sa.bindparam(f"new_{name}") for name in _MOVED})
)
_LATEST = (
    sa.select(
        *MESSAGE,
        messages.c.holder,
        sa.type_coerce(messages.c.lease_until, sa.BigInteger)
        - sa.type_coerce(db_now(), sa.BigInteger),
    )
    .where(IN_SESSION, sa.or_(messages.c.seq > sa.bindparam("after"), PENDING))
    .order_by(messages.c.seq)
)
_CLIENT_IDS = sa.select(messages.c.client_message_id, messages.c.seq).where(
    IN_SESSION, messages.c.client_message_id.is_not(None)
)
_COVERED = sa.select(
    sessions.c.session_id,
    sessions.c.user_id,
    sessions.c.created_at,
    sessions.c.covered_seq,
    sessions.c.memory_revision,
).where(
    sessions.c.tenant_id == sa.bindparam("tenant"),
    sessions.c.session_id.in_(sa.bindparam("ids", expanding=True)),
)


Begins = Callable[[Connection], Turn | None]


@dataclass(frozen=True, slots=True)
class Held:
    """A session as SQL holds it: its messages from the `first` on, those that are pending with who
    holds them and how long (microseconds), and the numbers of all by their clients' ids.

    begun: the turn that was begun here, as the first of its session.
    """

    session: Session
    first: int
    latest: Sequence[Message]
    leases: dict[int, tuple[str, int]]
    client_ids: dict[str, int]
    begun: Turn | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """How SQL holds a session now. is_moved: under other numbers than Redis has."""

    covered_seq: int
    memory_revision: int
    is_moved: bool = False


def begin_first(
    connection: Connection,
    new: NewTurn,
    lease_seconds: float,
    count_tokens: Callable[[str], int],
    now: datetime,
    limit: Limit | None,
) -> Turn | None:
    """Begin the first turn of a session; None if another began it first."""
    if open_session(connection, new, now).last_seq > 0:
        return None
    return begin(connection, new, lease_seconds, count_tokens, now, limit)


def load(
    connection: Connection,
    tenant_id: str,
    session_id: str,
    kept: int,
    begins: Begins | None,
) -> Held | None:
    """Read a session; None if there is none.

    The first turn of a session begins here, together with the session: whoever reads it after that
    reads this turn as well, so no copy is without it.
    Raises `NotFound` and `Conflict`, as the beginning of a turn does.
    """
    begun = None
    session = lock_session(connection, tenant_id, session_id)
    if begins is not None and (session is None or session.last_seq == 0):
        begun = begins(connection)
        session = (
            begun.session if begun is not None else lock_session(connection, tenant_id, session_id)
        )
    if session is None:
        return None
    here = {"tenant": tenant_id, "session": session_id}
    rows = connection.execute(_LATEST, {**here, "after": session.last_seq - kept}).all()
    ids = connection.execute(_CLIENT_IDS, here)
    return Held(
        session,
        max(1, session.last_seq - kept + 1),
        [Message(*row[:-2]) for row in rows],
        {
            row.seq: (row.holder or "", max(0, int(row[-1] or 0)))
            for row in rows
            if row.status == "pending"
        },
        {row[0]: row[1] for row in ids},
        begun,
    )


def settle(
    connection: Connection,
    copy: Session,
    changes: Sequence[Change],
    count_tokens: Callable[[str], int],
    limit: Limit | None,
) -> Settled | None:
    """Bring what is new to SQL; None if the session was deleted there."""
    session = lock_session(connection, copy.tenant_id, copy.session_id)
    if session is None or not is_of(copy, session.user_id, session.created_at):
        return None
    here = {"tenant": copy.tenant_id, "session": copy.session_id}
    told = [change.message for change in changes]
    which = {
        "ids": [message.id for message in told],
        "client_ids": [m.client_message_id for m in told if m.client_message_id is not None],
    }
    rows = connection.execute(_STORED, here | which).all()
    stored = {row.id: row for row in rows}
    new = [change for change in changes if change.message.id not in stored]
    fresh = {change.message.seq for change in new}
    moved_by = 0
    if fresh and min(fresh) <= session.last_seq:
        moved_by = session.last_seq + 1 - min(fresh)
    spoken_for = {row.client_message_id for row in rows}
    for change in new:
        message = replace(change.message, seq=change.message.seq + moved_by)
        if message.client_message_id in spoken_for:
            message = replace(message, client_message_id=None)
        _insert(connection, replace(change, message=message))
    is_news, late = bool(new), []
    for change in changes:
        known = stored.get(change.message.id)
        if known is not None and (seq := _update(connection, change, known)):
            is_news = True
            if change.is_wish or seq <= session.covered_seq:
                late.append(seq)
    if not is_news:  # an old tale, and so is what it says of the session
        return Settled(session.covered_seq, session.memory_revision)
    last_seq = max(session.last_seq, copy.last_seq, *(seq + moved_by for seq in fresh or {0}))
    after = replace(
        session,
        last_seq=last_seq,
        last_message_at=max(session.last_message_at, copy.last_message_at),
        timezone=copy.timezone or session.timezone,
        tokens=session.tokens + sum(count_tokens(change.message.content) for change in new)
        if moved_by or session.last_seq > copy.last_seq
        else copy.tokens,
    )
    if late:
        after = taken_up(after, is_last=max(late) == copy.last_seq)
    if fresh:
        after = replace(after, state="open", closed_at=None)
    connection.execute(_MOVE, here | {f"new_{name}": getattr(after, name) for name in _MOVED})
    if late and min(late) <= after.covered_seq:
        put_late(connection, after, now=after.last_message_at)
    if limit is not None and session.state == "closed" and after.state == "open":
        limit.keep(connection, after, after.last_message_at)
    return Settled(after.covered_seq, after.memory_revision, is_moved=bool(moved_by))


def covered(connection: Connection, tenant_id: str, session_ids: Sequence[str]) -> Sequence[Any]:
    """Read, of some sessions, whose they are, since when, and what their episodes cover."""
    return connection.execute(_COVERED, {"tenant": tenant_id, "ids": list(session_ids)}).all()


def is_of(copy: Session, user_id: str, created_at: datetime) -> bool:
    """Say whether it is the same session: its id may have been deleted and taken again."""
    return (copy.user_id, copy.created_at) == (user_id, created_at)


def _insert(connection: Connection, change: Change) -> None:
    row = {f"new_{column.name}": getattr(change.message, column.name) for column in MESSAGE}
    if change.message.status == "pending":
        connection.execute(_INSERT_PENDING, row | _lease(change))
    else:
        connection.execute(_INSERT, row)


def _update(connection: Connection, change: Change, stored: Any) -> int:
    """Update a stored message; returns the number of a reply that was taken up, else 0."""
    message = change.message
    where = {
        "tenant": message.tenant_id,
        "session": message.session_id,
        "message": message.id,
    }
    memory = message.memory if change.is_wish else stored.memory
    if message.role == "user":
        if change.is_wish:
            connection.execute(_WISH, where | {"wish": memory})
        return 0
    row = {f"new_{name}": getattr(message, name) for name in _ENDING} | {"new_memory": memory}
    if message.status == "pending":
        if not change.is_wish and stored.status != "pending":
            return 0  # it has ended since: this is an old tale
        updated = connection.execute(_PEND, where | row | _lease(change))
    else:
        updated = connection.execute(_END, where | row)
    return int(stored.seq) if updated.rowcount else 0


def _lease(change: Change) -> dict[str, Any]:
    return {"by": change.holder, "lease": change.lease}
