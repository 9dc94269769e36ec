"""Documents in and out: SQL is the record, the index is derived from it.

Touches: `documents`, the jobs, the embedder, the index.

What a call stores is pushed from the stored rows, and the rows are read again afterwards: if one
moved or went meanwhile, the index is brought to what is there now.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database
from app.db.tables import documents
from app.errors import AppError, Conflict
from app.index.base import Filter, Index, Metadata, Values, Vector, namespace, vector_id
from app.index.rows import check_vector
from app.jobs import Claim, Handler, Jobs
from app.llm.base import Embedder
from ingest.document import Document, chunks

PUSHES = 5
AT_ONCE = 200  # documents read and settled together
VECTORS_AT_ONCE = 500  # embedded and pushed together, within the lease of a job
OURS = frozenset({"tenant_id", "text", "source", "doc_type", "document_id", "chunk"})


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


@dataclass(frozen=True, slots=True)
class Passage:
    """A found chunk. `id` is the chunk's: the document's id, with `#n` from the second one on."""

    id: str
    score: float
    text: str
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Found:
    """The passages at or above `threshold`, best first, and the best score below it."""

    passages: tuple[Passage, ...]
    threshold: float
    best_below: float | None


class Documents:
    """Puts, finds and removes documents. `threshold` and `top_k` are the defaults of a request."""

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        index: Index,
        embedder: Embedder,
        *,
        threshold: float,
        top_k: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._queue = queue
        self._index = index
        self._embedder = embedder
        self._threshold = threshold
        self._top_k = top_k
        self._clock = clock

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {"sync_documents": self._sync}

    async def put(self, tenant_id: str, batch: Sequence[Document]) -> Stored:
        """Store documents by id and make them searchable; the last of two equal ids wins.

        On return they are durable and in the index. A failing embedder or index raises
        `UpstreamError`: the documents are recorded then, and a job brings them to the index.
        Raises `InvalidRequest` for metadata that the index can't hold; nothing is stored then.
        """
        unique = list({document.id: document for document in batch}.values())
        for document in unique:
            self._check(tenant_id, document)
        now = self._clock()
        key = f"put:{uuid.uuid4().hex}"

        def store(connection: Connection) -> list[str]:
            changed = [d.id for d in unique if _store(connection, tenant_id, d, now)]
            if changed:
                _put_sync(connection, tenant_id, key, dict.fromkeys(changed, 0), now)
            return changed

        changed = await self._database.write(store)
        if changed:
            claim = await self._queue.claim_key(tenant_id, "sync_documents", key)
            if claim is not None:
                await self._run(claim)
        ids = tuple(document.id for document in unique)
        return Stored(ids, len(changed), len(unique) - len(changed))

    async def get(self, tenant_id: str, document_id: str) -> StoredDocument | None:
        rows = await self._rows(tenant_id, [document_id])
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

    async def delete(
        self, tenant_id: str, *, document_id: str | None = None, source: str | None = None
    ) -> int:
        """Remove one document, or all of a source, with every chunk; returns how many.

        The rows go at once; if the index fails, `UpstreamError` is raised and a job goes on trying.
        """
        which = documents.c.tenant_id == tenant_id
        if document_id is not None:
            which = sa.and_(which, documents.c.document_id == document_id)
        if source is not None:
            which = sa.and_(which, documents.c.source == source)
        now = self._clock()
        key = f"delete:{uuid.uuid4().hex}"

        def remove(connection: Connection) -> int:
            gone = connection.execute(
                documents.delete()
                .where(which)
                .returning(documents.c.document_id, documents.c.chunk_count)
            ).all()
            stale = {row.document_id: row.chunk_count for row in gone}
            if stale:
                _put_sync(connection, tenant_id, key, stale, now)
            return len(stale)

        removed = await self._database.write(remove)
        if removed:
            claim = await self._queue.claim_key(tenant_id, "sync_documents", key)
            if claim is not None:
                await self._run(claim)
        return removed

    async def search(
        self,
        tenant_id: str,
        question: Values,
        *,
        filter: Filter | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
    ) -> Found:
        """Rank passages by their cosine with `question` (float32, unit length)."""
        top_k = self._top_k if top_k is None else top_k
        gate = self._threshold if threshold is None else threshold
        if top_k == 0:
            return Found((), gate, None)
        matches = await self._index.query(
            namespace("documents", tenant_id), question, top_k=top_k + 1, filter=filter
        )
        passed = [
            _passage(match.id, match.score, match.metadata)
            for match in matches
            if match.score >= gate
        ]
        below = [match.score for match in matches if match.score < gate]
        return Found(tuple(passed[:top_k]), gate, max(below, default=None))

    async def load(self, tenant_id: str, scores: Mapping[str, float]) -> list[Passage]:
        """Return the passages that are still there among ids, with the scores given."""
        rows = await self._index.fetch(namespace("documents", tenant_id), list(scores))
        return [_passage(row.id, scores[row.id], row.metadata) for row in rows.values()]

    async def refill(self, tenant_id: str) -> int:
        """Empty a tenant's documents namespace and fill it from SQL; returns how many there are."""
        await self._index.clear(namespace("documents", tenant_id))
        here = documents.c.tenant_id == tenant_id
        await self._database.write(
            lambda c: c.execute(documents.update().where(here).values(indexed_version=0))
        )
        filled, last = 0, None
        while page := await self.list_documents(tenant_id, source=None, after=last, limit=AT_ONCE):
            await self._push(tenant_id, {document.id: 0 for document in page})
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

    async def _run(self, claim: Claim) -> None:
        try:
            await self._sync(claim)
        except Exception as error:
            reason = error.message if isinstance(error, AppError) else type(error).__name__
            await self._queue.fail(claim, reason)
            raise

    async def _sync(self, claim: Claim) -> None:
        """Bring the index to what SQL holds of the documents of a job."""
        stale: dict[str, int] = dict(claim.payload["documents"])
        ids = list(stale)
        for start in range(0, len(ids), AT_ONCE):
            part = {i: stale[i] for i in ids[start : start + AT_ONCE]}
            await self._push(claim.tenant_id, part, claim)
        await self._queue.finish(claim, lambda _: None)

    async def _push(
        self, tenant_id: str, stale: dict[str, int], claim: Claim | None = None
    ) -> None:
        """Bring documents to the index; a `claim` is kept alive meanwhile.

        stale: document id -> chunks that the index may hold although no row says so.
        """
        where = namespace("documents", tenant_id)
        left = dict(stale)
        for earlier in range(PUSHES):
            rows = await self._rows(tenant_id, list(left))
            fresh: list[tuple[str, Metadata]] = []
            surplus: list[str] = []
            pushed: dict[str, _Pushed] = {}
            for document_id, may_hold in left.items():
                row = rows.get(document_id)
                texts = [] if row is None else chunks(row.text)
                held = max(may_hold, 0 if row is None else row.chunk_count)
                surplus += [_chunk_id(document_id, n) for n in range(len(texts), held)]
                # What we pushed before a row moved may lie over what another push left since.
                if row is not None and (earlier or row.indexed_version < row.version):
                    fresh += _chunk_rows(tenant_id, row, texts)
                pushed[document_id] = _Pushed(_state(row), len(texts))
            for start in range(0, len(fresh), VECTORS_AT_ONCE):
                part = fresh[start : start + VECTORS_AT_ONCE]
                values = await self._embedder.embed([str(m["text"]) for _, m in part])
                await self._index.upsert(
                    where, [Vector(i, v, m) for (i, m), v in zip(part, values, strict=True)]
                )
                if claim is not None:
                    await self._queue.extend(claim)
            if surplus:
                await self._index.delete(where, surplus)
            moved = await self._database.write(partial(_settle, tenant_id, pushed))
            if not moved:
                return
            left = {i: max(left[i], pushed[i].chunk_count) for i in moved}
        raise Conflict("the documents keep changing; what they end as is indexed later")

    async def _rows(self, tenant_id: str, ids: Sequence[str]) -> dict[str, Any]:
        statement = sa.select(documents).where(
            documents.c.tenant_id == tenant_id, documents.c.document_id.in_(list(ids))
        )
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return {row.document_id: row for row in rows}

    def _check(self, tenant_id: str, document: Document) -> None:
        """Raise `InvalidRequest` for what the index would refuse, before anything is stored."""
        some_values = np.ones(self._index.dimension, dtype=np.float32)
        for chunk_id, metadata in _chunk_rows(tenant_id, document, chunks(document.text)):
            check_vector(Vector(chunk_id, some_values, metadata), self._index.dimension)


