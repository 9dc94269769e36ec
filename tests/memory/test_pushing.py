"""A session's vectors and the job that pushes them: noted together, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
import sqlalchemy as sa

from app.db import Connection
from app.db.tables import episodes
from app.index.base import Vector
from app.jobs import Claim, Jobs, LostClaim, put
from app.memory.ending import Ending
from app.memory.pushing import Pusher
from app.wiring import Runtime
from tests.api.calls import chat, close
from tests.served import served

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
KIND = "push_by_hand"  # no worker takes it
LEFT_BEHIND = "s1#s9"


def pusher(runtime: Runtime) -> Pusher:
    return Pusher(runtime.database, runtime.index, runtime.embedder, exchanges=True)


async def claimed_twice(runtime: Runtime) -> tuple[Claim, Claim]:
    """Return a claim whose lease ran out, and that of whoever took the job over."""

    def leave(connection: Connection) -> None:
        payload = {"session_id": "s1"}
        put(connection, "default", KIND, "k", payload, subject="memory:s1", now=NOW)

    await runtime.database.write(leave)
    queue = Jobs(runtime.database, lease_seconds=-1.0)
    lost, held = [await queue.claim_key("default", KIND, "k") for _ in range(2)]
    assert lost is not None
    assert held is not None
    return lost, held


async def indexed_version(runtime: Runtime) -> int:
    statement = sa.select(episodes.c.indexed_version).where(episodes.c.session_id == "s1")
    return int(await runtime.database.read(lambda c: c.execute(statement).scalar_one()))


async def vector_ids(runtime: Runtime) -> set[str]:
    return {found async for found in runtime.index.list_ids("memory")}


async def test_who_lost_the_job_notes_nothing_as_indexed_and_who_holds_it_ends_it() -> None:
    async with served() as (client, runtime):
        await chat(client, "I live in Porto.", session_id="s1", user_id="ada")
        await close(client, "s1")
        behind = episodes.update().values(indexed_version=0)
        await runtime.database.write(lambda c: c.execute(behind))
        lost, held = await claimed_twice(runtime)

        with pytest.raises(LostClaim):
            await pusher(runtime).push("default", "s1", again=True, ending=Ending(lost))
        assert await indexed_version(runtime) == 0

        await pusher(runtime).push("default", "s1", again=True, ending=Ending(held))
        assert await indexed_version(runtime) > 0
        queue = Jobs(runtime.database, lease_seconds=30)
        assert await queue.state("default", KIND, "k") == ("done", None)


async def test_what_a_push_left_behind_that_was_cut_off_goes_with_the_next() -> None:
    async with served() as (client, runtime):
        await chat(client, "I live in Porto.", session_id="s1", user_id="ada")
        values = np.ones(runtime.embedder.dimension, np.float32)
        await runtime.index.upsert("memory", [Vector(LEFT_BEHIND, values, {"user_id": "ada"})])
        await close(client, "s1")
        assert LEFT_BEHIND not in await vector_ids(runtime)
        assert "s1" in await vector_ids(runtime)
