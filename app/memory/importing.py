"""Old conversations become sessions, whose checkpoints run like any other.

Touches: `sessions`, `messages`, the jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

import sqlalchemy as sa

from app.audit import Actor, note
from app.consents import Consents
from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.parts import in_parts
from app.db.tables import messages, sessions
from app.erased import pseudonym, refuse
from app.errors import Conflict, NotFound
from app.llm.tokens import estimate_tokens
from app.memory.episodes import put_close
from app.memory.new_facts import new_ids
from app.memory.transcripts import Line, Transcript, settle
from app.sessions.base import Session, SessionStore
from app.sessions.rows import (
    IN_SESSION,
    SESSION,
    THIS_SESSION,
    as_session,
    lock_session,
)

AT_ONCE = 4  # transactions; SQLite commits them together, and Postgres has connections left
INLINE_LINES = 50  # are settled sooner than they are handed to a thread

_STORED = (
    sa.select(
        messages.c.seq,
        messages.c.role,
        messages.c.content,
        messages.c.created_at,
        messages.c.speaker,
    )
    .where(IN_SESSION, messages.c.seq <= sa.bindparam("most"))
    .order_by(messages.c.seq)
)
_THESE_SESSIONS = sa.select(*SESSION).where(
    sessions.c.tenant_id == sa.bindparam("tenant"),
    sessions.c.session_id.in_(sa.bindparam("ids", expanding=True)),
)
_NEW_MESSAGES = messages.insert()
_Act = Callable[[Connection], None]
_GO_ON = (
    sessions.update()
    .where(THIS_SESSION)
    .values(
        state="open",
        closed_at=None,
        last_seq=sa.bindparam("new_last_seq"),
        last_message_at=sa.bindparam("at"),
        timezone=sa.bindparam("new_timezone"),
        tokens=sessions.c.tokens + sa.bindparam("more_tokens", type_=sa.BigInteger),
    )
)


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a transcript. `messages`: those its session has now, `added` among them."""

    session_id: str
    state: Literal["imported", "extended", "unchanged"]
    messages: int
    added: int


@dataclass(frozen=True, slots=True)
class _Import:
    """A transcript on its way; `ids` are to be those of its messages, `tokens` what each costs."""

    tenant_id: str
    user_id: str
    session_id: str
    transcript: Transcript
    ids: Sequence[str]
    tokens: Sequence[int]

    @property
    def lines(self) -> Sequence[Line]:
        return self.transcript.lines

    @property
    def where(self) -> dict[str, str]:
        return {"tenant": self.tenant_id, "session": self.session_id}


