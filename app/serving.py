"""A server that is stopped in order: no answer is cut short without being told. Touches: uvicorn.

uvicorn cancels what still runs before the application hears of the end, and so breaks streams off.
Here what runs is ended first, by itself: turns store what they have and say so, jobs go back.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE

from app.main import create_app
from app.runtime import Runtime
from app.settings import Settings

LONGEST_NOTICE_SECONDS = 2.0
LONGEST_RESERVE_SECONDS = 2.0
LOOK_AGAIN_SECONDS = 0.05
_CLOSE = (b"connection", b"close")


class Server(uvicorn.Server):
    """Serves an app until SIGTERM or SIGINT, and then for SHUTDOWN_SECONDS at most.

    After SIGTERM it is open for a moment more, so that a proxy sees in /health/ready that it is to
    go elsewhere. A second signal leaves no time to what runs; a third ends the process at once.
    is_one_of_many: a terminal sends SIGINT to all processes; which passes it on is their parent.
    """

    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        *,
        host: str,
        port: int,
        is_one_of_many: bool = False,
    ) -> None:
        super().__init__(
            uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False)
        )
        self._app = app
        self._shutdown_seconds = settings.shutdown_seconds
        self._is_one_of_many = is_one_of_many
        self._is_hurried = False

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again at the end
            super().run(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._is_one_of_many and sig == signal.SIGINT:
            return
        if self.should_exit:
            self._is_hurried = True
            for handled in (signal.SIGTERM, signal.SIGINT):
                signal.signal(handled, signal.SIG_DFL)
        self._captured_signals.append(sig)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        runtime: Runtime = self._app.state.runtime
        began = time.monotonic()
        ends = began + self._shutdown_seconds
        runtime.stop()
        self.server_state.default_headers = [*self.server_state.default_headers, _CLOSE]
        if signal.SIGINT not in self._captured_signals:
            await self._wait(min(LONGEST_NOTICE_SECONDS, self._shutdown_seconds / 10), lambda: True)
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        reserve = min(LONGEST_RESERVE_SECONDS, self._shutdown_seconds / 4)
        await self._wait(ends - reserve - time.monotonic(), lambda: self._is_busy(runtime))
        await runtime.background.drain(0.0)
        left = ends - time.monotonic()
        self.config.timeout_graceful_shutdown = 1 if self._is_hurried else max(1, math.ceil(left))
        await super().shutdown(sockets)

    async def _wait(self, seconds: float, goes_on: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        # A connection that is gone tells nobody, nor may a signal's handler.
        while goes_on() and not self._is_hurried and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def _is_busy(self, runtime: Runtime) -> bool:
        return runtime.background.is_busy or bool(self.server_state.connections)


def serve(settings: Settings, *, host: str, port: int) -> int:
    """Serve in this process until it is stopped; returns the exit code."""
    server = Server(create_app(settings, is_alone=True), settings, host=host, port=port)
    server.run()
    return 0 if server.started else STARTUP_FAILURE
