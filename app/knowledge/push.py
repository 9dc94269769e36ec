"""Documents to the index, from their rows. Touches: `documents`, the embedder, the index.

The index is derived, and calls overlap: what is pushed comes from the stored rows, and these are
read again afterwards; if one moved or went meanwhile, the index is brought to what is there now.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import documents
from app.errors import Conflict, InvalidRequest
from app.index.base import Index, Metadata, Vector, namespace, vector_id
from app.index.rows import check_vector
from app.knowledge.rows import rows_by_id
from app.llm.base import Embedder
from ingest.document import Document, chunks

PUSHES = 5
ROWS_AT_ONCE = 200
VECTORS_AT_ONCE = 500
OURS = frozenset({"tenant_id", "text", "source", "doc_type", "document_id", "chunk"})


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
            moved = await self._database.write(partial(_settle, tenant_id, plan.pushed))
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


def chunk_rows(tenant_id: str, row: Any) -> list[tuple[str, Metadata]]:
    """Return the id and metadata of each chunk of a row of `documents`."""
    document = Document(row.document_id, row.text, row.source, row.doc_type, row.metadata)
    shared = _shared(tenant_id, document)
    first = vector_id(document.id)
    return [
        (first if n == 0 else f"{first}#{n}", {**shared, "text": text, "chunk": n})
        for n, text in enumerate(chunks(document.text))
    ]


def count_chunks(tenant_id: str, document: Document, dimension: int) -> int:
    """Return how many chunks the index will hold.

    Raises `InvalidRequest` for a document that it would refuse. All chunks have the same metadata,
    which may be long, so that only the one with the longest text is looked at whole.
    """
    texts = chunks(document.text)
    try:
        longest = max(texts, key=_bytes, default="")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the text of {document.id[:80]!r} is not valid Unicode") from error
    metadata = {**_shared(tenant_id, document), "text": longest, "chunk": len(texts)}
    some_values = np.ones(dimension, dtype=np.float32)
    check_vector(Vector(vector_id(document.id), some_values, metadata), dimension)
    return len(texts)


@dataclass(frozen=True, slots=True)
class _Pushed:
    """What of a document was brought to the index; `state` of None is that it is gone."""

    state: tuple[int, str] | None
    chunk_count: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """Chunks to write, ids of chunks to delete, and what each document is settled as then."""

    fresh: list[tuple[str, Metadata]]
    surplus: list[str]
    pushed: dict[str, _Pushed]


def _plan(
    tenant_id: str, stale: Mapping[str, int], rows: Mapping[str, Any], *, is_forced: bool
) -> _Plan:
    plan = _Plan([], [], {})
    for document_id, may_hold in stale.items():
        row = rows.get(document_id)
        held = [] if row is None else chunk_rows(tenant_id, row)
        most = max(may_hold, 0 if row is None else row.chunk_count)
        first = vector_id(document_id)
        plan.surplus.extend(first if n == 0 else f"{first}#{n}" for n in range(len(held), most))
        if row is not None and (is_forced or row.indexed_version < row.version):
            plan.fresh.extend(held)
        # The fingerprint tells a document that went and came again from the one before.
        state = None if row is None else (row.version, row.fingerprint)
        plan.pushed[document_id] = _Pushed(state, len(held))
    return plan


def _settle(tenant_id: str, pushed: Mapping[str, _Pushed], connection: Connection) -> list[str]:
    """Note what the index holds now; returns the documents that moved since they were read.

    In the order in which `put` writes, so that no two can wait for each other.
    """
    return [i for i in sorted(pushed) if not _is_settled(connection, tenant_id, i, pushed[i])]


def _is_settled(connection: Connection, tenant_id: str, document_id: str, it: _Pushed) -> bool:
    here = sa.and_(documents.c.tenant_id == tenant_id, documents.c.document_id == document_id)
    if it.state is None:
        return connection.execute(sa.select(documents.c.version).where(here)).first() is None
    version, fingerprint = it.state
    noted = (
        documents.update()
        .where(here, documents.c.version == version, documents.c.fingerprint == fingerprint)
        .values(indexed_version=version, chunk_count=it.chunk_count)
    )
    return connection.execute(noted).rowcount == 1


def _shared(tenant_id: str, document: Document) -> Metadata:
    """Return the metadata of every chunk; a column named like one of ours gets a `_`."""
    return {
        **{_column(k, document.metadata): v for k, v in document.metadata.items()},
        "tenant_id": tenant_id,
        "source": document.source,
        "doc_type": document.doc_type,
        "document_id": document.id,
    }


def _column(name: str, metadata: Metadata) -> str:
    if name not in OURS:
        return name
    while name in OURS or name in metadata:
        name += "_"
    return name


def _bytes(text: str) -> int:
    """Return the length that counts against the limit of the metadata: as JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode())
