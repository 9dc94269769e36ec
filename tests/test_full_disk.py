"""A disk that is full, for real: clear refusals, nothing half stored, and on it goes with space."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.calls import Json, refused
from tests.senders import GENERIC_TOKEN, generic
from tests.served import start_process

SIZE = "size=8m"
TEXT = "a long text " * 2_000
ENVIRONMENT = {
    "EMBEDDING_MODEL": "mock:32",
    "JOB_POLL_SECONDS": "0.2",
    "MONITOR_INTERVAL_SECONDS": "1",
    "WEBHOOK_TOKEN": GENERIC_TOKEN,
    "WEBHOOK_COALESCE_SECONDS": "1",
}
WRITES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "/chat", {"json": {"message": TEXT, "session_id": "s2"}}),
    ("POST", "/chat", {"json": {"message": TEXT, "session_id": "s3", "stream": True}}),
    ("POST", "/documents", {"json": {"documents": [{"id": "d2", "text": TEXT}]}}),
    ("POST", "/documents/file", {"files": {"file": ("a.txt", TEXT.encode())}}),
    ("POST", "/documents/table", {"files": {"file": ("a.csv", b"id,name\n1,Ada\n2,Bo\n")}}),
    ("POST", "/memories/facts", {"json": {"predicate": "likes", "value": TEXT[:400]}}),
    ("PUT", "/memories/blocks/human", {"json": {"value": TEXT[:1_500]}}),
    ("PUT", "/store/items", {"json": {"namespace": ["n"], "key": "k", "value": {"text": TEXT}}}),
    ("DELETE", "/sessions/s1", {}),
)
READS = ("/sessions/s1", "/documents/d1", "/documents", "/memories/facts", "/stats")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a small disk of its own mounted in it, at `data`."""
    data = tmp_path / "data"
    data.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", SIZE, "tmpfs", str(data))
    if (
        not sys.platform.startswith("linux")
        or subprocess.run(mount, capture_output=True).returncode
    ):
        pytest.skip("NOT TESTED: a disk that is really full, for a disk can't be mounted here")
    yield tmp_path
    subprocess.run(("umount", "--lazy", str(data)), check=True)


def _fill(folder: Path) -> Path:
    ballast = folder / "data" / "ballast"
    with ballast.open("wb", buffering=0) as file:
        while os.statvfs(folder / "data").f_bavail:
            file.write(b"x" * 4096)
    return ballast


def _seen(client: httpx.Client) -> list[Json]:
    """Return what is stored, as a client sees it."""
    found = []
    for path in READS:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
    return found


def _check_refusals(client: httpx.Client) -> None:
    for method, path, body in WRITES:
        answer = client.request(method, path, **body)
        assert answer.status_code == 507, f"{method} {path}: {answer.text}"
        assert refused(answer, 507)["code"] == "storage_full"
    later = generic({"id": "late", "type": "customer", "name": "Late"})
    answer = client.post(later.path, content=later.body, headers=later.headers)
    refused(answer, 503)
    assert int(answer.headers["retry-after"]) > 0


def _check_file(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "data" / "service.db")) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _ready(client: httpx.Client) -> str:
    return str(client.get("/health/ready").json()["status"])


def test_a_full_disk_refuses_writes_loses_nothing_and_goes_on_with_space(disk: Path) -> None:
    service = start_process(disk, ENVIRONMENT)
    try:
        with httpx.Client(base_url=service.url, timeout=60) as client:
            for method, path, body in (
                ("POST", "/documents", {"documents": [{"id": "d1", "text": "A text."}]}),
                ("POST", "/chat", {"message": "hello", "session_id": "s1"}),
            ):
                assert client.request(method, path, json=body).status_code == 200
            before = _seen(client)
            queued = generic({"id": "c1", "type": "customer", "name": "Queued Ltd"})
            told = client.post(queued.path, content=queued.body, headers=queued.headers)
            assert told.status_code == 202
            ballast = _fill(disk)
            _check_refusals(client)
            assert _seen(client) == before
        service.kill()
        service = start_process(disk, ENVIRONMENT)  # what it needs of the disk, it has already
        with httpx.Client(base_url=service.url, timeout=60) as client:
            _check_refusals(client)
            assert _seen(client) == before
            _check_file(disk)
            _until(lambda: _ready(client) == "degraded")  # work behind the requests has failed
            ballast.unlink()
            # Also a job that could not run goes on, without a restart.
            _until(lambda: "Queued Ltd" in client.get("/documents").text)
            for method, path, body in WRITES:
                assert client.request(method, path, **body).status_code in (200, 202), path
            assert client.get("/sessions/s2").json()["message_count"] == 2
            assert client.get("/sessions/s1").status_code == 404
            _until(lambda: _ready(client) == "ok")
        _check_file(disk)
    finally:
        service.kill()
        lines = (disk / "service.log").read_text().splitlines()  # shown where the test has failed
        print(*(line for line in lines if '"level": "info"' not in line), sep="\n")