class Imports:
    """Stores transcripts. `timezone` is that of those that name none."""

    def __init__(
        self,
        database: Database,
        consents: Consents,
        sessions: SessionStore,
        *,
        timezone: str,
        wake: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._consents = consents
        self._sessions = sessions
        self._timezone = timezone
        self._wake = wake
        self._clock = clock

    async def take(
        self,
        tenant_id: str,
        user_id: str,
        transcripts: Sequence[Transcript],
        *,
        actor: Actor | None = None,
    ) -> list[Imported]:
        """Store each transcript, with the job that summarises it, in a transaction of its own.

        What is stored already is left as it is. Raises, before anything is stored,
        `MemoryDisabled`, `InvalidRequest` for a time that can't be, `NotFound` for a session of
        another user, and `Conflict` for a session that holds another conversation.
        actor: who does it on its user's behalf, for the audit log.
        """
        now = self._clock()
        incoming = await self._settled(tenant_id, user_id, transcripts, now)
        ids = [one.session_id for one in incoming]
        await self._sessions.let_go(tenant_id, ids)
        found = await self._database.read(partial(self._look, tenant_id, user_id, incoming))
        new = [n for n, stored in enumerate(found) if stored is None]
        # The oldest first, so that what is learned comes in the order in which it was said.
        new.sort(key=lambda n: incoming[n].lines[0].created_at)
        acts = None if actor is None else partial(_note, [incoming[n] for n in new], actor, now)
        if acts is not None and len(new) > 1:  # before: they are stored in many transactions
            await self._database.write(acts)
            acts = None
        for start in range(0, len(new), AT_ONCE):
            some = new[start : start + AT_ONCE]
            stored = await asyncio.gather(*(self._store(incoming[n], now, acts) for n in some))
            for n, imported in zip(some, stored, strict=True):
                found[n] = imported
        await self._sessions.let_go(tenant_id, [ids[n] for n in new])
        self._wake()
        return [imported for imported in found if imported is not None]

    async def _settled(
        self, tenant_id: str, user_id: str, transcripts: Sequence[Transcript], now: datetime
    ) -> list[_Import]:
        def settled() -> list[_Import]:
            found = settle(transcripts, user_id, self._timezone, now)
            return [_incoming(tenant_id, user_id, *one) for one in found]

        is_short = sum(len(transcript.lines) for transcript in transcripts) <= INLINE_LINES
        return settled() if is_short else await asyncio.to_thread(settled)

    def _look(
        self, tenant_id: str, user_id: str, incoming: Sequence[_Import], connection: Connection
    ) -> list[Imported | None]:
        """Return what the sessions that hold all of it are; None where something is to be stored.

        Raises `MemoryDisabled`, `NotFound`, `Conflict`.
        """
        self._consents.require_memory(connection, tenant_id, user_id)
        there = {
            row.session_id: as_session(row)
            for ids in in_parts(one.session_id for one in incoming)
            for row in connection.execute(_THESE_SESSIONS, {"tenant": tenant_id, "ids": ids})
        }
        return [_as_it_is(connection, there.get(one.session_id), one) for one in incoming]

    async def _store(self, one: _Import, now: datetime, acts: _Act | None) -> Imported:
        def store(connection: Connection) -> Imported:
            stored = _store(connection, one, now, self._consents)
            if acts is not None and stored.state != "unchanged":  # another import was first
                acts(connection)
            return stored

        return await self._database.write(store)


def _incoming(tenant_id: str, user_id: str, session_id: str, transcript: Transcript) -> _Import:
    tokens = [estimate_tokens(line.content) for line in transcript.lines]
    ids = new_ids(len(tokens))
    return _Import(tenant_id, user_id, session_id, transcript, ids, tokens)


def _as_it_is(connection: Connection, session: Session | None, one: _Import) -> Imported | None:
    if session is None or _known(connection, session, one) < len(one.lines):
        return None
    return Imported(one.session_id, "unchanged", session.last_seq, 0)


def _note(new: Sequence[_Import], actor: Actor, now: datetime, connection: Connection) -> None:
    counts = {"conversations": len(new), "messages": sum(len(one.lines) for one in new)}
    whose = pseudonym(new[0].tenant_id, new[0].user_id)
    note(connection, actor, "memories.import", subject=whose, counts=counts, now=now)


def _store(connection: Connection, one: _Import, now: datetime, consents: Consents) -> Imported:
    session = lock_session(connection, one.tenant_id, one.session_id)
    refuse(connection, one.tenant_id, one.user_id, now)
    consents.require_memory(connection, one.tenant_id, one.user_id)
    if session is None and (opened := _opened(connection, one)) is not None:
        connection.execute(_NEW_MESSAGES, _rows(one, 0))
        put_close(connection, opened, now=now)
        return Imported(one.session_id, "imported", opened.last_seq, opened.last_seq)
    session = session or lock_session(connection, one.tenant_id, one.session_id)
    if session is None:
        raise NotFound("the session was deleted meanwhile", param="session_id")
    known = _known(connection, session, one)
    lines = one.lines[known:]
    if not lines:
        return Imported(one.session_id, "unchanged", session.last_seq, 0)
    connection.execute(_NEW_MESSAGES, _rows(one, known))
    longer = replace(
        session,
        last_seq=known + len(lines),
        last_message_at=max(session.last_message_at, lines[-1].created_at),
        timezone=one.transcript.timezone or session.timezone,
    )
    moved = {
        "new_last_seq": longer.last_seq,
        "at": longer.last_message_at,
        "new_timezone": longer.timezone,
        "more_tokens": sum(one.tokens[known:]),
    }
    connection.execute(_GO_ON, one.where | moved)
    put_close(connection, longer, now=now)
    state: Literal["imported", "extended"] = "extended" if known else "imported"
    return Imported(one.session_id, state, longer.last_seq, len(lines))


def _opened(connection: Connection, one: _Import) -> Session | None:
    """Store a session that holds all of a transcript; None if there is one of its id by now."""
    new = Session(
        tenant_id=one.tenant_id,
        session_id=one.session_id,
        user_id=one.user_id,
        state="open",
        last_seq=len(one.lines),
        covered_seq=0,
        memory_revision=0,
        created_at=one.lines[0].created_at,
        last_message_at=one.lines[-1].created_at,
        closed_at=None,
        timezone=one.transcript.timezone,
        tokens=sum(one.tokens),
    )
    row = {column.name: getattr(new, column.name) for column in SESSION}
    is_new = insert_new(connection, sessions, row, key=["tenant_id", "session_id"])
    return new if is_new else None


def _known(connection: Connection, session: Session, one: _Import) -> int:
    """Return how many of the lines the session holds, from the first on.

    Messages that are no longer there (retention) count as those that were given.
    Raises `NotFound`, `Conflict`.
    """
    if session.user_id != one.user_id:
        raise NotFound(f"there is no such session: {one.session_id}", param="session_id")
    known = min(session.last_seq, len(one.lines))
    for row in connection.execute(_STORED, {**one.where, "most": known}):
        line = one.lines[row.seq - 1]
        given = (line.role, line.content, line.created_at, line.speaker)
        if given != (row.role, row.content, row.created_at, row.speaker):
            raise Conflict(
                f"the session {one.session_id} holds another conversation: its message {row.seq} "
                "is not the one that was given",
                param="session_id",
            )
    return known


def _rows(one: _Import, known: int) -> list[dict[str, Any]]:
    return [
        {
            "id": one.ids[number],
            "tenant_id": one.tenant_id,
            "session_id": one.session_id,
            "seq": number + 1,
            "role": line.role,
            "content": line.content,
            "status": "complete",
            "memory": "on",
            "created_at": line.created_at,
            "speaker": line.speaker,
        }
        for number, line in enumerate(one.lines[known:], known)
    ]
