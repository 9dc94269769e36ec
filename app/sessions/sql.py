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
from app.db.tables import after, messages, sessions
from app.errors import Conflict, NotFound
from app.sessions.base import Message, NewTurn, Session, Status, Turn
from app.sessions.rows import SESSION, as_session, lock_session, of_session, put_sync

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


class SqlSessions:
    """A `SessionStore` in SQL. `lease_seconds`: how long a run may be silent before it is dead."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds

    async def begin_turn(self, new: NewTurn, *, now: datetime) -> Turn:
        return await self._database.write(lambda c: _begin(c, new, self._lease_seconds, now))

    async def is_next(self, turn: Turn) -> bool:
        earlier = sa.and_(
            of_session(messages, turn.reply.tenant_id, turn.reply.session_id),
            messages.c.seq < turn.reply.seq,
            messages.c.status == "pending",
        )

        def look(connection: Connection) -> tuple[int, int]:
            lapsed = sa.case((messages.c.lease_until < db_now(), 1), else_=0)
            pending, dead = connection.execute(
                sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(lapsed), 0)).where(earlier)
            ).one()
            return int(pending), int(dead)

        pending, dead = await self._database.read(look)
        if dead:
            await self._database.write(lambda c: _end_lapsed(c, earlier))
        return pending == dead

    async def renew(self, turn: Turn, holder: str) -> bool:
        statement = (
            messages.update()
            .where(_held(turn, holder))
            .values(lease_until=after(self._lease_seconds))
        )
        return await self._database.write(lambda c: c.execute(statement).rowcount == 1)

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
        def end(connection: Connection) -> Session | None:
            session = lock_session(connection, turn.reply.tenant_id, turn.reply.session_id)
            stored = connection.execute(
                messages.update()
                .where(_held(turn, holder))
                .values(
                    status=status,
                    content=content,
                    receipt=None if receipt is None else dict(receipt),
                    error=None if error is None else dict(error),
                    created_at=now,
                    holder=None,
                    lease_until=None,
                )
            )
            if session is None or stored.rowcount == 0:
                return None
            connection.execute(
                sessions.update()
                .where(of_session(sessions, session.tenant_id, session.session_id))
                .values(last_message_at=max(now, session.last_message_at))
            )
            return session

        return await self._database.write(end)

    async def message(self, tenant_id: str, message_id: str) -> tuple[Message, str]:
        statement = (
            sa.select(*_MESSAGE, sessions.c.user_id)
            .join(sessions, of_session(sessions, tenant_id, messages.c.session_id))  # type: ignore[arg-type]
            .where(messages.c.id == message_id, messages.c.tenant_id == tenant_id)
        )
        row = await self._database.read(lambda c: c.execute(statement).first())
        if row is None:
            raise NotFound("there is no such message", param="message_id")
        return Message(*row[:-1]), row[-1]

    async def history(
        self, tenant_id: str, session_id: str, *, before_seq: int, limit: int
    ) -> list[Message]:
        statement = (
            sa.select(*_MESSAGE)
            .where(
                of_session(messages, tenant_id, session_id),
                messages.c.seq < before_seq,
                messages.c.content != "",
            )
            .order_by(messages.c.seq.desc())
            .limit(limit)
        )
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [Message(*row) for row in reversed(rows)]

    async def get(self, tenant_id: str, session_id: str, user_id: str | None) -> Session:
        statement = sa.select(*SESSION).where(of_session(sessions, tenant_id, session_id))
        row = await self._database.read(lambda c: c.execute(statement).first())
        if row is None or (user_id is not None and row.user_id != user_id):
            raise NotFound("there is no such session", param="session_id")
        return as_session(row)

    async def list_sessions(
        self, tenant_id: str, user_id: str | None, *, limit: int, before: datetime | None
    ) -> Sequence[Session]:
        statement = sa.select(*SESSION).where(sessions.c.tenant_id == tenant_id)
        if user_id is not None:
            statement = statement.where(sessions.c.user_id == user_id)
        if before is not None:
            statement = statement.where(sessions.c.last_message_at < before)
        statement = statement.order_by(
            sessions.c.last_message_at.desc(), sessions.c.session_id
        ).limit(limit)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [as_session(row) for row in rows]

    async def messages_after(
        self, tenant_id: str, session_id: str, after_seq: int, *, limit: int
    ) -> list[Message]:
        statement = (
            sa.select(*_MESSAGE)
            .where(of_session(messages, tenant_id, session_id), messages.c.seq > after_seq)
            .order_by(messages.c.seq)
            .limit(limit)
        )
        rows = await self._database.read(lambda c: c.execute(statement).all())
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
        everywhere = messages.c.status == "pending"
        return await self._database.write(lambda c: _end_lapsed(c, everywhere))

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


def _held(turn: Turn, holder: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        messages.c.id == turn.reply.id,
        messages.c.tenant_id == turn.reply.tenant_id,
        messages.c.status == "pending",
        messages.c.holder == holder,
    )


def _end_lapsed(connection: Connection, which: sa.ColumnElement[bool]) -> int:
    return connection.execute(
        messages.update()
        .where(which, messages.c.lease_until < db_now())
        .values(
            status="interrupted",
            holder=None,
            lease_until=None,
            error={"code": "interrupted", "message": "the process that answered was stopped"},
        )
    ).rowcount


def _begin(connection: Connection, new: NewTurn, lease_seconds: float, now: datetime) -> Turn:
    session = _open(connection, new, now)
    question = _repeated(connection, new, session)
    if question is not None:
        return _join(connection, new, session, question, lease_seconds)
    session = replace(
        session,
        state="open",
        last_seq=session.last_seq + 2,
        last_message_at=max(now, session.last_message_at),
        closed_at=None,
    )
    connection.execute(
        sessions.update()
        .where(of_session(sessions, session.tenant_id, session.session_id))
        .values(
            state="open",
            last_seq=session.last_seq,
            last_message_at=session.last_message_at,
            closed_at=None,
        )
    )
    asked = _message(new, "user", session.last_seq - 1, now)
    reply = _message(new, "assistant", session.last_seq, now)
    connection.execute(messages.insert().values(**_row(asked)))
    connection.execute(
        messages.insert().values(**_row(reply), holder=new.holder, lease_until=after(lease_seconds))
    )
    return Turn(session, asked, reply, mine=True)


def _open(connection: Connection, new: NewTurn, now: datetime) -> Session:
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
    here = of_session(messages, new.tenant_id, new.session_id)
    if new.client_message_id is not None:
        row = connection.execute(
            sa.select(*_MESSAGE).where(here, messages.c.client_message_id == new.client_message_id)
        ).first()
        if row is not None and row.content != new.text:
            raise Conflict(
                "this client_message_id came with another text before", param="client_message_id"
            )
        return None if row is None else Message(*row)
    reply_status = sa.select(messages.c.status).where(here, messages.c.seq == session.last_seq)
    if connection.execute(reply_status).scalar() not in ("failed", "interrupted"):
        return None
    row = connection.execute(
        sa.select(*_MESSAGE).where(
            here, messages.c.seq == session.last_seq - 1, messages.c.content == new.text
        )
    ).first()
    return None if row is None else Message(*row)


def _join(
    connection: Connection,
    new: NewTurn,
    session: Session,
    question: Message,
    lease_seconds: float,
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
    reply = Message(*connection.execute(sa.select(*_MESSAGE).where(this)).one())
    return Turn(session, question, reply, mine=taken.rowcount == 1)


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
    return {column.name: getattr(message, column.name) for column in _MESSAGE}
