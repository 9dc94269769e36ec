"""Live sessions in SQL. Touches: `sessions`, `messages`, the episode of a deleted one, jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.audit import Actor, note
from app.db import Connection, Database, db_now
from app.db.tables import messages, sessions
from app.erased import pseudonym
from app.errors import NotFound
from app.metrics import Metrics
from app.sessions.base import Described, Health, Message, NewTurn, Session, State, Status, Turn
from app.sessions.begin import begin, is_answered
from app.sessions.changes import delete, describe, reopen
from app.sessions.limit import Limit
from app.sessions.listing import counts, page, shown
from app.sessions.rows import (
    EARLIER_PENDING,
    IN_SESSION,
    LEASE_END,
    MESSAGE,
    PENDING,
    SESSION,
    THIS_SESSION,
    as_session,
    lock_session,
    micros,
    of_session,
    put_late,
    said_before,
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
).where(EARLIER_PENDING)
_END_EARLIER = _ending_lapsed(EARLIER_PENDING)
_END_ALL = _ending_lapsed(PENDING)
_WITH_PENDING = sa.select(messages.c.tenant_id, messages.c.session_id).where(PENDING).distinct()
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
_AFTER = (
    sa.select(*MESSAGE)
    .where(IN_SESSION, messages.c.seq > sa.bindparam("after"))
    .order_by(messages.c.seq)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_TOUCH = (
    sessions.update()
    .where(THIS_SESSION)
    .values(
        last_message_at=sa.bindparam("at"),
        tokens=sessions.c.tokens + sa.bindparam("more_tokens", type_=sa.BigInteger),
    )
)


OnDelete = Callable[[Connection, str, str, str, datetime], None]


class SqlSessions:
    """A `SessionStore` in SQL. `lease_seconds`: how long a run may be silent before it is dead.

    count_tokens: of a text, by estimate.
    on_delete: told, in the same transaction, of the tenant, user and id of a session that is about
    to be deleted, and of the time.
    limit: how many sessions of a user are open.
    """

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float,
        count_tokens: Callable[[str], int],
        on_delete: OnDelete | None = None,
        limit: Limit | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._count_tokens = count_tokens
        self._on_delete = on_delete
        self._limit = limit
        self._metrics = metrics or Metrics()

    async def open(self) -> None:
        pass  # the database is opened and closed by who made it

    async def close(self) -> None:
        pass

    async def begin_turn(self, new: NewTurn, *, now: datetime) -> Turn:
        turn = await self._database.write(
            lambda c: begin(c, new, self._lease_seconds, self._count_tokens, now, self._limit)
        )
        self._lapsed(int(turn.is_taken_over))
        return turn

    async def is_answered(self, tenant_id: str, session_id: str, client_message_id: str) -> bool:
        which = tenant_id, session_id, client_message_id
        return await self._database.read(lambda c: is_answered(c, *which))

    async def is_next(self, turn: Turn) -> bool:
        earlier = {**_place(turn.reply), "before": turn.reply.seq}
        pending, dead = await self._database.read(
            lambda c: c.execute(_COUNT_EARLIER, earlier).one()
        )
        if dead:
            self._lapsed(
                await self._database.write(lambda c: c.execute(_END_EARLIER, earlier).rowcount)
            )
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

        tokens = self._count_tokens(content)

        def end(connection: Connection) -> Session | None:
            session = lock_session(connection, turn.reply.tenant_id, turn.reply.session_id)
            stored = connection.execute(_END_TURN, ended)
            if session is None or stored.rowcount == 0:
                return None
            latest = max(now, session.last_message_at)
            grown = {"at": latest, "more_tokens": tokens}
            connection.execute(_TOUCH, _place(turn.reply) | grown)
            if turn.reply.seq <= session.covered_seq:
                put_late(connection, session, now=now)
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

    async def history(self, session: Session, *, before_seq: int, limit: int) -> list[Message]:
        return await self._database.read(lambda c: said_before(c, session, before_seq, limit))

    async def get(self, tenant_id: str, session_id: str, user_id: str | None) -> Session:
        session = await self._database.read(lambda c: shown(c, tenant_id, session_id))
        if session is None or user_id not in (None, session.user_id):
            raise NotFound("there is no such session", param="session_id")
        return session

    async def list_sessions(
        self,
        tenant_id: str,
        user_id: str | None,
        *,
        limit: int,
        after: tuple[datetime, str] | None,
        state: State | None = None,
    ) -> Sequence[Session]:
        return await self._database.read(
            lambda c: page(c, tenant_id, user_id, state, limit=limit, after=after)
        )

    async def describe(
        self, tenant_id: str, session_id: str, user_id: str | None, said: Described
    ) -> Session:
        await self._database.write(lambda c: describe(c, tenant_id, session_id, user_id, said))
        return await self.get(tenant_id, session_id, user_id)

    async def reopen(
        self, tenant_id: str, session_id: str, user_id: str | None, *, now: datetime
    ) -> Session:
        await self._database.write(
            lambda c: reopen(c, tenant_id, session_id, user_id, now, self._limit)
        )
        return await self.get(tenant_id, session_id, user_id)

    async def messages_after(
        self, tenant_id: str, session_id: str, after_seq: int, *, limit: int
    ) -> list[Message]:
        which = {"tenant": tenant_id, "session": session_id, "after": after_seq, "most": limit}
        rows = await self._database.read(lambda c: c.execute(_AFTER, which).all())
        return [Message(*row) for row in rows]

    async def delete(
        self, tenant_id: str, session_id: str, *, now: datetime, actor: Actor | None = None
    ) -> tuple[str, int]:
        def remove(connection: Connection) -> tuple[str, int]:
            session = lock_session(connection, tenant_id, session_id)
            if session is None:
                raise NotFound("there is no such session", param="session_id")
            if self._on_delete is not None:
                self._on_delete(connection, tenant_id, session.user_id, session_id, now)
            key, gone = delete(connection, session, now)
            if actor is not None:
                whose, counts = pseudonym(tenant_id, session.user_id), {"messages": gone}
                note(connection, actor, "session.delete", subject=whose, counts=counts, now=now)
            return key, gone

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
        ended = await self._database.write(lambda c: c.execute(_END_ALL).rowcount)
        self._lapsed(ended)
        return ended

    async def pending(self) -> list[tuple[str, str]]:
        """Return the tenants and ids of the sessions in which a reply is pending."""
        found = await self._database.read(lambda c: c.execute(_WITH_PENDING).all())
        return [(row[0], row[1]) for row in found]

    async def end_lapsed_but(self, held: Sequence[tuple[str, str]]) -> int:
        """Do as `end_lapsed` does, but for these sessions: their leases are held elsewhere."""
        here = sa.tuple_(messages.c.tenant_id, messages.c.session_id)
        some = _END_ALL.where(here.not_in(list(held))) if held else _END_ALL
        ended = await self._database.write(lambda c: c.execute(some).rowcount)
        self._lapsed(ended)
        return ended

    async def counts(self, tenant_id: str) -> Mapping[str, int]:
        return await self._database.read(lambda c: counts(c, tenant_id))

    def _lapsed(self, leases: int) -> None:
        for _ in range(leases):
            self._metrics.lease_taken_over("turn")

    async def settle(
        self,
        tenant_id: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        pass

    async def let_go(
        self, tenant_id: str, session_ids: Iterable[str] = (), *, user_id: str | None = None
    ) -> None:
        pass

    async def withhold(self, tenant_id: str, session_id: str) -> bool:
        return True

    async def held(self, tenant_id: str, user_id: str) -> int:
        return 0

    async def tend(self) -> None:
        pass

    async def health(self) -> Health:
        return Health("in the database")


def _place(message: Message) -> dict[str, str]:
    return {"tenant": message.tenant_id, "session": message.session_id}


def _held(turn: Turn) -> dict[str, str]:
    return {"reply": turn.reply.id, "tenant": turn.reply.tenant_id, "by": turn.holder}
