"""HTTP clients that cost little, in a closed loop. Touches loopback sockets.

An HTTP library needs about as long for a request as the service does, and here both share the
cores: it would be measured too. One connection is one client; it asks again when it was answered.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit


class Refused(RuntimeError):
    """An answer that is no success; code: its status, and what the service names as the reason."""

    def __init__(self, asked: str, status: str, content: bytes) -> None:
        super().__init__(f"{asked}: {status} {content[:500]!r}")
        named = re.search(rb'"code": *"(\w+)"', content)
        self.code = f"{status.split()[1]} {named[1].decode() if named else ''}".strip()


class Client:
    """One connection that is kept open, for `async with`."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "", address.port or 80
        self._first_chunk = 0.0

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def get(self, path: str) -> Any:
        return await self._ask("GET", path, b"")

    async def post(self, path: str, body: object) -> Any:
        return await self._ask("POST", path, json.dumps(body).encode())

    async def first_event(self, path: str, body: object) -> float:
        """Return the seconds to the first piece of a streamed answer, which is read to its end."""
        asked = time.perf_counter()
        self._first_chunk = 0.0
        await self._ask("POST", path, json.dumps(body).encode())
        return self._first_chunk - asked

    async def _ask(self, method: str, path: str, body: bytes) -> Any:
        """Return the answer's JSON, or its bytes if they are a stream of events."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in answer.split("\r\n")[1:-2])
        if "content-length" in headers:
            content = await self._reader.readexactly(int(headers["content-length"]))
        else:
            content = await self._chunks()
        if not answer.startswith("http/1.1 20"):
            raise Refused(f"{method} {path}", answer.splitlines()[0], content)
        return json.loads(content) if "json" in headers["content-type"] else content

    async def _chunks(self) -> bytes:
        content = b""
        while size := int(await self._reader.readline(), 16):
            content += (await self._reader.readexactly(size + 2))[:-2]
            self._first_chunk = self._first_chunk or time.perf_counter()
        await self._reader.readline()
        return content


Ask = Callable[[Client, int, int], Awaitable[Any]]


async def closed_loop(
    url: str, ask: Ask, *, clients: int, each: int
) -> tuple[list[float], list[Any], float]:
    """Let `clients` at once ask `each` times; `ask` gets a client, its number and the turn's.

    Returns the seconds and the answers of all requests, and the seconds that all took together.
    """
    durations: list[float] = []
    answers: list[Any] = []
    everyone_is_here = asyncio.Barrier(clients + 1)

    async def one(number: int) -> None:
        async with Client(url) as client:
            await everyone_is_here.wait()
            for turn in range(each):
                asked = time.perf_counter()
                answers.append(await ask(client, number, turn))
                durations.append(time.perf_counter() - asked)

    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(one(number))
        await everyone_is_here.wait()
        began = time.perf_counter()
    return durations, answers, time.perf_counter() - began
