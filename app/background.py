"""Work that outlives a request: named, logged, drained at shutdown. Touches: the event loop.

The event loop keeps only weak references to tasks, so a bare task may vanish in mid-work, and its
failure with it. Here each has an owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from app.errors import AppError

log = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_SECONDS = 1.0  # a loop without a pause of its own must not spin
CANCELLED_SECONDS = 5.0  # for what was cancelled to store what it has, and to hand back the rest


class Background:
    """Owns late tasks (`spawn`) and endless ones (`repeat`); `close` ends them all.

    A server that is told to stop says `stop` first, and `drain` when time is up.

    `failures`: the loops whose last pass failed, with the kind of error; `late_failures`: how many
    late tasks ended in an error.
    """

    def __init__(self, *, shutdown_seconds: float = 20.0) -> None:
        self._shutdown_seconds = shutdown_seconds
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loops: set[asyncio.Task[Any]] = set()
        self._stopping = asyncio.Event()
        self.failures: dict[str, str] = {}
        self.late_failures = 0
        self.is_over = False

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether anything runs still; loops that pause end when they are stopped."""
        return any(not task.done() for task in (*self._tasks, *self._loops))

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` to its end, whoever stops listening; a failure is logged and counted."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def repeat(
        self, name: str, one_pass: Callable[[], Awaitable[object]], *, every_seconds: float
    ) -> None:
        """Call `one_pass` for ever; one that fails stands in `failures` until one succeeds."""
        task = asyncio.create_task(self._forever(name, one_pass, every_seconds), name=name)
        self._loops.add(task)

    def stop(self) -> None:
        """Begin no further pass of any loop; what runs goes on."""
        self._stopping.set()

    async def drain(self, seconds: float) -> None:
        """Wait for what runs, then cancel what is left: that is how it hands itself over."""
        self.stop()
        until = time.monotonic() + seconds
        while self.is_busy and (left := until - time.monotonic()) > 0:
            await asyncio.wait([*self._tasks, *self._loops], timeout=left)
        self.is_over = True
        cut = [task for task in (*self._tasks, *self._loops) if not task.done()]
        for task in cut:
            log.warning("cancelled at shutdown: %s", task.get_name())
            task.cancel()
        if cut:
            _, stuck = await asyncio.wait(cut, timeout=CANCELLED_SECONDS)
            for task in stuck:
                log.error("it does not end, and is left behind: %s", task.get_name())

    async def close(self) -> None:
        """Stop the loops at once, then wait for the late tasks, then cancel what is left."""
        self.stop()  # a pass that swallows its cancellation is the last one all the same
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops.clear()
        await self.drain(self._shutdown_seconds)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.late_failures += 1
            log.error("background work failed: %s", task.get_name(), exc_info=error)

    async def _forever(
        self, name: str, one_pass: Callable[[], Awaitable[object]], every_seconds: float
    ) -> None:
        while not self.is_stopping:
            pause = every_seconds
            try:
                await one_pass()
                self.failures.pop(name, None)
            except Exception as error:
                self.failures[name] = type(error).__name__
                if isinstance(error, AppError):  # known, and told by its message
                    log.error("a pass of %s failed: %s", name, error.message)
                else:
                    log.exception("a pass of %s failed", name)
                pause = max(every_seconds, PAUSE_AFTER_FAILURE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
