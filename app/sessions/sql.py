"""Live sessions in SQL. Touches: `sessions`, `messages`, the episode of a deleted one, jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database, db_now
from app.db.tables import episodes, messages, sessions
from app.errors import NotFound
from app.sessions.base import Message, NewTurn, Session, Status, Turn
from app.sessions.begin import begin
from app.sessions.rows import (
    IN_SESSION,
    LEASE_END,
    MESSAGE,
    SELECT_SESSION,
    SESSION,
    THIS_SESSION,
    as_session,
    lock_session,
    micros,
    of_session,
    put_sync,
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


_EARLIER_PENDING = sa.and_(
    IN_SESSION, messages.c.seq < sa.bindparam("before"), messages.c.status == "pending"
)
_HELD = sa.and_(
    messages.c.id == sa.bindparam("reply"),
    messages.c.tenant_id == sa.bindparam("tenant"),
    messages.c.status == "pending",
    messages.c.holder == sa.bindparam("by"),
)

# Built once: SQLAlchemy takes longer to build a statement than SQLite to answer it.
_COUNT_EARLIER = sa.select(
    sa.func.count(),
    sa.func.coalesce(sa.func.sum(sa.case((messages.c.lease_until < db_now(), 1), else_=0)), 0),
).where(_EARLIER_PENDING)
_END_EARLIER = _ending_lapsed(_EARLIER_PENDING)
_END_ALL = _ending_lapsed(messages.c.status == "pending")
_RENEW = messages.update().where(_HELD).values(lease_until=LEASE_END)
_END_TURN = (
    messages.update()
    .where(_HELD)
    .values(
        status=sa.bindparam("new_status"),
        content=sa.bindparam("new_content"),
        receipt=sa.bindparam("new_receipt"),
        error=sa.bindparam("new_error"),
        steps=sa.bindparam("new_steps"),
        created_at=sa.bindparam("at"),
        holder=None,
        lease_until=None,
    )
)
_HISTORY = (
    sa.select(*MESSAGE)
    .join(
        sessions,
        sa.and_(
            THIS_SESSION,
            # Not of another one that has taken over the id meanwhile.
            sessions.c.user_id == sa.bindparam("user"),
            sessions.c.created_at == sa.bindparam("since"),
        ),
    )
    .where(IN_SESSION, messages.c.seq < sa.bindparam("before"), messages.c.content != "")
    .order_by(messages.c.seq.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_AFTER = (
    sa.select(*MESSAGE)
    .where(IN_SESSION, messages.c.seq > sa.bindparam("after"))
    .order_by(messages.c.seq)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_TOUCH = sessions.update().where(THIS_SESSION).values(last_message_at=sa.bindparam("at"))


OnDelete = Callable[[Connection, str, str, str, datetime], None]


class SqlSessions:
    """A `SessionStore` in SQL. `lease_seconds`: how long a run may be silent before it is dead.

    on_delete: told, in the same transaction, of the tenant, user and id of a session that is about
    to be deleted, and of the time.
    """

    def __init__(
        self, database: Database, *, lease_seconds: float, on_delete: OnDelete | None = None
    ) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._on_delete = on_delete

    async def begin_turn(self, new: NewTurn, *, now: datetime) -> Turn:
        return await self._database.write(lambda c: begin(c, new, self._lease_seconds, now))

    async def is_next(self, turn: Turn) -> bool:
        earlier = {**_place(turn.reply), "before": turn.reply.seq}
        pending, dead = await self._database.read(
            lambda c: c.execute(_COUNT_EARLIER, earlier).one()
        )
        if dead:
            await self._database.write(lambda c: c.execute(_END_EARLIER, earlier))
        return int(pending) == int(dead)

    async def renew(self, turn: Turn) -> bool:
        which = {**_held(turn), "lease": micros(self._lease_seconds)}
        return await self._database.write(lambda c: c.execute(_RENEW, which).rowcount == 1)

    async def end_turn(
        self,
        turn: Turn,
        *,
        status: Status,
        content: str,
        receipt: Mapping[str, Any] | None,
        error: Mapping[str, Any] | None,
        steps: Sequence[Mapping[str, Any]] | None = None,
        now: datetime,
    ) -> Session | None:
        ended = {
            **_held(turn),
            "new_status": status,
            "new_content": content,
            "new_receipt": None if receipt is None else dict(receipt),
            "new_error": None if error is None else dict(error),
            "new_steps": None if steps is None else [dict(step) for step in steps],
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
            sa.select(*MESSAGE, sessions.c.user_id)
            .join(sessions, of_session(sessions, tenant_id, messages.c.session_id))
            .where(messages.c.id == message_id, messages.c.tenant_id == tenant_id)
        )
        row = await self._database.read(lambda c: c.execute(statement).first())
        if row is None:
            raise NotFound("there is no such message", param="message_id")
        return Message(*row[:-1]), row[-1]

    async def history(self, turn: Turn, *, limit: int) -> list[Message]:
        which = {
            **_place(turn.question),
            "user": turn.session.user_id,
            "since": turn.session.created_at,
            "before": turn.question.seq,
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
            session = lock_session(connection, tenant_id, session_id)
            if session is None:
                raise NotFound("there is no such session", param="session_id")
            if self._on_delete is not None:
                self._on_delete(connection, tenant_id, session.user_id, session_id, now)
            gone = connection.execute(
                messages.delete().where(of_session(messages, tenant_id, session_id))
            )
            for table in (episodes, sessions):
                connection.execute(table.delete().where(of_session(table, tenant_id, session_id)))
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


def _held(turn: Turn) -> dict[str, str]:
    return {"reply": turn.reply.id, "tenant": turn.reply.tenant_id, "by": turn.holder}
