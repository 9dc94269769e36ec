"""Documents in and out: SQL is the record, the index is derived from it.

Touches: `documents`, the lexical index, the jobs, the index.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database
from app.db.tables import documents
from app.errors import AppError, UpstreamUnavailable
from app.index.base import Index, Metadata, namespace
from app.jobs import Claim, Handler, Jobs
from app.knowledge.pending import cancel_loads, leave_out, left_out
from app.knowledge.push import ROWS_AT_ONCE, Pusher
from app.knowledge.refill import REINDEX, Refill
from app.knowledge.rows import (
    Ready,
    fingerprints,
    ids_of,
    ready,
    remove,
    rows_by_id,
    sources_of,
    store_all,
    with_words,
)
from app.llm.base import Embedder
from ingest.document import Document

KIND = "sync_documents"
DELETED_AT_ONCE = 200  # of a source: on SQLite, all that is written waits for a transaction

RunNow = Callable[[str, str, str], Awaitable[BaseException | None]]
OnDelete = Callable[[Connection, str, Collection[str], datetime], None]


@dataclass(frozen=True, slots=True)
class Stored:
    """What `put` did: `stored` were new or changed, `unchanged` cost nothing."""

    ids: tuple[str, ...]
    stored: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as SQL holds it. `is_current`: the index holds this version."""

    id: str
    text: str
    source: str
    doc_type: str
    metadata: Metadata
    is_current: bool
    created_at: datetime
    updated_at: datetime


