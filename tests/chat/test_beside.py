"""Work that goes on beside other work."""

from __future__ import annotations

import asyncio

import pytest

from app.chat.beside import beside


async def test_it_is_under_way_before_it_is_awaited() -> None:
    begun = asyncio.Event()

    async def work() -> str:
        begun.set()
        return "done"

    async with beside(work()) as result:
        await begun.wait()
        assert await result == "done"


async def test_what_nobody_awaited_ends_with_the_block() -> None:
    events: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            events.append("stopped")

    async def fails() -> None:
        async with beside(work()):
            await asyncio.sleep(0)
            raise KeyError

    with pytest.raises(KeyError):
        await fails()
    assert events == ["stopped"]


async def test_a_failure_is_told_to_whoever_awaits_it_and_to_nobody_else() -> None:
    async def work() -> None:
        raise ValueError("no")

    async with beside(work()) as result:
        with pytest.raises(ValueError, match="no"):
            await result
    async with beside(work()):
        await asyncio.sleep(0)
