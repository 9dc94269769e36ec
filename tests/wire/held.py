"""A hand that holds the first answers of a test server back until a test lets go. Touches nothing.

The server runs in a thread of its own, so the two meet through a flag.
"""

from __future__ import annotations

import asyncio

LOOK_AGAIN_SECONDS = 0.005
PATIENCE_SECONDS = 60.0


class Held:
    """Holds the first `first` requests; `came` counts all of them."""

    def __init__(self, *, first: int = 1) -> None:
        self._first = first
        self._is_open = False
        self.came = 0

    def let_go(self) -> None:
        self._is_open = True

    async def pass_by(self) -> None:
        """Go through, in the server: at once, or when the test lets go."""
        self.came += 1
        if self.came > self._first:
            return
        while not self._is_open:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def arrived(self, number: int = 1) -> None:
        """Return once so many requests have come, in the test."""
        async with asyncio.timeout(PATIENCE_SECONDS):  # a machine may be slow
            while self.came < number:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
