"""Evicts memories: from SQL, the index and the lexical index together.

Touches: `episodes`, `facts`, `sessions`, `messages`, the jobs.

Each memory goes in a transaction of its own, which looks again whether it still is what was
judged. So passes of several replicas, or one after a restart, do no harm to each other: who comes
second finds nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from app.audit import Actor, note
from app.db import Connection, Database
from app.db.locks import lock_user
from app.erased import pseudonym
from app.index.base import vector_id
from app.memory import tally
from app.memory.episodes import take_off_the_record
from app.memory.eviction import Candidate, Doomed, Kind, Policy, choose
from app.memory.fact_sync import Job
from app.memory.forgetting import Forgotten, forget_facts, forget_session
from app.memory.judged import Judged, Seen, User, judge, look_again, openings, users
from app.sessions.rows import lock_session
from app.telemetry import as_logged

log = logging.getLogger(__name__)

AT_ONCE = 500  # memories that one pass evicts; the next one goes on
RunNow = Callable[[str, str, str], Awaitable[BaseException | None]]


@dataclass(frozen=True, slots=True)
class Would:
    """A memory that goes: whose it is, how its text begins, what it is worth, and why it goes."""

    id: str
    kind: Kind
    user_id: str
    text: str
    at: datetime
    importance: float
    reason: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """How many memories went, and what of each store with them.

    kept_facts: facts of conversations that went; they stay. waiting_vectors: memories whose vectors
    a worker still removes. more: others were chosen, too; the next pass goes on with them.
    """

    memories: int = 0
    episodes: int = 0
    facts: int = 0
    kept_facts: int = 0
    entities: int = 0
    waiting_vectors: int = 0
    more: bool = False


class Evictor:
    """Evicts by `policy`, or by another one that is asked for."""

    def __init__(self, database: Database, policy: Policy, *, run_now: RunNow) -> None:
        self._database = database
        self.policy = policy
        self._run_now = run_now

    async def would_go(
        self, tenant_id: str, user_id: str | None, policy: Policy, now: datetime, *, limit: int
    ) -> tuple[list[Would], int]:
        """Return the first `limit` memories that an eviction would take, and how many in all."""
        shown: list[Would] = []
        total = 0
        async for user, judged, doomed in self._doomed(tenant_id, user_id, policy, now):
            total += len(doomed)
            some = doomed[: limit - len(shown)]
            if not some:
                continue
            texts = await openings(self._database, tenant_id, some)
            candidates = {(c.kind, c.id): c for c in judged.candidates}
            shown += [
                _would(user, each, candidates[each.kind, each.id], texts[each.kind, each.id])
                for each in some
                if (each.kind, each.id) in texts
            ]
        return shown, total

    async def evict(
        self,
        tenant_id: str | None,
        user_id: str | None,
        policy: Policy,
        now: datetime,
        *,
        actor: Actor | None = None,
    ) -> Evicted:
        """Evict at most `AT_ONCE` memories, of a user, of a tenant, or of all.

        actor: who asks for it, for the audit log: it is noted before, and what went, after it.
        """
        if actor is None:
            return await self._evict(tenant_id, user_id, policy, now)
        whose = None if user_id is None else pseudonym(actor.tenant_id, user_id)

        async def noted(action: str, counts: dict[str, int] | None = None) -> None:
            await self._database.write(
                lambda c: note(c, actor, action, subject=whose, counts=counts, now=now)
            )

        await noted("memories.evict")
        evicted = await self._evict(tenant_id, user_id, policy, now)
        if evicted.memories:
            counts = {"episodes": evicted.episodes, "facts": evicted.facts}
            await noted("memories.evicted", counts)
        return evicted

    async def _evict(
        self, tenant_id: str | None, user_id: str | None, policy: Policy, now: datetime
    ) -> Evicted:
        so_far = Evicted()
        done = 0
        async for user, judged, doomed in self._doomed(tenant_id, user_id, policy, now):
            for each in doomed:
                if done == AT_ONCE:
                    return replace(so_far, more=True)
                seen = judged.seen[each.kind, each.id]
                so_far = await self._take(so_far, user, each, seen, policy, now)
                done += 1
        return so_far

    async def _doomed(
        self, tenant_id: str | None, user_id: str | None, policy: Policy, now: datetime
    ) -> AsyncIterator[tuple[User, Judged, list[Doomed]]]:
        async for user in self._users(tenant_id, user_id, policy, now):
            judged = await judge(self._database, user, policy, now)
            doomed = await asyncio.to_thread(
                choose, judged.candidates, policy, now, held=judged.held
            )
            if doomed:
                yield user, judged, doomed

    async def _users(
        self, tenant_id: str | None, user_id: str | None, policy: Policy, now: datetime
    ) -> AsyncIterator[User]:
        if policy.name == "none":
            return
        if tenant_id is not None and user_id is not None:
            yield User(tenant_id, user_id)
            return
        async for user in users(self._database, policy, now, tenant_id=tenant_id):
            yield user

    async def _take(
        self, so_far: Evicted, user: User, each: Doomed, seen: Seen, policy: Policy, now: datetime
    ) -> Evicted:
        """Evict one memory, unless it changed since it was judged."""
        taken = await self._database.write(partial(_forget, user, each, seen, policy, now))
        if taken is None:
            return so_far
        named = as_logged(user.tenant_id, each.id)  # an episode has its session's id
        log.info("evicted %s %s of tenant %s: %s", each.kind, named, user.tenant_id, each.reason)
        waits = so_far.waiting_vectors > 0  # the index fails: a worker tries it again
        for job in taken.jobs:
            waits = waits or await self._run_now(user.tenant_id, job.kind, job.key) is not None
        return Evicted(
            memories=so_far.memories + 1,
            episodes=so_far.episodes + taken.episodes,
            facts=so_far.facts + taken.facts,
            kept_facts=so_far.kept_facts + taken.moved,
            entities=so_far.entities + taken.entities,
            waiting_vectors=so_far.waiting_vectors + waits,
        )


def _forget(
    user: User,
    each: Doomed,
    seen: Seen,
    policy: Policy,
    now: datetime,
    connection: Connection,
) -> Forgotten | None:
    """Forget a memory that is still as it was judged; None if it is not.

    A conversation is evicted as its user would forget it: its messages stay, and count as off the
    record from then on, or a refill of the lexical index would bring them back. One that goes on
    is left alone; so is what is new in it.
    """
    tenant_id, user_id = user.tenant_id, user.user_id
    session = lock_session(connection, tenant_id, each.id) if each.kind == "episode" else None
    if each.kind == "episode" and (session is None or session.last_seq != session.covered_seq):
        return None
    lock_user(connection, tenant_id, user_id)
    if look_again(connection, tenant_id, each.kind, each.id, policy) != seen:
        return None
    if session is not None:
        gone = forget_session(
            connection, tenant_id, user_id, each.id, now, keep_facts=policy.keep_facts
        )
        key = take_off_the_record(connection, session, now=now)
        gone = replace(gone, jobs=(Job("sync_episode", key), *gone.jobs))
    else:
        gone = forget_facts(connection, tenant_id, [each.id], now)
    tally.add(connection, tenant_id, evicted_episodes=gone.episodes, evicted_facts=gone.facts)
    return gone


def _would(user: User, each: Doomed, candidate: Candidate, text: str) -> Would:
    return Would(
        id=each.id if each.kind == "fact" else vector_id(each.id),
        kind=each.kind,
        user_id=user.user_id,
        text=text,
        at=candidate.at,
        importance=round(candidate.importance, 4),
        reason=each.reason,
    )
