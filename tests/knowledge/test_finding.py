"""Words and meaning are asked at once: what words will find is told ahead, and never believed."""

from __future__ import annotations

import asyncio

import pytest

from app.knowledge.search import DocumentSearch, Found
from app.wiring import Runtime
from tests.knowledge.calls import document, in_pinecone, put, search
from tests.served import served
from tests.wire.held import Held
from tests.wire.pinecone import PineconeServer

MANY = [document(f"d{n}", f"Item {n} is stored in hall {n % 7}.") for n in range(200)]
CODE = "Order ORD-2026-0311 was sent to Zielinski."
ASKED = "Where is ORD-2026-0311 of item 3?"


async def anew(runtime: Runtime, text: str, **options: object) -> Found:
    """Search as a process does that has nothing in memory."""
    search = DocumentSearch(runtime.database, runtime.index, threshold=0.35, top_k=8)
    (question,) = await runtime.embedder.embed([text])
    return await search.search("default", question, words=text, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("filter", [None, {"source": "faq"}])
async def test_what_has_changed_since_the_last_question_is_found_as_it_is(
    filter: dict[str, str] | None,
) -> None:
    async with served(document_threshold=0.35, document_top_k=8) as (_, runtime):
        await put(runtime, *MANY)
        for change in (
            put(runtime, document("new", CODE)),
            put(runtime, document("new", f"{CODE} It is item 3."), document("d3", "Tea.")),
            runtime.documents.delete_ids("default", ["d3", "new"]),
            put(runtime, *(document(f"other{n}", f"{CODE} Part {n}.") for n in range(8))),
        ):
            await search(runtime, ASKED, filter=filter)
            await change
            found = await search(runtime, ASKED, filter=filter)
            assert found == await anew(runtime, ASKED, filter=filter)
            assert found == await search(runtime, ASKED, filter=filter)
        others = [passage for passage in found.passages if passage.id.startswith("other")]
        assert len(others) > 4


async def test_meaning_does_not_wait_for_words_nor_words_for_meaning(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        await put(runtime, *MANY, document("new", CODE))
        first = await search(runtime, ASKED)
        before = len(pinecone.calls)
        pinecone.held = Held()
        again = asyncio.create_task(search(runtime, ASKED))
        async with asyncio.timeout(10):
            while len(pinecone.calls) < before + 2:
                await asyncio.sleep(0.01)
        pinecone.held.let_go()
        assert sorted(pinecone.paths()[before:]) == ["/query", "/vectors/fetch"]
        assert await again == first


async def test_the_call_that_tries_an_index_out_is_the_search_and_what_words_found_comes_after(
    pinecone: PineconeServer,
) -> None:
    chosen = {"breaker_failures": 1, "breaker_seconds": 0.05}
    async with in_pinecone(pinecone, **chosen) as runtime:
        await put(runtime, *MANY, document("new", CODE))
        breaker = runtime.breakers.of("pinecone")
        for ask in (search, anew):
            first = await ask(runtime, ASKED)
            breaker.failed()
            async with asyncio.timeout(10):
                while breaker.state != "half_open":
                    await asyncio.sleep(0.01)
            before = len(pinecone.calls)
            assert await ask(runtime, ASKED) == first
            assert pinecone.paths()[before:] == ["/query", "/vectors/fetch"]
            assert runtime.breakers.states()["pinecone"] == "closed"


async def test_of_what_words_find_in_a_wider_search_only_what_is_used_is_fetched(
    pinecone: PineconeServer,
) -> None:
    few = [document(f"few{n}", f"Item {n} is stored in hall {n % 7}.", kind="few") for n in (1, 2)]
    async with in_pinecone(pinecone) as runtime:
        await put(runtime, *MANY, *few)
        asked = {"top_k": 4, "filter": {"kind": "few"}}
        for ask in (search, anew):
            before = len(pinecone.calls)
            found = await ask(runtime, "In which hall is the item stored?", **asked)
            assert {passage.id for passage in found.passages} == {"few1", "few2"}
            assert sorted(pinecone.paths()[before:]) == [*3 * ["/query"], "/vectors/fetch"]
