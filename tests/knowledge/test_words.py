"""The words of documents are in step with their rows, whatever happens and wherever they are."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.cli import _reindex
from app.db.tables import about_store, documents, lexical_items, lexical_postings
from app.errors import UpstreamError
from app.knowledge.words import KIND
from app.lexical import store
from app.lexical.store import scope_of
from app.wiring import Runtime
from ingest.document import Document
from tests.knowledge.calls import (
    LONG,
    do_what_is_due,
    document,
    finish_jobs,
    in_pinecone,
    put,
    put_and_delete_at_once,
    search,
)
from tests.served import served, settings
from tests.wire.pinecone import Faults, PineconeServer

CODE = "Order ORD-2026-0311 was sent to Zielinski."


async def words(runtime: Runtime, tenant_id: str = "default") -> list[tuple[Any, ...]]:
    """Return all postings of a tenant: document, chunk, term, places."""
    item, posting = lexical_items.c, lexical_postings.c
    wanted = (
        sa.select(item.ref, item.part, posting.term, posting.places)
        .join(lexical_postings, posting.item == item.id)
        .where(posting.scope == scope_of(KIND, tenant_id))
    )
    return sorted(
        tuple(row) for row in await runtime.database.read(lambda c: c.execute(wanted).all())
    )


async def assert_words_are_those_of_the_rows(runtime: Runtime) -> None:
    """Compare with an index that is built anew from the rows."""
    grown = await words(runtime)
    await runtime.documents.refill("default")
    assert grown == await words(runtime)


async def forget_all_words(runtime: Runtime) -> None:
    """Make the store one of before the lexical index."""

    def forget(connection: Any) -> None:
        for table in (lexical_postings, lexical_items):
            connection.execute(table.delete())
        connection.execute(about_store.delete().where(about_store.c.name == "lexical"))

    await runtime.database.write(forget)


@pytest.fixture(params=["sqlite", "postgres"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "postgres":
        return {"database_url": request.getfixturevalue("postgres_state")}
    return {"database_url": f"sqlite:///{tmp_path / 'service.db'}"}


async def test_words_come_change_and_go_with_their_document(disk: dict[str, Any]) -> None:
    async with served(**disk) as (_, runtime):
        await put(runtime, document("d1", LONG), document("d2", CODE))
        await runtime.documents.put("acme", [document("d1", CODE)])
        found = await search(runtime, "ord-2026-0311", top_k=1)
        assert [passage.id for passage in found.passages] == ["d2"]
        await assert_words_are_those_of_the_rows(runtime)
        await put(runtime, document("d1", "We sell tea."), document("d2", "Nothing."))
        assert {row[0:3] for row in await words(runtime)} == {
            ("d1", 0, "sell"),
            ("d1", 0, "tea"),
            ("d2", 0, "noth"),
        }
        await runtime.documents.delete_ids("default", ["d1"])
        await runtime.documents.delete_source("default", "faq")
        assert await words(runtime) == []
        assert len(await words(runtime, "acme")) > 0


async def test_the_last_chunk_of_a_long_text_is_found_by_its_words() -> None:
    text = f"{LONG} {CODE}"
    async with served() as (_, runtime):
        await put(runtime, document("d1", text), document("d2", LONG))
        (best,) = (await search(runtime, "Where is ORD-2026-0311?", top_k=1)).passages
        last = len(Document("d1", text, "faq").passages()) - 1
    assert (best.id, best.metadata["chunk"]) == (f"d1#{last}", last)
    assert 0.0 <= best.score <= 1.0


async def test_filters_hold_for_what_is_found_by_its_words() -> None:
    async with served(document_threshold=1.0) as (_, runtime):
        await put(
            runtime, document("d1", CODE, team="sales"), document("d2", CODE + " Again.", team="it")
        )
        both = await search(runtime, "ORD-2026-0311")
        one = await search(runtime, "ORD-2026-0311", filter={"team": "it"})
        none = await search(runtime, "ORD-2026-0311", filter={"team": "hr"})
    assert {passage.id for passage in both.passages} == {"d1", "d2"}
    assert [passage.id for passage in one.passages] == ["d2"]
    assert none.passages == ()


async def test_a_filter_that_few_pass_is_looked_for_among_many() -> None:
    async with served(document_threshold=1.0) as (_, runtime):
        crowd = [document(f"d{n:03d}", f"{CODE} Part {n}.", team="it") for n in range(300)]
        mine = [document(f"x{n:03d}", f"Tea number {n}.", team="hr") for n in range(100)]
        await put(runtime, *crowd, *mine)
        await put(runtime, document("mine", f"{CODE} And many more words about it.", team="hr"))
        found = await search(runtime, "Zielinski ORD-2026-0311", filter={"team": "hr"})
    assert [passage.id for passage in found.passages] == ["mine"]


async def test_what_the_index_does_not_hold_yet_is_found_by_its_words(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        await put(runtime, document("d1", "We sell tea."))
        pinecone.faults = Faults(status=500)
        with pytest.raises(UpstreamError):
            await put(runtime, document("d2", CODE))
        pinecone.faults = Faults()
        by_id = {passage.id: passage for passage in (await search(runtime, CODE)).passages}
        assert (by_id["d2"].score, by_id["d2"].why) == (0.0, {"dense": 0.0, "lexical": 1.0})
        await finish_jobs(runtime)
        (later,) = (await search(runtime, CODE, top_k=1)).passages
        assert later.score == pytest.approx(1.0)


async def test_the_score_of_what_the_words_found_is_its_cosine() -> None:
    async with served(document_threshold=1.0) as (_, runtime):
        await put(runtime, *[document(f"d{n}", f"Tea number {n}.") for n in range(200)])
        await put(runtime, document("code", CODE))
        (question,) = await runtime.embedder.embed(["ORD-2026-0311"])
        (text,) = await runtime.embedder.embed([CODE])
        (found,) = (await search(runtime, "ORD-2026-0311", top_k=1)).passages
    assert found.id == "code"
    assert found.score == pytest.approx(max(0.0, float(question @ text)), abs=1e-5)


async def test_another_tenant_s_words_weigh_nothing() -> None:
    async with served(document_threshold=1.0) as (_, runtime):
        await runtime.documents.put("acme", [document("d1", CODE)])
        await put(runtime, document("d2", "We sell tea."))
        assert (await search(runtime, "ORD-2026-0311")).passages == ()


async def test_a_store_of_before_is_filled_in_the_background(disk: dict[str, Any]) -> None:
    async with served(**disk) as (_, runtime):
        many = [document(f"d{n:04d}", f"Tea {n}: {CODE}") for n in range(620)]
        await put(runtime, *many)
        await runtime.documents.put("acme", [document("d1", CODE)])
        before = await words(runtime)
        await forget_all_words(runtime)
    async with served(document_threshold=1.0, **disk) as (_, runtime):
        asked = (await runtime.jobs.pending())["reindex_words"]["pending"]
        await put(runtime, document("d0007", "Changed meanwhile."))
        await runtime.documents.delete_ids("default", ["d0008"])
        while "reindex_words" in await runtime.jobs.pending():  # each job leaves the next one
            await do_what_is_due(runtime)
        after = await words(runtime)
        kept = [row for row in before if row[0] not in ("d0007", "d0008")]
        assert [row for row in after if row[0] != "d0007"] == kept
        assert {row[2] for row in after if row[0] == "d0007"} == {"chang", "meanwhil"}
        assert len(await words(runtime, "acme")) > 0
    assert asked == 2
    async with served(**disk) as (_, runtime):
        assert "reindex_words" not in await runtime.jobs.pending()


async def test_a_document_that_changes_while_its_words_are_counted_keeps_the_new_ones() -> None:
    async with served() as (_, runtime):
        await put(runtime, *[document(f"d{n}", CODE) for n in range(40)])
        await forget_all_words(runtime)
        filling = asyncio.create_task(runtime.documents.refill("default"))
        changes = [put(runtime, document(f"d{n}", f"Tea {n}.")) for n in range(40)]
        await asyncio.gather(filling, *changes)
        await assert_words_are_those_of_the_rows(runtime)


async def test_a_reindex_fills_the_words_anew(tmp_path: Path) -> None:
    disk = {"database_url": f"sqlite:///{tmp_path / 'service.db'}", "embedding_model": "mock:32"}
    async with served(**disk) as (_, runtime):
        await put(runtime, document("d1", CODE), document("d2", LONG))
        before = await words(runtime)
        scope = scope_of(KIND, "default")
        await forget_all_words(runtime)
        stray = store.Entry("gone", {0: "stray"})
        await runtime.database.write(lambda c: store.put(c, scope, [stray]))
    assert await _reindex(settings(**disk)) == 0
    async with served(**disk) as (_, runtime):
        assert await words(runtime) == before
        assert "reindex_words" not in await runtime.jobs.pending()


async def test_a_store_that_holds_nothing_asks_for_nothing() -> None:
    async with served() as (_, runtime):
        assert await runtime.jobs.pending() == {}
        none = sa.select(sa.func.count()).select_from(documents)
        assert await runtime.database.read(lambda c: c.execute(none).scalar()) == 0


DEEDS = st.tuples(
    st.sampled_from(["d1", "d2"]), st.sampled_from(["", "We sell tea.", CODE, LONG[3000:]])
)


@effort(max_examples=25, deadline=None)
@given(deeds=st.lists(DEEDS, min_size=2, max_size=8), chance=st.randoms(use_true_random=False))
async def test_whatever_happens_at_once_the_words_are_those_of_the_rows(
    deeds: list[tuple[str, str]], chance: random.Random
) -> None:
    async with served() as (_, runtime):
        await put_and_delete_at_once(runtime, deeds, chance)
        await assert_words_are_those_of_the_rows(runtime)
