"""Whether somebody is being served: what can wait lets them go first. Touches nothing.

A request and a job share one interpreter, so a job that begins in the middle of a request makes
its caller wait. People pause, and jobs are short: they fit in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PAUSE_SECONDS = 0.015  # who asks again as soon as they are answered has not paused


class Quiet:
    """Counts who is being served in this process."""

    def __init__(self) -> None:
        self._served = 0
        self._nobody = asyncio.Event()
        self._nobody.set()
        self._last_at = float("-inf")

    @property
    def is_anybody_served(self) -> bool:
        return self._served > 0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Somebody waits for what is done within."""
        self._served += 1
        self._nobody.clear()
        try:
            yield
        finally:
            self._served -= 1
            self._last_at = time.monotonic()
            if not self.is_anybody_served:
                self._nobody.set()

    async def wait(self, until: float) -> None:
        """Return in the next pause, and at `until` (of the monotonic clock) at the latest."""
        left = until - time.monotonic()
        if left <= 0 or self._is_pause():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                while not self._is_pause():
                    await self._nobody.wait()
                    await asyncio.sleep(PAUSE_SECONDS)

    def _is_pause(self) -> bool:
        return not self.is_anybody_served and time.monotonic() - self._last_at >= PAUSE_SECONDS
