"""The words of documents that were stored without, in the background. Touches: the lexical index.

A job does some documents and leaves a job for the next ones, so that it stands in nobody's way.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database
from app.db.tables import documents
from app.jobs import Claim, Jobs
from app.knowledge.rows import index_words
from app.knowledge.words import Words, clear_words, count_words
from app.lexical.version import SUBJECT
from ingest.document import Document

REINDEX = "reindex_words"
ROWS_AT_ONCE = 100
PAGES_OF_A_JOB = 5

_PAGE = (
    sa.select(documents)
    .where(
        documents.c.tenant_id == sa.bindparam("tenant"),
        documents.c.document_id > sa.bindparam("after"),
    )
    .order_by(documents.c.document_id)
    .limit(ROWS_AT_ONCE)
)


def tenants(connection: Connection) -> list[str]:
    """Return the tenants that have documents."""
    return list(connection.execute(sa.select(documents.c.tenant_id).distinct()).scalars())


class Refill:
    """Indexes a tenant's documents by their words, from their rows."""

    def __init__(self, database: Database, queue: Jobs, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._queue = queue
        self._clock = clock

    async def all(self, tenant_id: str) -> None:
        """Empty what is indexed and fill it anew."""
        await self._database.write(partial(clear_words, tenant_id=tenant_id))
        last: str | None = ""
        while last is not None:
            last = await self._page(tenant_id, last)

    async def run(self, claim: Claim) -> None:
        """Index some documents, and ask for the next ones."""
        last: str | None = claim.payload.get("after", "")
        for _ in range(PAGES_OF_A_JOB):
            if last is not None:
                last = await self._page(claim.tenant_id, last)
        now = self._clock()

        def go_on(connection: Connection) -> None:
            if last is not None:
                key, left = uuid.uuid4().hex, {"after": last}
                jobs.put(connection, claim.tenant_id, REINDEX, key, left, subject=SUBJECT, now=now)

        await self._queue.finish(claim, go_on)

    async def _page(self, tenant_id: str, after: str) -> str | None:
        """Index the documents after an id; returns the last one, or None at the end."""
        wanted = {"tenant": tenant_id, "after": after}
        rows = await self._database.read(lambda c: c.execute(_PAGE, wanted).all())
        if not rows:
            return None
        counted = await asyncio.to_thread(_counted, rows)
        await self._database.write(partial(index_words, tenant_id=tenant_id, counted=counted))
        return str(rows[-1].document_id)


def _counted(rows: Sequence[Any]) -> dict[str, tuple[str, Words]]:
    return {
        row.document_id: (
            row.fingerprint,
            count_words(
                Document(row.document_id, row.text, row.source, row.doc_type, row.metadata)
            ),
        )
        for row in rows
    }
