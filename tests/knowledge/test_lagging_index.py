"""An index that lags behind the database: what is answered is what the database holds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.errors import UpstreamError
from app.knowledge.search import Found
from app.knowledge.stored import Stored
from app.wiring import Runtime
from ingest.document import chunks
from tests.api.calls import chat
from tests.knowledge.calls import (
    LONG,
    assert_index_is_what_the_database_holds,
    document,
    finish_jobs,
    in_pinecone,
    late_put,
    put,
    search,
    texts,
)
from tests.served import served
from tests.wire.pinecone import API_KEY, Faults, PineconeServer


async def put_in_vain(runtime: Runtime, pinecone: PineconeServer, text: str, **more: str) -> None:
    """Change `d1` while the index takes nothing."""
    pinecone.faults = Faults(status=500)
    with pytest.raises(UpstreamError):
        await put(runtime, document("d1", text, **more))
    pinecone.faults = Faults()


async def delete_in_vain(runtime: Runtime, pinecone: PineconeServer, source: str) -> None:
    pinecone.faults = Faults(status=500)
    with pytest.raises(UpstreamError):
        await runtime.documents.delete_source("default", source)
    pinecone.faults = Faults()


def ids(found: Found) -> list[str]:
    return [passage.id for passage in found.passages]


async def test_a_deleted_document_is_in_no_answer_while_the_index_still_holds_it(
    pinecone: PineconeServer,
) -> None:
    async with served(pinecone_api_key=API_KEY, pinecone_host=pinecone.url) as (client, runtime):
        await put(runtime, document("d1", "The old price is 5."), document("d2", "Tea.", "kept"))
        same = {"session_id": "s1", "client_message_id": "c1"}
        before = await chat(client, "What is the price?", **same)
        await delete_in_vain(runtime, pinecone, "faq")
        assert set(await texts(runtime)) == {"d1", "d2"}
        later = await chat(client, "What is the price?")
        again = await chat(client, "What is the price?", **same)
    assert {source["id"] for source in before["sources"]} == {"d1", "d2"}
    assert [source["id"] for source in later["sources"]] == ["d2"]
    assert [source["id"] for source in again["sources"]] == ["d2"]


async def test_a_changed_document_is_answered_as_it_is_now(pinecone: PineconeServer) -> None:
    async with in_pinecone(pinecone) as runtime:
        await put(runtime, document("d1", "The price is 5.", team="sales"))
        await put_in_vain(runtime, pinecone, "The price is 9.", team="board")
        (passage,) = (await search(runtime, "The price is 5.")).passages
        for_sales = await search(runtime, "The price is 5.", filter={"team": "sales"})
        assert await texts(runtime) == {"d1": "The price is 5."}
    assert (passage.text, passage.metadata["team"]) == ("The price is 9.", "board")
    assert for_sales.passages == ()


async def test_a_chunk_that_a_document_no_longer_has_is_not_answered(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        await put(runtime, document("d1", LONG))
        await put_in_vain(runtime, pinecone, "We sell tea.")
        found = await search(runtime, chunks(LONG)[3], top_k=4)
        assert len(await texts(runtime)) > 5
    assert [(passage.id, passage.text) for passage in found.passages] == [("d1", "We sell tea.")]


async def test_what_is_gone_takes_no_place_among_the_best(pinecone: PineconeServer) -> None:
    async with in_pinecone(pinecone) as runtime:
        gone = [document(f"gone{n}", f"Old text {n}.", "old") for n in range(40)]
        kept = [document(f"kept{n}", f"New text {n}.", "new") for n in range(5)]
        await put(runtime, *gone, *kept)
        assert len(ids(await search(runtime, "New text 1.", top_k=4))) == 4
        await delete_in_vain(runtime, pinecone, "old")
        asked = pinecone.paths().count("/query")
        found = await search(runtime, "Old text 1.", top_k=5)
        asked = pinecone.paths().count("/query") - asked
    assert sorted(ids(found)) == [f"kept{n}" for n in range(5)]
    assert asked <= 3


async def die(runtime: Runtime, late: asyncio.Task[Stored]) -> None:
    """Kill who puts a document, whose vectors come to the index all the same."""
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    async with asyncio.timeout(10):
        while len(await texts(runtime)) < len(chunks(LONG)):
            await asyncio.sleep(0.05)


async def test_what_a_dead_replica_wrote_late_does_not_stay_over_a_newer_document(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        late = await late_put(runtime, pinecone, LONG)
        await put(runtime, document("d1", "We sell tea."))
        await die(runtime, late)
        await finish_jobs(runtime)
        await assert_index_is_what_the_database_holds(runtime)


async def test_what_a_dead_replica_wrote_late_does_not_bring_back_a_deleted_document(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        late = await late_put(runtime, pinecone, LONG)
        await runtime.documents.delete_ids("default", ["d1"])
        await die(runtime, late)
        assert (await search(runtime, LONG)).passages == ()
        await finish_jobs(runtime)
        assert await texts(runtime) == {}


async def test_a_vector_that_tells_no_document_is_passed_over_and_words_find_the_chunk() -> None:
    async with served() as (_, runtime):
        await put(runtime, document("d1", "Order ORD-2026-0311 was sent to Zielinski."))
        (held,) = (await runtime.index.fetch("documents", ["d1"])).values()
        await runtime.index.upsert("documents", [replace(held, metadata={"text": "Tea."})])
        found = await search(runtime, "Where is ORD-2026-0311?")
        assert [passage.text for passage in found.passages] == [
            "Order ORD-2026-0311 was sent to Zielinski."
        ]
