"""Sessions that went quiet, and turns whose process died."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import sqlalchemy as sa

from app.db import db_now
from app.db.tables import jobs
from app.memory.monitor import Swept
from app.sessions.base import NewTurn
from app.wiring import Runtime
from tests.api.calls import chat, read
from tests.served import served


async def sweep(runtime: Runtime, *, minutes: float = 0) -> Swept:
    """Make one pass, so many minutes from now, and let the workers end what it asked for."""
    swept = await runtime.monitor.sweep(runtime.clock() + timedelta(minutes=minutes))
    runtime.worker.wake()
    due = sa.and_(jobs.c.state == "due", jobs.c.due_at <= db_now())
    busy = sa.select(jobs.c.id).where(sa.or_(due, jobs.c.state == "running"))
    async with asyncio.timeout(20):
        while await runtime.database.read(lambda c: c.execute(busy).first()):
            await asyncio.sleep(0.01)
    return swept


async def state(runtime: Runtime, session_id: str) -> str:
    return (await runtime.sessions.get("default", session_id, None)).state


async def test_a_quiet_session_is_summarised_and_closed_and_a_lively_one_is_not() -> None:
    async with served(stale_after_seconds=1800.0) as (client, runtime):
        await chat(client, "My dog is called Rex.", session_id="s1", user_id="ada")
        assert await sweep(runtime, minutes=29) == Swept(0, 0)
        assert await state(runtime, "s1") == "open"
        assert await sweep(runtime, minutes=31) == Swept(0, 1)
        session = await read(client, "/sessions/s1")
        assert await sweep(runtime, minutes=32) == Swept(0, 0)
    assert (session["state"], session["summary_covers_seq"]) == ("closed", 2)
    assert "Rex" in session["summary"]


async def test_a_session_that_goes_on_after_it_was_closed_is_closed_again() -> None:
    async with served() as (client, runtime):
        await chat(client, "My dog is called Rex.", session_id="s1", user_id="ada")
        await sweep(runtime, minutes=31)
        await chat(client, "My cat is called Tom.", session_id="s1", user_id="ada")
        assert await state(runtime, "s1") == "open"
        assert await sweep(runtime, minutes=31) == Swept(0, 1)
        session = await read(client, "/sessions/s1")
    assert (session["state"], session["summary_covers_seq"]) == ("closed", 4)
    assert "Rex" in session["summary"]
    assert "Tom" in session["summary"]


async def test_every_quiet_session_of_every_tenant_is_closed_in_one_pass() -> None:
    async with served() as (client, runtime):
        for number in range(5):
            said = f"My dog is called Rex {number}."
            await chat(client, said, session_id=f"s{number}", user_id=f"user {number}")
        new = NewTurn("acme", "s1", "eve", "I like tea.", None, "on", "run")
        turn = await runtime.sessions.begin_turn(new, now=runtime.clock())
        await runtime.sessions.end_turn(
            turn,
            status="complete",
            content="Noted.",
            receipt=None,
            error=None,
            now=runtime.clock(),
        )
        assert await sweep(runtime, minutes=31) == Swept(0, 6)
        counts = await runtime.sessions.counts("default")
        theirs = await runtime.sessions.get("acme", "s1", None)
        episode = await runtime.episodes.get("acme", "s1")
    assert (counts["open"], counts["closed"]) == (0, 5)
    assert theirs.state == "closed"
    assert episode is not None


async def test_two_passes_ask_once() -> None:
    async with served() as (client, runtime):
        await chat(client, "My dog is called Rex.", session_id="s1", user_id="ada")
        later = runtime.clock() + timedelta(minutes=31)
        await asyncio.gather(*(runtime.monitor.sweep(later) for _ in range(5)))
        asked = sa.select(sa.func.count()).where(jobs.c.kind == "close")
        assert await runtime.database.read(lambda c: c.execute(asked).scalar_one()) == 1


async def test_a_turn_whose_process_died_is_ended_and_its_message_is_remembered() -> None:
    async with served(turn_lease_seconds=0.05) as (client, runtime):
        new = NewTurn("default", "s1", "ada", "My dog is called Rex.", None, "on", "dead")
        await runtime.sessions.begin_turn(new, now=runtime.clock())
        await asyncio.sleep(0.1)
        assert await sweep(runtime, minutes=31) == Swept(1, 1)
        session = await read(client, "/sessions/s1")
    question, reply = session["messages"]
    assert (question["content"], question["status"]) == ("My dog is called Rex.", "complete")
    assert (reply["status"], reply["error"]["code"]) == ("interrupted", "interrupted")
    assert session["state"] == "closed"
    assert "Rex" in session["summary"]


async def test_a_session_is_not_closed_over_a_turn_that_still_runs() -> None:
    async with served() as (client, runtime):
        new = NewTurn("default", "s1", "ada", "My dog is called Rex.", None, "on", "alive")
        turn = await runtime.sessions.begin_turn(new, now=runtime.clock())
        assert await sweep(runtime, minutes=31) == Swept(0, 1)
        pending = await runtime.jobs.pending()
        assert await state(runtime, "s1") == "open"
        await runtime.sessions.end_turn(
            turn,
            status="complete",
            content="Noted.",
            receipt=None,
            error=None,
            now=runtime.clock(),
        )
        closed = (await client.post("/sessions/s1/close")).json()
    assert pending["close"]["last_error"] == "a turn of the session is still running"
    assert (closed["state"], "Rex" in closed["summary"]) == ("closed", True)
