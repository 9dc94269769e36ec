"""One look at a time, shared by all who ask meanwhile. Touches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OneLook(Generic[T]):
    """Shares what a look finds among those who asked before it began.

    Who asks while somebody looks waits for the next look: nobody is told what was so before.
    """

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._look = look
        self._turn = asyncio.Lock()
        self._asked: list[T] | None = None  # what those find who wait for the next look

    async def __call__(self) -> T:
        if self._asked is None:
            self._asked = []
        found = self._asked
        async with self._turn:
            if not found:
                if self._asked is found:
                    self._asked = None
                found.append(await self._look())  # failed or cancelled, the next one looks
            return found[0]
