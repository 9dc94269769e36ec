"""Durable work, on every database."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from app import jobs as room
from app.claims import end_held
from app.db import Connection, Database
from app.db.tables import about_store
from app.errors import UpstreamBusy
from app.jobs import Claim, Defer, Jobs, LostClaim, Postpone
from app.quiet import Quiet
from app.worker import Worker
from tests.seams.stores import database

__all__ = ["database"]

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def queue(database: Database) -> Jobs:
    return Jobs(database, lease_seconds=30)


async def put(database: Database, key: str = "k", kind: str = "work", **changed: Any) -> bool:
    fields: dict[str, Any] = {"subject": "thing", "now": NOON, **changed}
    return await database.write(lambda c: room.put(c, "default", kind, key, {"key": key}, **fields))


def note(connection: Connection, name: str) -> None:
    connection.execute(about_store.insert().values(name=name, value=1))


async def noted(database: Database) -> list[str]:
    names = sa.select(about_store.c.name).order_by(about_store.c.name)
    return list(await database.read(lambda c: c.execute(names).scalars().all()))


async def test_a_job_is_put_once_by_kind_and_key(database: Database, queue: Jobs) -> None:
    assert await put(database)
    assert not await put(database)
    assert await queue.claim(["work"]) is not None
    assert await queue.claim(["work"]) is None
    assert not await put(database)


async def test_a_job_that_is_deferred_waits_without_having_failed(
    database: Database, queue: Jobs
) -> None:
    await put(database, "low")

    async def wait(claim: Claim) -> None:
        raise Defer("not before midnight", 1800)

    worker = Worker(queue, {"work": wait}, lease_seconds=30)
    assert isinstance(await worker.run_now("default", "work", "low"), Defer)
    told = "deferred: not before midnight"
    waits = {"pending": 1, "failed": 0, "deferred": 1, "last_error": told}
    assert await queue.pending() == {"work": waits}
    assert await queue.claim(["work"]) is None
    again = await queue.claim_key("default", "work", "low")
    assert again is not None
    assert again.attempts == 1  # it was no try
    await queue.fail(again, "Zeus struck", after_seconds=1800)
    await put(database, "lower")
    await worker.run_now("default", "work", "lower")
    both = {"pending": 2, "failed": 1, "deferred": 1, "last_error": "Zeus struck"}
    assert await queue.pending() == {"work": both}


async def test_workers_share_the_jobs_and_none_is_done_twice(
    database: Database, queue: Jobs
) -> None:
    for n in range(20):
        await put(database, f"k{n:02}")
    done: list[str] = []

    async def worker() -> None:
        while (claim := await queue.claim(["work"])) is not None:
            await queue.finish(claim, lambda _: None)
            done.append(claim.key)

    await asyncio.gather(*(worker() for _ in range(4)))
    assert sorted(done) == [f"k{n:02}" for n in range(20)]


async def test_a_lease_that_ran_out_is_taken_over_and_the_first_commits_nothing(
    database: Database, queue: Jobs
) -> None:
    await put(database)
    first = await Jobs(database, lease_seconds=0.05).claim(["work"])
    assert first is not None
    await asyncio.sleep(0.1)
    second = await queue.claim(["work"])
    assert second is not None
    assert (second.id, second.fence, second.attempts) == (first.id, first.fence + 1, 2)
    for late in (
        queue.finish(first, lambda c: note(c, "stale")),
        queue.commit(first, lambda c: note(c, "stale")),
        queue.extend(first),
    ):
        with pytest.raises(LostClaim):
            await late
    await queue.fail(first, "stale")
    await queue.finish(second, lambda c: note(c, "fresh"))
    assert await noted(database) == ["fresh"]


async def test_a_result_that_fails_leaves_the_job_undone(database: Database, queue: Jobs) -> None:
    await put(database)
    claim = await queue.claim(["work"])
    assert claim is not None

    def half(connection: Connection) -> None:
        note(connection, "half")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        await queue.finish(claim, half)
    assert await noted(database) == []
    assert await queue.state("default", "work", "k") == ("running", None)


async def test_a_failed_job_waits_and_shows_its_reason(database: Database, queue: Jobs) -> None:
    await put(database)
    claim = await queue.claim(["work"])
    assert claim is not None
    await queue.fail(claim, "the model is busy")
    assert await queue.claim(["work"]) is None  # not due yet
    assert await queue.pending() == {
        "work": {"pending": 1, "failed": 1, "deferred": 0, "last_error": "the model is busy"}
    }
    again = await queue.claim_key("default", "work", "k")  # whoever needs it now may
    assert again is not None
    await queue.finish(again, lambda _: None)
    assert await queue.pending() == {}


async def test_a_delayed_job_is_left_to_its_caller(database: Database, queue: Jobs) -> None:
    await put(database, delay_seconds=60)
    assert await queue.claim(["work"]) is None
    assert await queue.claim_key("default", "work", "k") is not None


async def test_a_second_look_is_told_apart_until_its_time_has_come(
    database: Database, queue: Jobs
) -> None:
    await put(database, "k:late", delay_seconds=room.LATE_SECONDS)
    await put(database, "later", delay_seconds=room.LATE_SECONDS)
    one = {"pending": 1, "failed": 0, "deferred": 0, "last_error": None}
    assert (await queue.pending(), await queue.late()) == ({"work": one}, {"work": 1})
    claim = await queue.claim_key("default", "work", "k:late")
    assert claim is not None
    assert (await queue.pending(), await queue.late()) == ({"work": {**one, "pending": 2}}, {})
    await queue.fail(claim, "the index is away")  # it is due later again, and is no secret
    failed = {"pending": 2, "failed": 1, "deferred": 0, "last_error": "the index is away"}
    assert (await queue.pending(), await queue.late()) == ({"work": failed}, {})


async def test_a_job_ends_in_its_result_s_transaction_or_not_at_all(
    database: Database, queue: Jobs
) -> None:
    await put(database)
    first = await Jobs(database, lease_seconds=0.05).claim(["work"])
    await asyncio.sleep(0.1)
    second = await queue.claim(["work"])
    assert first is not None
    assert second is not None

    tries: list[int] = []

    def end(claim: Claim, connection: Connection) -> None:
        note(connection, f"fence {claim.fence} at {len(tries)}")
        tries.append(claim.fence)
        end_held(connection, claim)

    with pytest.raises(LostClaim):
        await database.write(partial(end, first))
    await database.write(partial(end, second))
    with pytest.raises(LostClaim):
        await database.write(partial(end, second))
    assert (tries, await noted(database)) == ([1, 2, 2], ["fence 2 at 1"])
    assert await queue.state("default", "work", "k") == ("done", None)


async def test_a_cancelled_job_can_not_be_finished(database: Database, queue: Jobs) -> None:
    await put(database)
    claim = await queue.claim(["work"])
    assert claim is not None
    assert await database.write(lambda c: room.cancel(c, "default", "thing")) == 1
    with pytest.raises(LostClaim):
        await queue.finish(claim, lambda _: None)
    assert await put(database)  # and its key is free again


async def test_jobs_that_are_done_are_forgotten_after_a_while(
    database: Database, queue: Jobs
) -> None:
    await put(database)
    await put(database, "waiting")
    claim = await queue.claim_key("default", "work", "k")
    assert claim is not None
    await queue.finish(claim, lambda _: None)
    assert await queue.purge_done(older_than_seconds=60) == 0
    assert await queue.purge_done(older_than_seconds=-1) == 1
    assert await queue.state("default", "work", "waiting") is not None


class Handler:
    """A handler that a test scripts."""

    def __init__(self, queue: Jobs, *failures: Exception) -> None:
        self.queue = queue
        self.failures = list(failures)
        self.seen: list[str] = []

    async def __call__(self, claim: Claim) -> None:
        self.seen.append(claim.key)
        if self.failures:
            raise self.failures.pop(0)
        await self.queue.finish(claim, lambda _: None)


def worker(queue: Jobs, handler: Any) -> Worker:
    return Worker(queue, {"work": handler}, lease_seconds=30)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Postpone("not yet"), "not yet"),
        (UpstreamBusy("model", "too many requests", retry_after=9), "too many requests"),
        (RuntimeError("secret detail"), "RuntimeError"),
    ],
)
async def test_a_worker_puts_back_what_failed_with_a_reason(
    database: Database, queue: Jobs, failure: Exception, reason: str
) -> None:
    await put(database)
    handler = Handler(queue, failure)
    assert await worker(queue, handler).drain() == 1
    assert await queue.state("default", "work", "k") == ("due", reason)
    assert await worker(queue, handler).run_now("default", "work", "k") is None
    assert await queue.state("default", "work", "k") == ("done", None)


async def test_a_worker_begins_nothing_while_somebody_is_served(
    database: Database, queue: Jobs
) -> None:
    await put(database)
    handler, quiet = Handler(queue), Quiet()
    with quiet.serving():
        idle = Worker(queue, {"work": handler}, lease_seconds=30, quiet=quiet)
        draining = asyncio.create_task(idle.drain(patience_seconds=3_600))
        await asyncio.sleep(0.05)
        assert await queue.state("default", "work", "k") == ("due", None)
    assert await draining == 1


async def test_a_worker_that_is_stopped_while_it_waits_begins_nothing(
    database: Database, queue: Jobs
) -> None:
    await put(database)
    handler, quiet = Handler(queue), Quiet()
    with quiet.serving():
        stopped = Worker(queue, {"work": handler}, lease_seconds=30, quiet=quiet)
        draining = asyncio.create_task(stopped.drain(patience_seconds=3_600))
        await asyncio.sleep(0)
        stopped.stop()
    assert await draining == 0
    assert await queue.state("default", "work", "k") == ("due", None)


async def test_a_worker_does_all_that_is_due(database: Database, queue: Jobs) -> None:
    for n in range(3):
        await put(database, f"k{n}")
    handler = Handler(queue)
    assert await worker(queue, handler).drain() == 3
    assert handler.seen == ["k0", "k1", "k2"]


async def test_running_a_named_job_waits_for_whoever_is_at_it(
    database: Database, queue: Jobs
) -> None:
    await put(database)
    release = asyncio.Event()

    async def slow(claim: Claim) -> None:
        await release.wait()
        await queue.finish(claim, lambda _: None)

    both = worker(queue, slow)
    first = asyncio.create_task(both.drain())
    await asyncio.sleep(0.05)
    second = asyncio.create_task(both.run_now("default", "work", "k"))
    await asyncio.sleep(0.05)
    assert not second.done()
    release.set()
    assert await first == 1
    assert await second is None
    assert isinstance(await both.run_now("default", "work", "unknown"), LostClaim)


async def test_a_long_job_keeps_its_lease(database: Database) -> None:
    short = Jobs(database, lease_seconds=0.3)
    await put(database)

    async def slow(claim: Claim) -> None:
        await asyncio.sleep(0.8)
        await short.finish(claim, lambda c: note(c, "done"))

    running = asyncio.create_task(Worker(short, {"work": slow}, lease_seconds=0.3).drain())
    await asyncio.sleep(0.5)
    assert await short.claim(["work"]) is None
    assert await running == 1
    assert await noted(database) == ["done"]


async def test_a_worker_that_is_stopped_gives_its_job_back(database: Database, queue: Jobs) -> None:
    await put(database)

    async def endless(_: Claim) -> None:
        await asyncio.sleep(3600)

    running = asyncio.create_task(worker(queue, endless).drain())
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await queue.state("default", "work", "k") == ("due", "deferred: the service was stopped")
    again = await queue.claim(["work"])  # by anybody, at once
    assert again is not None
    assert (again.attempts, again.is_taken_over) == (1, False)


async def test_a_job_that_is_cancelled_in_mid_work_is_stopped(database: Database) -> None:
    short = Jobs(database, lease_seconds=0.15)
    await put(database)
    stopped = asyncio.Event()

    async def endless(_: Claim) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()

    running = asyncio.create_task(Worker(short, {"work": endless}, lease_seconds=0.15).drain())
    await asyncio.sleep(0.05)
    await database.write(lambda c: room.cancel(c, "default", "thing"))
    assert await running == 1
    assert stopped.is_set()


async def test_a_woken_worker_does_not_wait_for_its_poll(database: Database, queue: Jobs) -> None:
    handler = Handler(queue)
    awake = worker(queue, handler)
    waiting = asyncio.create_task(awake.work(poll_seconds=3600))
    await asyncio.sleep(0.05)
    await put(database)
    awake.wake()
    await waiting
    await awake.work(poll_seconds=0.01)
    assert handler.seen == ["k"]


async def test_jobs_of_one_subject_are_done_in_order_where_that_was_asked_for(
    database: Database,
) -> None:
    orderly = Jobs(database, lease_seconds=30, in_order=["work"])
    await put(database, "k1")
    await put(database, "k2")
    await put(database, "k3", subject="another")
    await put(database, "k4", kind="other")
    first = await orderly.claim(["work"])
    assert first is not None
    assert first.key == "k1"
    assert await orderly.claim_key("default", "work", "k2") is None
    others = [await orderly.claim(["work"]), await orderly.claim(["other"])]
    assert [claim.key for claim in others if claim is not None] == ["k3", "k4"]
    assert await orderly.claim(["work"]) is None
    await orderly.fail(first, "not now")  # it keeps its turn
    assert await orderly.claim(["work"]) is None
    again = await orderly.claim_key("default", "work", "k1")
    assert again is not None
    await orderly.finish(again, lambda _: None)
    second = await orderly.claim(["work"])
    assert second is not None
    assert second.key == "k2"


async def test_a_job_shows_what_it_has_come_to(database: Database, queue: Jobs) -> None:
    await put(database)
    claim = await queue.claim(["work"])
    assert claim is not None
    await queue.commit(claim, lambda c: room.note(c, claim, {"rows": 1}))
    running = await queue.find("default", "work", "k")
    assert running is not None
    assert (running.state, running.attempts, running.result) == ("running", 1, {"rows": 1})
    await queue.finish(claim, lambda c: room.note(c, claim, {"rows": 2}))
    done = await queue.get("default", running.id)
    assert done is not None
    assert (done.state, done.result, done.last_error) == ("done", {"rows": 2}, None)
    assert done.finished_at is not None
    assert await queue.get("another", running.id) is None
    assert await queue.list_jobs("default", kind="work", before=None, limit=9) == [done]
    assert await queue.list_jobs("default", kind="work", before=done.id, limit=9) == []


async def test_a_job_that_is_declared_done_is_lost_to_whoever_is_at_it(
    database: Database, queue: Jobs
) -> None:
    await put(database, "running")
    claim = await queue.claim(["work"])
    assert claim is not None
    await put(database, "waiting")
    waiting = await database.write(lambda c: room.undone(c, "default", "work", ["thing"]))
    assert [job.key for job in waiting] == ["running", "waiting"]
    for job in waiting:
        await database.write(lambda c, id=job.id: room.end(c, id, {"error": "cancelled"}))  # type: ignore[misc]
    with pytest.raises(LostClaim):
        await queue.commit(claim, lambda c: note(c, "late"))
    assert await queue.claim(["work"]) is None
    ended = await queue.find("default", "work", "waiting")
    assert ended is not None
    assert (ended.state, ended.result) == ("done", {"error": "cancelled"})
    assert await database.write(lambda c: room.undone(c, "default", "work", ["thing"])) == []
    assert await noted(database) == []


async def test_a_job_that_is_told_something_while_it_runs_learns_of_it(
    database: Database, queue: Jobs
) -> None:
    await put(database)
    claim = await queue.claim(["work"])
    assert claim is not None
    await database.write(lambda c: room.tell(c, claim.id, {**claim.payload, "news": 1}))
    assert await queue.commit(claim, lambda c: room.hold(c, claim)) == {"key": "k", "news": 1}
