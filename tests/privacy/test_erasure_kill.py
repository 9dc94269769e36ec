"""An erasure that is killed in the middle is completed by whoever starts next."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path

import httpx

from tests.api.calls import at
from tests.privacy.life import mark, ok
from tests.privacy.test_erased_bytes import QUICK, jobs_are_done, of_jobs, traces, until
from tests.served import Process, start_process

SEED = 20_261_201
KILLS = int(os.environ.get("KILLS", "1"))
SESSIONS = 15
# What a caller would have done itself, who is gone, is left to it for a minute.
SOON = "kind IN ('erase_user', 'scrub_files', 'sync_documents') AND state = 'due'"


async def remember(url: str, user: str) -> None:
    """Have so much stored of a user that to erase it takes many transactions."""
    said = [
        {"role": "user", "content": f"{mark(user)}said {n}", "created_at": f"2023-05-08T13:{n}:00Z"}
        for n in range(10, 22)
    ]
    told = [{"session_id": f"{n} {user}", "messages": said} for n in range(SESSIONS)]
    documents = [
        {"text": f"{mark(user)}document {n}", "metadata": {"user_id": user}} for n in range(100)
    ]
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        body = {"conversations": told, "user_id": user}
        ok(await client.post("/memories/import", json=body))
        ok(await client.post("/documents", json={"documents": documents}))


async def erase_and_kill(process: Process, user: str, seconds: float) -> None:
    async with httpx.AsyncClient(base_url=process.url, timeout=60) as client:
        erasing = asyncio.create_task(client.delete(at("users", user)))
        await asyncio.sleep(seconds)
        process.kill()
        with contextlib.suppress(httpx.TransportError):
            await erasing


def test_an_erasure_that_is_killed_is_completed_after_a_start(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    process = start_process(tmp_path, QUICK)
    broken_off = 0
    try:
        for number in range(KILLS):
            user = f"zoe{number}"
            asyncio.run(remember(process.url, user))
            until(lambda: jobs_are_done(tmp_path))
            asyncio.run(erase_and_kill(process, user, chance.uniform(0.02, 0.5)))
            broken_off += not jobs_are_done(tmp_path)
            process = start_process(tmp_path, QUICK)
            if len(of_jobs(tmp_path, "SELECT user_hash, erased_at FROM erased_users")) == number:
                ok(httpx.delete(process.url + at("users", user), timeout=60))  # it had not begun
            until(
                lambda: (
                    not of_jobs(tmp_path, f"UPDATE jobs SET due_at = 0 WHERE {SOON}")
                    and jobs_are_done(tmp_path)
                )
            )
            assert not of_jobs(
                tmp_path, "SELECT user_hash, erased_at FROM erased_users WHERE finished_at IS NULL"
            )
            assert traces(tmp_path, user) == 0
    finally:
        if process.process.poll() is None:
            process.kill()
    assert broken_off or KILLS < 5
