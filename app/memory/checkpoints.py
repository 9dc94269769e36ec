"""The checkpoint: a session's new messages become its episode and facts, and these its vectors.

Touches: `episodes`, `sessions`, `documents`, the facts, the lexical index, the jobs, the chat
model, the embedder, the index.

A job does one: read what is new (no transaction open), store it under the claim's fence, push the
vectors from the stored rows, and look whether these moved meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from weakref import WeakValueDictionary

import sqlalchemy as sa

from app.consents import Consents
from app.db import Connection, Database
from app.db.tables import episodes, sessions
from app.errors import NotFound
from app.index.base import Index, namespace
from app.jobs import Claim, Defer, Handler, Jobs, Postpone
from app.lexical.store import count as count_terms
from app.llm.base import Embedder
from app.memory.believing import Believed, believe
from app.memory.cleaning import Cleaning
from app.memory.episodes import Episodes
from app.memory.facts import Facts
from app.memory.given import documents_given
from app.memory.lexicon import said_entry
from app.memory.reading import Reader
from app.memory.storing import Learned, index_words_anew, store
from app.memory.vectors import Held, held, ids_of, settled, vectors_of
from app.redact import Redactor
from app.sessions.base import Message, Session, SessionStore
from app.sessions.rows import lock_session, of_session
from app.telemetry import as_logged
from app.text.zones import zone_or_utc
from app.usage import Bill, Ledger

log = logging.getLogger(__name__)

PAGE = 500
PUSHES = 5
READINGS = 3  # of a session whose memory moves while it is read
KNOWN_FACTS = 25  # told to the model


class Checkpoints:
    """Does the jobs `summarise`, `close`, `sync_episode` and `index_late_reply`.

    timezone: an IANA name, of users whose conversation names none.
    exchanges: whether each exchange of a conversation has a vector of its own.
    """

    def __init__(
        self,
        database: Database,
        sessions: SessionStore,
        episodes: Episodes,
        facts: Facts,
        queue: Jobs,
        index: Index,
        embedder: Embedder,
        reader: Reader,
        ledger: Ledger,
        redactor: Redactor,
        consents: Consents,
        *,
        timezone: str,
        exchanges: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._sessions = sessions
        self._episodes = episodes
        self._facts = facts
        self._queue = queue
        self._index = index
        self._embedder = embedder
        self._reader = reader
        self._ledger = ledger
        self._redactor = redactor
        self._consents = consents
        self._timezone = timezone
        self._exchanges = exchanges
        self._clock = clock
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {
            "summarise": self._checkpoint,
            "close": self._close,
            "sync_episode": self._sync,
            "index_late_reply": self._index_late,
        }

    async def refill(self, tenant_id: str) -> int:
        """Empty a tenant's memory namespace and fill it from SQL; returns how many there are."""
        await self._index.clear(namespace("memory", tenant_id))
        here = episodes.c.tenant_id == tenant_id
        lost = episodes.update().where(here).values(indexed_version=0, indexed_seq=0)
        await self._database.write(lambda c: c.execute(lost))
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
        tenant_id, session_id = claim.tenant_id, claim.payload["session_id"]
        await self._sessions.let_go(tenant_id, [session_id])  # of one that was deleted, if it is
        await self._push(tenant_id, session_id, again=True)
        await self._queue.finish(claim, lambda _: None)

    async def _index_late(self, claim: Claim) -> None:
        """Index a reply that is not worth a summary anew: what followed is covered already."""
        which = (claim.tenant_id, claim.payload["session_id"])
        words = partial(index_words_anew, timezone=self._timezone)
        await self._queue.commit(claim, lambda c: words(c, *which))
        await self._push(*which, again=True)
        await self._queue.finish(claim, lambda _: None)

    async def _cover_what_is_new(self, claim: Claim) -> Session | None:
        """Read, store and index the session's new messages; None if it is gone.

        One job at a time: what two of them read, the model would be asked for twice.
        """
        which = (claim.tenant_id, claim.payload["session_id"])
        lock = self._locks.setdefault(which, asyncio.Lock())
        async with lock:
            return await self._cover(claim)

    async def _cover(self, claim: Claim) -> Session | None:
        for _ in range(READINGS):
            try:
                session = await self._sessions.get(
                    claim.tenant_id, claim.payload["session_id"], None
                )
            except NotFound:
                return None
            news = await self._news(session)
            if not news or await self._learn(claim, session, news):
                break
        else:
            raise Postpone("the session's memory keeps changing")
        again = claim.is_again
        await self._push(session.tenant_id, session.session_id, again=again)
        if not news and session.covered_seq < session.last_seq:
            raise Postpone("a turn of the session is still running")  # or its key is used up
        return session

    async def _learn(self, claim: Claim, session: Session, news: Sequence[Message]) -> bool:
        """Read and store; False if the session's memory has moved since it was read.

        Without its user's consent it is covered unread; `store` looks at that again, for it may be
        withdrawn while the model reads.
        """
        consent = await self._consents.of(session.tenant_id, session.user_id)
        said = [
            message
            for message in news
            if consent.memory_enabled and message.memory == "on" and message.content
        ]
        cleaning = Cleaning(self._redactor, consent.pii_storage_allowed)
        said = await asyncio.to_thread(cleaning.messages, said)
        learned = await self._billed(session, said, cleaning) if said else None
        now = self._clock()
        return await self._queue.commit(
            claim,
            lambda c: store(c, session, news, said, learned, self._timezone, now, self._consents),
        )

    async def _billed(
        self, session: Session, said: Sequence[Message], cleaning: Cleaning
    ) -> Learned:
        """Read at the user's cost, unless the tenant's tokens of the day run low."""
        wait = await self._ledger.defers(session.tenant_id, self._clock())
        if wait is not None:
            raise Defer("the tenant's tokens of the day (DAILY_TOKEN_BUDGET) run low", wait)
        bill = Bill(session.tenant_id, session.user_id, began=self._clock())
        try:
            return await self._read(session, said, cleaning, bill)
        finally:
            await self._ledger.record(bill, self._clock())

    async def _read(
        self, session: Session, said: Sequence[Message], cleaning: Cleaning, bill: Bill
    ) -> Learned:
        """Have the model read what was said, given what is known, and believe what is supported."""
        tenant_id, session_id = session.tenant_id, session.session_id
        zone = zone_or_utc(session.timezone or self._timezone)
        episode = await self._episodes.get(tenant_id, session_id)
        previous = cleaning.text(episode.text) if episode is not None else ""
        known = await self._facts.known(tenant_id, session.user_id, limit=KNOWN_FACTS)
        reading = await self._reader.read(previous, said, cleaning.facts(known), zone, bill)
        reading = await asyncio.to_thread(cleaning.reading, reading)
        documents = await self._database.read(partial(documents_given, tenant_id, said))
        # In a thread: to hold some facts against a long conversation holds up other requests.
        believed = await asyncio.to_thread(believe, reading, said, documents, previous, zone)
        _log_refused(session, believed)
        words = await asyncio.to_thread(count_terms, said_entry(session, said, self._timezone))
        return Learned(reading.summary, reading.dropped, believed, words)

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
        """Make the index agree with the stored rows, also if these move meanwhile.

        `again` pushes what counts as indexed, too: a push that was cut off, ours or another
        worker's, may have landed over a newer one.
        """
        where = namespace("memory", tenant_id)
        for _ in range(PUSHES):
            read = partial(
                held, tenant_id=tenant_id, session_id=session_id,
                exchanges=self._exchanges, again=again,
            )  # fmt: skip
            memory = await self._database.read(read)
            if memory is not None and not again and _is_indexed(memory):
                return
            if memory is None:
                await self._index.delete(where, ids_of(session_id))
            else:
                vectors = await vectors_of(memory, self._embedder)
                await self._index.upsert(where, vectors)
                await self._index.delete(where, memory.surplus)
            if await self._database.write(partial(settled, read, memory)):
                return
            again = True
        raise Postpone("the episode keeps changing")


def _is_indexed(memory: Held) -> bool:
    return memory.episode.indexed_version == memory.episode.version


def _log_refused(session: Session, believed: Believed) -> None:
    for reason, count in believed.refused.items():
        named = as_logged(session.tenant_id, session.session_id)
        log.info("refused %s facts of session %s: %s", count, named, reason)


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