@dataclass(frozen=True, slots=True)
class _Pushed:
    """What of a document was brought to the index; `state` of None is that it is gone."""

    state: tuple[int, str] | None
    chunk_count: int


def _state(row: Any) -> tuple[int, str] | None:
    """Return what tells the states of a row apart, also those of one that went and came again."""
    return None if row is None else (row.version, row.fingerprint)


def _chunk_id(document_id: str, n: int) -> str:
    return vector_id(document_id) if n == 0 else f"{vector_id(document_id)}#{n}"


def _chunk_rows(tenant_id: str, row: Any, texts: Sequence[str]) -> list[tuple[str, Metadata]]:
    """Return the id and metadata of each chunk; a column named like one of ours gets a `_`."""
    document_id = row.id if isinstance(row, Document) else row.document_id
    shared = {
        **{_column(k, row.metadata): v for k, v in row.metadata.items()},
        "tenant_id": tenant_id,
        "source": row.source,
        "doc_type": row.doc_type,
        "document_id": document_id,
    }
    return [
        (_chunk_id(document_id, n), {**shared, "text": text, "chunk": n})
        for n, text in enumerate(texts)
    ]


def _column(name: str, metadata: Metadata) -> str:
    if name not in OURS:
        return name
    while name in OURS or name in metadata:
        name += "_"
    return name


