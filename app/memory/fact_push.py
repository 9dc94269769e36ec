"""Facts that stand alone to the index, from their rows. Touches: `facts`, the jobs, the embedder,
the index.

A fact with a number has its vector with the episode of its session; others were told by themselves,
or have outlived the episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa

from app.claims import end_held
from app.db import Connection, Database
from app.db.locks import lock_user
from app.db.tables import facts
from app.errors import StorageUnavailable, UpstreamTimeout, UpstreamUnavailable
from app.index.base import Index, Metadata, Vector, namespace
from app.jobs import Claim, Handler, Jobs, LostClaim, Postpone
from app.llm.base import Embedder
from app.memory.base import Fact
from app.memory.fact_sync import SYNC_FACT, ids_of, put_fact_sync

PUSHES = 5
PAGE = 100
TRIES_TOGETHER = 3  # where the trouble need not be with any of the facts
NOT_WITH_THEM = (UpstreamUnavailable, UpstreamTimeout, StorageUnavailable, Postpone, LostClaim)

_fact = facts.c
_ids: sa.BindParameter[str] = sa.bindparam("ids", expanding=True)
_THESE = sa.and_(
    _fact.tenant_id == sa.bindparam("tenant"), _fact.fact_id.in_(_ids), _fact.number.is_(None)
)
_READ = sa.select(facts).where(_THESE)
_THERE = sa.select(_fact.fact_id).where(_THESE)
_INDEXED = (
    facts.update()
    .where(
        _fact.tenant_id == sa.bindparam("tenant"),
        _fact.number.is_(None),
        sa.tuple_(_fact.fact_id, _fact.version).in_(sa.bindparam("pushed", expanding=True)),
    )
    .values(indexed_version=_fact.version)
    .returning(_fact.fact_id)
)
_ALONE = (
    sa.select(_fact.fact_id)
    .where(
        _fact.tenant_id == sa.bindparam("tenant"),
        _fact.number.is_(None),
        _fact.fact_id > sa.bindparam("last"),
    )
    .order_by(_fact.fact_id)
    .limit(PAGE)
)

Pushed = Mapping[str, Fact | None]  # by id; None: it was not there, and so was deleted


class FactPusher:
    """Does the jobs `sync_fact`."""

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        index: Index,
        embedder: Embedder,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._queue = queue
        self._index = index
        self._embedder = embedder
        self._clock = clock

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {SYNC_FACT: self._sync}

    async def refill(self, tenant_id: str) -> int:
        """Put the facts that stand alone into an emptied index; returns how many there are."""
        filled, last = 0, ""
        while ids := await self._database.read(partial(_page, tenant_id, last)):
            await self._bring(tenant_id, ids, None)
            filled, last = filled + len(ids), ids[-1]
        return filled

    async def _sync(self, claim: Claim) -> None:
        ids = ids_of(claim.payload)
        try:
            await self._bring(claim.tenant_id, ids, claim)
        except Exception as error:
            is_theirs = not isinstance(error, NOT_WITH_THEM)
            if len(ids) > 1 and (is_theirs or claim.attempts >= TRIES_TOGETHER):
                await self._queue.finish(claim, partial(_part, claim, ids, self._clock()))
            raise

    async def _bring(self, tenant_id: str, ids: Sequence[str], claim: Claim | None) -> None:
        """Make the index agree with the stored rows, also if some move meanwhile; ends the job."""
        for _ in range(PUSHES):
            pushed = await self._push(tenant_id, ids)
            ids = await self._database.write(partial(_settle, tenant_id, pushed, claim))
            if not ids:
                return
        raise Postpone("the fact keeps changing")

    async def _push(self, tenant_id: str, ids: Sequence[str]) -> Pushed:
        where = namespace("memory", tenant_id)
        found = await self._database.read(partial(_read, tenant_id, ids))
        if gone := [fact_vector_id(fact_id) for fact_id in ids if fact_id not in found]:
            await self._index.delete(where, gone)
        if found:
            rows = await self._embedder.embed([fact.statement for fact in found.values()])
            vectors = [
                Vector(fact_vector_id(fact.fact_id), values, _metadata(fact))
                for fact, values in zip(found.values(), rows, strict=True)
            ]
            await self._index.upsert(where, vectors)
        return {fact_id: found.get(fact_id) for fact_id in ids}


def fact_vector_id(fact_id: str) -> str:
    """Return the vector id of a fact that stands alone."""
    return f"facts#{fact_id}"


def _part(claim: Claim, ids: Sequence[str], now: datetime, connection: Connection) -> None:
    """Give each half of the facts a job of its own, so that one of them can't hold up the rest."""
    half = len(ids) // 2
    for some in (ids[:half], ids[half:]):
        put_fact_sync(connection, claim.tenant_id, some, now, 0.0, fresh=some)


def _page(tenant_id: str, last: str, connection: Connection) -> list[str]:
    which = {"tenant": tenant_id, "last": last}
    return list(connection.execute(_ALONE, which).scalars())


def _read(tenant_id: str, ids: Sequence[str], connection: Connection) -> dict[str, Fact]:
    rows = connection.execute(_READ, {"tenant": tenant_id, "ids": ids})
    return {row.fact_id: Fact(*row) for row in rows}


def _settle(
    tenant_id: str, pushed: Pushed, claim: Claim | None, connection: Connection
) -> list[str]:
    """Note what is indexed, and end the job; returns what moved since it was pushed, if anything.

    A job that was cancelled goes on until then: its facts were deleted, and what it pushed of them
    has to go again.
    """
    there = {fact_id: fact for fact_id, fact in pushed.items() if fact is not None}
    gone = [fact_id for fact_id, fact in pushed.items() if fact is None]
    if len(there) > 1:  # several rows: first their user, as whoever writes facts does
        for user_id in sorted({fact.user_id for fact in there.values()}):
            lock_user(connection, tenant_id, user_id)
    moved: set[str] = set()
    if there:
        versions = [(fact_id, fact.version) for fact_id, fact in there.items()]
        indexed = connection.execute(_INDEXED, {"tenant": tenant_id, "pushed": versions})
        moved |= there.keys() - set(indexed.scalars())
    if gone:
        moved |= set(connection.execute(_THERE, {"tenant": tenant_id, "ids": gone}).scalars())
    if not moved and claim is not None:
        end_held(connection, claim)
    return sorted(moved)


def _metadata(fact: Fact) -> Metadata:
    return {
        "tenant_id": fact.tenant_id,
        "user_id": fact.user_id,
        "session_id": "",
        "fact_id": fact.fact_id,
        "text": fact.statement,
        "doc_type": "memory",
        "memory_type": "fact",
        "created_at": fact.learned_at.timestamp(),
    }
