"""Calls of the documents that their tests share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa

from app.db import db_now
from app.db.tables import after, jobs
from app.errors import Conflict
from app.knowledge.search import Found
from app.knowledge.stored import Stored
from app.wiring import Runtime
from ingest.document import Document, chunks
from tests.served import served
from tests.wire.pinecone import API_KEY, Faults, PineconeServer

LONG = " ".join(f"Sentence number {n} is about tea." for n in range(200))


@asynccontextmanager
async def in_pinecone(server: PineconeServer, **chosen: Any) -> AsyncIterator[Runtime]:
    async with served(
        pinecone_api_key=API_KEY,
        pinecone_host=server.url,
        pinecone_timeout_seconds=10.0,
        **{"breaker_seconds": 0.001, **chosen},  # what failed a moment ago is asked again
    ) as (_, runtime):
        yield runtime


def document(id: str, text: str, source: str = "faq", **metadata: Any) -> Document:
    return Document(id, text, source, metadata=metadata)


async def put(runtime: Runtime, *batch: Document) -> Stored:
    return await runtime.documents.put("default", batch)


async def search(runtime: Runtime, text: str, **options: Any) -> Found:
    (question,) = await runtime.embedder.embed([text])
    return await runtime.document_search.search("default", question, words=text, **options)


async def put_and_delete_at_once(
    runtime: Runtime, deeds: Sequence[tuple[str, str]], chance: random.Random
) -> None:
    """Put documents, or delete them where the text is empty, all at once in some order."""

    async def do(id: str, text: str) -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        if text:
            await put(runtime, document(id, text))
        else:
            await runtime.documents.delete_ids("default", [id])

    ended = await asyncio.gather(*(do(*deed) for deed in deeds), return_exceptions=True)
    assert all(result is None or isinstance(result, Conflict) for result in ended)
    await finish_jobs(runtime)


async def texts(runtime: Runtime) -> dict[str, str]:
    """Return the text of each vector of the documents, by id."""
    ids = [found async for found in runtime.index.list_ids("documents")]
    rows = await runtime.index.fetch("documents", ids) if ids else {}
    return {found: str(row.metadata["text"]) for found, row in rows.items()}


async def try_jobs(runtime: Runtime) -> None:
    """Try what is left over as if its time had come."""
    now = jobs.update().where(jobs.c.state != "done").values(state="due", due_at=after(-1.0))
    await runtime.database.write(lambda c: c.execute(now))
    await do_what_is_due(runtime)


async def do_what_is_due(runtime: Runtime) -> None:
    """Do what is due, and wait for what the service's own workers are at."""
    is_due = sa.and_(jobs.c.state == "due", jobs.c.due_at <= db_now())  # put by what ran just now
    undone = sa.select(sa.func.count()).where(sa.or_(jobs.c.state == "running", is_due))
    async with asyncio.timeout(30):
        while True:
            await asyncio.gather(runtime.worker.drain(), runtime.loader.drain())
            if not await runtime.database.read(lambda c: c.execute(undone).scalar()):
                return
            await asyncio.sleep(0.01)


async def finish_jobs(runtime: Runtime) -> None:
    """Do what is left over as if its time had come."""
    await try_jobs(runtime)
    async with asyncio.timeout(10):  # the first pass of a worker of the service may be at one
        while await runtime.jobs.pending():
            await asyncio.sleep(0.01)


async def assert_index_is_what_the_database_holds(runtime: Runtime) -> None:
    rows = await runtime.documents.list_documents("default", source=None, after=None, limit=500)
    expected = {
        row.id if n == 0 else f"{row.id}#{n}": text
        for row in rows
        for n, text in enumerate(chunks(row.text))
    }
    assert await texts(runtime) == expected
    assert all(row.is_current for row in rows)


async def late_put(runtime: Runtime, pinecone: PineconeServer, text: str) -> asyncio.Task[Stored]:
    """Begin to put a document whose vectors reach the index only in a second."""
    pinecone.faults = Faults(latency_seconds=1.0, times=1)
    before = len(pinecone.calls)
    late = asyncio.create_task(put(runtime, document("d1", text)))
    async with asyncio.timeout(10):
        while "/vectors/upsert" not in pinecone.paths()[before:]:
            await asyncio.sleep(0.01)
    return late
