"""Facts that stand alone on their way to the index, many at a time; on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app import jobs as room
from app.db.tables import facts, jobs
from app.memory.fact_push import TRIES_TOGETHER, fact_vector_id
from app.memory.fact_sync import SYNC_FACT
from app.wiring import Runtime
from tests.api.calls import answered, at
from tests.knowledge.calls import do_what_is_due, finish_jobs, try_jobs
from tests.served import served
from tests.wire.held import Held
from tests.wire.openai import ModelServer, model_server, words_vector

DIMENSION = 32
POISON = "poison"


def vector(text: str, dimension: int) -> list[float]:
    """Return nothing that an index takes for a text with the poison in it."""
    return words_vector(text, dimension if POISON not in text else dimension - 1)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(dimension=DIMENSION, vector=vector) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


@asynccontextmanager
async def serving(store: dict[str, Any]) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    told: dict[str, Any] = {"embedding_model": "openai:words", "embedding_dimension": DIMENSION}
    told["breaker_failures"] = 1_000
    async with served(**store, **told) as service:
        yield service


async def put(client: httpx.AsyncClient, *texts: str, user: str = "ada") -> None:
    operations = [
        {"op": "put", "namespace": ["notes"], "key": str(key), "value": {"text": text}}
        for key, text in enumerate(texts)
    ]
    answered(await client.post("/store/batch", json={"user_id": user, "operations": operations}))


async def indexed(runtime: Runtime) -> list[str]:
    """Return what the index says, in order."""
    ids = [found async for found in runtime.index.list_ids("memory")]
    rows = await runtime.index.fetch("memory", ids)
    return sorted(str(row.metadata["text"]) for row in rows.values())


async def left(runtime: Runtime) -> list[int]:
    """Return of how many facts each job is that is not done."""
    undone = sa.select(jobs.c.payload).where(jobs.c.kind == SYNC_FACT, jobs.c.state != "done")
    rows = await runtime.database.read(lambda c: c.execute(undone).scalars().all())
    return sorted(len(payload["fact_ids"]) for payload in rows)


async def id_of(runtime: Runtime, text: str) -> str:
    wanted = sa.select(facts.c.fact_id).where(facts.c.statement == text)
    return str(await runtime.database.read(lambda c: c.execute(wanted).scalar_one()))


async def behind(runtime: Runtime) -> list[str]:
    """Return what the facts say whose rows do not know of their vector."""
    some = facts.c.indexed_version < facts.c.version
    wanted = sa.select(facts.c.statement).where(some).order_by(facts.c.statement)
    return list(await runtime.database.read(lambda c: c.execute(wanted).scalars().all()))


def embedded(model: ModelServer) -> list[int]:
    """Return how many texts each call of the embedder had."""
    return [len(body["input"]) for body in model.requests if "input" in body]


async def test_what_one_batch_tells_is_embedded_and_pushed_together(
    store: dict[str, Any], model: ModelServer
) -> None:
    texts = sorted(f"Lamp {n} is in shelf {n % 7}." for n in range(90))
    async with serving(store) as (client, runtime):
        await put(client, *texts)
        assert embedded(model) == [90]
        assert await indexed(runtime) == texts
        assert (await left(runtime), await behind(runtime)) == ([], [])
        ready = (await client.get("/health/ready")).json()
        assert (ready["jobs"], ready["late_jobs"]) == ({}, {})
        # What was there before may be pushed just now: a second look is left for it.
        await put(client, *(f"{text} Still." for text in texts[:2]))
        ready = (await client.get("/health/ready")).json()
        assert (ready["jobs"], ready["late_jobs"]) == ({}, {"sync_fact": 1})
        await finish_jobs(runtime)
        ready = (await client.get("/health/ready")).json()
        assert ready["late_jobs"] == {}
        said = [f"{text} Still." for text in texts[:2]] + texts[2:]
        assert await indexed(runtime) == sorted(said)


async def test_a_fact_that_can_not_be_embedded_holds_up_no_other(
    store: dict[str, Any], model: ModelServer
) -> None:
    texts = [f"Lamp {n} is lit." for n in range(13)]
    async with serving(store) as (client, runtime):
        await put(client, *texts[:5], f"Lamp 99 is {POISON}.", *texts[5:])
        await do_what_is_due(runtime)
        assert await indexed(runtime) == sorted(texts)
        assert await behind(runtime) == [f"Lamp 99 is {POISON}."]
        assert await left(runtime) == [1]
        ready = (await client.get("/health/ready")).json()
        about = ready["jobs"]["sync_fact"]
        assert (about["pending"], about["failed"], ready["status"]) == (1, 1, "degraded")
        model.vector = words_vector
        await finish_jobs(runtime)
        assert await indexed(runtime) == sorted([*texts, f"Lamp 99 is {POISON}."])
        assert await behind(runtime) == []


async def test_while_the_embedder_is_away_facts_wait_together_and_then_in_halves(
    store: dict[str, Any], model: ModelServer
) -> None:
    texts = [f"Lamp {n} is lit." for n in range(8)]
    async with serving(store) as (client, runtime):
        model.fault = "server_error"
        await put(client, *texts)  # the first try
        for _ in range(TRIES_TOGETHER - 2):
            await try_jobs(runtime)
        assert await left(runtime) == [8]
        await try_jobs(runtime)
        assert await left(runtime) == [4, 4]
        assert (await indexed(runtime), await behind(runtime)) == ([], sorted(texts))
        model.fault = None
        await finish_jobs(runtime)
        assert (await indexed(runtime), await left(runtime)) == (sorted(texts), [])


async def test_what_moves_or_goes_while_it_is_pushed_is_pushed_again_or_deleted(
    store: dict[str, Any], model: ModelServer
) -> None:
    async with serving(store) as (client, runtime):
        model.held = Held()
        storing = asyncio.create_task(put(client, "Tea is hot.", "Milk is cold.", "Ink is blue."))
        await model.held.arrived()  # the rows were read
        moved, gone = [await id_of(runtime, text) for text in ("Tea is hot.", "Milk is cold.")]
        changed = {"statement": "Tea is cold.", "value": "Tea is cold."}
        one = await client.patch(at("memories", "facts", moved), json=changed)
        answered(one)
        answered(await client.delete(at("memories", "facts", gone)))
        model.held.let_go()
        await storing
        assert await indexed(runtime) == ["Ink is blue.", "Tea is cold."]
        assert await behind(runtime) == []
        await finish_jobs(runtime)
        assert await indexed(runtime) == ["Ink is blue.", "Tea is cold."]


async def test_of_a_user_who_is_erased_while_facts_are_pushed_no_vector_stays(
    store: dict[str, Any], model: ModelServer
) -> None:
    async with serving(store) as (client, runtime):
        await put(client, "Bo likes tea.", "Bo likes milk.", user="bo")
        model.held = Held()
        storing = asyncio.create_task(put(client, *(f"Ada likes {n}." for n in range(9))))
        await model.held.arrived()
        answered(await client.delete(at("users", "ada")))
        model.held.let_go()
        await storing
        assert await indexed(runtime) == ["Bo likes milk.", "Bo likes tea."]
        await finish_jobs(runtime)
        assert await indexed(runtime) == ["Bo likes milk.", "Bo likes tea."]


async def test_a_job_of_an_older_release_names_one_fact(
    store: dict[str, Any], model: ModelServer
) -> None:
    async with serving(store) as (client, runtime):
        await put(client, "Tea is hot.", "Milk is cold.")
        fact_id = await id_of(runtime, "Tea is hot.")
        await runtime.index.delete("memory", [fact_vector_id(fact_id)])
        now, about = runtime.clock(), f"fact:{fact_id}"
        payload = {"fact_id": fact_id}
        await runtime.database.write(
            lambda c: room.put(c, "default", SYNC_FACT, "old", payload, subject=about, now=now)
        )
        await do_what_is_due(runtime)
        assert await indexed(runtime) == ["Milk is cold.", "Tea is hot."]


async def test_the_index_is_refilled_with_all_facts_that_stand_alone(
    store: dict[str, Any], model: ModelServer
) -> None:
    texts = sorted(f"Lamp {n} is in shelf {n % 7}." for n in range(130))
    async with serving(store) as (client, runtime):
        await put(client, *texts[:90])
        answered(
            await client.post(
                "/memories/facts", json={"predicate": "likes", "value": "tea", "user_id": "bo"}
            )
        )
        await runtime.index.clear("memory")
        assert await runtime.fact_pusher.refill("default") == 91
        assert (await runtime.fact_pusher.refill("other"), len(await indexed(runtime))) == (0, 91)
