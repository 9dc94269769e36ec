"""Facts that stand alone to the index, from their rows. Touches: `facts`, the jobs, the embedder,
the index.

A fact with a number has its vector with the episode of its session; others were told by themselves,
or have outlived the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import facts
from app.index.base import Index, Metadata, Vector, namespace
from app.jobs import Claim, Handler, Jobs, Postpone
from app.llm.base import Embedder
from app.memory.base import Fact
from app.memory.fact_sync import SYNC_FACT

PUSHES = 5
PAGE = 200

_fact = facts.c
_ONE = sa.select(facts).where(
    _fact.tenant_id == sa.bindparam("tenant"),
    _fact.fact_id == sa.bindparam("fact"),
    _fact.number.is_(None),
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


class FactPusher:
    """Does the jobs `sync_fact`."""

    def __init__(self, database: Database, queue: Jobs, index: Index, embedder: Embedder) -> None:
        self._database = database
        self._queue = queue
        self._index = index
        self._embedder = embedder

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {SYNC_FACT: self._sync}

    async def refill(self, tenant_id: str) -> int:
        """Put the facts that stand alone into an emptied index; returns how many there are."""
        filled, last = 0, ""
        while ids := await self._database.read(partial(_page, tenant_id, last)):
            for fact_id in ids:
                await self._push(tenant_id, fact_id)
            filled, last = filled + len(ids), ids[-1]
        return filled

    async def _sync(self, claim: Claim) -> None:
        await self._push(claim.tenant_id, claim.payload["fact_id"])
        await self._queue.finish(claim, lambda _: None)

    async def _push(self, tenant_id: str, fact_id: str) -> None:
        """Make the index agree with the stored row, also if the row moves meanwhile."""
        where, vector = namespace("memory", tenant_id), fact_vector_id(fact_id)
        for _ in range(PUSHES):
            fact = await self._database.read(partial(_read, tenant_id, fact_id))
            if fact is None:
                await self._index.delete(where, [vector])
            else:
                (values,) = await self._embedder.embed([fact.statement])
                await self._index.upsert(where, [Vector(vector, values, _metadata(fact))])
            if await self._database.write(partial(_settled, tenant_id, fact_id, fact)):
                return
        raise Postpone("the fact keeps changing")


def fact_vector_id(fact_id: str) -> str:
    """Return the vector id of a fact that stands alone."""
    return f"facts#{fact_id}"


def _page(tenant_id: str, last: str, connection: Connection) -> list[str]:
    which = {"tenant": tenant_id, "last": last}
    return list(connection.execute(_ALONE, which).scalars())


def _read(tenant_id: str, fact_id: str, connection: Connection) -> Fact | None:
    row = connection.execute(_ONE, {"tenant": tenant_id, "fact": fact_id}).first()
    return None if row is None else Fact(*row)


def _settled(tenant_id: str, fact_id: str, pushed: Fact | None, connection: Connection) -> bool:
    """Say whether the row is still what was pushed, and note that it is indexed."""
    if pushed is None:
        return _read(tenant_id, fact_id, connection) is None
    unmoved = sa.and_(
        _fact.tenant_id == tenant_id,
        _fact.fact_id == fact_id,
        _fact.number.is_(None),
        _fact.version == pushed.version,
    )
    indexed = facts.update().where(unmoved).values(indexed_version=pushed.version)
    return connection.execute(indexed).rowcount == 1


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
