"""The checkpoint: a session's new messages become its episode, and the episode its vectors.

Touches: `episodes`, `sessions`, the jobs, the chat model, the embedder, the index.

A job does one: summarise what is new (no transaction open), store it under the claim's fence, push
the vectors from the stored row, and look whether the row moved meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database
from app.db.tables import episodes, sessions
from app.errors import NotFound
from app.index.base import Index, Metadata, Vector, namespace, vector_id
from app.jobs import Claim, Handler, Jobs, Postpone
from app.llm.base import Embedder
from app.memory.episodes import Episode, Episodes
from app.memory.summary import Summariser, Summary
from app.sessions.base import Message, Session, SessionStore
from app.sessions.rows import lock_session, of_session
from app.text.sentences import sentences

PAGE = 500
PUSHES = 5
READINGS = 3  # of a session whose memory moves while it is summarised
MAX_SENTENCES = 32


class Checkpoints:
    """Does the jobs `summarise`, `close` and `sync_episode`."""

    def __init__(
        self,
        database: Database,
        sessions: SessionStore,
        episodes: Episodes,
        queue: Jobs,
        index: Index,
        embedder: Embedder,
        summariser: Summariser,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._sessions = sessions
        self._episodes = episodes
        self._queue = queue
        self._index = index
        self._embedder = embedder
        self._summariser = summariser
        self._clock = clock

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {
            "summarise": self._checkpoint,
            "close": self._close,
            "sync_episode": self._sync,
        }

    async def refill(self, tenant_id: str) -> int:
        """Empty a tenant's memory namespace and fill it from SQL; returns how many there are."""
        await self._index.clear(namespace("memory", tenant_id))
        here = episodes.c.tenant_id == tenant_id
        await self._database.write(
            lambda c: c.execute(episodes.update().where(here).values(indexed_version=0))
        )
        filled = 0
        last = ""
        while ids := await self._database.read(partial(_page, tenant_id, last)):
            for session_id in ids:
                await self._push(tenant_id, session_id)
            filled, last = filled + len(ids), ids[-1]
        return filled

    async def _checkpoint(self, claim: Claim) -> None:
        await self._cover_what_is_new(claim)
        await self._queue.finish(claim, lambda _: None)

    async def _close(self, claim: Claim) -> None:
        """Cover all there is, and only then close."""
        session = await self._cover_what_is_new(claim)
        if session is None:
            await self._queue.finish(claim, lambda _: None)
            return
        now = self._clock()

        def close(connection: Connection) -> None:
            current = lock_session(connection, session.tenant_id, session.session_id)
            if current is None or current.last_seq != claim.payload["last_seq"]:
                return  # gone, or it went on: the next quiet spell has a job of its own
            if current.covered_seq < current.last_seq:
                raise Postpone("a turn of the session is still running")
            connection.execute(
                sessions.update()
                .where(of_session(sessions, current.tenant_id, current.session_id))
                .values(state="closed", closed_at=now)
            )

        await self._queue.finish(claim, close)

    async def _sync(self, claim: Claim) -> None:
        await self._push(claim.tenant_id, claim.payload["session_id"], again=True)
        await self._queue.finish(claim, lambda _: None)

    async def _cover_what_is_new(self, claim: Claim) -> Session | None:
        """Summarise, store and index the session's new messages; None if it is gone."""
        for _ in range(READINGS):
            try:
                session = await self._sessions.get(
                    claim.tenant_id, claim.payload["session_id"], None
                )
            except NotFound:
                return None
            news = await self._news(session)
            if not news or await self._revise(claim, session, news):
                break
        else:
            raise Postpone("the session's memory keeps changing")
        again = claim.attempts > 1
        await self._push(session.tenant_id, session.session_id, again=again)
        if not news and session.covered_seq < session.last_seq:
            raise Postpone("a turn of the session is still running")  # or its key is used up
        return session

    async def _revise(self, claim: Claim, session: Session, news: Sequence[Message]) -> bool:
        """Summarise and store; False if the session's memory has moved since it was read."""
        known = await self._episodes.get(session.tenant_id, session.session_id)
        said = [message for message in news if message.memory == "on" and message.content]
        summary = None
        if said:
            previous = known.text if known is not None else ""
            summary = await self._summariser.revise(previous, said)
        now = self._clock()
        return await self._queue.commit(
            claim, lambda c: _store(c, session, news, said, summary, known, now)
        )

    async def _news(self, session: Session) -> list[Message]:
        """Return the messages after the covered ones, up to the first turn that is running."""
        news: list[Message] = []
        seq = session.covered_seq
        while page := await self._sessions.messages_after(
            session.tenant_id, session.session_id, seq, limit=PAGE
        ):
            news += page
            seq = page[-1].seq
        running = min((m.seq - 1 for m in news if m.status == "pending"), default=None)
        return news if running is None else [m for m in news if m.seq < running]

    async def _push(self, tenant_id: str, session_id: str, *, again: bool = False) -> None:
        """Make the index agree with the stored row, also if the row moves meanwhile.

        `again` pushes what counts as indexed, too: a push that was cut off, ours or another
        worker's, may have landed over a newer one.
        """
        where = namespace("memory", tenant_id)
        for _ in range(PUSHES):
            episode = await self._episodes.get(tenant_id, session_id)
            is_indexed = episode is not None and episode.indexed_version == episode.version
            if is_indexed and not again:
                return
            again = True
            vectors = [] if episode is None else await self._vectors(episode)
            if vectors:
                await self._index.upsert(where, vectors)
            await self._index.delete(where, _ids(session_id)[len(vectors) :])
            if await self._database.write(partial(_settled, tenant_id, session_id, episode)):
                return
        raise Postpone("the episode keeps changing")

    async def _vectors(self, episode: Episode) -> list[Vector]:
        """Return the episode's vector, and one of each sentence of a longer summary.

        One vector of several topics is near to none of them; a sentence's is.
        """
        said = sentences(episode.text)
        texts = [episode.text, *(said[:MAX_SENTENCES] if len(said) > 1 else [])]
        values = await self._embedder.embed(texts)
        ids = _ids(episode.session_id)
        return [
            Vector(ids[n], values[n], _metadata(episode, text, "sentence" if n else "episode"))
            for n, text in enumerate(texts)
        ]


