"""This service behind `talk`: as a process over HTTP, or inside this one. Touches: processes, disk.

What a message says can be found as soon as it is acknowledged, by the message itself; the facts in
it come when the summary is made, in the background.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message

from app.main import create_app
from app.wiring import Runtime
from tests.benchmarks import report
from tests.benchmarks.client import Client
from tests.benchmarks.peers.stub import DIMENSION
from tests.benchmarks.peers.talk import Contestant, run, told
from tests.served import Chosen, Process, service

BATCH = 100
SETTLED_SECONDS = 120.0


def _settings(url: str) -> dict[str, str]:
    return {
        "API_KEY": "", "PINECONE_API_KEY": "", "DATABASE_URL": "", "CHAT_MODEL": "",
        "GROQ_API_KEY": "gsk-stub", "GROQ_API_BASE": url,
        "EMBEDDING_MODEL": "openai:stub", "EMBEDDING_DIMENSION": str(DIMENSION),
    }  # fmt: skip


class Inside:
    """Asks an app without a socket."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def get(self, path: str) -> Any:
        return await self._ask("GET", path, b"")

    async def post(self, path: str, body: object) -> Any:
        return await self._ask("POST", path, json.dumps(body).encode())

    async def _ask(self, method: str, target: str, body: bytes) -> Any:
        path, _, query = target.partition("?")
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        headers.append((b"content-length", str(len(body)).encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": query.encode(), "headers": headers,
            "client": ("127.0.0.1", 50_000), "server": ("localhost", 80),
        }  # fmt: skip
        status, pieces = 0, []
        is_read = False

        async def receive() -> Message:
            nonlocal is_read
            if is_read:
                await asyncio.Future()  # nobody hangs up
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            pieces.append(message.get("body", b""))

        await self._app(scope, receive, send)
        if status // 100 != 2:
            raise RuntimeError(f"{method} {path}: {status} {b''.join(pieces)[:300]!r}")
        return json.loads(b"".join(pieces))


class Service(Contestant):
    """Its public routes, asked by one client."""

    def __init__(self) -> None:
        self._door: Client | Inside
        self._numbers = itertools.count()

    async def turn(self, user: str, session: str, message: str, reply: str) -> None:
        """Chat: memories are searched, the answer is asked for, and all of it is stored."""
        body = {"user_id": user, "session_id": session, "message": message}
        await self._door.post("/chat", body)

    async def add(self, user: str, session: str, message: str, reply: str) -> None:
        await self._add(self._door, user, message, reply)

    async def put(self, user: str, texts: Sequence[str]) -> None:
        for at in range(0, len(texts), BATCH):
            puts = [
                {
                    "op": "put", "namespace": ["notes"], "key": str(next(self._numbers)),
                    "value": {"text": text},
                }
                for text in texts[at : at + BATCH]
            ]  # fmt: skip
            await self._door.post("/store/batch", {"user_id": user, "operations": puts})

    async def search(self, user: str, query: str, k: int) -> list[str]:
        asked = urlencode({"user_id": user, "query": query, "top_k": k})
        found = await self._door.get(f"/memories?{asked}")
        return [
            "\n".join([one["text"], *(fact["statement"] for fact in one["facts"])])
            for one in found["memories"]
        ]

    async def settle(self, user: str, sessions: Sequence[str]) -> None:
        for session in sessions:
            await self._door.post(f"/sessions/{session}/close?user_id={user}", {})
        await self._settled()

    async def _add(self, door: Client | Inside, user: str, message: str, reply: str) -> None:
        now = datetime.now(UTC).isoformat()
        said = (("user", message), ("assistant", reply))
        lines = [{"role": role, "content": text, "created_at": now} for role, text in said]
        session = f"{os.getpid()}-{time.time_ns()}-{next(self._numbers)}"
        conversation = {"session_id": session, "messages": lines}
        await door.post("/memories/import", {"user_id": user, "conversations": [conversation]})

    async def _settled(self) -> None:
        async with asyncio.timeout(SETTLED_SECONDS):
            while (await self._door.get("/health/ready"))["summaries"]["pending"]:
                await asyncio.sleep(0.02)


class Served(Service):
    """`python -m app serve`, over HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self._open = AsyncExitStack()
        self._process: Process

    async def open(self, url: str, folder: Path) -> None:
        known = {"OPENAI_API_KEY": "sk-stub", "OPENAI_BASE_URL": f"{url}/v1"}
        running = self._open.enter_context(ExitStack())
        self._process = running.enter_context(service(folder, **_settings(url), **known))
        self._door = await self._open.enter_async_context(Client(self._process.url))

    async def together(self, user: str, texts: Sequence[str], reply: str) -> list[str]:
        async def one(text: str) -> None:
            async with Client(self._process.url) as client:
                await self._add(client, user, text, reply)

        done = await asyncio.gather(*(one(text) for text in texts), return_exceptions=True)
        return [told(error) for error in done if isinstance(error, BaseException)]

    async def close(self) -> None:
        await self._open.aclose()

    def process_id(self) -> int:
        return self._process.process.pid

    def processor_seconds(self) -> float:
        return report.processor_seconds(self.process_id()) or 0.0


class Embedded(Service):
    """The same app in this process; memories are searched through the runtime, as a library."""

    def __init__(self) -> None:
        super().__init__()
        self._open = AsyncExitStack()
        self._runtime: Runtime

    async def open(self, url: str, folder: Path) -> None:
        os.environ |= {"OPENAI_API_KEY": "sk-stub", "OPENAI_BASE_URL": f"{url}/v1"}
        chosen: dict[str, Any] = {name.lower(): value for name, value in _settings(url).items()}
        app = create_app(Chosen(**chosen, data_dir=folder))
        await self._open.enter_async_context(app.router.lifespan_context(app))
        self._runtime = app.state.runtime
        self._door = Inside(app)

    async def search(self, user: str, query: str, k: int) -> list[str]:
        with self._runtime.quiet.serving():  # somebody waits, as at the route
            question = (await self._runtime.embedder.embed([query], kind="query"))[0]
            found = await self._runtime.recall.search(
                "default", user, question, words=query, top_k=k
            )
        return [
            "\n".join([one.text, *(fact.statement for fact in one.facts)]) for one in found.memories
        ]

    async def close(self) -> None:
        await self._open.aclose()


if __name__ == "__main__":
    asyncio.run(run(Served() if sys.argv[1] == "served" else Embedded()))
