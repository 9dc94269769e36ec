"""What can wait lets those go first who wait for an answer."""

from __future__ import annotations

import asyncio
import time

from app.quiet import Quiet
from tests.served import served

FOR_EVER = 3_600.0


def an_hour() -> float:
    return time.monotonic() + FOR_EVER


async def test_where_nobody_is_served_nobody_waits() -> None:
    await Quiet().wait(an_hour())


async def test_what_can_wait_begins_after_the_last_one_is_served() -> None:
    quiet = Quiet()
    with quiet.serving():
        with quiet.serving():
            waiting = asyncio.create_task(quiet.wait(an_hour()))
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert not waiting.done()
    await waiting


async def test_who_asks_again_at_once_is_let_go_first() -> None:
    quiet = Quiet()
    with quiet.serving():
        waiting = asyncio.create_task(quiet.wait(an_hour()))
        await asyncio.sleep(0)
    with quiet.serving():
        await asyncio.sleep(0.05)
        assert not waiting.done()
    await waiting


async def test_where_nobody_pauses_it_begins_when_patience_is_over() -> None:
    quiet = Quiet()
    with quiet.serving():
        await quiet.wait(time.monotonic() + 0.02)
        await quiet.wait(time.monotonic() - 1)


async def test_a_request_is_waited_for_and_a_probe_is_not() -> None:
    waited: dict[str, bool] = {}
    async with served() as (client, runtime):
        for path in ("/health/live", "/metrics", "/memories?user_id=ann&query=tea"):
            asking = asyncio.create_task(client.get(path))
            waited[path] = False
            while not asking.done():
                waited[path] |= runtime.quiet.is_anybody_served
                await asyncio.sleep(0)
            assert asking.result().status_code == 200
    assert list(waited.values()) == [False, False, True]
