"""Live sessions in the SQL database. Touches: `sessions`, `messages`; puts `sync_episode` jobs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database, db_now
from app.db.insert import insert_new
from app.db.tables import Instant, after, messages, sessions
from app.errors import Conflict, NotFound
from app.sessions.base import Message, NewTurn, Session, Status, Turn
from app.sessions.rows import (
    SELECT_SESSION,
    SESSION,
    as_session,
    lock_session,
    of_session,
    put_sync,
)

_MESSAGE = (
    messages.c.id,
    messages.c.tenant_id,
    messages.c.session_id,
    messages.c.seq,
    messages.c.role,
    messages.c.content,
    messages.c.status,
    messages.c.memory,
    messages.c.client_message_id,
    messages.c.created_at,
    messages.c.receipt,
    messages.c.error,
)


def _ending_lapsed(which: sa.ColumnElement[bool]) -> sa.Update:
    return (
        messages.update()
        .where(which, messages.c.lease_until < db_now())
        .values(
            status="interrupted",
            holder=None,
            lease_until=None,
            error={"code": "interrupted", "message": "the process that answered was stopped"},
        )
    )


_THIS_SESSION = sa.and_(
    messages.c.tenant_id == sa.bindparam("tenant"), messages.c.session_id == sa.bindparam("session")
)
_EARLIER_PENDING = sa.and_(
    _THIS_SESSION, messages.c.seq < sa.bindparam("before"), messages.c.status == "pending"
)
_HELD = sa.and_(
    messages.c.id == sa.bindparam("reply"),
    messages.c.tenant_id == sa.bindparam("tenant"),
    messages.c.status == "pending",
    messages.c.holder == sa.bindparam("by"),
)
_LEASE_END = sa.type_coerce(db_now() + sa.bindparam("lease", type_=sa.BigInteger), Instant)

# Built once: SQLAlchemy takes longer to build a statement than SQLite to answer it.
_COUNT_EARLIER = sa.select(
    sa.func.count(),
    sa.func.coalesce(sa.func.sum(sa.case((messages.c.lease_until < db_now(), 1), else_=0)), 0),
).where(_EARLIER_PENDING)
_END_EARLIER = _ending_lapsed(_EARLIER_PENDING)
_END_ALL = _ending_lapsed(messages.c.status == "pending")
_RENEW = messages.update().where(_HELD).values(lease_until=_LEASE_END)
_END_TURN = (
    messages.update()
    .where(_HELD)
    .values(
        status=sa.bindparam("new_status"),
        content=sa.bindparam("new_content"),
        receipt=sa.bindparam("new_receipt"),
        error=sa.bindparam("new_error"),
        created_at=sa.bindparam("at"),
        holder=None,
        lease_until=None,
    )
)
_HISTORY = (
    sa.select(*_MESSAGE)
    .where(_THIS_SESSION, messages.c.seq < sa.bindparam("before"), messages.c.content != "")
    .order_by(messages.c.seq.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_AFTER = (
    sa.select(*_MESSAGE)
    .where(_THIS_SESSION, messages.c.seq > sa.bindparam("after"))
    .order_by(messages.c.seq)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_TOUCH = (
    sessions.update()
    .where(
        sessions.c.tenant_id == sa.bindparam("tenant"),
        sessions.c.session_id == sa.bindparam("session"),
    )
    .values(last_message_at=sa.bindparam("at"))
)
_GO_ON = _TOUCH.values(state="open", last_seq=sa.bindparam("new_last_seq"), closed_at=None)
_BY_SEQ = sa.select(*_MESSAGE).where(_THIS_SESSION, messages.c.seq == sa.bindparam("number"))
_BY_CLIENT_ID = sa.select(*_MESSAGE).where(
    _THIS_SESSION, messages.c.client_message_id == sa.bindparam("client_id")
)
_INSERT_QUESTION = messages.insert().values(
    {column.name: sa.bindparam(f"new_{column.name}") for column in _MESSAGE}
)
_INSERT_REPLY = _INSERT_QUESTION.values(holder=sa.bindparam("by"), lease_until=_LEASE_END)


class SqlSessions:
    """A `SessionStore` in SQL. `lease_seconds`: how long a run may be silent before it is dead."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds

    async def begin_turn(self, new: NewTurn, *, now: datetime) -> Turn:
        return await self._database.write(lambda c: _begin(c, new, self._lease_seconds, now))

    async def is_next(self, turn: Turn) -> bool:
        earlier = {**_place(turn.reply), "before": turn.reply.seq}
        pending, dead = await self._database.read(
            lambda c: c.execute(_COUNT_EARLIER, earlier).one()
        )
        if dead:
            await self._database.write(lambda c: c.execute(_END_EARLIER, earlier))
        return int(pending) == int(dead)

    async def renew(self, turn: Turn, holder: str) -> bool:
        which = {**_held(turn, holder), "lease": _micros(self._lease_seconds)}
        return await self._database.write(lambda c: c.execute(_RENEW, which).rowcount == 1)

    async def end_turn(
        self,
        turn: Turn,
        holder: str,
        *,
        status: Status,
        content: str,
        receipt: Mapping[str, Any] | None,
        error: Mapping[str, Any] | None,
        now: datetime,
    ) -> Session | None:
        ended = {
            **_held(turn, holder),
            "new_status": status,
            "new_content": content,
            "new_receipt": None if receipt is None else dict(receipt),
            "new_error": None if error is None else dict(error),
            "at": now,
        }

        def end(connection: Connection) -> Session | None:
            session = lock_session(connection, turn.reply.tenant_id, turn.reply.session_id)
            stored = connection.execute(_END_TURN, ended)
            if session is None or stored.rowcount == 0:
                return None
            latest = max(now, session.last_message_at)
            connection.execute(_TOUCH, {**_place(turn.reply), "at": latest})
            return session

        return await self._database.write(end)

    async def message(self, tenant_id: str, message_id: str) -> tuple[Message, str]:
        statement = (
            sa.select(*_MESSAGE, sessions.c.user_id)
            .join(sessions, of_session(sessions, tenant_id, messages.c.session_id))
            .where(messages.c.id == message_id, messages.c.tenant_id == tenant_id)
        )
        row = await self._database.read(lambda c: c.execute(statement).first())
        if row is None:
            raise NotFound("there is no such message", param="message_id")
        return Message(*row[:-1]), row[-1]

    async def history(
        self, tenant_id: str, session_id: str, *, before_seq: int, limit: int
    ) -> list[Message]:
        which = {
            "tenant": tenant_id,
            "session": session_id,
            "before": before_seq,
            "most": limit,
        }
        rows = await self._database.read(lambda c: c.execute(_HISTORY, which).all())
        return [Message(*row) for row in reversed(rows)]

    async def get(self, tenant_id: str, session_id: str, user_id: str | None) -> Session:
        which = {"tenant": tenant_id, "session": session_id}
        row = await self._database.read(lambda c: c.execute(SELECT_SESSION, which).first())
        if row is None or (user_id is not None and row.user_id != user_id):
            raise NotFound("there is no such session", param="session_id")
        return as_session(row)

    async def list_sessions(
        self,
        tenant_id: str,
        user_id: str | None,
        *,
        limit: int,
        after: tuple[datetime, str] | None,
    ) -> Sequence[Session]:
        statement = sa.select(*SESSION).where(sessions.c.tenant_id == tenant_id)
        if user_id is not None:
            statement = statement.where(sessions.c.user_id == user_id)
        if after is not None:
            moment, session_id = after
            statement = statement.where(
                sa.or_(
                    sessions.c.last_message_at < moment,
                    sa.and_(
                        sessions.c.last_message_at == moment, sessions.c.session_id > session_id
                    ),
                )
            )
        statement = statement.order_by(
            sessions.c.last_message_at.desc(), sessions.c.session_id
        ).limit(limit)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [as_session(row) for row in rows]

    async def messages_after(
        self, tenant_id: str, session_id: str, after_seq: int, *, limit: int
    ) -> list[Message]:
        which = {"tenant": tenant_id, "session": session_id, "after": after_seq, "most": limit}
        rows = await self._database.read(lambda c: c.execute(_AFTER, which).all())
        return [Message(*row) for row in rows]

    async def delete(self, tenant_id: str, session_id: str, *, now: datetime) -> tuple[str, int]:
        def remove(connection: Connection) -> tuple[str, int]:
            if lock_session(connection, tenant_id, session_id) is None:
                raise NotFound("there is no such session", param="session_id")
            gone = connection.execute(
                messages.delete().where(of_session(messages, tenant_id, session_id))
            )
            connection.execute(sessions.delete().where(of_session(sessions, tenant_id, session_id)))
            jobs.cancel(connection, tenant_id, f"session:{session_id}")
            return put_sync(connection, tenant_id, session_id, now=now), gone.rowcount

        return await self._database.write(remove)

    async def gone_quiet(self, *, before: datetime, limit: int) -> list[Session]:
        statement = (
            sa.select(*SESSION)
            .where(sessions.c.state == "open", sessions.c.last_message_at <= before)
            .order_by(sessions.c.last_message_at)
            .limit(limit)
        )
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [as_session(row) for row in rows]

    async def end_lapsed(self) -> int:
        return await self._database.write(lambda c: c.execute(_END_ALL).rowcount)

    async def counts(self, tenant_id: str) -> Mapping[str, int]:
        def count(connection: Connection) -> dict[str, int]:
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

        return await self._database.read(count)


