"""Erasures of a user that cross each other, or what the user begins anew."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import erased_users, facts, jobs
from app.memory.fact_push import fact_vector_id
from app.privacy.errands import LATE, SCRUB, put_scrub
from app.wiring import Runtime
from tests.api.calls import at, chat, vectors
from tests.knowledge.calls import finish_jobs
from tests.privacy.life import ok
from tests.served import served
from tests.wire.pinecone import API_KEY, Faults, serving_pinecone


def ask_to_scrub(connection: Connection, key: str, now: datetime) -> None:
    put_scrub(connection, "globex", key, now, 60.0)


async def scrubs(runtime: Runtime) -> int:
    counted = sa.select(sa.func.count()).where(jobs.c.kind == SCRUB)
    return await runtime.database.read(lambda c: c.execute(counted).scalar_one())


async def test_of_erasures_that_end_at_once_one_lets_the_user_begin_anew(
    postgres_state: str,
) -> None:
    async with (
        served(database_url=postgres_state) as (one, runtime),
        served(database_url=postgres_state) as (other, _),
    ):
        users = [f"ada{number}" for number in range(5)]
        for user in users:
            both = (client.delete(at("users", user)) for client in (one, other))
            assert all(response.is_success for response in await asyncio.gather(*both))
        unfinished = sa.select(erased_users).where(erased_users.c.finished_at.is_(None))
        assert not await runtime.database.read(lambda c: c.execute(unfinished).all())
        for user in users:
            await chat(one, "I live in Braga.", session_id=f"s {user}", user_id=user)


async def test_what_is_told_while_the_late_pass_runs_keeps_its_vector() -> None:
    with serving_pinecone(dimension=32) as server:
        async with served(pinecone_api_key=API_KEY, pinecone_host=server.url) as (client, runtime):
            ok(await client.delete(at("users", "ada")))
            late = sa.select(jobs.c.key).where(jobs.c.kind == LATE)
            key = await runtime.database.read(lambda c: c.execute(late).scalar_one())
            server.faults = Faults(latency_seconds=1.0, times=1)
            looking = asyncio.ensure_future(runtime.worker.run_now("default", LATE, key))
            while server.faults.latency_seconds:
                await asyncio.sleep(0.01)
            told = {"predicate": "likes", "value": "tea", "user_id": "ada"}
            ok(await client.post("/memories/facts", json=told))
            assert not looking.done()
            await looking
            (fact_id,) = await runtime.database.read(
                lambda c: c.execute(sa.select(facts.c.fact_id)).scalars().all()
            )
            assert await vectors(runtime, "memory") == [fact_vector_id(fact_id)]


async def test_an_erasure_that_finds_nothing_again_does_not_rewrite_the_files() -> None:
    async with served() as (client, runtime):
        await chat(client, "I live in Porto.", session_id="s1", user_id="ada")
        assert ok(await client.delete(at("users", "ada")))["bytes"] == "scrubbed"
        await finish_jobs(runtime)
        before = await scrubs(runtime)
        for _ in range(3):
            again = ok(await client.delete(at("users", "ada")))
            assert (again["bytes"], again["pending"]) == ("scrubbed", [])
        await finish_jobs(runtime)
        assert await scrubs(runtime) == before > 0


async def test_one_scrub_does_for_all_that_were_asked_for_before_it_began() -> None:
    async with served() as (_, runtime):
        now = runtime.clock()
        for key in ("one", "two", "three"):
            await runtime.database.write(partial(ask_to_scrub, key=key, now=now))
        assert await runtime.worker.run_now("globex", SCRUB, "two") is None
        states = sa.select(jobs.c.key, jobs.c.state).where(jobs.c.kind == SCRUB)
        found = await runtime.database.read(lambda c: c.execute(states).all())
        assert {(row.key, row.state) for row in found} == {
            ("one", "done"),
            ("two", "done"),
            ("three", "done"),
        }
