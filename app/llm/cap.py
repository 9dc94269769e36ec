"""How many calls of the models run at once in this process, and who waits. Touches nothing."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from app.errors import ModelOverloaded

RETRY_SECONDS = 5.0


class Cap:
    """Lets `at_once` calls run and `queued` more wait; what is beyond is refused.

    Calls that a person waits for go first, and background ones take at most half of the places, so
    that a rush of summaries leaves room for questions. told: how many run and wait, at each change.
    refused: at each refusal.
    """

    def __init__(
        self,
        *,
        at_once: int,
        queued: int,
        told: Callable[[int, int], None] = lambda running, waiting: None,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._at_once = at_once
        self._queued = queued
        self._told = told
        self._refused = refused
        self._in_background = max(1, at_once // 2)
        self._running = {True: 0, False: 0}  # by whether a person waits for it
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {True: deque(), False: deque()}
        self._questions: Counter[Hashable] = Counter()

    @property
    def running(self) -> int:
        return sum(self._running.values())

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def admit(self, whose: Hashable) -> None:
        """Count a question that will call a model; `leave` once it has ended.

        whose: one user has half of the places at most, so that the others find some.
        Raises `ModelOverloaded` where as many are under way as can run and wait, so that the
        question need not be stored to be refused.
        """
        most = self._at_once + self._queued
        if self._questions.total() >= most or self._questions[whose] >= max(1, most // 2):
            raise self._overloaded()
        self._questions[whose] += 1

    def leave(self, whose: Hashable) -> None:
        self._questions[whose] -= 1
        if not self._questions[whose]:
            del self._questions[whose]

    @asynccontextmanager
    async def place(self, deadline: float, *, is_awaited: bool = True) -> AsyncIterator[None]:
        """Hold a place while a call runs, to the end of its stream.

        deadline: on the loop's clock, for the wait. is_awaited: a person waits for the answer.
        Raises `ModelOverloaded` where the queue is full, or no place came free in time.
        """
        await self._enter(deadline, is_awaited)
        try:
            yield
        finally:
            self._running[is_awaited] -= 1
            self._let_in()

    async def _enter(self, deadline: float, is_awaited: bool) -> None:
        if not self._waiting[is_awaited] and self._has_room(is_awaited):
            self._running[is_awaited] += 1
            self._told(self.running, self.waiting)
            return
        if self.waiting >= self._queued:
            raise self._overloaded()
        called = asyncio.get_running_loop().create_future()
        self._waiting[is_awaited].append(called)
        self._told(self.running, self.waiting)
        try:
            async with asyncio.timeout_at(deadline):
                await called
        except BaseException as error:
            if called.done() and not called.cancelled():  # its place came at the same moment
                self._running[is_awaited] -= 1
            else:
                self._waiting[is_awaited].remove(called)
            self._let_in()
            if isinstance(error, TimeoutError):
                raise self._overloaded() from error
            raise

    def _has_room(self, is_awaited: bool) -> bool:
        if self.running >= self._at_once:
            return False
        return is_awaited or (
            not self._waiting[True] and self._running[False] < self._in_background
        )

    def _let_in(self) -> None:
        for is_awaited in (True, False):
            line = self._waiting[is_awaited]
            while self._has_room(is_awaited) and any(not one.done() for one in line):
                called = line.popleft()
                if called.done():  # cancelled: it takes itself out of the queue
                    line.append(called)
                    continue
                self._running[is_awaited] += 1
                called.set_result(None)
        self._told(self.running, self.waiting)

    def _overloaded(self) -> ModelOverloaded:
        self._refused()
        return ModelOverloaded(
            f"as many calls of the models run ({self._at_once}) and wait ({self._queued}) as may: "
            "try again later",
            retry_after=RETRY_SECONDS,
        )
