"""Work that outlives a request."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from app.background import Background
from app.errors import StorageUnavailable
from tests.api.calls import read
from tests.served import served


async def fail() -> None:
    raise RuntimeError("in the middle")


async def test_a_late_failure_is_logged_with_its_name_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = Background()
    task = background.spawn("a letter to Ada", fail())
    fine = background.spawn("a letter to Bo", asyncio.sleep(0))
    await asyncio.wait([task, fine])
    await background.close()
    (record,) = caplog.records
    assert record.getMessage() == "background work failed: a letter to Ada"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "in the middle"
    assert background.late_failures == 1


async def test_late_work_is_not_lost_when_nobody_holds_it() -> None:
    background = Background()
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.append("done")

    background.spawn("work", work())
    gc.collect()
    await background.close()
    assert done == ["done"]


async def test_a_loop_goes_on_after_a_failing_pass_and_shows_it_until_one_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = Background()
    passes = 0
    again, failed = asyncio.Event(), asyncio.Event()

    async def one_pass() -> None:
        nonlocal passes
        passes += 1
        if passes == 1:
            failed.set()
            raise RuntimeError("not today")
        again.set()
        await asyncio.Event().wait()

    background.repeat("sweep", one_pass, every_seconds=0.01)
    await failed.wait()
    await asyncio.sleep(0)
    assert background.failures == {"sweep": "RuntimeError"}
    await asyncio.wait_for(again.wait(), 10)
    await background.close()
    assert [r.getMessage() for r in caplog.records] == ["a pass of sweep failed"]


async def test_a_part_that_is_away_costs_a_line_of_the_log_for_each_pass_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background, failed = Background(), asyncio.Event()

    async def one_pass() -> None:
        failed.set()
        raise StorageUnavailable("the disk is away")

    background.repeat("sweep", one_pass, every_seconds=60)
    await failed.wait()
    await background.close()
    (record,) = caplog.records
    assert record.getMessage() == "a pass of sweep failed: the disk is away"
    assert record.exc_info is None


async def test_a_pass_that_succeeds_again_takes_the_failure_back() -> None:
    background = Background()
    outcomes = iter([True, False])
    second = asyncio.Event()

    async def one_pass() -> None:
        if next(outcomes, None):
            await fail()
        if next(outcomes, None) is None:
            second.set()

    background.repeat("sweep", one_pass, every_seconds=0.0)
    await asyncio.wait_for(second.wait(), 10)
    await asyncio.sleep(0)
    assert background.failures == {}
    await background.close()


async def test_a_loop_without_a_pause_does_not_spin_while_it_fails() -> None:
    background = Background()
    passes = 0

    async def one_pass() -> None:
        nonlocal passes
        passes += 1
        await fail()

    background.repeat("worker", one_pass, every_seconds=0.0)
    await asyncio.sleep(0.2)
    await background.close()
    assert passes == 1


async def test_closing_waits_for_late_work_and_then_cancels_what_is_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    background = Background(shutdown_seconds=0.2)
    ended: list[str] = []

    async def work(name: str, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
            ended.append(f"{name} done")
        except asyncio.CancelledError:
            ended.append(f"{name} cancelled")
            raise

    async def one_pass() -> None:
        await work("loop", 60)

    background.repeat("loop", one_pass, every_seconds=0.0)
    background.spawn("short", work("short", 0.05))
    background.spawn("long", work("long", 60))
    await asyncio.sleep(0)
    await background.close()
    assert ended == ["loop cancelled", "short done", "long cancelled"]
    assert [record.getMessage() for record in caplog.records] == ["cancelled at shutdown: long"]
    assert background.late_failures == 0


async def test_a_failing_loop_shows_in_the_health_of_the_service() -> None:
    async with served() as (client, runtime):
        assert (await read(client, "/health/ready"))["status"] == "ok"
        runtime.background.repeat("broken", fail, every_seconds=60.0)
        await asyncio.sleep(0)
        ready = await read(client, "/health/ready")
    assert (ready["status"], ready["loops"]) == ("degraded", {"broken": "RuntimeError"})


async def test_what_is_stopped_begins_nothing_more_and_what_runs_ends_in_its_time() -> None:
    background = Background()
    passes: list[str] = []
    may_end = asyncio.Event()

    async def one_pass(name: str) -> None:
        passes.append(name)
        if name == "busy":
            await may_end.wait()
            passes.append("busy has ended")

    background.repeat("busy", lambda: one_pass("busy"), every_seconds=0.0)
    background.repeat("pausing", lambda: one_pass("pausing"), every_seconds=3600.0)
    await asyncio.sleep(0)
    background.stop()
    assert background.is_stopping
    draining = asyncio.create_task(background.drain(3600.0))
    await asyncio.sleep(0.01)
    assert not background.is_over
    may_end.set()
    await draining
    assert passes == ["busy", "pausing", "busy has ended"]
    assert background.is_over
    assert not background.is_busy
    await background.close()