class Documents:
    """Puts, lists and removes documents.

    run_now: does the job of a tenant, kind and key at once; None when it is done, else the failure.
    on_delete: told, in the same transaction, of the ids of a tenant that are about to be deleted.
    """

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        index: Index,
        embedder: Embedder,
        *,
        run_now: RunNow,
        clock: Callable[[], datetime],
        on_delete: OnDelete | None = None,
    ) -> None:
        self._database = database
        self._queue = queue
        self._index = index
        self._pusher = Pusher(database, index, embedder)
        self._words = Refill(database, queue, clock)
        self._run_now = run_now
        self._clock = clock
        self._on_delete = on_delete

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {KIND: self._sync, REINDEX: self._words.run}

    async def put(
        self, tenant_id: str, batch: Sequence[Document], *, held: Claim | None = None
    ) -> Stored:
        """Store documents by id and make them searchable; the last of two equal ids wins.

        On return they are durable and in the index. A failing embedder or index raises
        `UpstreamError`: the documents are recorded then, and a job brings them to the index.
        Raises `InvalidRequest` for metadata that the index can't hold; nothing is stored then.
        held: the load that they come from. If it lost its claim, nothing is stored and `LostClaim`
        is raised; what was deleted since it began is left out.
        """
        unique = {document.id: document for document in batch}
        known = await self._database.read(fingerprints(tenant_id, unique))
        ready = await asyncio.to_thread(
            _ready, tenant_id, unique.values(), self._index.dimension, known
        )
        now = self._clock()

        def put(connection: Connection) -> dict[str, int]:
            gone = () if held is None else left_out(jobs.hold(connection, held))
            wanted = [it for it in ready if it.document.id not in gone]
            changed = store_all(connection, tenant_id, wanted, now)
            return {it.document.id: it.chunk_count for it in changed}

        changed = await self._change(tenant_id, put, now)
        return Stored(tuple(unique), len(changed), len(unique) - len(changed))

    async def get(self, tenant_id: str, document_id: str) -> StoredDocument | None:
        rows = await self._database.read(rows_by_id(tenant_id, [document_id]))
        return _shown(rows[document_id]) if document_id in rows else None

    async def list_documents(
        self, tenant_id: str, *, source: str | None, after: str | None, limit: int
    ) -> list[StoredDocument]:
        """Return documents by ascending id, after the id `after`."""
        statement = sa.select(documents).where(documents.c.tenant_id == tenant_id)
        if source is not None:
            statement = statement.where(documents.c.source == source)
        if after is not None:
            statement = statement.where(documents.c.document_id > after)
        statement = statement.order_by(documents.c.document_id).limit(limit)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [_shown(row) for row in rows]

    async def ids(self, tenant_id: str, *, source: str, after: str | None, limit: int) -> list[str]:
        """Return ids of a source's documents, ascending, after the id `after`."""
        return await self._database.read(
            lambda c: ids_of(c, tenant_id, source, after=after, limit=limit)
        )

    async def delete_ids(
        self, tenant_id: str, ids: Collection[str], *, held: Claim | None = None
    ) -> int:
        """Remove documents with every chunk; returns how many there were.

        The rows go at once; if the index fails, `UpstreamError` is raised and a job goes on trying.
        A load that is queued or running will not bring them back, unless they are deleted for one:
        `held` is that load, and if it lost its claim, nothing goes and `LostClaim` is raised.
        """
        now = self._clock()

        def delete(connection: Connection) -> dict[str, int]:
            if held is None:
                leave_out(connection, tenant_id, sources_of(connection, tenant_id, ids))
            else:
                jobs.hold(connection, held)
            return self._remove(connection, tenant_id, ids, now)

        return len(await self._change(tenant_id, delete, now))

    async def delete_source(self, tenant_id: str, source: str) -> int:
        """Like `delete_ids`, for all of a source; its loads are cancelled.

        Part after part, each of which cancels what loads came meanwhile: in the end there is a
        moment at which the source has neither documents nor loads.
        """
        now = self._clock()
        is_left = True

        def delete(connection: Connection) -> dict[str, int]:
            nonlocal is_left
            cancel_loads(connection, tenant_id, source)
            ids = ids_of(connection, tenant_id, source, limit=DELETED_AT_ONCE)
            is_left = len(ids) == DELETED_AT_ONCE
            return self._remove(connection, tenant_id, ids, now)

        parts: dict[str, dict[str, int]] = {}
        while is_left:
            key, touched = await self._commit(tenant_id, delete, now)
            if touched:
                parts[key] = touched
        for key in parts:  # once all rows are gone: the index may fail
            await self._bring(tenant_id, key)
        return sum(map(len, parts.values()))

    async def refill(self, tenant_id: str) -> int:
        """Empty a tenant's documents namespace and fill it from SQL; returns how many there are.

        So are the words of the lexical index.
        """
        await self._index.clear(namespace("documents", tenant_id))
        await self._words.all(tenant_id)
        here = documents.c.tenant_id == tenant_id
        await self._database.write(
            lambda c: c.execute(documents.update().where(here).values(indexed_version=0))
        )
        filled, last = 0, None
        while page := await self.list_documents(
            tenant_id, source=None, after=last, limit=ROWS_AT_ONCE
        ):
            stale = {document.id: 0 for document in page}
            await self._pusher.push(tenant_id, stale, is_rerun=False)
            filled, last = filled + len(page), page[-1].id
        return filled

    async def counts(self, tenant_id: str) -> dict[str, int]:
        """Return how many documents a tenant has, and how many the index still lacks."""
        behind = sa.case((documents.c.indexed_version < documents.c.version, 1), else_=0)
        statement = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(behind), 0)).where(
            documents.c.tenant_id == tenant_id
        )
        stored, pending = await self._database.read(lambda c: c.execute(statement).one())
        return {"documents": stored, "pending": int(pending)}

    async def _change(
        self, tenant_id: str, change: Callable[[Connection], dict[str, int]], now: datetime
    ) -> dict[str, int]:
        """Commit a change with the job that brings it to the index, and have the job done."""
        key, touched = await self._commit(tenant_id, change, now)
        if touched:
            await self._bring(tenant_id, key)
        return touched

    async def _commit(
        self, tenant_id: str, change: Callable[[Connection], dict[str, int]], now: datetime
    ) -> tuple[str, dict[str, int]]:
        """Commit a change with the job that brings it to the index; returns that job's key.

        `change` returns document id -> chunks that the index may hold, or is about to.
        """
        key = uuid.uuid4().hex

        def commit(connection: Connection) -> dict[str, int]:
            touched = change(connection)
            if touched:
                jobs.put(
                    connection,
                    tenant_id,
                    KIND,
                    key,
                    {"documents": touched},
                    subject="documents",
                    now=now,
                    delay_seconds=jobs.CALLER_SECONDS,
                )
            return touched

        return key, await self._database.write(commit)

    async def _bring(self, tenant_id: str, key: str) -> None:
        """Have a change brought to the index now. Raises `UpstreamError`."""
        failure = await self._run_now(tenant_id, KIND, key)
        if isinstance(failure, AppError):
            raise failure
        if failure is not None:
            raise UpstreamUnavailable(
                "index",
                "the change is stored, and will be in the index a little later",
                retry_after=5,
            ) from failure

    def _remove(
        self, connection: Connection, tenant_id: str, ids: Collection[str], now: datetime
    ) -> dict[str, int]:
        if self._on_delete is not None and ids:
            self._on_delete(connection, tenant_id, ids, now)
        return remove(connection, tenant_id, ids)

    async def _sync(self, claim: Claim) -> None:
        """Bring the index to what SQL holds of the documents of a job."""
        stale = claim.payload["documents"]
        await self._pusher.push(claim.tenant_id, stale, is_rerun=claim.attempts > 1)
        await self._queue.finish(claim, lambda _: None)


def _ready(
    tenant_id: str, batch: Iterable[Document], dimension: int, known: Mapping[str, str]
) -> list[Ready]:
    return [with_words(ready(tenant_id, document, dimension), known) for document in batch]


def _shown(row: Any) -> StoredDocument:
    return StoredDocument(
        id=row.document_id,
        text=row.text,
        source=row.source,
        doc_type=row.doc_type,
        metadata=row.metadata,
        is_current=row.indexed_version == row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