def _place(message: Message) -> dict[str, str]:
    return {"tenant": message.tenant_id, "session": message.session_id}


def _held(turn: Turn, holder: str) -> dict[str, str]:
    return {"reply": turn.reply.id, "tenant": turn.reply.tenant_id, "by": holder}


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)


def _begin(connection: Connection, new: NewTurn, lease_seconds: float, now: datetime) -> Turn:
    session = _open(connection, new, now)
    question = _repeated(connection, new, session)
    if question is not None:
        return _join(connection, new, session, question, lease_seconds, now)
    session = replace(
        session,
        state="open",
        last_seq=session.last_seq + 2,
        last_message_at=max(now, session.last_message_at),
        closed_at=None,
    )
    here = {"tenant": session.tenant_id, "session": session.session_id}
    moved = {"new_last_seq": session.last_seq, "at": session.last_message_at}
    connection.execute(_GO_ON, here | moved)
    asked = _message(new, "user", session.last_seq - 1, now)
    reply = _message(new, "assistant", session.last_seq, now)
    connection.execute(_INSERT_QUESTION, _row(asked))
    lease = {"by": new.holder, "lease": _micros(lease_seconds)}
    connection.execute(_INSERT_REPLY, _row(reply) | lease)
    return Turn(session, asked, reply, mine=True)


