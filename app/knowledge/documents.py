"""Documents in and out: SQL is the record, the index is derived from it.

Touches: `documents`, the lexical index, the jobs, the index.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.audit import Actor, note
from app.db import Connection, Database
from app.db.tables import documents
from app.erased import erased
from app.index.base import Filter, Index, namespace
from app.jobs import Claim, Handler, Jobs
from app.knowledge.changes import KIND, Changes, RunNow
from app.knowledge.pending import cancel_loads, leave_out, left_out
from app.knowledge.push import ROWS_AT_ONCE, Pusher
from app.knowledge.refill import REINDEX, Refill
from app.knowledge.rows import (
    Ready,
    count_of,
    fingerprints,
    ids_of,
    ready,
    remove,
    rows_by_id,
    sources_of,
    store_all,
    with_words,
)
from app.knowledge.stored import Stored, StoredDocument, note_documents, shown
from app.knowledge.within import Guard, RowTest, ids_within, passing, rows_within, test_of
from app.llm.base import Embedder
from app.redact import Redactor
from ingest.document import Document

DELETED_AT_ONCE = 200  # of a source: on SQLite, all that is written waits for a transaction

Named = Callable[[Mapping[str, Any]], set[str]]
OnDelete = Callable[[Connection, str, Collection[str], datetime], None]


class Documents:
    """Puts, lists and removes documents.

    run_now: does the job of a tenant, kind and key at once; None when it is done, else the failure.
    on_delete: told, in the same transaction, of the ids of a tenant that are about to be deleted.
    named: says which users a document's metadata names; None: it names nobody.
    """

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        index: Index,
        embedder: Embedder,
        *,
        redactor: Redactor,
        run_now: RunNow,
        clock: Callable[[], datetime],
        on_delete: OnDelete | None = None,
        named: Named | None = None,
    ) -> None:
        self._database = database
        self._queue = queue
        self._index = index
        self._redactor = redactor
        self._pusher = Pusher(database, index, embedder)
        self._words = Refill(database, queue, clock)
        self._changes = Changes(database, run_now)
        self._clock = clock
        self._on_delete = on_delete
        self._named = named

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {KIND: self._sync, REINDEX: self._words.run}

    async def put(
        self,
        tenant_id: str,
        batch: Sequence[Document],
        *,
        held: Claim | None = None,
        within: Filter | None = None,
        actor: Actor | None = None,
    ) -> Stored:
        """Store documents by id and make them searchable; the last of two equal ids wins.

        On return they are durable and in the index. A failing embedder or index raises
        `UpstreamError`: the documents are recorded then, and a job brings them to the index.
        Raises `InvalidRequest` for metadata that the index can't hold; nothing is stored then.
        held: the load that they come from. If it lost its claim, nothing is stored and `LostClaim`
        is raised; what was deleted since it began is left out.
        What names a user who was erased is left out, too.
        within: a filter that each has to pass, and each that it replaces; else `Forbidden`.
        actor: whose act it is, for the audit log.
        """
        unique = {document.id: document for document in batch}
        known = await self._database.read(fingerprints(tenant_id, unique))
        ready = await asyncio.to_thread(
            _ready, tenant_id, unique.values(), self._index.dimension, known, self._redactor
        )
        guard = None if within is None else Guard(tenant_id, within)
        if guard is not None:
            guard.check_new(it.document for it in ready)
        now = self._clock()
        of_erased: tuple[str, ...] = ()

        def put(connection: Connection) -> dict[str, int]:
            nonlocal of_erased
            gone = () if held is None else left_out(jobs.hold(connection, held))
            of_erased = self._of_erased(connection, tenant_id, ready)
            wanted = [it for it in ready if it.document.id not in {*gone, *of_erased}]
            changed = store_all(connection, tenant_id, wanted, now, before_change=guard)
            if actor is not None and changed:
                told = {it.document.id: it.document.source for it in changed}
                note_documents(connection, actor, "documents.put", told, now=now)
            return {it.document.id: it.chunk_count for it in changed}

        changed = await self._changes.make(tenant_id, put, now)
        kept = tuple(id for id in unique if id not in of_erased)
        redacted: Counter[str] = Counter()
        for it in ready:
            if it.document.id not in of_erased:
                redacted.update(it.redacted)
        return Stored(kept, len(changed), len(kept) - len(changed), of_erased, dict(redacted))

    async def get(
        self, tenant_id: str, document_id: str, *, within: Filter | None = None
    ) -> StoredDocument | None:
        test = test_of(tenant_id, within)
        row = (await self._database.read(rows_by_id(tenant_id, [document_id]))).get(document_id)
        return None if row is None or not test(row) else shown(row)

    async def list_documents(
        self,
        tenant_id: str,
        *,
        source: str | None,
        after: str | None,
        limit: int,
        within: Filter | None = None,
    ) -> list[StoredDocument]:
        """Return documents by ascending id, after the id `after`; those that pass `within`."""
        if within is not None:
            test = test_of(tenant_id, within)
            found = await rows_within(
                self._database, tenant_id, test, source=source, after=after, limit=limit
            )
            return [shown(row) for row in found]
        statement = sa.select(documents).where(documents.c.tenant_id == tenant_id)
        if source is not None:
            statement = statement.where(documents.c.source == source)
        if after is not None:
            statement = statement.where(documents.c.document_id > after)
        statement = statement.order_by(documents.c.document_id).limit(limit)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [shown(row) for row in rows]

    async def ids(self, tenant_id: str, *, source: str, after: str | None, limit: int) -> list[str]:
        """Return ids of a source's documents, ascending, after the id `after`."""
        return await self._database.read(
            lambda c: ids_of(c, tenant_id, source, after=after, limit=limit)
        )

    async def delete_ids(
        self,
        tenant_id: str,
        ids: Collection[str],
        *,
        held: Claim | None = None,
        within: Filter | None = None,
        actor: Actor | None = None,
    ) -> int:
        """Remove documents with every chunk; returns how many there were.

        The rows go at once; if the index fails, `UpstreamError` is raised and a job goes on trying.
        A load that is queued or running will not bring them back, unless they are deleted for one:
        `held` is that load, and if it lost its claim, nothing goes and `LostClaim` is raised.
        within: a filter; those that don't pass it stay, as if they were not there.
        """
        now = self._clock()
        test = None if within is None else test_of(tenant_id, within)
        delete = partial(self._delete, tenant_id, ids, now, held, test, actor)
        return len(await self._changes.make(tenant_id, delete, now))

    async def delete_source(
        self,
        tenant_id: str,
        source: str,
        *,
        within: Filter | None = None,
        actor: Actor | None = None,
    ) -> int:
        """Like `delete_ids`, for all of a source; its loads are cancelled.

        Part after part, each of which cancels what loads came meanwhile: in the end there is a
        moment at which the source has neither documents nor loads. The first one is noted.
        within: a filter; what does not pass it stays, and so do the loads, which may bring such.
        """
        now = self._clock()
        if within is not None:
            return await self._delete_within(tenant_id, source, within, actor, now)
        is_left, noted_by = True, actor

        def delete(connection: Connection) -> dict[str, int]:
            nonlocal is_left
            cancel_loads(connection, tenant_id, source)
            if noted_by is not None:
                counts = {"documents": count_of(connection, tenant_id, source)}
                act = "documents.delete_source"
                note(connection, noted_by, act, subject=source, counts=counts, now=now)
            ids = ids_of(connection, tenant_id, source, limit=DELETED_AT_ONCE)
            is_left = len(ids) == DELETED_AT_ONCE
            return self._remove(connection, tenant_id, ids, now)

        parts: dict[str, int] = {}
        while is_left:
            key, touched = await self._changes.commit(tenant_id, delete, now)
            noted_by = None
            if touched:
                parts[key] = len(touched)
        return await self._changes.bring_all(tenant_id, parts)

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

    def _of_erased(
        self, connection: Connection, tenant_id: str, batch: Sequence[Ready]
    ) -> tuple[str, ...]:
        """Return the ids of the documents that name a user who was erased."""
        if self._named is None:
            return ()
        users = {it.document.id: self._named(it.document.metadata) for it in batch}
        gone = erased(connection, tenant_id, set().union(*users.values())).keys()
        return tuple(id for id, named in users.items() if named & gone)

    async def _delete_within(
        self, tenant_id: str, source: str, within: Filter, actor: Actor | None, now: datetime
    ) -> int:
        test = test_of(tenant_id, within)
        ids = await ids_within(self._database, tenant_id, test, source=source)
        parts: dict[str, int] = {}
        for start in range(0, len(ids), DELETED_AT_ONCE):
            some = ids[start : start + DELETED_AT_ONCE]
            delete = partial(self._delete, tenant_id, some, now, None, test, actor)
            key, touched = await self._changes.commit(tenant_id, delete, now)
            if touched:
                parts[key] = len(touched)
        return await self._changes.bring_all(tenant_id, parts)

    def _delete(
        self,
        tenant_id: str,
        ids: Collection[str],
        now: datetime,
        held: Claim | None,
        test: RowTest | None,
        actor: Actor | None,
        connection: Connection,
    ) -> dict[str, int]:
        if test is not None:
            ids = passing(connection, tenant_id, ids, test, locked=False)
        sources = sources_of(connection, tenant_id, ids)
        if held is None:
            leave_out(connection, tenant_id, sources)
        else:
            jobs.hold(connection, held)
        if test is not None:  # jobs are locked before documents; one may have changed meanwhile
            ids = passing(connection, tenant_id, ids, test, locked=True)
        touched = self._remove(connection, tenant_id, ids, now)
        if actor is not None and touched:
            told = {id: sources.get(id) for id in touched}
            note_documents(connection, actor, "documents.delete", told, now=now)
        return touched

    def _remove(
        self, connection: Connection, tenant_id: str, ids: Collection[str], now: datetime
    ) -> dict[str, int]:
        if self._on_delete is not None and ids:
            self._on_delete(connection, tenant_id, ids, now)
        return remove(connection, tenant_id, ids)

    async def _sync(self, claim: Claim) -> None:
        """Bring the index to what SQL holds of the documents of a job."""
        stale = claim.payload["documents"]
        await self._pusher.push(claim.tenant_id, stale, is_rerun=claim.is_again)
        await self._queue.finish(claim, lambda _: None)


def _ready(
    tenant_id: str,
    batch: Iterable[Document],
    dimension: int,
    known: Mapping[str, str],
    redactor: Redactor,
) -> list[Ready]:
    return [
        with_words(ready(tenant_id, document, dimension, redactor), known) for document in batch
    ]
