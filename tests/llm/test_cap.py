"""Who may call a model, who waits, and who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.errors import ModelOverloaded
from app.llm.cap import Cap


class Callers:
    """Calls that hold their place until they are told to end; `entered` is their order."""

    def __init__(self, cap: Cap) -> None:
        self._cap = cap
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.entered: list[str] = []

    async def call(self, name: str, *, is_awaited: bool = True, patience: float = 60) -> None:
        """Begin a call, and return once it runs, waits or was refused."""
        self._ends[name] = asyncio.Event()
        work = self._work(name, is_awaited, patience)
        self._tasks[name] = asyncio.create_task(work)
        await settled()

    async def _work(self, name: str, is_awaited: bool, patience: float) -> None:
        deadline = asyncio.get_running_loop().time() + patience
        async with self._cap.place(deadline, is_awaited=is_awaited):
            self.entered.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self._tasks[name]
        await settled()

    async def leave(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)
        await settled()

    async def refusal(self, name: str) -> ModelOverloaded:
        with pytest.raises(ModelOverloaded) as refused:
            await self._tasks[name]
        return refused.value


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def calling(at_once: int, queued: int) -> AsyncIterator[tuple[Cap, Callers]]:
    cap = Cap(at_once=at_once, queued=queued)
    callers = Callers(cap)
    yield cap, callers
    for name, task in callers._tasks.items():
        if not task.done():
            await callers.end(name)
    assert (cap.running, cap.waiting) == (0, 0)


async def test_calls_wait_in_their_order_and_beyond_the_queue_they_are_refused() -> None:
    async with calling(at_once=2, queued=2) as (cap, callers):
        for name in "abcde":
            await callers.call(name)
        assert (callers.entered, cap.running, cap.waiting) == (["a", "b"], 2, 2)
        refusal = await callers.refusal("e")
        assert (refusal.status, refusal.code, refusal.retry_after) == (503, "model_overloaded", 5.0)
        await callers.end("b", "a")
        assert callers.entered == ["a", "b", "c", "d"]


async def test_who_leaves_makes_room_in_the_queue_and_is_never_called() -> None:
    async with calling(at_once=1, queued=2) as (cap, callers):
        for name in "abc":
            await callers.call(name)
        await callers.leave("b")
        assert cap.waiting == 1
        await callers.call("d")
        await callers.end("a", "c")
        assert callers.entered == ["a", "c", "d"]


async def test_a_call_that_is_stopped_as_it_is_called_hands_its_place_on() -> None:
    async with calling(at_once=1, queued=2) as (_, callers):
        for name in "abc":
            await callers.call(name)
        callers._ends["a"].set()
        while callers._tasks["a"].done() is False:
            await asyncio.sleep(0)
        callers._tasks["b"].cancel()  # "a" has just left it its place
        await settled()
        assert "c" in callers.entered


async def test_the_wait_for_a_place_ends_with_the_call_s_deadline() -> None:
    async with calling(at_once=1, queued=2) as (cap, callers):
        await callers.call("a")
        await callers.call("b", patience=0.01)
        assert (await callers.refusal("b")).code == "model_overloaded"
        assert cap.waiting == 0


async def test_people_go_before_background_calls_that_came_earlier() -> None:
    async with calling(at_once=1, queued=9) as (_, callers):
        await callers.call("a")
        await callers.call("summary", is_awaited=False)
        await callers.call("b")
        await callers.end("a", "b")
        assert callers.entered == ["a", "b", "summary"]


async def test_background_calls_leave_half_of_the_places_free() -> None:
    async with calling(at_once=4, queued=9) as (cap, callers):
        for name in ("s1", "s2", "s3"):
            await callers.call(name, is_awaited=False)
        assert (callers.entered, cap.running) == (["s1", "s2"], 2)
        await callers.call("a")
        await callers.call("b")
        assert callers.entered == ["s1", "s2", "a", "b"]
        await callers.end("a")  # its place is not the background's
        assert cap.running == 3
        await callers.end("s1")
        assert callers.entered[-1] == "s3"


async def test_questions_are_admitted_while_their_calls_can_run_or_wait() -> None:
    cap = Cap(at_once=2, queued=2)
    cap.admit("ada")
    cap.admit("ada")
    with pytest.raises(ModelOverloaded):  # half of the places is for the others
        cap.admit("ada")
    cap.admit("bob")
    cap.admit("eve")
    with pytest.raises(ModelOverloaded):
        cap.admit("bob")
    cap.leave("ada")
    cap.admit("bob")