def _ids(session_id: str) -> list[str]:
    """Return the ids of all the vectors that a session may have, the episode's first."""
    base = vector_id(session_id)
    return [base, *(f"{base}#s{n}" for n in range(1, MAX_SENTENCES + 1))]


def _metadata(episode: Episode, text: str, memory_type: str) -> Metadata:
    return {
        "tenant_id": episode.tenant_id,
        "user_id": episode.user_id,
        "session_id": episode.session_id,
        "text": text,
        "doc_type": "memory",
        "memory_type": memory_type,
        "created_at": episode.ended_at.timestamp(),
    }


def _store(
    connection: Connection,
    session: Session,
    news: Sequence[Message],
    said: Sequence[Message],
    summary: Summary | None,
    known: Episode | None,
    now: datetime,
) -> bool:
    """Store what a checkpoint made of a session; False if its memory has moved since."""
    current = lock_session(connection, session.tenant_id, session.session_id)
    if current is None:
        raise jobs.LostClaim
    if current.memory_revision != session.memory_revision:
        return False
    connection.execute(
        sessions.update()
        .where(of_session(sessions, session.tenant_id, session.session_id))
        .values(covered_seq=news[-1].seq, memory_revision=session.memory_revision + 1)
    )
    if summary is None:
        return True
    changed: dict[str, Any] = {
        "version": session.memory_revision + 1,
        "text": summary.text,
        "covered_seq": news[-1].seq,
        "dropped_sentences": summary.dropped + (known.dropped_sentences if known else 0),
        "ended_at": said[-1].created_at,
        "updated_at": now,
    }
    if known is not None:
        connection.execute(
            episodes.update()
            .where(of_session(episodes, session.tenant_id, session.session_id))
            .values(**changed)
        )
        return True
    connection.execute(
        episodes.insert().values(
            tenant_id=session.tenant_id,
            session_id=session.session_id,
            user_id=session.user_id,
            indexed_version=0,
            started_at=said[0].created_at,
            created_at=now,
            **changed,
        )
    )
    return True


def _page(tenant_id: str, last: str, connection: Connection) -> Sequence[str]:
    return (
        connection.execute(
            sa.select(episodes.c.session_id)
            .where(episodes.c.tenant_id == tenant_id, episodes.c.session_id > last)
            .order_by(episodes.c.session_id)
            .limit(PAGE)
        )
        .scalars()
        .all()
    )


def _settled(
    tenant_id: str, session_id: str, pushed: Episode | None, connection: Connection
) -> bool:
    """Say whether the row is still what was pushed, and note that it is indexed."""
    here = of_session(episodes, tenant_id, session_id)
    if pushed is None:
        return connection.execute(sa.select(episodes.c.version).where(here)).first() is None
    unmoved = sa.and_(
        here,
        episodes.c.version == pushed.version,
        episodes.c.updated_at == pushed.updated_at,
    )
    indexed = episodes.update().where(unmoved).values(indexed_version=pushed.version)
    return connection.execute(indexed).rowcount == 1
