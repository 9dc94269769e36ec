"""Documents in and out: whatever happens, the index ends as what the database holds."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.errors import InvalidRequest, UpstreamError
from app.knowledge.stored import Stored
from ingest.document import Document, chunks
from tests.api.calls import chat
from tests.knowledge.calls import (
    LONG,
    assert_index_is_what_the_database_holds,
    document,
    finish_jobs,
    in_pinecone,
    late_put,
    put,
    put_and_delete_at_once,
    search,
    texts,
)
from tests.served import served
from tests.wire.pinecone import Faults, PineconeServer


async def test_what_is_put_is_found_and_what_is_unchanged_costs_nothing(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        batch = [document("d1", "We sell tea."), document("d2", "We sell coffee.")]
        assert await put(runtime, *batch) == Stored(("d1", "d2"), 2, 0)
        found = await search(runtime, "We sell tea.", top_k=1)
        calls = len(pinecone.calls)
        assert await put(runtime, *batch) == Stored(("d1", "d2"), 0, 2)
        assert len(pinecone.calls) == calls
        mixed = await put(runtime, batch[0], document("d2", "We sell cocoa."))
        assert mixed == Stored(("d1", "d2"), 1, 1)
        assert pinecone.paths()[calls:].count("/vectors/upsert") == 1
        assert await texts(runtime) == {"d1": "We sell tea.", "d2": "We sell cocoa."}
    (passage,) = found.passages
    assert (passage.id, passage.text) == ("d1", "We sell tea.")
    assert passage.score == pytest.approx(1.0)


async def test_changed_metadata_is_a_change() -> None:
    async with served() as (_, runtime):
        await put(runtime, document("d1", "We sell tea.", price=3))
        assert (await put(runtime, document("d1", "We sell tea.", price=4))).stored == 1
        cheap = await search(runtime, "tea", filter={"price": {"$lt": 4}})
        dear = await search(runtime, "tea", filter={"price": {"$eq": 4}})
    assert cheap.passages == ()
    assert [passage.metadata["price"] for passage in dear.passages] == [4]


async def test_every_chunk_of_a_long_text_is_found() -> None:
    async with served() as (_, runtime):
        await put(runtime, document("d1", LONG))
        pieces = chunks(LONG)
        for number, piece in enumerate(pieces):
            (best,) = (await search(runtime, piece, top_k=1)).passages
            assert best.id == ("d1" if number == 0 else f"d1#{number}")
            assert (best.text, best.metadata["document_id"]) == (piece, "d1")
            assert best.score == pytest.approx(1.0)
    assert len(pieces) > 5


async def test_a_document_that_shrinks_leaves_no_chunk_behind() -> None:
    async with served() as (_, runtime):
        await put(runtime, document("d1", LONG), document("d10", LONG))
        await put(runtime, document("d1", "We sell tea."))
        left = await texts(runtime)
        await assert_index_is_what_the_database_holds(runtime)
    assert [found for found in left if found.partition("#")[0] == "d1"] == ["d1"]


async def test_deleting_takes_a_document_or_a_source_with_every_chunk() -> None:
    async with served() as (_, runtime):
        await put(runtime, document("d1", LONG), document("d2", LONG), document("d3", LONG, "book"))
        await runtime.documents.put("acme", [document("d1", "Theirs.")])
        assert await runtime.documents.delete_ids("default", ["d1"]) == 1
        assert await runtime.documents.delete_ids("default", ["d1"]) == 0
        assert {found.partition("#")[0] for found in await texts(runtime)} == {"d2", "d3"}
        assert await runtime.documents.delete_source("default", "faq") == 1
        assert {found.partition("#")[0] for found in await texts(runtime)} == {"d3"}
        assert await runtime.documents.get("default", "d2") is None
        assert await runtime.documents.get("acme", "d1") is not None
        assert (await runtime.index.counts())["documents--acme"] == 1


async def test_of_two_with_the_same_id_the_last_wins() -> None:
    async with served() as (_, runtime):
        stored = await put(runtime, document("d1", LONG), document("d1", "We sell tea."))
        assert await texts(runtime) == {"d1": "We sell tea."}
    assert stored == Stored(("d1",), 1, 0)


async def test_columns_with_names_like_ours_are_kept_beside_ours() -> None:
    theirs: dict[str, Any] = {
        "text": "t",
        "tenant_id": "x",
        "source": "s",
        "doc_type": "d",
        "chunk": 7,
    }
    async with served() as (_, runtime):
        await put(
            runtime,
            Document("d1", "We sell tea.", "faq", metadata={**theirs, "document_id": "i"}),
        )
        (passage,) = (await search(runtime, "We sell tea.")).passages
        by_theirs = await search(runtime, "tea", filter={"source_": "s", "chunk_": 7})
        kept = await runtime.documents.get("default", "d1")
    assert passage.text == "We sell tea."
    assert passage.metadata["source"] == "faq"
    assert (passage.metadata["document_id"], passage.metadata["chunk"]) == ("d1", 0)
    assert {key: passage.metadata[f"{key}_"] for key in theirs} == theirs
    assert len(by_theirs.passages) == 1
    assert kept is not None
    assert kept.metadata == {**theirs, "document_id": "i"}


@pytest.mark.parametrize(
    "metadata", [{"note": "x" * 50_000}, {"$price": 3}, {"nested": {"a": 1}}, {"big": 2**60}]
)
async def test_metadata_that_the_index_can_not_hold_is_refused_and_nothing_is_stored(
    metadata: dict[str, Any],
) -> None:
    async with served() as (_, runtime):
        with pytest.raises(InvalidRequest):
            await put(runtime, document("d1", "Fine."), document("d2", "Not fine.", **metadata))
        assert await runtime.documents.counts("default") == {"documents": 0, "pending": 0}
        assert await texts(runtime) == {}


async def test_a_failing_index_is_told_and_the_document_comes_to_it_later(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        pinecone.faults = Faults(status=500)
        with pytest.raises(UpstreamError):
            await put(runtime, document("d1", LONG))
        stored = await runtime.documents.get("default", "d1")
        counts = await runtime.documents.counts("default")
        pending = await runtime.jobs.pending()
        pinecone.faults = Faults()
        await finish_jobs(runtime)
        await assert_index_is_what_the_database_holds(runtime)
        assert await runtime.documents.counts("default") == {"documents": 1, "pending": 0}
    assert stored is not None
    assert not stored.is_current
    assert counts == {"documents": 1, "pending": 1}
    assert pending["sync_documents"]["failed"] == 1
    assert "Pinecone" in pending["sync_documents"]["last_error"]


async def test_the_same_document_again_brings_it_to_the_index_at_once(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        pinecone.faults = Faults(status=500)
        with pytest.raises(UpstreamError):
            await put(runtime, document("d1", LONG))
        pinecone.faults = Faults()
        assert (await put(runtime, document("d1", LONG))).stored == 1
        await assert_index_is_what_the_database_holds(runtime)


async def test_a_delete_that_the_index_fails_is_done_later(pinecone: PineconeServer) -> None:
    async with in_pinecone(pinecone) as runtime:
        await put(runtime, document("d1", LONG))
        pinecone.faults = Faults(status=500)
        with pytest.raises(UpstreamError):
            await runtime.documents.delete_ids("default", ["d1"])
        assert await runtime.documents.get("default", "d1") is None
        pinecone.faults = Faults()
        await finish_jobs(runtime)
        assert await texts(runtime) == {}


async def test_a_document_whose_storing_was_cut_off_leaves_nothing_when_it_is_deleted(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        pinecone.faults = Faults(reset=True)  # the index does it, and the answer is lost
        with pytest.raises(UpstreamError):
            await put(runtime, document("d1", LONG))
        pinecone.faults = Faults()
        assert len(await texts(runtime)) > 5
        await runtime.documents.delete_ids("default", ["d1"])
        assert await texts(runtime) == {}


async def test_a_late_push_does_not_stay_over_a_newer_document(pinecone: PineconeServer) -> None:
    async with in_pinecone(pinecone) as runtime:
        late = await late_put(runtime, pinecone, LONG)
        await put(runtime, document("d1", "We sell tea."))
        assert await texts(runtime) == {"d1": "We sell tea."}
        await late
        await assert_index_is_what_the_database_holds(runtime)


async def test_a_late_push_does_not_bring_back_a_deleted_document(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        late = await late_put(runtime, pinecone, LONG)
        await runtime.documents.delete_ids("default", ["d1"])
        await late
        assert await texts(runtime) == {}


async def test_a_late_push_does_not_stay_over_a_document_that_went_and_came_again(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        late = await late_put(runtime, pinecone, LONG)
        await runtime.documents.delete_ids("default", ["d1"])
        await put(runtime, document("d1", "We sell tea."))
        await late
        await assert_index_is_what_the_database_holds(runtime)


DEEDS = st.tuples(
    st.sampled_from(["d1", "d2"]), st.sampled_from(["", "We sell tea.", LONG, LONG[3000:]])
)


@effort(max_examples=25, deadline=None)
@given(deeds=st.lists(DEEDS, min_size=2, max_size=8), chance=st.randoms(use_true_random=False))
async def test_whatever_happens_at_once_the_index_ends_as_the_database(
    deeds: list[tuple[str, str]], chance: random.Random
) -> None:
    async with served() as (_, runtime):
        await put_and_delete_at_once(runtime, deeds, chance)
        await assert_index_is_what_the_database_holds(runtime)


async def test_a_repeated_reply_comes_with_what_is_still_there_of_its_sources() -> None:
    async def ask(client: httpx.AsyncClient) -> Any:
        fields = {"session_id": "s1", "client_message_id": "c1"}
        return await chat(client, "What do we sell?", **fields)

    async with served() as (client, runtime):
        await put(runtime, document("d1", "We sell tea."), document("d2", "We sell coffee."))
        first = await ask(client)
        again = await ask(client)
        await runtime.documents.delete_ids("default", ["d1"])
        later = await ask(client)
    assert {source["id"] for source in first["sources"]} == {"d1", "d2"}
    assert again["sources"] == first["sources"]
    assert [source["id"] for source in later["sources"]] == ["d2"]
    assert later["reply"] == first["reply"]
