"""Documents put and deleted at once, slowly, and by several replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from app.db import open_database
from app.errors import InvalidRequest, UpstreamUnavailable
from app.jobs import LostClaim
from app.knowledge.documents import Documents
from app.wiring import Runtime
from tests.knowledge.calls import (
    LONG,
    assert_index_is_what_the_database_holds,
    document,
    finish_jobs,
    in_pinecone,
    late_put,
    put,
    texts,
)
from tests.served import served
from tests.wire.pinecone import PineconeServer


async def test_a_put_that_takes_longer_than_a_lease_is_taken_over_by_nobody(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone, job_lease_seconds=0.6) as runtime:
        late = await late_put(runtime, pinecone, "We sell tea.")
        tried = 0
        while not late.done():
            tried += await runtime.worker.drain()
            await asyncio.sleep(0.05)
        assert (await late).stored == 1
        assert tried == 0
        assert pinecone.paths().count("/vectors/upsert") == 1
        assert await runtime.jobs.pending() == {}


@pytest.mark.parametrize("failure", [LostClaim(), RuntimeError("a bug")])
async def test_a_document_whose_job_another_is_at_is_stored_and_told_to_come_later(
    failure: Exception,
) -> None:
    async def run_now(tenant_id: str, kind: str, key: str) -> BaseException | None:
        return failure

    async with served() as (_, runtime):
        documents = Documents(
            runtime.database,
            runtime.jobs,
            runtime.index,
            runtime.embedder,
            redactor=runtime.door.redactor,
            run_now=run_now,
            clock=runtime.clock,
        )
        with pytest.raises(UpstreamUnavailable) as told:
            await documents.put("default", [document("d1", "We sell tea.")])
        assert told.value.retry_after == 5
        assert await documents.counts("default") == {"documents": 1, "pending": 1}
        await finish_jobs(runtime)
        with pytest.raises(UpstreamUnavailable):
            await documents.delete_ids("default", ["d1"])
        assert await documents.get("default", "d1") is None
        await finish_jobs(runtime)
        assert await texts(runtime) == {}


async def test_others_are_served_while_a_large_batch_is_looked_through() -> None:
    batch = [document(f"d{n}", LONG * 60, note="x" * 30_000) for n in range(30)]
    async with served() as (_, runtime):
        late = asyncio.create_task(
            put(runtime, *batch, document("z", "A text.", note="x" * 50_000))
        )
        turns = 0
        while not late.done():
            await asyncio.sleep(0)
            turns += 1
        with pytest.raises(InvalidRequest):
            await late
        assert await runtime.documents.counts("default") == {"documents": 0, "pending": 0}
    assert turns > 10


async def test_a_document_is_refused_for_its_one_chunk_that_is_too_long_with_its_metadata() -> None:
    text = "word " * 1_000 + '"' * 700
    async with served() as (_, runtime):
        await put(runtime, document("d1", text.replace('"', "q"), note="x" * 39_700))
        with pytest.raises(InvalidRequest):
            await put(runtime, document("d2", text, note="x" * 39_700))
        assert await runtime.documents.get("default", "d2") is None


@pytest.fixture
async def replicas(postgres_state: str) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """Two of them, which never wait for each other in a circle."""
    chosen: dict[str, Any] = {"database_url": postgres_state}
    before = await deadlocks(postgres_state)
    async with served(**chosen) as (_, one), served(**chosen) as (_, other):
        yield one, other
    assert await deadlocks(postgres_state) == before


async def deadlocks(url: str) -> int:
    """Return how many there were; a connection reports its own when it ends."""
    database = await open_database(url)
    counted = sa.text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    found = await database.read(lambda c: int(c.execute(counted).scalar_one()))
    await database.close()
    return found


async def test_replicas_that_put_the_same_new_documents_both_succeed(
    replicas: tuple[Runtime, Runtime],
) -> None:
    one, other = replicas
    for n in range(8):
        batch = [document(f"d{n}-{i}", f"Text {i}.") for i in range(20)]
        await asyncio.gather(put(one, *batch), put(other, *reversed(batch)))
    await assert_index_is_what_the_database_holds(one)
    assert await one.documents.counts("default") == {"documents": 160, "pending": 0}


async def test_replicas_that_change_the_same_documents_in_another_order_both_succeed(
    replicas: tuple[Runtime, Runtime],
) -> None:
    one, other = replicas
    numbers = range(100)
    for n in range(3):
        await asyncio.gather(
            put(one, *(document(f"d{i}", f"One {n} {i}.") for i in numbers)),
            put(other, *(document(f"d{i}", f"Other {n} {i}.") for i in reversed(numbers))),
        )
    await assert_index_is_what_the_database_holds(one)


async def test_a_source_may_be_deleted_while_another_replica_puts_it(
    replicas: tuple[Runtime, Runtime],
) -> None:
    one, other = replicas
    for n in range(3):
        batch = [document(f"d{i}", f"Text {n} {i}.") for i in range(60)]
        for each in reversed(batch):  # the order in which the server finds them
            await put(one, each)
        changed = [document(f"d{i}", f"New {n} {i}.") for i in range(60)]
        await asyncio.gather(put(one, *changed), other.documents.delete_source("default", "faq"))
        await assert_index_is_what_the_database_holds(one)
