"""Replicas on one database, of which one is killed every few seconds: nothing is lost or doubled.

The usual run is short, on SQLite. REPLICA_SECONDS is for how long four of them are under load,
killed every three seconds, on both databases; CHAOS_SEED repeats what chance chose.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.calls import groq, read
from tests.knowledge.calls import finish_jobs
from tests.replicas.audit import check
from tests.replicas.fleet import PATIENCE_SECONDS, Fleet
from tests.replicas.load import TOKEN, Told, put_documents, send_events, talk
from tests.served import served
from tests.wire.memory import lives_in, remembering
from tests.wire.openai import model_server

IS_LONG = "REPLICA_SECONDS" in os.environ
SECONDS = float(os.environ.get("REPLICA_SECONDS", "2"))
SIZE = 4 if IS_LONG else 2
KILL_EVERY_SECONDS = 3.0 if IS_LONG else 1.5
SEED = int(os.environ.get("CHAOS_SEED", "20261130"))
TALKERS_OF_SESSION = 3
SESSIONS = 8 if IS_LONG else 4
LEAST_SAID = 20  # on a machine however busy
STALE_SECONDS = 1.0

ENVIRONMENT = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_KEY": "a-key",
    "PINECONE_API_KEY": "",
    "CHAT_MODEL": "",
    "SUMMARY_MODEL": "",
    "QUESTION_REWRITING": "false",
    "WEBHOOK_TOKEN": TOKEN,
    "WEBHOOK_COALESCE_SECONDS": "0.3",
    "SUMMARY_EVERY_MESSAGES": "6",
    "STALE_AFTER_SECONDS": str(STALE_SECONDS),
    "MONITOR_INTERVAL_SECONDS": "0.5",
    "JOB_POLL_SECONDS": "0.2",
    "JOB_LEASE_SECONDS": "2",
    "TURN_LEASE_SECONDS": "2",
}


async def under_load(fleet: Fleet, told: Told) -> None:
    """Let clients at it while one replica after the other is killed."""

    def chance(name: str) -> random.Random:
        return random.Random(f"{SEED} {name}")

    async with asyncio.TaskGroup() as clients:
        for at in range(SESSIONS):
            session_id = f"session{at}"
            for talker in range(1 + at % TALKERS_OF_SESSION):
                name = f"{session_id}t{talker}"
                clients.create_task(talk(fleet, told, session_id, name, chance(name)))
        for at in range(2):
            clients.create_task(send_events(fleet, told, at, chance(f"events {at}")))
            clients.create_task(put_documents(fleet, told, at, chance(f"documents {at}")))
        await fleet.kill_one_every(KILL_EVERY_SECONDS, during=SECONDS)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while told.said < LEAST_SAID:
                await asyncio.sleep(0.1)
        told.is_over = True


async def wait_until_quiet(url: str) -> None:
    """Return when all sessions are closed and all is done but what is put off for a while."""
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            httpx.AsyncClient(base_url=url, timeout=30) as client,
        ):
            while True:
                ready, stats = await read(client, "/health/ready"), await read(client, "/stats")
                waiting = ready["jobs"].keys() - {"sync_episode", "sync_fact", "merge"}
                if not waiting and not stats["sessions"]["open"]:
                    return
                await asyncio.sleep(0.2)
    pytest.fail(f"the replicas did not come to rest: {ready} {stats}")


async def killed_and_checked(folder: Path, database_url: str) -> None:
    print(f"seed {SEED}")
    with model_server(script=remembering(lives_in)) as model:
        chosen = {**ENVIRONMENT, "DATABASE_URL": database_url, "GROQ_API_BASE": model.url}
        fleet, told = Fleet(folder, chosen, SIZE, random.Random(SEED)), Told()
        try:
            await fleet.open()
            await under_load(fleet, told)
            await wait_until_quiet(fleet.any_url())
        finally:
            await fleet.close()
        print(f"{told.said} messages, {told.events} events, {fleet.kills} kills")
        print(dict(fleet.answers))
        assert fleet.kills > 0
        settings: dict[str, Any] = groq(model, database_url=database_url)
        async with served(**settings) as (client, runtime):
            await finish_jobs(runtime)
            await check(client, runtime, told)


async def test_replicas_on_one_file_lose_and_double_nothing(tmp_path: Path) -> None:
    await killed_and_checked(tmp_path, f"sqlite:///{tmp_path / 'service.db'}")


@pytest.mark.skipif(not IS_LONG, reason="a run of CI, with REPLICA_SECONDS")
async def test_replicas_on_one_server_lose_and_double_nothing(
    tmp_path: Path, postgres_database: str
) -> None:
    await killed_and_checked(tmp_path, postgres_database)
