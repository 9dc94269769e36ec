"""One user and all that is held about them, erased. Touches: every table, the index, the files.

The first transaction sets the tombstone and leaves the job that does the rest, so that an erasure
that breaks off is completed by any worker. A late job looks again, for what was under way. A
tombstone keeps no name; nor do the jobs, once they are done.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from app import jobs
from app.audit import Actor, note
from app.db import Connection, Database
from app.db.locks import lock_user
from app.db.tables import jobs as jobs_table
from app.erased import bury, erased, finish, pseudonym
from app.errors import UpstreamError
from app.index.base import Index, Match
from app.jobs import Claim, Defer, Handler, Jobs, Postpone
from app.privacy import removing
from app.privacy.errands import (
    ERASE,
    LATE,
    SCRUB,
    end_scrubs,
    is_scrub_due,
    newest_scrub,
    put,
    put_scrub,
    subject,
)
from app.privacy.removing_business import TABLES, Business
from app.privacy.removing_vectors import remaining_vectors, remove_vectors
from app.sessions.base import SessionStore

ROUNDS = 3  # of removing and looking again
SLOW_SCRUB_SECONDS = 2.0  # after a longer one, the next waits for SCRUB_PAUSE times as long
SCRUB_PAUSE = 20
STORES = (*removing.TABLES, *TABLES, "vectors")

Bytes = Literal["scrubbed", "pending", "left to the server"]
RunNow = Callable[[str, str, str], Awaitable[BaseException | None]]


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure came to so far.

    removed, remaining: rows by table, and `vectors`. verified: all was looked at again, and nothing
    was left. pending: what a job still does.
    """

    user_id: str
    erased_at: datetime
    removed: Mapping[str, int]
    remaining: Mapping[str, int]
    verified: bool
    bytes: Bytes
    pending: tuple[str, ...]


