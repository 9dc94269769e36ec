"""Documents to the index, from their rows. Touches: `documents`, the embedder, the index.

The index is derived, and calls overlap: what is pushed comes from the stored rows, and these are
read again afterwards; if one moved or went meanwhile, the index is brought to what is there now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.db import Database
from app.errors import Conflict
from app.index.base import Index, Metadata, Vector, namespace
from app.knowledge.chunked import chunk_ids, chunk_rows
from app.knowledge.rows import Pushed, rows_by_id, settle
from app.llm.base import Embedder

PUSHES = 5
ROWS_AT_ONCE = 200
VECTORS_AT_ONCE = 500


class Pusher:
    """Brings documents to the index."""

    def __init__(self, database: Database, index: Index, embedder: Embedder) -> None:
        self._database = database
        self._index = index
        self._embedder = embedder

    async def push(self, tenant_id: str, stale: Mapping[str, int], *, is_rerun: bool) -> None:
        """Bring the index to what SQL holds of some documents.

        stale: document id -> chunks that the index may hold although no row says so.
        is_rerun: an earlier run may have written late over what is noted as indexed.
        Raises `UpstreamError`, and `Conflict` for documents that keep changing.
        """
        ids = sorted(stale)
        for start in range(0, len(ids), ROWS_AT_ONCE):
            part = {i: stale[i] for i in ids[start : start + ROWS_AT_ONCE]}
            await self._push_some(tenant_id, part, is_rerun)

    async def _push_some(self, tenant_id: str, left: dict[str, int], is_forced: bool) -> None:
        where = namespace("documents", tenant_id)
        for _ in range(PUSHES):
            rows = await self._database.read(rows_by_id(tenant_id, left))
            plan = await asyncio.to_thread(_plan, tenant_id, left, rows, is_forced=is_forced)
            for start in range(0, len(plan.fresh), VECTORS_AT_ONCE):
                await self._upsert(where, plan.fresh[start : start + VECTORS_AT_ONCE])
            if plan.surplus:
                await self._index.delete(where, plan.surplus)
            settled = partial(settle, tenant_id=tenant_id, pushed=plan.pushed)
            moved = await self._database.write(settled)
            if not moved:
                return
            left = {i: max(left[i], plan.pushed[i].chunk_count) for i in moved}
            # What we pushed before a row moved may lie over what another push left since.
            is_forced = True
        raise Conflict("the documents keep changing; what they end as is indexed later")

    async def _upsert(self, where: str, fresh: Sequence[tuple[str, Metadata]]) -> None:
        values = await self._embedder.embed([str(metadata["text"]) for _, metadata in fresh])
        pairs = zip(fresh, values, strict=True)
        await self._index.upsert(where, [Vector(id, row, held) for (id, held), row in pairs])


@dataclass(frozen=True, slots=True)
class _Plan:
    """Chunks to write, ids of chunks to delete, and what each document is settled as then."""

    fresh: list[tuple[str, Metadata]]
    surplus: list[str]
    pushed: dict[str, Pushed]


def _plan(
    tenant_id: str, stale: Mapping[str, int], rows: Mapping[str, Any], *, is_forced: bool
) -> _Plan:
    plan = _Plan([], [], {})
    for document_id, may_hold in stale.items():
        row = rows.get(document_id)
        held = [] if row is None else chunk_rows(tenant_id, row)
        most = max(may_hold, 0 if row is None else row.chunk_count)
        plan.surplus.extend(chunk_ids(document_id, range(len(held), most)))
        if row is not None and (is_forced or row.indexed_version < row.version):
            plan.fresh.extend(held)
        # The fingerprint tells a document that went and came again from the one before.
        state = None if row is None else (row.version, row.fingerprint)
        plan.pushed[document_id] = Pushed(state, len(held))
    return plan
