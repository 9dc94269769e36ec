"""One look at a time, shared by all who ask meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from app.api.one_look import OneLook


class Looks:
    """Looks that end when they are told to, each with its number."""

    def __init__(self) -> None:
        self.begun = 0
        self.ends = asyncio.Semaphore(0)
        self.fails = False

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        await self.ends.acquire()
        if self.fails:
            self.fails = False
            raise ValueError("no")
        return number


async def test_who_asks_meanwhile_shares_the_next_look() -> None:
    looks = Looks()
    look = OneLook(looks)
    first = asyncio.ensure_future(look())
    await asyncio.sleep(0)
    others = [asyncio.ensure_future(look()) for _ in range(50)]
    await asyncio.sleep(0)
    assert looks.begun == 1
    looks.ends.release()
    looks.ends.release()
    assert await first == 1
    assert await asyncio.gather(*others) == [2] * 50
    looks.ends.release()
    assert await look() == 3


async def test_a_look_that_fails_fails_for_one_and_the_next_one_looks() -> None:
    looks = Looks()
    look = OneLook(looks)
    looks.fails = True
    asked = [asyncio.ensure_future(look()) for _ in range(3)]
    await asyncio.sleep(0)
    looks.ends.release()
    looks.ends.release()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(results[0], ValueError)
    assert results[1:] == [2, 2]


async def test_a_look_that_is_cancelled_is_left_to_the_next() -> None:
    looks = Looks()
    look = OneLook(looks)
    asked = [asyncio.ensure_future(look()) for _ in range(2)]
    await asyncio.sleep(0)
    asked[0].cancel()
    looks.ends.release()
    assert await asked[1] == 2
    with pytest.raises(asyncio.CancelledError):
        await asked[0]
