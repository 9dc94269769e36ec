"""A database whose reads and writes are timed. Touches: the database that it goes around."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from app.db.base import Connection, Database, Dialect
from app.metrics import Metrics

T = TypeVar("T")


class MeasuredDatabase:
    """Times from the call to the answer: with the wait for a turn, and for a write its commit."""

    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    async def read(self, fn: Callable[[Connection], T]) -> T:
        began = time.monotonic()
        try:
            return await self._database.read(fn)
        finally:
            self._metrics.read(time.monotonic() - began)

    async def write(self, fn: Callable[[Connection], T]) -> T:
        began = time.monotonic()
        self._metrics.writes_in_progress.inc()
        try:
            return await self._database.write(fn)
        finally:
            self._metrics.writes_in_progress.dec()
            self._metrics.wrote(time.monotonic() - began)

    async def change_schema(self, fn: Callable[[Connection], T]) -> T:
        return await self._database.change_schema(fn)

    async def scrub(self) -> bool | None:
        return await self._database.scrub()

    async def close(self) -> None:
        await self._database.close()
