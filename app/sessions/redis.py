"""Live sessions in Redis, over those in SQL. Touches: Redis, and through it `sessions`, `messages`.

A turn is begun and ended in Redis, whose answer is the acknowledgement. SQL gets it soon after, in
the background, and before anybody reads there; so Redis holds what is not in SQL yet, and a copy
that spares the next turn a read. A session begins in SQL, and goes on there where Redis has lost it
or let it go. Where Redis has one that SQL has not, it was deleted: it is dropped, never stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.audit import Actor
from app.db.tables import micros
from app.errors import AppError, Conflict, NotFound, SessionBusy
from app.metrics import Metrics
from app.sessions.base import (
    Described,
    Health,
    Message,
    NewTurn,
    Session,
    State,
    Status,
    Turn,
)
from app.sessions.redis_link import Link
from app.sessions.redis_scripts import BEGIN, DIRTY, END, IS_NEXT, LINES, RENEW, TAKE_UP
from app.sessions.redis_settler import Settler
from app.sessions.redis_shapes import (
    INTERRUPTED,
    Line,
    keys,
    line_of,
    new_message,
    said,
    state_of,
    text_of,
    theirs,
    with_it_of,
)
from app.sessions.sql import SqlSessions

log = logging.getLogger(__name__)

TRIES = 20  # of a session that others load, take up, change or delete at the same time
ABSENT = -1  # what a script says of a session that is not in Redis
Spawn = Callable[[str, Coroutine[Any, Any, Any]], object]


class RedisSessions:
    """A `SessionStore` in Redis, over one in SQL.

    lease_seconds: how long a run may be silent before it is dead, by the clock of Redis.
    spawn: runs what comes after an acknowledgement.
    """

    def __init__(
        self,
        link: Link,
        settler: Settler,
        sql: SqlSessions,
        *,
        lease_seconds: float,
        count_tokens: Callable[[str], int],
        spawn: Spawn,
        metrics: Metrics | None = None,
    ) -> None:
        self._link = link
        self._settler = settler
        self._sql = sql
        self._lease = int(lease_seconds * 1_000_000)
        self._count_tokens = count_tokens
        self._spawn = spawn
        self._metrics = metrics or Metrics()

    async def open(self) -> None:
        """Connect. Raises `Misconfigured` for a Redis that may lose what it acknowledges."""
        await self._link.open()

    async def close(self) -> None:
        await self._link.close()

    async def begin_turn(self, new: NewTurn, *, now: datetime) -> Turn:
        here = new.tenant_id, new.session_id
        question, reply = new_message(new, "user", now), new_message(new, "assistant", now)
        for _ in range(TRIES):
            how, *told = await self._begin(new, question, reply, now)
            if how == "absent":
                first = await self._settler.begin(new, self._lease / 1_000_000, now)
                if first is not None:
                    await self.settle(new.tenant_id, new.user_id)
                    return first
            elif how == "foreign":
                raise NotFound("there is no such session", param="session_id")
            else:
                session = state_of(*here, told[0])
                asked, answered = line_of(told[1]), line_of(told[2])
                if how == "new":
                    await self._settler.settle_all(told[4])
                    question = replace(question, seq=asked.seq)
                    reply = replace(reply, seq=answered.seq)
                    is_next = bool(told[3])
                    return Turn(session, question, reply, new.holder, mine=True, is_next=is_next)
                turn = await self._joined(new, session, asked, answered, how, now)
                if turn is not None:
                    return turn
        raise SessionBusy("the session is being changed by others", retry_after=1)

    async def _begin(
        self, new: NewTurn, question: Message, reply: Message, now: datetime
    ) -> list[Any]:
        has_id = new.client_message_id is not None
        begun: list[Any] = await self._link.run(
            BEGIN,
            keys(new.tenant_id, new.session_id),
            *(new.user_id, int(has_id), new.client_message_id or "", said(new.text)),
            *(new.holder, self._lease, micros(now), new.timezone or ""),
            *(self._count_tokens(new.text), text_of(question), text_of(reply)),
            theirs(new.tenant_id, new.user_id),
        )
        return begun

    async def _joined(
        self,
        new: NewTurn,
        session: Session,
        asked: Line,
        answered: Line,
        how: str,
        now: datetime,
    ) -> Turn | None:
        """Return the turn that a message repeats; None if another run took it up just now."""
        question = await self._whole(session, asked)
        reply = await self._whole(session, answered)
        if question is None or reply is None:  # removed from SQL just now
            await self.let_go(new.tenant_id, [new.session_id])
            return None
        if question.content != new.text:
            raise Conflict(
                "this client_message_id came with another text before", param="client_message_id"
            )
        # So long ago that Redis has let go of it: then SQL says whether it was answered.
        was_left = answered.status is None and reply.status in ("failed", "interrupted")
        if how != "free" and not was_left:
            return Turn(session, question, reply, new.holder, mine=how == "mine")
        lapsed, lost = reply.status == "pending", self._count_tokens(reply.content)
        question = replace(question, memory=new.memory)
        reply = replace(
            *(reply,), memory=new.memory, status="pending", content="",
            receipt=None, error=None, steps=None,
        )  # fmt: skip
        taken = await self._link.run(
            TAKE_UP,
            keys(new.tenant_id, new.session_id),
            *(question.seq, new.holder, self._lease, micros(now), lost),
            *(text_of(question), text_of(reply)),
        )
        if not taken:
            return None
        session = state_of(new.tenant_id, new.session_id, taken)
        self._lapsed(int(lapsed))
        return Turn(session, question, reply, new.holder, mine=True, is_taken_over=lapsed)

    async def _whole(self, session: Session, line: Line) -> Message | None:
        """Return a message with its receipt, which Redis does not keep once SQL has it."""
        known = line.message(session) if line.text is not None else None
        if known is not None and (known.role == "user" or line.with_it is not None):
            return known
        if known is not None and known.status == "pending":
            return known
        here = session.tenant_id, session.session_id
        for message in await self._sql.messages_after(*here, line.seq - 1, limit=1):
            if message.seq == line.seq:
                return message
        return known

    async def is_answered(self, tenant_id: str, session_id: str, client_message_id: str) -> bool:
        await self.settle(tenant_id, session_id=session_id)
        return await self._sql.is_answered(tenant_id, session_id, client_message_id)

    async def is_next(self, turn: Turn) -> bool:
        found = await self._of_turn(IS_NEXT, turn, INTERRUPTED)
        if found == ABSENT:
            return True  # in a session that is gone, nobody comes before
        ended, alive = found
        self._lapsed(ended)
        return bool(alive == 0)

    async def renew(self, turn: Turn) -> bool:
        return bool(await self._of_turn(RENEW, turn, turn.holder, self._lease) == 1)

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
        here = turn.reply.tenant_id, turn.reply.session_id
        reply = replace(
            *(turn.reply,), status=status, content=content, created_at=now,
            receipt=receipt, error=error, steps=steps,
        )  # fmt: skip
        ended = await self._of_turn(
            END,
            turn,
            *(turn.holder, status, text_of(reply), with_it_of(reply)),
            *(self._count_tokens(content), micros(now)),
        )
        if not isinstance(ended, list):
            return None
        self._spawn("settling of a session", self._settle_late(*here))
        return state_of(*here, ended)

    async def _settle_late(self, tenant_id: str, session_id: str) -> None:
        try:
            await self._settler.settle(tenant_id, session_id)
        except AppError as failure:  # it stands in Redis, and `tend` tries again
            log.warning("a session did not settle: %s", failure.message)

    async def _of_turn(self, script: str, turn: Turn, *args: str | int) -> Any:
        """Run a script on a turn's reply, which goes on from SQL where Redis has lost it."""
        here, seq = (turn.reply.tenant_id, turn.reply.session_id), turn.reply.seq
        for _ in range(TRIES):
            found = await self._link.run(script, keys(*here), seq, *args)
            if found != ABSENT:
                return found
            if not await self._settler.load(*here):
                break
        return ABSENT

    def _lapsed(self, leases: int) -> None:
        for _ in range(leases):
            self._metrics.lease_taken_over("turn")

    async def message(self, tenant_id: str, message_id: str) -> tuple[Message, str]:
        try:
            found = await self._sql.message(tenant_id, message_id)
            if found[0].status != "pending":
                return found
        except NotFound:
            pass
        await self.settle(tenant_id)
        return await self._sql.message(tenant_id, message_id)

    async def history(self, session: Session, *, before_seq: int, limit: int) -> list[Message]:
        here, first = (session.tenant_id, session.session_id), max(1, before_seq - 2 * limit)
        found = await self._link.run(LINES, keys(*here), first, before_seq - 1)
        if not found:
            return await self._sql.history(session, before_seq=before_seq, limit=limit)
        copy = state_of(*here, found[0])
        if (copy.user_id, copy.created_at) != (session.user_id, session.created_at):
            return []
        lines = [line_of(told) for told in found[1]]
        said = [line.message(copy) for line in lines if line.text is not None]
        known = [replace(m, receipt=None) for m in said if m.content][-limit:] if limit else []
        begin = lines[0].seq if lines else before_seq
        if len(known) < limit and begin > 1:
            more = limit - len(known)
            known = [*await self._sql.history(session, before_seq=begin, limit=more), *known]
        return known

    async def get(self, tenant_id: str, session_id: str, user_id: str | None) -> Session:
        await self.settle(tenant_id, session_id=session_id)
        return await self._sql.get(tenant_id, session_id, user_id)

    async def list_sessions(
        self,
        tenant_id: str,
        user_id: str | None,
        *,
        limit: int,
        after: tuple[datetime, str] | None,
        state: State | None = None,
    ) -> Sequence[Session]:
        await self.settle(tenant_id, user_id)
        return await self._sql.list_sessions(
            tenant_id, user_id, limit=limit, after=after, state=state
        )

    async def describe(
        self, tenant_id: str, session_id: str, user_id: str | None, said: Described
    ) -> Session:
        await self.settle(tenant_id, session_id=session_id)
        return await self._sql.describe(tenant_id, session_id, user_id, said)

    async def reopen(
        self, tenant_id: str, session_id: str, user_id: str | None, *, now: datetime
    ) -> Session:
        await self.settle(tenant_id, session_id=session_id)
        return await self._sql.reopen(tenant_id, session_id, user_id, now=now)

    async def messages_after(
        self, tenant_id: str, session_id: str, after_seq: int, *, limit: int
    ) -> list[Message]:
        await self.settle(tenant_id, session_id=session_id)
        return await self._sql.messages_after(tenant_id, session_id, after_seq, limit=limit)

    async def delete(
        self, tenant_id: str, session_id: str, *, now: datetime, actor: Actor | None = None
    ) -> tuple[str, int]:
        await self.settle(tenant_id, session_id=session_id)
        gone = await self._sql.delete(tenant_id, session_id, now=now, actor=actor)
        # Afterwards: a copy that is loaded before would outlive its session. If we die in between,
        # the deletion was not acknowledged, and happens when the job that it left is done.
        await self.let_go(tenant_id, [session_id])
        return gone

    async def gone_quiet(self, *, before: datetime, limit: int) -> list[Session]:
        await self.settle()
        return await self._sql.gone_quiet(before=before, limit=limit)

    async def end_lapsed(self) -> int:
        """End them where they are held, then in SQL those that nobody holds any more.

        Among these are some that were ended long ago: who settled late, a frozen process say, has
        made them pending again.
        """
        await self.settle()
        pending = await self._sql.pending()
        ended = await self._settler.lapse(pending)
        self._lapsed(ended)
        await self.settle()
        held = [place for place in pending if await self._settler.is_pending(*place)]
        ended += await self._sql.end_lapsed_but(held)
        await self._settler.start_to_expire()
        return ended

    async def counts(self, tenant_id: str) -> Mapping[str, int]:
        await self.settle(tenant_id)
        return await self._sql.counts(tenant_id)

    async def settle(
        self,
        tenant_id: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> None:
        if tenant_id is not None and session_id is not None:
            await self._settler.settle(tenant_id, session_id)
        else:
            await self._settler.settle_all(await self._settler.dirty(tenant_id, user_id))

    async def let_go(
        self, tenant_id: str, session_ids: Iterable[str] = (), *, user_id: str | None = None
    ) -> None:
        places = dict.fromkeys((tenant_id, session_id) for session_id in session_ids)
        if user_id is not None:
            places |= dict.fromkeys(await self._settler.live(tenant_id, user_id))
        for place in places:
            await self._settler.let_go(*place)

    async def withhold(self, tenant_id: str, session_id: str) -> bool:
        return await self._settler.withhold(tenant_id, session_id)

    async def held(self, tenant_id: str, user_id: str) -> int:
        return len(await self._settler.live(tenant_id, user_id))

    async def tend(self) -> None:
        await self._settler.settle_all(await self._settler.left_behind())

    async def health(self) -> Health:
        try:
            waiting = await self._link.size(DIRTY)
        except AppError as error:
            return Health("in Redis", error.message)
        lost = self._link.may_lose
        place = f"in Redis; {waiting} are not in the database yet"
        if lost is not None:
            place += f"; live sessions may be lost (SESSION_STORE_VOLATILE): {lost}"
        return Health(place)