class Erasure:
    """Erases users. fields: of documents, those that hold ids of users."""

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        index: Index,
        business: Business,
        sessions: SessionStore,
        *,
        fields: Collection[str],
        run_now: RunNow,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._queue = queue
        self._index = index
        self._business = business
        self._sessions = sessions
        self._fields = fields
        self._run_now = run_now
        self._clock = clock
        self._next_scrub = 0.0  # on the monotonic clock

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {ERASE: self._erase, LATE: self._look_again, SCRUB: self._scrub}

    async def erase(self, tenant_id: str, user_id: str, actor: Actor) -> Erased:
        """Erase a user; what can't be done now, a job goes on with."""
        now = self._clock()
        key = uuid.uuid4().hex

        def begin(connection: Connection) -> None:
            is_first = bury(connection, tenant_id, user_id, now)
            payload = {"user": user_id, "actor": astuple(actor), "is_first": is_first}
            put(connection, tenant_id, ERASE, key, payload, now, jobs.CALLER_SECONDS)

        await self._database.write(begin)
        failure = await self._run_now(tenant_id, ERASE, key)
        scrubbed: Bytes = "pending"
        if failure is None and await self._are_bytes_gone(tenant_id, key):
            is_ours = self._database.dialect == "sqlite"
            scrubbed = "scrubbed" if is_ours else "left to the server"
        job = await self._queue.find(tenant_id, ERASE, key)
        told = (job.result if job is not None else None) or {}
        remaining = dict(told.get("remaining", {}))
        pending = [] if failure is None else [ERASE]
        pending += [LATE] if failure is None and remaining else []
        pending += [] if scrubbed != "pending" else [SCRUB]
        return Erased(
            user_id=user_id,
            erased_at=now,
            removed=removing.merged(dict.fromkeys(STORES, 0), told.get("removed", {})),
            remaining=remaining,
            verified=failure is None and not remaining,
            bytes=scrubbed,
            pending=tuple(pending),
        )

    async def _are_bytes_gone(self, tenant_id: str, key: str) -> bool:
        """Have the files scrubbed, where an erasure left something to scrub."""
        if await self._queue.find(tenant_id, SCRUB, key) is None:
            return not await self._database.read(partial(is_scrub_due, tenant_id))
        return await self._run_now(tenant_id, SCRUB, key) is None

    async def _erase(self, claim: Claim) -> None:
        user_id = claim.payload["user"]
        work = _Work(self._queue, claim, await self._removed_before(claim))
        for _ in range(ROUNDS):
            trouble = await self._remove(work, user_id)
            remaining = await self._remaining(work, user_id, with_index=trouble is None)
            if trouble is not None or not remaining:
                break
        if trouble is not None:
            await work.tell(remaining)
            raise trouble
        if set(remaining) - {"vectors"}:
            await work.tell(remaining)
            raise Postpone("some of what is about the user keeps coming back")
        await self._queue.finish(claim, partial(self._end, claim, user_id, work, remaining))

    async def _removed_before(self, claim: Claim) -> Mapping[str, int]:
        job = await self._queue.get(claim.tenant_id, claim.id)
        return {} if job is None or job.result is None else dict(job.result["removed"])

    async def _remove(self, work: _Work, user_id: str) -> UpstreamError | None:
        """Remove all there is; returns why the index could not be brought along."""
        tenant_id = work.claim.tenant_id
        await self._sessions.settle(tenant_id, user_id)
        for step in removing.STEPS:
            while await work.do(step, user_id):
                pass
        # Afterwards: a copy that is loaded before would outlive its session.
        await self._sessions.let_go(tenant_id, work.sessions, user_id=user_id)
        counts, trouble = await self._business.remove(work.claim, user_id)
        try:
            vectors = await remove_vectors(
                self._index, tenant_id, user_id, fields=self._fields, known=work.vectors
            )
        except UpstreamError as error:
            vectors, trouble = 0, error
        work.removed = removing.merged(work.removed, counts)
        work.removed = removing.merged(work.removed, {"vectors": vectors})
        return trouble

    async def _remaining(self, work: _Work, user_id: str, *, with_index: bool) -> dict[str, int]:
        """Read every store again; returns what is left, by its name."""
        tenant_id = work.claim.tenant_id
        left = await self._database.read(
            lambda c: removing.merged(
                removing.remaining(c, tenant_id, user_id),
                removing.remaining_of(c, tenant_id, work.sessions),
            )
        )
        left = {**left, **await self._business.remaining(tenant_id, user_id)}
        if held := await self._sessions.held(tenant_id, user_id):
            left["live_sessions"] = held
        if not with_index:
            return left
        vectors = await remaining_vectors(
            self._index, tenant_id, user_id, fields=self._fields, known=work.vectors
        )
        return {**left, "vectors": vectors} if vectors else left

    def _end(
        self,
        claim: Claim,
        user_id: str,
        work: _Work,
        remaining: Mapping[str, int],
        connection: Connection,
    ) -> None:
        """Write down what came of it, without the user's name, and have it looked at again."""
        now = self._clock()
        tenant_id = claim.tenant_id
        lock_user(connection, tenant_id, user_id)  # of two that end at once, the second finishes
        jobs.note(connection, claim, {"removed": work.removed, "remaining": dict(remaining)})
        jobs.tell(connection, claim.id, {})
        if not jobs.is_other_undone(connection, claim, subject(tenant_id, user_id)):
            finish(connection, tenant_id, user_id, now)
        # To rewrite the files holds all other writers up: not for a repeat that found nothing.
        is_to_scrub = claim.payload["is_first"] or any(work.removed.values())
        late = {"user": user_id, "is_to_scrub": is_to_scrub}
        put(connection, tenant_id, LATE, f"{claim.key}{jobs.LATE}", late, now, jobs.LATE_SECONDS)
        if is_to_scrub:
            put_scrub(connection, tenant_id, claim.key, now, jobs.CALLER_SECONDS)
        note(
            connection,
            Actor(*claim.payload["actor"]),
            "user.erase",
            subject=pseudonym(tenant_id, user_id),
            counts=work.removed,
            now=now,
        )

    async def _look_again(self, claim: Claim) -> None:
        """Remove what was under way while the user was erased, and landed afterwards.

        What the user began anew since then stays.
        """
        tenant_id, user_id = claim.tenant_id, claim.payload["user"]
        buried = await self._database.read(lambda c: erased(c, tenant_id, [user_id]))
        trouble = None
        removed: Mapping[str, int] = {}
        await self._sessions.let_go(tenant_id, user_id=user_id)
        if buried:
            removed, trouble = await self._business.remove(claim, user_id)

        async def kept(found: Sequence[Match]) -> Collection[str]:
            # Rows are there before their vectors: what was found and has a row now, has one.
            sessions, facts = await self._database.read(
                lambda c: removing.known(c, tenant_id, user_id)
            )
            return {
                match.id
                for match in found
                if match.metadata.get("session_id") in sessions
                or match.metadata.get("fact_id") in facts
            }

        fields = self._fields if buried else ()
        stray = await remove_vectors(self._index, tenant_id, user_id, fields=fields, kept=kept)
        if trouble is not None:
            raise trouble
        now = self._clock()

        def end(connection: Connection) -> None:
            connection.execute(jobs_table.delete().where(jobs_table.c.id == claim.id))
            if claim.payload["is_to_scrub"] or removed or stray:
                put_scrub(connection, tenant_id, f"{claim.key}:late", now, 0.0)

        await self._queue.commit(claim, end)

    async def _scrub(self, claim: Claim) -> None:
        """Rewrite the files once for all who wait; large ones hold all writes up, so not often."""
        began = time.monotonic()
        if began < self._next_scrub:
            raise Defer("the files were rewritten a short while ago", self._next_scrub - began)
        newest = await self._database.read(newest_scrub)
        is_clean = await self._database.scrub()
        took = time.monotonic() - began
        if took > SLOW_SCRUB_SECONDS:
            self._next_scrub = began + took * SCRUB_PAUSE
        if is_clean is False:
            raise Postpone("somebody still reads what was there before")
        await self._queue.finish(claim, partial(end_scrubs, newest))


class _Work:
    """An erasure under way: what it removed so far, which is written down with each step."""

    def __init__(self, queue: Jobs, claim: Claim, removed: Mapping[str, int]) -> None:
        self._queue = queue
        self.claim = claim
        self.removed = dict(removed)
        self.sessions: list[str] = []
        self.vectors: list[str] = []

    async def do(self, step: removing.Step, user_id: str) -> bool:
        """Do a step; says whether there may be more of it."""

        def take(connection: Connection) -> removing.Taken:
            taken = step(connection, self.claim.tenant_id, user_id)
            removed = removing.merged(self.removed, taken.counts)
            jobs.note(connection, self.claim, {"removed": removed})
            return taken

        taken = await self._queue.commit(self.claim, take)
        self.removed = removing.merged(self.removed, taken.counts)
        self.sessions += taken.sessions
        self.vectors += taken.vectors
        return bool(taken.counts)

    async def tell(self, remaining: Mapping[str, int]) -> None:
        told = {"removed": self.removed, "remaining": dict(remaining)}
        await self._queue.commit(self.claim, lambda c: jobs.note(c, self.claim, told))
