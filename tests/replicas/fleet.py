"""Replicas that are killed at random and replaced at once, and the way to those that live."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.served import Process, start_process

# What a replica may answer while others die, all of it without having lost anything: a session's
# earlier messages wait for a lease to run out; a lease ran out on a busy machine.
MAY_ANSWER = {(503, "session_busy"), (503, "storage_unavailable"), (409, "conflict")}

PATIENCE_SECONDS = 300  # several start at once, maybe on few cores


class Fleet:
    """`size` processes on one database. `answers`: how often each status was given."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], size: int, chance: random.Random
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._chance = chance
        self._slots: list[Process | None] = [None] * size
        self._starting: set[asyncio.Future[Process]] = set()
        self.kills = 0
        self.answers: Counter[tuple[int, str]] = Counter()

    async def open(self) -> None:
        await asyncio.gather(*(self._start(at) for at in range(len(self._slots))))

    async def kill_one_every(self, seconds: float, *, during: float) -> None:
        """Kill one after the other, for so long, and replace each at once."""
        async with asyncio.TaskGroup() as starting:
            loop = asyncio.get_running_loop()
            until = loop.time() + during
            while loop.time() + seconds <= until:
                await asyncio.sleep(seconds * self._chance.uniform(0.7, 1.3))
                up = [at for at, process in enumerate(self._slots) if process is not None]
                if len(up) < 2:
                    continue  # somebody has to be left to ask
                at = self._chance.choice(up)
                process, self._slots[at] = self._slots[at], None
                assert process is not None
                await asyncio.to_thread(process.kill)
                self.kills += 1
                starting.create_task(self._start(at))

    def urls(self) -> list[str]:
        return [process.url for process in self._slots if process is not None]

    def any_url(self) -> str:
        return self._chance.choice(self.urls())

    @staticmethod
    def client() -> httpx.AsyncClient:
        """Return one that drops a connection before the server would: no answer means a kill."""
        return httpx.AsyncClient(
            timeout=PATIENCE_SECONDS, limits=httpx.Limits(keepalive_expiry=2.0)
        )

    async def post(
        self, client: httpx.AsyncClient, path: str, body: Any, **headers: str
    ) -> httpx.Response:
        """Post to one replica, and again to another until one says that it is done."""
        while True:
            url = self.any_url()
            try:
                response = await client.post(url + path, json=body, headers=headers)
            except httpx.TransportError:
                assert url not in self.urls()  # it was killed
                self.answers[0, "killed"] += 1
                await asyncio.sleep(0.05)
                continue
            if response.status_code < 300:
                self.answers[response.status_code, ""] += 1
                return response
            code = response.json()["error"]["code"]
            self.answers[response.status_code, code] += 1
            assert (response.status_code, code) in MAY_ANSWER, response.text
            assert response.status_code == 409 or "retry-after" in response.headers
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Leave no process behind, not even one that was just being started."""
        for started in await asyncio.gather(*self._starting, return_exceptions=True):
            if isinstance(started, Process) and started.process.poll() is None:
                started.kill()

    async def _start(self, at: int) -> None:
        folder = self._folder / f"replica{at}"
        folder.mkdir(exist_ok=True)
        starting = asyncio.ensure_future(
            asyncio.to_thread(
                start_process, folder, self._environment, patience_seconds=PATIENCE_SECONDS
            )
        )
        self._starting.add(starting)
        self._slots[at] = await asyncio.shield(starting)
