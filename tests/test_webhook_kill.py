"""A storm of webhooks, repeated and out of order, and kill -9 in its middle: the index is right.

1,000 events and a kill, or as many events as STORM_EVENTS says (5,000 in CI) and three kills.
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

from app.wiring import open_runtime
from tests.served import Process, settings, start_process

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("KILL_SEED", "7"))
EVENTS = int(os.environ.get("STORM_EVENTS", "1000"))
OBJECTS = 400
AT_ONCE = 20  # events in one request
REPEATED = 0.25
SENDERS = 4
KILLS = 3 if "STORM_EVENTS" in os.environ else 1
TOKEN = "storm"

ENVIRONMENT = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_KEY": "",
    "PINECONE_API_KEY": "",
    "CHAT_MODEL": "",
    "SUMMARY_MODEL": "",
    "WEBHOOK_TOKEN": TOKEN,
    "WEBHOOK_COALESCE_SECONDS": "0.3",
    "JOB_POLL_SECONDS": "0.2",
    "JOB_LEASE_SECONDS": "2",
    "MONITOR_INTERVAL_SECONDS": "3600",
}

Json = dict[str, Any]


def a_storm(size: int, chance: random.Random) -> list[Json]:
    """Return events of many objects, each with a time of its own."""
    events = []
    for number in range(size):
        id = chance.randrange(OBJECTS)
        minutes, seconds = divmod(number, 60)
        hours, minutes = divmod(minutes, 60)
        event: Json = {
            "id": f"c{id}",
            "name": f"Company {id}",
            "city": f"City {number}",
            "updated_at": f"2026-11-29T{hours:02d}:{minutes:02d}:{seconds:02d}Z",
        }
        if chance.random() < 0.1:
            event["deleted"] = True
        events.append(event)
    return events


def requests_of(events: list[Json], chance: random.Random) -> list[list[Json]]:
    """Return the events as they are sent: some of them twice, in no order."""
    sent = events + chance.sample(events, int(len(events) * REPEATED))
    chance.shuffle(sent)
    return [sent[start : start + AT_ONCE] for start in range(0, len(sent), AT_ONCE)]


def expected(events: list[Json]) -> dict[str, str]:
    """Return the city of each company that must be there in the end, by id."""
    newest: dict[str, Json] = {}
    for event in events:  # in the order of their times
        newest[event["id"]] = event
    return {id: event["city"] for id, event in newest.items() if "deleted" not in event}


class Service:
    """A process that is killed and started again while others send to it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._process: Process | None = None
        self.url = ""

    async def start(self) -> None:
        self._process = await asyncio.to_thread(start_process, self._folder, self._environment)
        self.url = self._process.url

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


async def send(service: Service, requests: list[list[Json]], acknowledged: list[int]) -> None:
    """Send requests until each is acknowledged, as senders do."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(timeout=30, headers=headers) as client:
        while requests:
            request = requests.pop()
            while True:
                try:
                    response = await client.post(f"{service.url}/webhooks/generic", json=request)
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
                    continue
                assert response.status_code == 202, response.text
                acknowledged.append(len(request))
                break


async def storm(service: Service, requests: list[list[Json]], chance: random.Random) -> None:
    acknowledged: list[int] = []
    total = sum(len(request) for request in requests)
    moments = sorted(chance.uniform(0.1, 0.95) * total for _ in range(KILLS))
    async with asyncio.TaskGroup() as group:
        for _ in range(SENDERS):
            group.create_task(send(service, requests, acknowledged))
        for moment in moments:
            while sum(acknowledged) < moment:
                await asyncio.sleep(0.01)
            service.kill()
            await service.start()
    assert sum(acknowledged) == total


async def wait_until_quiet(url: str) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(120), httpx.AsyncClient(base_url=url, timeout=30) as client:
            while True:
                ready = (await client.get("/health/ready")).json()
                if not ready["jobs"] and not ready["deliveries"]["pending"]:
                    return
                await asyncio.sleep(0.3)
    pytest.fail(f"the service did not come to rest: {ready}")


async def check(database_url: str, events: list[Json]) -> None:
    """SQL and the index hold exactly what the newest events say."""
    cities = expected(events)
    async with open_runtime(settings(database_url=database_url)) as runtime:
        stored = await runtime.documents.list_documents(
            "default", source="generic", after=None, limit=2 * OBJECTS
        )
        ids = [id async for id in runtime.index.list_ids("documents")]
        rows = await runtime.index.fetch("documents", ids)
        failed = await runtime.inbox.counts()
    assert {document.id.rpartition(":")[2] for document in stored} == set(cities)
    for document in stored:
        assert f"{cities[document.id.rpartition(':')[2]]}." in document.text
    assert sorted(str(row.metadata["text"]) for row in rows.values()) == sorted(
        document.text for document in stored
    )
    assert failed == {"pending": 0, "failed": 0}


async def killed_and_checked(folder: Path, database_url: str, *, size: int) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    events = a_storm(size, chance)
    service = Service(folder, {**ENVIRONMENT, "DATABASE_URL": database_url})
    await service.start()
    try:
        await storm(service, requests_of(events, chance), chance)
        await wait_until_quiet(service.url)
    finally:
        service.kill()
    await check(database_url, events)


async def test_a_storm_of_webhooks_survives_kills(tmp_path: Path) -> None:
    await killed_and_checked(tmp_path, f"sqlite:///{tmp_path / 'service.db'}", size=EVENTS)


async def test_a_storm_of_webhooks_survives_kills_on_postgres(
    tmp_path: Path, postgres_database: str
) -> None:
    await killed_and_checked(tmp_path, postgres_database, size=EVENTS // 2)
