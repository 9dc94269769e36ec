"""A real Redis server, for tests: `redis-server` on a free port, with nothing on disk."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.served import free_port

OPENS_SECONDS = 20
PASSWORD = "the-password-of-redis"


@dataclass(slots=True)
class RedisServer:
    """A server that can be killed, frozen and started again; it forgets what it knew."""

    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        if self.process is not None:
            return
        options = ("--save", "", "--appendonly", "no", "--bind", "127.0.0.1")
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--requirepass", PASSWORD, *options],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + OPENS_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer(free_port())
    server.start()
    try:
        yield server
    finally:
        server.kill()
