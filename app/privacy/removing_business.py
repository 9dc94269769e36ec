"""Documents, records and webhooks that name a user, removed. Touches: knowledge, the jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.parts import in_parts
from app.db.tables import deliveries, documents, jobs
from app.errors import UpstreamError
from app.jobs import Claim, Jobs
from app.knowledge.changes import KIND as SYNC
from app.knowledge.documents import Documents
from app.knowledge.inbox import OF_ERASED
from app.knowledge.persons import Persons
from app.knowledge.records import Records
from ingest.document import TABLE_SUMMARY

AT_ONCE = 200
TABLES = ("documents", "records", "deliveries")


class Business:
    """Finds and removes what names a user."""

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        persons: Persons,
        documents: Documents,
        records: Records,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._queue = queue
        self._persons = persons
        self._documents = documents
        self._records = records
        self._clock = clock

    async def remove(
        self, claim: Claim, user_id: str
    ) -> tuple[dict[str, int], UpstreamError | None]:
        """Remove all of it; returns how much, by table, and why vectors are still to go."""
        tenant_id = claim.tenant_id
        places = await self._database.read(
            lambda c: self._persons.records_of(c, tenant_id, user_id)
        )
        ids = await self._database.read(
            lambda c: self._persons.documents_of(c, tenant_id, user_id, places)
        )
        ids += await self._database.read(partial(_summaries, tenant_id, ids))
        inbox = await self._database.read(
            lambda c: self._persons.deliveries_of(c, tenant_id, user_id, places)
        )
        counts = dict.fromkeys(TABLES, 0)
        counts["vectors"] = await self._database.read(partial(_chunks, tenant_id, ids))
        trouble: UpstreamError | None = None
        for some in in_parts(ids, AT_ONCE):
            try:
                counts["documents"] += await self._documents.delete_ids(tenant_id, some, held=claim)
            except UpstreamError as error:  # the rows are gone, and a job goes on
                counts["documents"] += len(some)
                trouble = error
        for rows in in_parts(inbox, AT_ONCE):
            empty = partial(_empty, rows, self._clock())
            counts["deliveries"] += await self._queue.commit(claim, empty)
        for place in places:
            erase = partial(self._records.erase, tenant_id, place, self._clock())
            counts["records"] += await self._queue.commit(claim, erase)
        if ids and trouble is None:
            await self._forget_jobs(claim, set(ids))
        return {name: count for name, count in counts.items() if count}, trouble

    async def remaining(self, tenant_id: str, user_id: str) -> dict[str, int]:
        """Look anew; returns how much is left, by table; empty if that is nothing."""

        def look(connection: Connection) -> dict[str, int]:
            places = self._persons.records_of(connection, tenant_id, user_id)
            left = {
                "records": len(places),
                "documents": len(
                    self._persons.documents_of(connection, tenant_id, user_id, places)
                ),
                "deliveries": len(self._persons.deliveries_of(connection, tenant_id, user_id, {})),
            }
            return {name: count for name, count in left.items() if count}

        return await self._database.read(look)

    async def _forget_jobs(self, claim: Claim, ids: set[str]) -> None:
        """Take documents that are gone out of the jobs that brought them to the index."""
        after = 0
        while True:
            page = await self._database.read(partial(_page, claim.tenant_id, after))
            naming = [(row.id, row.payload) for row in page if ids & set(row.payload["documents"])]
            if naming:
                await self._queue.commit(claim, partial(_take_out, naming, ids))
            if len(page) < AT_ONCE:
                return
            after = page[-1].id


def _summaries(tenant_id: str, ids: Sequence[str], connection: Connection) -> list[str]:
    """Return the documents that tell of the tables that some documents come from, in their words.

    The next load of such a table writes one again.
    """
    here = documents.c.tenant_id == tenant_id
    sources: set[str] = set()
    for some in in_parts(ids, AT_ONCE):
        told = sa.select(documents.c.source).where(here, documents.c.document_id.in_(some))
        sources.update(connection.execute(told.distinct()).scalars())
    found: list[str] = []
    for some in in_parts(sorted(sources), AT_ONCE):
        summary = sa.select(documents.c.document_id).where(
            here, documents.c.source.in_(some), documents.c.doc_type == TABLE_SUMMARY
        )
        found += connection.execute(summary).scalars()
    return found


def _chunks(tenant_id: str, ids: Sequence[str], connection: Connection) -> int:
    """Count the vectors that some documents have."""
    count = 0
    for some in in_parts(ids, AT_ONCE):
        counted = sa.select(sa.func.sum(documents.c.chunk_count)).where(
            documents.c.tenant_id == tenant_id, documents.c.document_id.in_(some)
        )
        count += int(connection.execute(counted).scalar() or 0)
    return count


def _empty(ids: Sequence[int], now: datetime, connection: Connection) -> int:
    """Empty rows of the inbox, and have nothing done about those that wait."""
    these = sa.and_(deliveries.c.id.in_(ids), deliveries.c.body.is_not(None))
    waits = sa.and_(these, deliveries.c.state.in_(["pending", "failed"]))
    skipped = {"state": "skipped", "last_error": OF_ERASED, "processed_at": now}
    connection.execute(deliveries.update().where(waits).values(skipped))
    return connection.execute(deliveries.update().where(these).values(body=None)).rowcount


def _page(tenant_id: str, after: int, connection: Connection) -> Sequence[Any]:
    return connection.execute(
        sa.select(jobs.c.id, jobs.c.payload)
        .where(
            jobs.c.tenant_id == tenant_id,
            jobs.c.kind == SYNC,
            jobs.c.state == "done",
            jobs.c.id > after,
        )
        .order_by(jobs.c.id)
        .limit(AT_ONCE)
    ).all()


def _take_out(
    naming: Sequence[tuple[int, Any]], ids: Collection[str], connection: Connection
) -> None:
    for job_id, payload in naming:
        kept = {id: chunks for id, chunks in payload["documents"].items() if id not in ids}
        connection.execute(
            jobs.update().where(jobs.c.id == job_id).values(payload={**payload, "documents": kept})
        )
