"""Replicas whose clocks differ by two hours: the database's clock decides, and no harm is done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import jobs
from app.clock import DatabaseClock
from app.db import Connection, open_database
from app.main import create_app
from app.wiring import Runtime, utc_now
from tests.api.calls import answered, chat, close, read
from tests.knowledge.calls import finish_jobs
from tests.served import settings

HOUR = timedelta(hours=1)
Replica = tuple[httpx.AsyncClient, Runtime]


@pytest.fixture(params=["file", "server"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"sqlite:///{tmp_path / 'service.db'}"
    return str(request.getfixturevalue("postgres_state"))


@asynccontextmanager
async def replica(database_url: str, ahead: timedelta, **chosen: Any) -> AsyncIterator[Replica]:
    """Serve an app on a machine whose clock is wrong."""
    wanted = settings(database_url=database_url, **chosen)
    app = create_app(wanted, own_clock=lambda: utc_now() + ahead)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client, app.state.runtime


@asynccontextmanager
async def early_and_late(
    database_url: str, **chosen: Any
) -> AsyncIterator[tuple[Replica, Replica]]:
    async with (
        replica(database_url, HOUR, **chosen) as early,
        replica(database_url, -HOUR, **chosen) as late,
    ):
        yield early, late


async def test_a_session_that_goes_on_is_not_closed_by_another_clock(database_url: str) -> None:
    async with early_and_late(database_url) as replicas:
        (_, early), (_, late) = replicas
        for client, _ in replicas:
            await chat(client, "I have a dog.", session_id="live", user_id="ada")
        for _, runtime in replicas:
            assert (await runtime.monitor.sweep(runtime.clock())).quiet == 0
        for runtime in (early, late):  # nor is one kept open that nobody goes on with
            later = runtime.clock() + timedelta(minutes=31)
            assert (await runtime.monitor.sweep(later)).quiet == 1
        await finish_jobs(early)
        session = await read(replicas[0][0], "/sessions/live")
    assert (session["state"], session["summary_covers_seq"]) == ("closed", 4)
    times = [datetime.fromisoformat(message["created_at"]) for message in session["messages"]]
    assert times == sorted(times)
    assert abs(times[0] - datetime.now(UTC)) < HOUR / 2


async def test_what_was_said_last_counts_whoever_heard_it(database_url: str) -> None:
    async with early_and_late(database_url) as ((early, _), (late, runtime)):
        for client, city in ((early, "Lisbon"), (late, "Porto"), (early, "Faro"), (late, "Braga")):
            await chat(client, f"I live in {city}.", session_id=city, user_id="ada")
            await close(client, city)
        (fact,) = await runtime.facts.of_user("default", "ada", include_past=False, limit=9)
        past = await runtime.facts.of_user("default", "ada", include_past=True, limit=9)
    assert fact.value == "Braga"
    assert len(past) == 4


async def test_who_was_erased_by_one_clock_may_begin_again_by_another(database_url: str) -> None:
    async with early_and_late(database_url) as ((early, runtime), (late, _)):
        await chat(early, "I have a dog.", session_id="before", user_id="ada")
        gone = await early.delete("/users/ada")
        assert gone.status_code == 200, gone.text
        await finish_jobs(runtime)
        await chat(late, "Hello.", session_id="after", user_id="ada")
        consent = {"memory_enabled": False, "pii_storage_allowed": True}
        answered(await late.put("/users/ada/consent", json=consent))
        for client in (early, late):
            said = await read(client, "/users/ada/consent")
            assert said["memory_enabled"] is False


async def test_a_lease_is_not_taken_by_a_clock_that_is_ahead(database_url: str) -> None:
    async with early_and_late(database_url, job_poll_seconds=3600.0) as ((_, early), (_, late)):

        def ask(connection: Connection) -> None:
            jobs.put(connection, "default", "held", "k", {}, subject="s", now=late.clock())

        await late.database.write(ask)
        claim = await late.jobs.claim(["held"])
        assert claim is not None
        assert await early.jobs.claim(["held"]) is None
        await late.jobs.finish(claim, lambda _: None)


async def test_a_clock_that_is_set_right_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    ahead = HOUR
    database = await open_database("sqlite:///:memory:")
    clock = DatabaseClock(database, lambda: utc_now() + ahead)
    await clock.set()
    assert abs(clock() - utc_now()) < HOUR / 2
    ahead = timedelta()
    await clock.set()
    assert abs(clock() - utc_now()) < HOUR / 2
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("this machine's clock is 3")
    assert first.endswith("ahead of the database's, which counts")
    assert second == "this machine's clock agrees with the database's"
    await database.close()
