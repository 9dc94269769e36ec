"""A store whose every command, to Redis and to SQL, waits until a test lets it go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from app.db import Connection, Database
from app.sessions.redis_link import Link

T = TypeVar("T")
QUIET = 25  # passes of the loop in which nothing happens


class Steps:
    """Who waits before a command, and who waits after one that was done."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._under_way = 0

    async def around(self, command: Callable[[], Any]) -> Any:
        await self._wait()
        self._under_way += 1
        try:
            done = await command()
        finally:
            self._under_way -= 1
        await self._wait()
        return done

    async def go_on(self, number: int) -> None:
        """Let one who waits go on, up to where it waits again."""
        if self.waiting:
            self.waiting.pop(number % len(self.waiting)).set_result(None)
        await self.rest()

    async def rest(self) -> None:
        """Return when everybody waits, for a step or for another one."""
        quiet = 0
        while quiet < QUIET:
            await asyncio.sleep(0)
            quiet = 0 if self._under_way else quiet + 1

    async def _wait(self) -> None:
        step = asyncio.get_running_loop().create_future()
        self.waiting.append(step)
        try:
            await step
        finally:
            if step in self.waiting:  # it was stopped here
                self.waiting.remove(step)


class SteppedLink(Link):
    def __init__(self, url: str, steps: Steps) -> None:
        super().__init__(url, timeout_seconds=30, accepts_loss=True)
        self._steps = steps

    async def run(self, script: str, keys: Sequence[str], *args: str | int) -> Any:
        ask = super().run
        return await self._steps.around(lambda: ask(script, keys, *args))

    async def members(self, name: str, prefix: str, *, most: int = 0) -> list[str]:
        ask = super().members
        found: list[str] = await self._steps.around(lambda: ask(name, prefix, most=most))
        return found

    async def after(self, name: str, last: str, *, most: int) -> list[str]:
        ask = super().after
        found: list[str] = await self._steps.around(lambda: ask(name, last, most=most))
        return found


class SteppedDatabase:
    def __init__(self, database: Database, steps: Steps) -> None:
        self._database = database
        self._steps = steps
        self.dialect: Literal["sqlite", "postgresql"] = database.dialect

    async def read(self, fn: Callable[[Connection], T]) -> T:
        done: T = await self._steps.around(lambda: self._database.read(fn))
        return done

    async def write(self, fn: Callable[[Connection], T]) -> T:
        done: T = await self._steps.around(lambda: self._database.write(fn))
        return done

    async def change_schema(self, fn: Callable[[Connection], T]) -> T:
        return await self._database.change_schema(fn)

    async def scrub(self) -> bool | None:
        return await self._database.scrub()

    async def close(self) -> None:
        await self._database.close()
