"""Work that outlives a request: named, logged, drained at shutdown. Touches: the event loop.

The event loop keeps only weak references to tasks, so a bare task may vanish in mid-work, and its
failure with it. Here each has an owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_SECONDS = 1.0  # a loop without a pause of its own must not spin


class Background:
    """Owns late tasks (`spawn`) and endless ones (`repeat`); `close` ends them all.

    `failures`: the loops whose last pass failed, with the kind of error; `late_failures`: how many
    late tasks ended in an error.
    """

    def __init__(self, *, shutdown_seconds: float = 20.0) -> None:
        self._shutdown_seconds = shutdown_seconds
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loops: set[asyncio.Task[Any]] = set()
        self.failures: dict[str, str] = {}
        self.late_failures = 0

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

    async def close(self) -> None:
        """Stop the loops, then wait for the late tasks, then cancel what is left."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._shutdown_seconds)
        left = list(self._tasks)
        for task in left:
            log.warning("cancelled at shutdown: %s", task.get_name())
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.late_failures += 1
            log.error("background work failed: %s", task.get_name(), exc_info=error)

    async def _forever(
        self, name: str, one_pass: Callable[[], Awaitable[object]], every_seconds: float
    ) -> None:
        while True:
            pause = every_seconds
            try:
                await one_pass()
                self.failures.pop(name, None)
            except Exception as error:
                self.failures[name] = type(error).__name__
                log.exception("a pass of %s failed", name)
                pause = max(every_seconds, PAUSE_AFTER_FAILURE_SECONDS)
            await asyncio.sleep(pause)
