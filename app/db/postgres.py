"""Postgres through asyncpg. Touches: a Postgres server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Literal, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import create_async_engine

from app.errors import AppError, InvalidRequest, StorageFull, StorageUnavailable

T = TypeVar("T")

POOL = 10
PAUSES = (0.05, 0.2, 0.8, 2.0)  # seconds between the tries of a write that was in another's way


class Collision(StorageUnavailable):
    """Two transactions were in each other's way, and this one was undone: it may be tried again."""


class PostgresDatabase:
    """A `Database` on a server. READ COMMITTED: a function that reads to write locks its row."""

    dialect: Literal["postgresql"] = "postgresql"

    def __init__(self, url: URL, *, timeout_seconds: float = 30.0) -> None:
        self._timeout = timeout_seconds
        self._closed = False
        self._engine = create_async_engine(
            url.set(drivername="postgresql+asyncpg"),
            pool_size=POOL,
            max_overflow=POOL,
            pool_timeout=timeout_seconds,
            pool_pre_ping=True,
            hide_parameters=True,  # in errors, which are logged: they are what users said
            connect_args={"timeout": min(timeout_seconds, 10.0)},
        )

    async def read(self, fn: Callable[[Connection], T]) -> T:
        return await self._run(fn, self._timeout)

    async def write(self, fn: Callable[[Connection], T]) -> T:
        for pause in PAUSES:
            try:
                return await self._run(fn, self._timeout)
            except Collision:
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
        return await self._run(fn, self._timeout)

    async def change_schema(self, fn: Callable[[Connection], T]) -> T:
        return await self._run(fn, None)

    async def scrub(self) -> None:
        """Do nothing: its own vacuum removes what was deleted."""

    async def close(self) -> None:
        self._closed = True
        await self._engine.dispose()

    async def _run(self, fn: Callable[[Connection], T], timeout: float | None) -> T:
        if self._closed:
            raise StorageUnavailable("the database is closed")
        try:
            async with asyncio.timeout(timeout), self._engine.begin() as connection:
                return await connection.run_sync(fn)
        except DBAPIError as error:
            known = _known(error)
            if known is None:
                raise
            raise known from error
        except (TimeoutError, PoolTimeout, OSError) as error:
            raise StorageUnavailable("the database did not answer", retry_after=5) from error


def _known(error: DBAPIError) -> AppError | None:
    state = getattr(error.orig, "sqlstate", None) or ""
    if state in ("40001", "40P01"):  # serialization failure, deadlock
        return Collision("others are writing the same: nothing was stored", retry_after=5)
    if state == "54000":  # a program limit: the longest key of an index
        return InvalidRequest("an id or a name is longer than the database can hold")
    if state == "53100":
        return StorageFull("the database server's disk is full: nothing was stored")
    if state[:2] in ("28", "3D"):
        return StorageUnavailable("the database server does not know this database or its password")
    if error.connection_invalidated or state[:2] in ("08", "57", "53") or not state:
        return StorageUnavailable("the database can't answer now", retry_after=5)
    return None
