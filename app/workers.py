"""Several processes that serve one port together. Touches: processes, one listening socket.

The socket is opened once and shared, so that connections which wait are taken by whoever is free
and are not lost with a process. A process that ends is replaced; all end with their parent.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from app.errors import Misconfigured
from app.main import create_app
from app.metrics.sharing import share
from app.serving import Server
from app.settings import Settings
from app.telemetry import set_up_logs
from app.wiring import open_runtime

log = logging.getLogger(__name__)

MOST_WORKERS = 64
LOOK_AGAIN_SECONDS = 0.2
PAUSE_SECONDS = 1.0  # before a process that could not start is replaced
PATIENCE_SECONDS = 15.0  # beyond what processes have to end in

_new = multiprocessing.get_context("spawn")  # a fork would take over threads and open databases


def serve(settings: Settings, number: int, *, host: str, port: int) -> int:
    """Serve in `number` processes until they are stopped; returns the exit code.

    Raises `Misconfigured` and `StorageUnavailable` once, before any process starts.
    """
    if not 1 <= number <= MOST_WORKERS:
        raise Misconfigured(f"WORKERS must be from 1 to {MOST_WORKERS}, not {number}")
    if number > 1 and ":memory:" in settings.database_address():
        raise Misconfigured(
            f"WORKERS={number} needs a database that processes share: DATABASE_URL names one in "
            "memory, which belongs to one process"
        )
    asyncio.run(_open_once(settings))
    share()
    listener = uvicorn.Config("app", host=host, port=port, log_config=None).bind_socket()
    with listener:
        return _Workers(settings, number, listener).run()


async def _open_once(settings: Settings) -> None:
    """Find out what would keep every process from starting, and bring the tables up to date."""
    async with open_runtime(settings):
        pass


class _Workers:
    """The parent of the processes: starts them, replaces them, passes on that they are to end."""

    def __init__(self, settings: Settings, number: int, listener: socket.socket) -> None:
        self._settings = settings
        self._number = number
        self._listener = listener
        self._processes: list[SpawnProcess] = []
        self._signals = 0  # how often we were told to stop

    def run(self) -> int:
        for handled in (signal.SIGTERM, signal.SIGINT):
            signal.signal(handled, self._told)
        while len(self._processes) < self._number and not self._signals:
            self._processes.append(self._start())
        while not self._signals:
            if not self._replace_ended():
                log.error("no process is left that serves")
                return 1
        self._listener.close()  # else connections would wait for us when all others are gone
        self._stop()
        return 0

    def _told(self, _signal: int, _frame: object) -> None:
        self._signals += 1

    def _start(self) -> SpawnProcess:
        process = _new.Process(target=_work, args=(self._settings, self._listener))
        process.start()
        log.info("process %s serves", process.pid)
        return process

    def _replace_ended(self) -> bool:
        """Wait for a moment and replace who ended; says whether any process is left."""
        wait([process.sentinel for process in self._processes], timeout=LOOK_AGAIN_SECONDS)
        if self._signals:
            return True
        ended = [process for process in self._processes if not process.is_alive()]
        if len(ended) == self._number and all(p.exitcode == STARTUP_FAILURE for p in ended):
            return False
        for process in ended:
            log.error("process %s ended with %s: replaced", process.pid, process.exitcode)
            if process.exitcode == STARTUP_FAILURE:
                time.sleep(PAUSE_SECONDS)
            self._processes[self._processes.index(process)] = self._start()
        return True

    def _stop(self) -> None:
        """Pass on each signal that we get, and wait until all have ended."""
        passed = 0
        deadline = time.monotonic() + self._settings.shutdown_seconds + PATIENCE_SECONDS
        while alive := [process for process in self._processes if process.is_alive()]:
            while passed < self._signals:
                passed += 1
                for process in alive:
                    process.terminate()
            if time.monotonic() > deadline:
                log.error("processes that do not end are killed")
                for process in alive:
                    process.kill()
            wait([process.sentinel for process in alive], timeout=LOOK_AGAIN_SECONDS)


def _work(settings: Settings, listener: socket.socket) -> None:
    set_up_logs(settings.log_level)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    app = create_app(settings, is_alone=True)
    server = Server(app, settings, host="", port=0, is_one_of_many=True)
    server.run(sockets=[listener])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
