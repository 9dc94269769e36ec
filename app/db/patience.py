"""How long callers wait for a thread of the database. Touches nothing."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from app.errors import StorageUnavailable

T = TypeVar("T")


class Patience:
    """Ends with `StorageUnavailable` what is not answered in time.

    All who wait are as patient, so the first of them is the first to give up: one timer for all
    takes less than one for each. It runs on when nobody waits, until it finds that out.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[asyncio.AbstractEventLoop, dict[asyncio.Future[Any], float]] = {}

    async def wait(self, answer: asyncio.Future[T]) -> T:
        loop = answer.get_loop()
        waiting = self._waiting.get(loop)
        if waiting is None:
            waiting = self._waiting[loop] = {}
            loop.call_later(self._seconds, self._look, loop)
        waiting[answer] = loop.time() + self._seconds
        try:
            return await answer
        finally:
            del waiting[answer]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up what is over, and look again when the next one is."""
        waiting = self._waiting[loop]
        now = loop.time()
        for answer, until in waiting.items():
            if until > now:
                loop.call_at(until, self._look, loop)
                return
            if not answer.done():
                failure = StorageUnavailable("the database did not answer in time", retry_after=5)
                answer.set_exception(failure)
        del self._waiting[loop]
