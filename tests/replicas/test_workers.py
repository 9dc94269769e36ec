"""WORKERS: processes that serve one port together."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.served import ROOT, Process, start_process

WORKERS = 2
PLAIN = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_KEY": "",
    "PINECONE_API_KEY": "",
    "CHAT_MODEL": "",
    "SUMMARY_MODEL": "",
    "SHUTDOWN_SECONDS": "2",
    "WORKERS": str(WORKERS),
}


def logged(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "service.log").read_text().splitlines()]


def serving(folder: Path) -> list[int]:
    """Return the ids of the processes that were started, in their order."""
    told = [line["message"].split() for line in logged(folder)]
    return [int(words[1]) for words in told if words[::2] == ["process", "serves"]]


def lives(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def chat(url: str) -> int:
    """Ask on a connection of its own, for any of the processes may take it."""
    async with httpx.AsyncClient(timeout=60) as client:
        asked = {"message": "Hello.", "user_id": "ada", "client_message_id": "first"}
        return (await client.post(f"{url}/chat", json=asked)).status_code


async def opened(folder: Path, number: int) -> None:
    """Wait until so many processes have opened, of all that were started so far."""
    async with asyncio.timeout(60):
        while number > sum(
            line["message"] == "Application startup complete." for line in logged(folder)
        ):
            await asyncio.sleep(0.05)


async def check_workers(folder: Path, database_url: str) -> None:
    environment = {**PLAIN, "DATABASE_URL": database_url}
    process = await asyncio.to_thread(start_process, folder, environment)
    try:
        await opened(folder, WORKERS)
        assert {await chat(process.url) for _ in range(8)} == {200}
        async with httpx.AsyncClient(timeout=60) as client:
            told = (await client.get(f"{process.url}/metrics")).text  # by either of them
        asked = '{method="POST",route="/chat",status="2xx"}'
        assert f"rag_http_request_duration_seconds_count{asked} 8.0" in told
        first, second = serving(folder)
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(60):  # nobody is refused meanwhile, for the socket is shared
            while not serving(folder)[WORKERS:]:
                assert await chat(process.url) == 200
        await opened(folder, WORKERS + 1)
        (third,) = serving(folder)[WORKERS:]
        assert [lives(each) for each in (first, second, third)] == [False, True, True]
        await check_stop(process, second, third)
    finally:
        if process.process.poll() is None:
            process.kill()
    assert not [line for line in logged(folder) if "Traceback" in str(line)]


async def check_stop(process: Process, *workers: int) -> None:
    process.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.process.wait, 30) == 0
    assert not any(lives(each) for each in workers)
    with pytest.raises(httpx.ConnectError):
        await chat(process.url)


async def test_processes_share_a_port_and_one_that_is_killed_is_replaced(tmp_path: Path) -> None:
    await check_workers(tmp_path, f"sqlite:///{tmp_path / 'service.db'}")


async def test_processes_share_an_empty_server(tmp_path: Path, postgres_database: str) -> None:
    process = await asyncio.to_thread(
        start_process, tmp_path, {**PLAIN, "DATABASE_URL": postgres_database}
    )
    try:
        await opened(tmp_path, WORKERS)
        assert await chat(process.url) == 200
        workers = serving(tmp_path)
        process.kill()  # the parent: it can tell nobody
        async with asyncio.timeout(30):
            while any(lives(each) for each in workers):
                await asyncio.sleep(0.05)
    finally:
        if process.process.poll() is None:
            process.kill()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"DATABASE_URL": "sqlite:///:memory:"}, "WORKERS=2 needs a database that processes share"),
        ({"MODEL_PRICES": "nope"}, "MODEL_PRICES must be a JSON object"),
    ],
)
def test_wrong_settings_are_told_once(tmp_path: Path, wrong: dict[str, str], said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "app", "serve", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **PLAIN, **wrong},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(said)
