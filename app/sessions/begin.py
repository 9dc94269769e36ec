"""How a turn begins: one transaction that stores its message and reserves its reply.

Touches: `sessions`, `messages`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.db import Connection, db_now
from app.db.insert import insert_new
from app.db.tables import messages, sessions
from app.erased import refuse
from app.errors import Conflict, NotFound
from app.sessions.base import Message, NewTurn, Session, Turn
from app.sessions.limit import Limit
from app.sessions.rows import (
    EARLIER_PENDING,
    IN_SESSION,
    LEASE_END,
    MESSAGE,
    THIS_SESSION,
    lock_session,
    micros,
    of_session,
    said_before,
    taken_up,
)

# Built once: SQLAlchemy takes longer to build a statement than SQLite to answer it.
_NUMBERED = sa.and_(IN_SESSION, messages.c.seq == sa.bindparam("number"))
_NOBODY_IS_AT_IT = sa.or_(
    messages.c.status.in_(["failed", "interrupted"]),
    sa.and_(messages.c.status == "pending", messages.c.lease_until < db_now()),
)
_BY_SEQ = sa.select(*MESSAGE).where(_NUMBERED)
_IS_ANY_PENDING = sa.select(messages.c.id).where(EARLIER_PENDING).limit(1)
_IS_FREE = sa.select(messages.c.id).where(_NUMBERED, _NOBODY_IS_AT_IT)
_BY_CLIENT_ID = sa.select(*MESSAGE).where(
    IN_SESSION, messages.c.client_message_id == sa.bindparam("client_id")
)
_GO_ON = (
    sessions.update()
    .where(THIS_SESSION)
    .values(
        state="open",
        closed_at=None,
        last_seq=sa.bindparam("new_last_seq"),
        last_message_at=sa.bindparam("at"),
        timezone=sa.bindparam("new_timezone"),
        tokens=sa.bindparam("new_tokens"),
    )
)
_INSERT = messages.insert().values(
    {
        **{column.name: sa.bindparam(f"new_{column.name}") for column in MESSAGE},
        "holder": sa.bindparam("by"),
        "lease_until": LEASE_END,  # NULL without a lease
    }
)
_NO_LEASE = {"by": None, "lease": None}
_TAKE_UP = (
    messages.update()
    .where(_NUMBERED, _NOBODY_IS_AT_IT)
    .values(
        status="pending",
        content="",
        error=None,
        receipt=None,
        steps=None,
        holder=sa.bindparam("by"),
        lease_until=LEASE_END,
    )
)
_SET_MEMORY = (
    messages.update()
    .where(
        IN_SESSION,
        messages.c.seq.between(sa.bindparam("number"), sa.bindparam("number") + 1),
    )
    .values(memory=sa.bindparam("wish"))
)

_question = messages.alias()
_ANSWERED = (
    sa.select(messages.c.id)
    .join(
        _question,
        sa.and_(
            _question.c.tenant_id == messages.c.tenant_id,
            _question.c.session_id == messages.c.session_id,
            _question.c.seq == messages.c.seq - 1,
        ),
    )
    .where(
        IN_SESSION,
        _question.c.client_message_id == sa.bindparam("client_id"),
        messages.c.status == "complete",
    )
)


def is_answered(
    connection: Connection, tenant_id: str, session_id: str, client_message_id: str
) -> bool:
    """Say if a message has its reply. See `SessionStore.is_answered`."""
    which = {"tenant": tenant_id, "session": session_id, "client_id": client_message_id}
    return connection.execute(_ANSWERED, which).first() is not None


def begin(
    connection: Connection,
    new: NewTurn,
    lease_seconds: float,
    count_tokens: Callable[[str], int],
    now: datetime,
    limit: Limit | None = None,
) -> Turn:
    """Store a message, or join the stored one that it repeats. See `SessionStore.begin_turn`."""
    session = open_session(connection, new, now)
    question = _repeated(connection, new, session)
    if question is not None:
        turn = _join(connection, new, session, question, lease_seconds, count_tokens, now)
    else:
        turn = _add(connection, new, session, lease_seconds, count_tokens, now)
    is_new = session.last_seq == 0
    if limit is not None and turn.mine and (is_new or session.state == "closed"):
        limit.keep(connection, turn.session, now)
    return turn


def _add(
    connection: Connection,
    new: NewTurn,
    session: Session,
    lease_seconds: float,
    count_tokens: Callable[[str], int],
    now: datetime,
) -> Turn:
    session = replace(
        session,
        state="open",
        last_seq=session.last_seq + 2,
        last_message_at=max(now, session.last_message_at),
        closed_at=None,
        timezone=new.timezone or session.timezone,
        tokens=session.tokens + count_tokens(new.text),
    )
    here = {"tenant": session.tenant_id, "session": session.session_id}
    moved = {
        "new_last_seq": session.last_seq,
        "at": session.last_message_at,
        "new_timezone": session.timezone,
        "new_tokens": session.tokens,
    }
    connection.execute(_GO_ON, here | moved)
    asked = _message(new, "user", session.last_seq - 1, now)
    reply = _message(new, "assistant", session.last_seq, now)
    lease = {"by": new.holder, "lease": micros(lease_seconds)}
    connection.execute(_INSERT, [_row(asked) | _NO_LEASE, _row(reply) | lease])
    if asked.seq == 1:
        return Turn(session, asked, reply, new.holder, mine=True, is_next=True, before=())
    earlier = {**here, "before": asked.seq}
    is_next = connection.execute(_IS_ANY_PENDING, earlier).first() is None
    before = None
    if is_next and new.look_back:
        before = said_before(connection, session, asked.seq, new.look_back)
    return Turn(session, asked, reply, new.holder, mine=True, is_next=is_next, before=before)


def open_session(connection: Connection, new: NewTurn, now: datetime) -> Session:
    """Lock the session of a turn; a new one is stored. Raises `NotFound`, `Conflict`."""
    session = lock_session(connection, new.tenant_id, new.session_id)
    if session is None:
        refuse(connection, new.tenant_id, new.user_id, now)
        row = {
            "tenant_id": new.tenant_id,
            "session_id": new.session_id,
            "user_id": new.user_id,
            "state": "open",
            "last_seq": 0,
            "covered_seq": 0,
            "memory_revision": 0,
            "created_at": now,
            "last_message_at": now,
        }
        insert_new(connection, sessions, row, key=["tenant_id", "session_id"])
        session = lock_session(connection, new.tenant_id, new.session_id)
    if session is None or session.user_id != new.user_id:
        raise NotFound("there is no such session", param="session_id")
    return session


def _repeated(connection: Connection, new: NewTurn, session: Session) -> Message | None:
    """Return the stored message that `new` repeats, if it repeats one."""
    here = {"tenant": new.tenant_id, "session": new.session_id}
    if new.client_message_id is not None:
        same_id = {**here, "client_id": new.client_message_id}
        row = connection.execute(_BY_CLIENT_ID, same_id).first()
        if row is not None and row.content != new.text:
            raise Conflict(
                "this client_message_id came with another text before", param="client_message_id"
            )
        return None if row is None else Message(*row)
    was_left = connection.execute(_IS_FREE, {**here, "number": session.last_seq}).first()
    if was_left is None:
        return None
    row = connection.execute(_BY_SEQ, {**here, "number": session.last_seq - 1}).first()
    return None if row is None or row.content != new.text else Message(*row)


def _join(
    connection: Connection,
    new: NewTurn,
    session: Session,
    question: Message,
    lease_seconds: float,
    count_tokens: Callable[[str], int],
    now: datetime,
) -> Turn:
    here = {"tenant": new.tenant_id, "session": new.session_id}
    reply = {**here, "number": question.seq + 1}
    lease = {"by": new.holder, "lease": micros(lease_seconds)}
    lost = Message(*connection.execute(_BY_SEQ, reply).one())
    taken = connection.execute(_TAKE_UP, reply | lease)
    mine = taken.rowcount == 1
    if mine:
        tokens = max(0, session.tokens - count_tokens(lost.content))  # older ones had no count
        session = replace(session, tokens=tokens)
        session = _store_taken_up(connection, session, question, now)
        # The repeat says anew whether it may be remembered.
        both = {**here, "number": question.seq, "wish": new.memory}
        connection.execute(_SET_MEMORY, both)
        question = replace(question, memory=new.memory)
    stored = Message(*connection.execute(_BY_SEQ, reply).one())
    lapsed = mine and lost.status == "pending"
    return Turn(session, question, stored, new.holder, mine=mine, is_taken_over=lapsed)


def _store_taken_up(
    connection: Connection, session: Session, question: Message, now: datetime
) -> Session:
    """Store that a session is open again for a turn that is answered late."""
    late = taken_up(session, is_last=question.seq == session.last_seq - 1)
    late = replace(late, last_message_at=max(now, session.last_message_at))
    connection.execute(
        sessions.update()
        .where(of_session(sessions, session.tenant_id, session.session_id))
        .values(
            state=late.state,
            closed_at=None,
            last_message_at=late.last_message_at,
            covered_seq=late.covered_seq,
            memory_revision=late.memory_revision,
            tokens=late.tokens,
        )
    )
    return late


def _message(new: NewTurn, role: Any, seq: int, now: datetime) -> Message:
    is_question = role == "user"
    return Message(
        id=uuid.uuid4().hex,
        tenant_id=new.tenant_id,
        session_id=new.session_id,
        seq=seq,
        role=role,
        content=new.text if is_question else "",
        status="complete" if is_question else "pending",
        memory=new.memory,
        client_message_id=new.client_message_id if is_question else None,
        created_at=now,
    )


def _row(message: Message) -> dict[str, Any]:
    return {f"new_{column.name}": getattr(message, column.name) for column in MESSAGE}
