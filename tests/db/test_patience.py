"""Callers of the database wait so long, and no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.db.patience import Patience
from app.errors import StorageUnavailable


def pending() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_what_is_answered_in_time_has_its_answer_and_its_failure() -> None:
    patience, good, bad = Patience(60), pending(), pending()
    good.set_result(7)
    bad.set_exception(ValueError("odd"))
    assert await patience.wait(good) == 7
    with pytest.raises(ValueError, match="odd"):
        await patience.wait(bad)


async def test_what_is_not_answered_in_time_is_given_up_whenever_it_began() -> None:
    patience = Patience(0.05)
    first = asyncio.create_task(patience.wait(pending()))
    await asyncio.sleep(0.02)
    second = asyncio.create_task(patience.wait(pending()))
    for one in (first, second):
        with pytest.raises(StorageUnavailable, match="did not answer in time"):
            await one
    with pytest.raises(StorageUnavailable):  # after a time when nobody waited
        await patience.wait(pending())


async def test_who_waits_behind_one_that_was_answered_is_given_up_all_the_same() -> None:
    patience, quick = Patience(0.05), pending()
    waits = [asyncio.create_task(patience.wait(one)) for one in (quick, pending())]
    await asyncio.sleep(0)
    quick.set_result(1)
    assert await waits[0] == 1
    with pytest.raises(StorageUnavailable):
        await waits[1]


async def test_who_left_is_not_given_up() -> None:
    patience, answer = Patience(0.05), pending()
    left = asyncio.create_task(patience.wait(answer))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    with pytest.raises(StorageUnavailable):  # the time of both is over then
        await patience.wait(pending())
    assert answer.cancelled()


def test_each_event_loop_has_its_own_time() -> None:
    patience = Patience(0.05)

    async def wait() -> None:
        with pytest.raises(StorageUnavailable):
            await patience.wait(pending())

    for _ in range(2):
        asyncio.run(wait())


def test_a_loop_that_ended_while_it_waited_holds_up_no_other() -> None:
    patience = Patience(0.05)

    async def begin() -> None:
        answer = pending()
        answer.set_result(1)
        await patience.wait(answer)

    async def wait() -> None:
        with pytest.raises(StorageUnavailable):
            await patience.wait(pending())

    asyncio.run(begin())
    asyncio.run(wait())