def _open(connection: Connection, new: NewTurn, now: datetime) -> Session:
    session = lock_session(connection, new.tenant_id, new.session_id)
    if session is None:
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
    last = connection.execute(_BY_SEQ, {**here, "number": session.last_seq}).first()
    if last is None or last.status not in ("failed", "interrupted"):
        return None
    row = connection.execute(_BY_SEQ, {**here, "number": session.last_seq - 1}).first()
    return None if row is None or row.content != new.text else Message(*row)


def _join(
    connection: Connection,
    new: NewTurn,
    session: Session,
    question: Message,
    lease_seconds: float,
    now: datetime,
) -> Turn:
    here = of_session(messages, new.tenant_id, new.session_id)
    this = sa.and_(here, messages.c.seq == question.seq + 1)
    free = sa.or_(
        messages.c.status.in_(["failed", "interrupted"]), messages.c.lease_until < db_now()
    )
    taken = connection.execute(
        messages.update()
        .where(this, free)
        .values(
            status="pending",
            content="",
            error=None,
            receipt=None,
            holder=new.holder,
            lease_until=after(lease_seconds),
        )
    )
    mine = taken.rowcount == 1
    if mine:
        session = _taken_up(connection, session, question, now)
    reply = Message(*connection.execute(sa.select(*_MESSAGE).where(this)).one())
    return Turn(session, question, reply, mine=mine)


def _taken_up(
    connection: Connection, session: Session, question: Message, now: datetime
) -> Session:
    """Open the session again for a turn that is answered late, and let it be summarised then."""
    late = replace(
        session,
        state="open",
        closed_at=None,
        last_message_at=max(now, session.last_message_at),
        covered_seq=min(session.covered_seq, question.seq - 1),
        memory_revision=session.memory_revision + 1,
    )
    connection.execute(
        sessions.update()
        .where(of_session(sessions, session.tenant_id, session.session_id))
        .values(
            state=late.state,
            closed_at=None,
            last_message_at=late.last_message_at,
            covered_seq=late.covered_seq,
            memory_revision=late.memory_revision,
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
    return {f"new_{column.name}": getattr(message, column.name) for column in _MESSAGE}
