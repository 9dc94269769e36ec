"""All that writes to one user's memory, at once: nothing fails, and in the end all agrees."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

import httpx
import pytest

from tests.knowledge.calls import finish_jobs
from tests.memory.agreement import assert_memory_agrees
from tests.served import served

SESSIONS = [f"s{n}" for n in range(6)]
CITIES = ["Lisbon", "Porto", "Braga", "Faro"]
SEED = 20_261_130


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[dict[str, Any]]:
    if request.param == "sqlite":
        yield {"database_url": f"sqlite:///{tmp_path / 'service.db'}"}
    else:
        yield {"database_url": request.getfixturevalue("postgres_state")}


async def test_checkpoints_corrections_and_forgetting_at_once(store: dict[str, Any]) -> None:
    print(f"seed {SEED}")
    async with served(**store, job_poll_seconds=0.05) as (client, runtime):
        talks = [_talk(client, session, Random(f"{SEED} {session}")) for session in SESSIONS]
        others = [
            _disturb(client, Random(f"{SEED} {n}"), deed)
            for n, deed in enumerate((_correct, _correct, _forget, _evict, _tell))
        ]
        statuses = await asyncio.gather(*talks, *others)
        await finish_jobs(runtime)
        told = {status for some in statuses for status in some}
        listed = await client.get("/memories/facts", params={"user_id": "ada"})
        assert told <= {200, 404, 409}, told
        assert listed.json()["facts"]
        await assert_memory_agrees(runtime)


async def _talk(client: httpx.AsyncClient, session_id: str, chance: Random) -> list[int]:
    statuses = []
    for _ in range(6):
        said = f"I live in {chance.choice(CITIES)}. I like {chance.choice(['tea', 'jazz'])}."
        asked = {"message": said, "session_id": session_id, "user_id": "ada"}
        statuses.append((await client.post("/chat", json=asked)).status_code)
        path = f"/sessions/{session_id}"
        if chance.random() < 0.8:
            statuses.append((await client.post(f"{path}/close")).status_code)
        if chance.random() < 0.15:
            statuses.append((await client.delete(path)).status_code)
    return statuses


Deed = Callable[[httpx.AsyncClient, Random], Awaitable[httpx.Response]]


async def _disturb(client: httpx.AsyncClient, chance: Random, deed: Deed) -> list[int]:
    statuses = []
    for _ in range(12):
        statuses.append((await deed(client, chance)).status_code)
        await asyncio.sleep(chance.uniform(0.0, 0.1))
    return statuses


async def _correct(client: httpx.AsyncClient, chance: Random) -> httpx.Response:
    listed = await client.get("/memories/facts", params={"user_id": "ada", "include_past": True})
    if not (facts := listed.json()["facts"]):
        return listed
    path = f"/memories/facts/{chance.choice(facts)['fact_id']}"
    if chance.random() < 0.4:
        return await client.delete(path)
    return await client.patch(path, json={"value": chance.choice(CITIES), "mark": "pinned"})


async def _forget(client: httpx.AsyncClient, chance: Random) -> httpx.Response:
    path = f"/memories/{chance.choice(SESSIONS)}"
    return await client.delete(path, params={"user_id": "ada"})


async def _evict(client: httpx.AsyncClient, chance: Random) -> httpx.Response:
    keep = chance.random() < 0.5
    asked = {"user_id": "ada", "policy": "count", "max_memories": 2, "keep_facts": keep}
    return await client.post("/memories/evict", json=asked)


async def _tell(client: httpx.AsyncClient, chance: Random) -> httpx.Response:
    told = {"user_id": "ada", "subject": "user", "predicate": "lives_in"}
    return await client.post("/memories/facts", json={**told, "value": chance.choice(CITIES)})