def _passage(chunk_id: str, score: float, metadata: Metadata) -> Passage:
    shown = {k: v for k, v in metadata.items() if k not in ("text", "tenant_id")}
    return Passage(chunk_id, score, str(metadata.get("text", "")), shown)


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


def _put_sync(
    connection: Connection, tenant_id: str, key: str, stale: Mapping[str, int], now: datetime
) -> None:
    payload = {"documents": dict(stale)}
    jobs.put(
        connection,
        tenant_id,
        "sync_documents",
        key,
        payload,
        subject="documents",
        now=now,
        delay_seconds=jobs.CALLER_SECONDS,
    )


def _store(connection: Connection, tenant_id: str, document: Document, now: datetime) -> bool:
    """Write one row if it is new, changed or not in the index yet; says whether there is work."""
    here = sa.and_(documents.c.tenant_id == tenant_id, documents.c.document_id == document.id)
    fingerprint = document.fingerprint()
    known = connection.execute(
        sa.select(
            documents.c.fingerprint,
            documents.c.version,
            documents.c.indexed_version,
            documents.c.chunk_count,
        )
        .where(here)
        .with_for_update()
    ).first()
    # Counted before the push, so that a push that is cut off leaves nothing that nobody knows of.
    chunk_count = len(chunks(document.text))
    content = {
        "source": document.source,
        "doc_type": document.doc_type,
        "text": document.text,
        "metadata": dict(document.metadata),
        "fingerprint": fingerprint,
        "updated_at": now,
    }
    if known is None:
        connection.execute(
            documents.insert().values(
                tenant_id=tenant_id,
                document_id=document.id,
                chunk_count=chunk_count,
                version=1,
                indexed_version=0,
                created_at=now,
                **content,
            )
        )
        return True
    if known.fingerprint == fingerprint:
        return bool(known.indexed_version < known.version)
    connection.execute(
        documents.update()
        .where(here)
        .values(
            version=known.version + 1, chunk_count=max(chunk_count, known.chunk_count), **content
        )
    )
    return True


def _settle(tenant_id: str, pushed: Mapping[str, _Pushed], connection: Connection) -> list[str]:
    """Note what the index holds now; returns the documents that moved since they were read."""
    rows = {
        row.document_id: _state(row)
        for row in connection.execute(
            sa.select(documents.c.document_id, documents.c.version, documents.c.fingerprint)
            .where(documents.c.tenant_id == tenant_id, documents.c.document_id.in_(list(pushed)))
            .with_for_update()
        )
    }
    moved = [i for i, it in pushed.items() if rows.get(i) != it.state]
    for document_id, it in pushed.items():
        if it.state is not None and rows.get(document_id) == it.state:
            connection.execute(
                documents.update()
                .where(documents.c.tenant_id == tenant_id, documents.c.document_id == document_id)
                .values(indexed_version=it.state[0], chunk_count=it.chunk_count)
            )
    return moved
