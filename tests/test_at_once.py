"""Several pieces of work at once, of which none outlives a failure."""

from __future__ import annotations

import asyncio

import pytest

from app.at_once import at_once
from app.errors import NotFound


async def told(text: str) -> str:
    await asyncio.sleep(0)
    return text


async def test_results_come_in_the_order_of_the_work() -> None:
    assert await at_once(told("one"), told("two")) == ("one", "two")
    assert await at_once(told("one"), told("two"), told("three")) == ("one", "two", "three")


async def test_a_failure_is_raised_as_it_is_once_the_others_have_ended() -> None:
    events: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append("ended")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise NotFound("no") from KeyError("why")

    with pytest.raises(NotFound, match="no") as failure:
        await at_once(endless(), fails())
    assert events == ["ended"]
    assert isinstance(failure.value.__cause__, KeyError)


async def test_who_is_cancelled_ends_all_of_it() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.ensure_future(at_once(endless(), told("one")))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
