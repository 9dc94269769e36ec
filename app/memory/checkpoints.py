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

from app.at_once import at_once
from app.consents import Consent, Consents
from app.db import Connection, Database
from app.errors import NotFound
from app.index.base import Index
from app.jobs import Claim, Defer, Handler, Jobs, Postpone
from app.lexical.store import count as count_terms
from app.llm.base import Embedder
from app.memory.base import Fact
from app.memory.believing import Believed, believe
from app.memory.cleaning import Before, Cleaning
from app.memory.ending import Ending
from app.memory.episodes import Episode, Episodes
from app.memory.facts import Facts
from app.memory.given import are_documents_given, documents_given
from app.memory.lexicon import said_entry
from app.memory.pushing import Pusher, Stored
from app.memory.reading import Reader
from app.memory.storing import Learned, index_words_anew, store
from app.redact import Redactor
from app.sessions.base import Message, Session, SessionStore
from app.telemetry import as_logged
from app.text.zones import zone_or_utc
from app.usage import Bill, Ledger

log = logging.getLogger(__name__)

PAGE = 500
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
        self._pusher = Pusher(database, index, embedder, exchanges=exchanges)
        self._reader = reader
        self._ledger = ledger
        self._redactor = redactor
        self._consents = consents
        self._timezone = timezone
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
        return await self._pusher.refill(tenant_id)

    async def _checkpoint(self, claim: Claim) -> None:
        await self._cover_what_is_new(claim)

    async def _close(self, claim: Claim) -> None:
        """Cover all there is, and only then close."""
        await self._cover_what_is_new(claim, closes=True)

    async def _sync(self, claim: Claim) -> None:
        tenant_id, session_id = claim.tenant_id, claim.payload["session_id"]
        await self._sessions.let_go(tenant_id, [session_id])  # of one that was deleted, if it is
        await self._pusher.push(tenant_id, session_id, again=True, ending=Ending(claim))

    async def _index_late(self, claim: Claim) -> None:
        """Index a reply that is not worth a summary anew: what followed is covered already."""
        which = (claim.tenant_id, claim.payload["session_id"])
        words = partial(index_words_anew, timezone=self._timezone)
        await self._queue.commit(claim, lambda c: words(c, *which))
        await self._pusher.push(*which, again=True, ending=Ending(claim))

    async def _cover_what_is_new(self, claim: Claim, *, closes: bool = False) -> None:
        """Read, store and index the session's new messages; the job is done with it.

        One job at a time: what two of them read, the model would be asked for twice.
        """
        which = (claim.tenant_id, claim.payload["session_id"])
        lock = self._locks.setdefault(which, asyncio.Lock())
        async with lock:
            await self._cover(claim, *which, closes=closes)

    async def _cover(self, claim: Claim, tenant_id: str, session_id: str, *, closes: bool) -> None:
        for _ in range(READINGS):
            try:
                session = await self._sessions.get(tenant_id, session_id, None)
            except NotFound:
                await self._queue.end(claim)
                return
            news: Sequence[Message] = ()
            stored: Stored | None = None
            if session.covered_seq < session.last_seq:
                news, known = await at_once(self._news(session), self._known(session))
                if news:
                    stored = await self._learn(claim, session, news, known)
            if not news or stored is not None:
                break
        else:
            raise Postpone("the session's memory keeps changing")
        is_running = not news and session.covered_seq < session.last_seq  # or its key is used up
        ending = Ending(claim, closes_at=self._clock() if closes else None)
        await self._pusher.push(
            tenant_id,
            session_id,
            again=claim.is_again,
            ending=None if is_running else ending,
            stored=stored,
        )
        if is_running:
            raise Postpone("a turn of the session is still running")

    async def _known(self, session: Session) -> tuple[Consent, Episode | None, list[Fact]]:
        tenant_id, user_id = session.tenant_id, session.user_id
        return await at_once(
            self._consents.of(tenant_id, user_id),
            self._episodes.get(tenant_id, session.session_id),
            self._facts.known(tenant_id, user_id, limit=KNOWN_FACTS),
        )

    async def _learn(
        self,
        claim: Claim,
        session: Session,
        news: Sequence[Message],
        known: tuple[Consent, Episode | None, list[Fact]],
    ) -> Stored | None:
        """Read and store; None if the session's memory has moved since it was read.

        Without its user's consent it is covered unread; `store` looks at that again, for it may be
        withdrawn while the model reads.
        """
        tenant_id, user_id = session.tenant_id, session.user_id
        consent, episode, facts = known
        cleaning = Cleaning(self._redactor, consent.pii_storage_allowed)
        said: Sequence[Message] = [
            message
            for message in news
            if consent.memory_enabled and message.memory == "on" and message.content
        ]
        bill = Bill(tenant_id, user_id, began=self._clock())
        learned: Learned | None = None
        try:
            if said:
                summary = "" if episode is None else episode.text
                before = await asyncio.to_thread(cleaning.before, said, summary, facts)
                said = before.said
                learned = await self._read(session, before, cleaning, bill)
        except BaseException:
            await self._ledger.record(bill, self._clock())
            raise
        now = self._clock()

        def storing(connection: Connection) -> Stored | None:
            to_store = (session, news, said, learned, self._timezone, now, self._consents)
            if not store(connection, *to_store):
                return None
            read = self._pusher.reading(tenant_id, session.session_id, again=claim.is_again)
            return Stored(read(connection))

        recording = asyncio.ensure_future(self._ledger.record(bill, now))  # one commit with it
        try:
            return await self._queue.commit(claim, storing)
        finally:
            await recording

    async def _read(
        self, session: Session, before: Before, cleaning: Cleaning, bill: Bill
    ) -> Learned:
        """Have the model read what was said, given what is known, and believe what is supported.

        At the user's cost, unless the tenant's tokens of the day run low.
        """
        tenant_id, said = session.tenant_id, before.said
        wait = await self._ledger.defers(tenant_id, self._clock())
        if wait is not None:
            raise Defer("the tenant's tokens of the day (DAILY_TOKEN_BUDGET) run low", wait)
        zone = zone_or_utc(session.timezone or self._timezone)
        reading = await self._reader.read(before.summary, said, before.known, zone, bill)
        documents: Mapping[int, Sequence[str]] = {}
        if are_documents_given(said):
            documents = await self._database.read(partial(documents_given, tenant_id, said))

        def learned() -> Learned:
            clean = cleaning.reading(reading)
            believed = believe(clean, said, documents, before.summary, zone)
            words = count_terms(said_entry(session, said, self._timezone))
            return Learned(clean.summary, clean.dropped, believed, words)

        # In a thread: to hold some facts against a long conversation holds up other requests.
        found = await asyncio.to_thread(learned)
        _log_refused(session, found.believed)
        return found

    async def _news(self, session: Session) -> list[Message]:
        """Return the messages after the covered ones, up to the first turn that is running."""
        news: list[Message] = []
        seq = session.covered_seq
        while True:
            page = await self._sessions.messages_after(
                session.tenant_id, session.session_id, seq, limit=PAGE
            )
            news += page
            if len(page) < PAGE:
                break
            seq = page[-1].seq
        running = min((m.seq - 1 for m in news if m.status == "pending"), default=None)
        return news if running is None else [m for m in news if m.seq < running]


def _log_refused(session: Session, believed: Believed) -> None:
    for reason, count in believed.refused.items():
        named = as_logged(session.tenant_id, session.session_id)
        log.info("refused %s facts of session %s: %s", count, named, reason)
