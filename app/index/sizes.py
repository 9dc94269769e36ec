"""How many vectors the index holds, by kind, for whoever watches. Touches: the index, seldom."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from app.errors import AppError
from app.index.base import Index

LEAST_SECONDS = 60.0
PATIENCE_SECONDS = 2.0
SHARE = 0.01  # of the time may go into counting


class IndexSizes:
    """Counts at most once a minute, and less often where that takes long.

    `fails`: whether the last count did.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: Mapping[str, int] | None = None
        self._good_until = 0.0
        self.fails = False

    async def by_kind(self) -> Mapping[str, int] | None:
        """Return the vectors by kind ("documents", "memory") as last counted; None: never yet."""
        began = time.monotonic()
        if began < self._good_until:
            return self._known
        self._good_until = began + LEAST_SECONDS  # whoever asks meanwhile need not count too
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                counts = await self._index.counts()
        except (AppError, TimeoutError):
            self.fails = True
            return self._known
        self.fails = False
        kinds = Counter({"documents": 0, "memory": 0})
        for name, number in counts.items():
            kind = name.partition("--")[0]
            if kind in kinds:
                kinds[kind] += number
        self._known = dict(kinds)
        took = time.monotonic() - began
        self._good_until = began + max(LEAST_SECONDS, took / SHARE)
        return self._known
