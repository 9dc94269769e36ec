"""Loads as jobs: in order, taken up again, and never against a deletion."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app import jobs
from app.db.tables import uploads as kept
from app.errors import UpstreamError
from app.jobs import Job, LostClaim
from app.knowledge import uploads
from app.knowledge.documents import DELETED_AT_ONCE
from app.knowledge.pending import LOAD, subject_of
from app.knowledge.uploads import Upload
from app.wiring import Runtime
from tests.knowledge.calls import (
    LONG,
    assert_index_is_what_the_database_holds,
    do_what_is_due,
    document,
    finish_jobs,
    in_pinecone,
    put,
    texts,
    try_jobs,
)
from tests.served import served
from tests.wire.pinecone import Faults, PineconeServer


def csv(*names: str, notes: str = "") -> bytes:
    return b"id,company,note\n" + b"".join(
        f"{n},{name},{notes or 'x'}\n".encode() for n, name in enumerate(names)
    )


def upload(source: str = "s", **changed: Any) -> Upload:
    return Upload("table", source, ".csv", options={"with_summary": False}, **changed)


async def load(runtime: Runtime, folder: Path, content: bytes, wanted: Upload | None = None) -> Job:
    path = folder / "upload.csv"
    path.write_bytes(content)
    return await runtime.loads.put("default", path, wanted or upload())


async def later(runtime: Runtime, job: Job) -> Job:
    found = await runtime.jobs.get("default", job.id)
    assert found is not None
    return found


def trouble(job: Job) -> Any:
    return None if job.result is None else job.result.get("error")


async def companies(runtime: Runtime) -> set[str]:
    rows = await runtime.documents.list_documents("default", source=None, after=None, limit=500)
    return {str(row.metadata["company"]) for row in rows}


async def pieces(runtime: Runtime) -> int:
    count = sa.select(sa.func.count()).select_from(kept)
    return await runtime.database.read(lambda c: int(c.execute(count).scalar_one()))


async def reached(pinecone: PineconeServer, path: str = "/vectors/upsert") -> None:
    before = pinecone.paths().count(path)
    async with asyncio.timeout(10):
        while pinecone.paths().count(path) == before:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def stuck(pinecone: PineconeServer) -> AsyncIterator[None]:
    """An index that takes its time, until it is told to be quick."""
    pinecone.faults = Faults(latency_seconds=1.0)
    yield
    pinecone.faults = Faults()


async def test_a_source_that_is_deleted_takes_its_queued_loads_with_it(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    async with in_pinecone(pinecone) as runtime:
        pinecone.faults = Faults(status=500)
        first = await load(runtime, tmp_path, csv("Acme"))
        second = await load(runtime, tmp_path, csv("Bolt"))
        other = await load(runtime, tmp_path, csv("Cafe"), upload("other"))
        pinecone.faults = Faults()
        assert await runtime.documents.delete_source("default", "s") == 1
        await finish_jobs(runtime)
        for job in (first, second):
            assert trouble(await later(runtime, job))["code"] == "cancelled"
        assert trouble(await later(runtime, other)) is None
        assert await companies(runtime) == {"Cafe"}
        assert await pieces(runtime) == 0
        await assert_index_is_what_the_database_holds(runtime)


async def test_a_source_that_is_deleted_while_it_is_loaded_stays_away(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    names = [f"Company {n}" for n in range(450)]
    async with in_pinecone(pinecone, upload_inline_rows=0) as runtime:
        async with stuck(pinecone):
            job = await load(runtime, tmp_path, csv(*names))
            await reached(pinecone)
            deleted = await runtime.documents.delete_source("default", "s")
        assert deleted > 0
        await finish_jobs(runtime)
        assert trouble(await later(runtime, job))["code"] == "cancelled"
        assert await companies(runtime) == set()
        assert await texts(runtime) == {}
        assert await pieces(runtime) == 0


async def test_a_document_that_is_deleted_is_not_brought_back_by_a_load_that_was_queued(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    async with in_pinecone(pinecone) as runtime:
        await load(runtime, tmp_path, csv("Acme", "Bolt", "Cafe"))
        pinecone.faults = Faults(status=500)
        queued = await load(runtime, tmp_path, csv("Acme", "Bolt", "Cafe", notes="new"))
        rows = await runtime.documents.list_documents("default", source="s", after=None, limit=9)
        bolt = next(row.id for row in rows if row.metadata["company"] == "Bolt")
        with pytest.raises(UpstreamError):
            await runtime.documents.delete_ids("default", [bolt])
        pinecone.faults = Faults()
        await finish_jobs(runtime)
        assert (await later(runtime, queued)).state == "done"
        assert await companies(runtime) == {"Acme", "Cafe"}
        await assert_index_is_what_the_database_holds(runtime)
        await load(runtime, tmp_path, csv("Acme", "Bolt", "Cafe"))  # one that came afterwards
        assert await companies(runtime) == {"Acme", "Bolt", "Cafe"}


async def test_loads_of_one_source_are_done_in_the_order_in_which_they_came(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    async with in_pinecone(pinecone) as runtime:
        pinecone.faults = Faults(status=500)
        first = await load(runtime, tmp_path, csv("Acme", "Bolt"))  # and to be tried again
        pinecone.faults = Faults()
        second = await load(runtime, tmp_path, csv("Acme", "Cafe"), upload(mode="replace"))
        other = await load(runtime, tmp_path, csv("Door"), upload("other"))
        assert (second.state, second.attempts, second.waits_for) == ("due", 0, first.id)
        assert (first.waits_for, other.state, other.waits_for) == (None, "done", None)
        await finish_jobs(runtime)
        second = await later(runtime, second)
        assert (second.state, second.waits_for) == ("done", None)
        assert await companies(runtime) == {"Acme", "Cafe", "Door"}
        await assert_index_is_what_the_database_holds(runtime)


async def test_a_load_that_takes_long_keeps_no_other_job_waiting(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    names = [f"Company {n}" for n in range(150)]
    async with in_pinecone(pinecone, upload_inline_rows=0, job_workers=1) as runtime:
        async with stuck(pinecone):
            jobs_of = [await load(runtime, tmp_path, csv(*names), upload(f"s{n}")) for n in (1, 2)]
            await reached(pinecone)
            pinecone.faults = Faults()
            await put(runtime, document("d1", "We sell tea.", company="Ours"))
            pinecone.faults = Faults(latency_seconds=1.0)
            states = [(await later(runtime, job)).state for job in jobs_of]
        assert states == ["running", "due"]
        await finish_jobs(runtime)
        assert len(await companies(runtime)) == 151


async def test_a_load_that_broke_off_is_run_again_and_embeds_only_what_was_missing(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    names = [f"Company {n}" for n in range(350)]
    async with in_pinecone(pinecone, upload_inline_rows=0) as runtime:
        pinecone.faults = Faults(latency_seconds=0.3)
        job = await load(runtime, tmp_path, csv(*names))
        await reached(pinecone)
        pinecone.faults = Faults(status=500)
        async with asyncio.timeout(20):
            while (await later(runtime, job)).last_error is None:
                await asyncio.sleep(0.01)
        pinecone.faults = Faults()
        half = await texts(runtime)
        assert 0 < len(half) < 350
        seen = len(pinecone.calls)
        await finish_jobs(runtime)
        sent = [
            vector["id"]
            for call in pinecone.calls[seen:]
            if call.path == "/vectors/upsert"
            for vector in call.body["vectors"]
        ]
        done = await later(runtime, job)
        assert (done.state, done.attempts) == ("done", 2)
        assert done.result is not None
        assert done.result["report"]["documents"] == 350
        assert set(sent).isdisjoint(half)
        assert len(await companies(runtime)) == 350
        await assert_index_is_what_the_database_holds(runtime)


async def queue_as_it_is(runtime: Runtime, path: Path, payload: Mapping[str, Any]) -> Job:
    """Queue a load without looking at its file, as if another version of this code had."""
    now = runtime.clock()
    await uploads.keep(runtime.database, "default", "key", path, now)
    await runtime.database.write(
        lambda c: jobs.put(c, "default", LOAD, "key", payload, subject=subject_of("s"), now=now)
    )
    job = await runtime.jobs.find("default", LOAD, "key")
    assert job is not None
    return job


async def test_a_file_that_turns_out_bad_ends_its_job_with_the_reason(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_bytes(csv(*"abc") + b'4,"never closed\n')
    async with served() as (_, runtime):
        job = await queue_as_it_is(runtime, bad, upload().payload())
        await do_what_is_due(runtime)
        ended = await later(runtime, job)
        assert (ended.state, ended.attempts) == ("done", 1)
        assert trouble(ended)["code"] == "unreadable_table"
        assert "never closed" in trouble(ended)["message"]
        assert await pieces(runtime) == 0


async def test_a_load_that_fails_for_an_unforeseen_reason_is_given_up_in_the_end(
    tmp_path: Path,
) -> None:
    good = tmp_path / "good.csv"
    good.write_bytes(csv("Acme"))
    payload = {**upload().payload(), "options": {"of_another_version": True}}
    async with served() as (_, runtime):
        job = await queue_as_it_is(runtime, good, payload)
        for _ in range(5):
            await try_jobs(runtime)
        ended = await later(runtime, job)
        assert (ended.state, ended.attempts) == ("done", 5)
        assert trouble(ended)["code"] == "internal_error"
        assert await pieces(runtime) == 0


async def test_files_that_no_job_waits_for_are_dropped_after_a_day(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    path = tmp_path / "left.csv"
    path.write_bytes(csv("Acme"))
    async with in_pinecone(pinecone) as runtime:
        pinecone.faults = Faults(status=500)
        await load(runtime, tmp_path, csv("Bolt"))
        now = runtime.clock()
        await uploads.keep(runtime.database, "default", "left over", path, now)
        assert await runtime.loads.purge(now + timedelta(hours=1)) == 0
        assert await runtime.loads.purge(now + timedelta(hours=25)) == 1
        pinecone.faults = Faults()
        await finish_jobs(runtime)
        assert await companies(runtime) == {"Bolt"}


async def test_a_claim_that_is_lost_stores_and_removes_nothing(tmp_path: Path) -> None:
    async with served() as (_, runtime):
        await put(runtime, document("kept", "We sell tea.", source="s"))
        path = tmp_path / "some.csv"
        path.write_bytes(csv("Acme"))
        await queue_as_it_is(runtime, path, upload().payload())
        claim = await runtime.jobs.claim_key("default", LOAD, "key")
        assert claim is not None
        await runtime.documents.put("default", [document("d1", "Mine.")], held=claim)
        await runtime.jobs.finish(claim, lambda _: None)
        with pytest.raises(LostClaim):
            await runtime.documents.put("default", [document("d2", "Late.")], held=claim)
        with pytest.raises(LostClaim):
            await runtime.documents.delete_ids("default", ["kept"], held=claim)
        assert set(await texts(runtime)) == {"d1", "kept"}


async def test_a_document_that_shrank_in_vain_goes_with_every_chunk(
    pinecone: PineconeServer,
) -> None:
    async with in_pinecone(pinecone) as runtime:
        await put(runtime, document("d1", LONG))
        pinecone.faults = Faults(status=500)
        with pytest.raises(UpstreamError):
            await put(runtime, document("d1", "We sell tea."))
        with pytest.raises(UpstreamError):
            await runtime.documents.delete_ids("default", ["d1", "unknown"])
        pinecone.faults = Faults()
        assert len(await texts(runtime)) > 5
        await finish_jobs(runtime)  # the job of the put is the older one
        assert await texts(runtime) == {}


async def test_many_documents_are_deleted_at_once_and_told_of_first() -> None:
    async with served() as (_, runtime):
        batch = [document(f"d{n}", f"Text {n}.", source=f"s{n % 2}") for n in range(1_200)]
        await put(runtime, *batch)
        ids = [f"d{n}" for n in range(1_100)]
        assert await runtime.documents.delete_ids("default", [*ids, "unknown"]) == 1_100
        assert len(await texts(runtime)) == 100
        assert await runtime.documents.delete_source("default", "s1") == 50
        await assert_index_is_what_the_database_holds(runtime)


async def test_a_large_source_is_deleted_whole_also_if_the_index_fails(
    pinecone: PineconeServer, tmp_path: Path
) -> None:
    names = [f"Company {n}" for n in range(DELETED_AT_ONCE + 200)]
    async with in_pinecone(pinecone, upload_inline_rows=len(names)) as runtime:
        await load(runtime, tmp_path, csv(*names))
        await load(runtime, tmp_path, csv("Ours"), upload("other"))
        pinecone.faults = Faults(status=500)
        with pytest.raises(UpstreamError):
            await runtime.documents.delete_source("default", "s")
        assert await companies(runtime) == {"Ours"}
        pinecone.faults = Faults()
        await finish_jobs(runtime)
        await assert_index_is_what_the_database_holds(runtime)
        assert await runtime.documents.delete_source("default", "s") == 0


async def test_a_load_that_comes_while_its_source_is_deleted_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    """However they meet: either the whole file is there in the end, or nothing of it."""
    names = [f"Company {n}" for n in range(300)]
    async with served() as (_, runtime):
        await put(runtime, *(document(f"d{n}", "A.", source="s") for n in range(2_500)))
        deleting = asyncio.create_task(runtime.documents.delete_source("default", "s"))
        job = await load(runtime, tmp_path, csv(*names))
        await deleting
        await finish_jobs(runtime)
        job = await later(runtime, job)
        ids = await runtime.documents.ids("default", source="s", after=None, limit=500)
        assert len(ids) in ((0,) if trouble(job) else (0, len(names)))
        assert await pieces(runtime) == 0
        await assert_index_is_what_the_database_holds(runtime)


async def test_loads_and_deletions_at_once_on_postgres(postgres_state: str, tmp_path: Path) -> None:
    chance = random.Random(20_261_130)
    chosen: dict[str, Any] = {"database_url": postgres_state, "upload_inline_rows": 0}
    names = [f"Company {n}" for n in range(150)]
    async with served(**chosen) as (_, one), served(**chosen) as (_, other):

        async def change(runtime: Runtime, number: int) -> None:
            folder = tmp_path / str(number)
            folder.mkdir()
            source = f"s{number % 3}"
            for _ in range(3):
                await load(
                    runtime, folder, csv(*names, notes=f"n{chance.random()}"), upload(source)
                )
                await asyncio.sleep(chance.uniform(0, 0.3))
                ids = await runtime.documents.ids("default", source=source, after=None, limit=20)
                await runtime.documents.delete_ids("default", ids)
                if chance.random() < 0.3:
                    await runtime.documents.delete_source("default", source)

        await asyncio.gather(*(change(one if n % 2 else other, n) for n in range(6)))
        await finish_jobs(one)
        rows = await one.documents.list_documents("default", source=None, after=None, limit=500)
        assert await texts(one) == {row.id: row.text for row in rows}
        assert all(row.is_current for row in rows)
        assert await pieces(one) == 0
