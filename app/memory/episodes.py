"""One episode per session, as SQL holds it. Touches: `episodes`, the sessions, the jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.audit import Actor, note
from app.db import Connection, Database
from app.db.tables import episodes, messages, sessions
from app.erased import pseudonym
from app.errors import NotFound
from app.memory.base import Mark
from app.memory.forgetting import forget_session
from app.quarantine import BLOCKED, State, withheld
from app.sessions.base import Session
from app.sessions.rows import lock_session, of_session, put_sync

_BY_SESSION = sa.select(episodes).where(
    episodes.c.tenant_id == sa.bindparam("tenant"),
    episodes.c.session_id.in_(sa.bindparam("session_ids", expanding=True)),
)


@dataclass(frozen=True, slots=True)
class Episode:
    """The summary of one session. `started_at` and `ended_at` are its conversation's."""

    tenant_id: str
    session_id: str
    user_id: str
    text: str
    covered_seq: int
    version: int
    indexed_version: int
    dropped_sentences: int
    started_at: datetime
    ended_at: datetime
    created_at: datetime
    updated_at: datetime
    refused_facts: int
    indexed_seq: int
    mark: Mark | None
    used_at: datetime | None
    uses: int


class Episodes:
    """Reads and forgets episodes, and asks for the checkpoints that write them.

    withholds: the states in the quarantine list of what prompts leave out.
    """

    def __init__(
        self,
        database: Database,
        *,
        every_messages: int,
        clock: Callable[[], datetime],
        withholds: Sequence[State] = BLOCKED,
    ) -> None:
        self._database = database
        self._withholds = withholds
        self._every_messages = every_messages
        self._clock = clock

    async def after_turn(self, session: Session, seq: int) -> bool:
        """Ask for a checkpoint if enough is new up to `seq`, where the turn ended.

        Says whether it did. Calls no model.
        """
        if seq - session.covered_seq < self._every_messages:
            return False
        now = self._clock()

        def ask(connection: Connection) -> bool:
            current = _current(connection, session)
            if current is None or seq - current.covered_seq < self._every_messages:
                return False
            key = f"{current.session_id}:{current.covered_seq}:{current.memory_revision}"
            _put(connection, current, "summarise", key, now)
            return True

        return await self._database.write(ask)

    async def ask_to_close(self, session: Session, *, delay_seconds: float = 0.0) -> str:
        """Ask for a last checkpoint after which the session is closed; returns the job's key."""
        key, now = _closing(session), self._clock()

        def ask(connection: Connection) -> None:
            if _current(connection, session) is not None:
                _put(connection, session, "close", key, now, delay_seconds)

        await self._database.write(ask)
        return key

    async def get(self, tenant_id: str, session_id: str) -> Episode | None:
        rows = await self.load(tenant_id, [session_id])
        return rows.get(session_id)

    async def told(self, tenant_id: str, session_id: str) -> Episode | None:
        """Return an episode for a prompt: not one that the quarantine list withholds."""
        which = {"tenant": tenant_id, "session_ids": [session_id]}

        def read(connection: Connection) -> Episode | None:
            ids = [session_id]
            if withheld(connection, tenant_id, "episode", ids, self._withholds):
                return None
            row = connection.execute(_BY_SESSION, which).first()
            return None if row is None else _episode(row)

        return await self._database.read(read)

    async def load(self, tenant_id: str, session_ids: Sequence[str]) -> dict[str, Episode]:
        """Return the episodes that exist, by session id."""
        which = {"tenant": tenant_id, "session_ids": list(session_ids)}
        rows = await self._database.read(lambda c: c.execute(_BY_SESSION, which).all())
        return {row.session_id: _episode(row) for row in rows}

    async def of_user(self, tenant_id: str, user_id: str, *, limit: int) -> list[Episode]:
        """Return a user's episodes, the latest first."""
        statement = (
            sa.select(episodes)
            .where(episodes.c.tenant_id == tenant_id, episodes.c.user_id == user_id)
            .order_by(episodes.c.ended_at.desc(), episodes.c.session_id)
            .limit(limit)
        )
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [_episode(row) for row in rows]

    async def forget(
        self, tenant_id: str, user_id: str | None, session_id: str, *, actor: Actor | None = None
    ) -> str:
        """Forget a session: its episode goes, and nothing said so far is remembered again.

        Returns the key of the job that removes its vectors. Raises `NotFound`.
        actor: who does it on its user's behalf, for the audit log.
        """
        now = self._clock()

        def remove(connection: Connection) -> str:
            session = lock_session(connection, tenant_id, session_id)
            if session is None or user_id not in (None, session.user_id):
                raise NotFound("there is no such memory", param="memory_id")
            gone = forget_session(
                connection, tenant_id, session.user_id, session_id, now, by_caller=False
            )
            if not gone.is_anything and session.covered_seq == session.last_seq:
                raise NotFound("there is no such memory", param="memory_id")
            if actor is not None:
                whose = pseudonym(tenant_id, session.user_id)
                counts = {"episodes": gone.episodes, "facts": gone.facts}
                note(connection, actor, "memory.delete", subject=whose, counts=counts, now=now)
            return take_off_the_record(connection, session, now=now)

        return await self._database.write(remove)

    async def counts(self, tenant_id: str) -> dict[str, int]:
        """Return how many episodes a tenant has, and how much was not believed."""
        statement = sa.select(
            sa.func.count(),
            sa.func.coalesce(sa.func.sum(episodes.c.dropped_sentences), 0),
            sa.func.coalesce(sa.func.sum(episodes.c.refused_facts), 0),
        ).where(episodes.c.tenant_id == tenant_id)
        stored, dropped, refused = await self._database.read(lambda c: c.execute(statement).one())
        return {
            "episodes": stored,
            "dropped_sentences": int(dropped),
            "refused_facts": int(refused),
        }


def put_close(connection: Connection, session: Session, *, now: datetime) -> None:
    """Ask for what `Episodes.ask_to_close` asks for, in the caller's transaction."""
    _put(connection, session, "close", _closing(session), now)


def take_off_the_record(connection: Connection, session: Session, *, now: datetime) -> str:
    """Have nothing that was said so far remembered again; returns the key of a `sync_episode`."""
    here = (session.tenant_id, session.session_id)
    connection.execute(messages.update().where(of_session(messages, *here)).values(memory="off"))
    connection.execute(
        sessions.update()
        .where(of_session(sessions, *here))
        .values(covered_seq=session.last_seq, memory_revision=session.memory_revision + 1)
    )
    return put_sync(connection, *here, now=now)


def _current(connection: Connection, session: Session) -> Session | None:
    """Return a session as it is now; None if it was deleted meanwhile: a done job would block its
    successor's key."""
    current = lock_session(connection, session.tenant_id, session.session_id)
    return current if current is not None and current.created_at == session.created_at else None


def _closing(session: Session) -> str:
    return f"{session.session_id}:{session.last_seq}:{session.memory_revision}"


def _put(
    connection: Connection,
    session: Session,
    kind: str,
    key: str,
    now: datetime,
    delay_seconds: float = 0.0,
) -> None:
    jobs.put(
        connection,
        session.tenant_id,
        kind,
        key,
        {"session_id": session.session_id, "last_seq": session.last_seq},
        subject=f"session:{session.session_id}",
        now=now,
        delay_seconds=delay_seconds,
    )


def _episode(row: Any) -> Episode:
    return Episode(*row)  # its fields stand in the order of the columns
