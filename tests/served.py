"""The real app through its real wiring, in this process or as one of its own. For tests."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from app.main import create_app
from app.settings import Settings
from app.wiring import Runtime, utc_now

ROOT = Path(__file__).parents[1]

# No background pass runs unless a test asks for it; in memory; vectors without a model.
QUIET: dict[str, Any] = {
    "database_url": "sqlite:///:memory:",
    "embedding_model": "mock:32",
    "monitor_interval_seconds": 3600.0,
    "job_poll_seconds": 3600.0,
}


class Chosen(Settings):
    """Settings that depend on no environment and no `.env`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def settings(**chosen: Any) -> Settings:
    """Return the settings of tests; a file of a database brings its folder as DATA_DIR."""
    url = chosen.get("database_url", "")
    beside = {"data_dir": Path(url[10:]).parent} if url.startswith("sqlite:////") else {}
    return Chosen(**{**QUIET, **beside, **chosen})


@asynccontextmanager
async def served(
    *, address: str = "127.0.0.1", **chosen: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Serve an app in this process; its client calls from `address`."""
    async with served_at(utc_now, address=address, **chosen) as (client, runtime):
        yield client, runtime


@asynccontextmanager
async def served_at(
    clock: Callable[[], datetime], *, address: str = "127.0.0.1", **chosen: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """The same, with a clock of its own."""
    app = create_app(settings(**chosen), clock=clock)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(
            app=app, raise_app_exceptions=False, client=(address, 50_000)
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client, app.state.runtime


@asynccontextmanager
async def listening(**chosen: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Serve an app in this process over a real socket, so that a client can leave in mid-stream."""
    app = create_app(settings(**chosen))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none"))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            if running.done():
                running.result()
            await asyncio.sleep(0.01)
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                yield client, app.state.runtime
        finally:
            server.should_exit = True
            await running


@contextmanager
def in_thread(**chosen: Any) -> Iterator[str]:
    """Serve an app from a thread, for clients that wait for their answers; yields its URL."""
    loop = asyncio.new_event_loop()
    opened: Future[str] = Future()
    done = asyncio.Event()

    async def serve() -> None:
        try:
            async with listening(**chosen) as (client, _):
                opened.set_result(str(client.base_url))
                await done.wait()
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
            raise

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(loop.run_until_complete, serve())
        try:
            yield opened.result()
        finally:
            loop.call_soon_threadsafe(done.set)
            running.result()
            loop.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Process:
    """A served process: `python -m app serve` on a port of its own."""

    process: subprocess.Popen[bytes]
    url: str

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


def start_process(
    folder: Path,
    environment: Mapping[str, str],
    *,
    port: int | None = None,
    patience_seconds: float = 60,
) -> Process:
    """Start `python -m app serve` in `folder` and return once it answers."""
    chosen = port or free_port()
    url = environment.get("DATABASE_URL", "")
    data = Path(url[10:]).parent if url.startswith("sqlite:////") else folder / "data"
    log = (folder / "service.log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", str(chosen)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DATA_DIR": str(data),
            **environment,
        },
        stdout=log,
        stderr=log,
    )
    log.close()
    url = f"http://127.0.0.1:{chosen}"
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError((folder / "service.log").read_text()[-3000:])
        try:
            httpx.get(f"{url}/health/live", timeout=1)
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        return Process(process, url)
    process.kill()
    raise RuntimeError(f"the service did not open in {patience_seconds} s")


@contextmanager
def service(folder: Path, **environment: str) -> Iterator[Process]:
    """Serve a process for the length of a `with`."""
    process = start_process(folder, environment)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.kill()


def events_of(body: str) -> list[tuple[str, str]]:
    """Return the (name, data) pairs of a server-sent event stream."""
    found = []
    for part in body.split("\n\n"):
        lines = [line for line in part.splitlines() if not line.startswith(":")]
        named = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}
        if "event" in named:
            found.append((named["event"], named["data"]))
    return found
