"""How many sessions of a user stay open, and what opens one again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx

from tests.api.calls import answered, at, chat, close, groq, key, read, refused
from tests.knowledge.calls import do_what_is_due
from tests.memory.stores import Clock, serving
from tests.served import served
from tests.wire.openai import model_server

PORTO = "I moved to Porto on 2026-03-04."


async def states(client: httpx.AsyncClient, **params: Any) -> dict[str, str]:
    found = await read(client, "/sessions", params=params)
    return {session["session_id"]: session["state"] for session in found["sessions"]}


async def test_the_session_that_is_quiet_longest_is_closed_with_its_summary_and_can_go_on() -> None:
    async with served(max_sessions_per_user=2) as (client, runtime):
        await chat(client, PORTO, session_id="s1")
        await chat(client, "hello", session_id="s2")
        await chat(client, "hello", session_id="s3")
        at_once = await states(client)
        await do_what_is_due(runtime)
        after = await states(client)
        detail = await read(client, at("sessions", "s1"))
        await chat(client, "Which city do I live in?", session_id="s1")
        await do_what_is_due(runtime)
        again = await states(client)
        messages = (await read(client, at("sessions", "s1")))["messages"]
    assert set(at_once.values()) == {"open"}  # the turn called no model for it
    assert after == {"s3": "open", "s2": "open", "s1": "closed"}
    assert "Porto" in detail["summary"]
    assert detail["message_count"] == 2
    assert again == {"s1": "open", "s3": "open", "s2": "closed"}
    assert len(messages) == 4


async def test_without_the_setting_none_is_closed() -> None:
    async with served() as (client, runtime):
        for n in range(12):
            await chat(client, "hello", session_id=f"s{n}")
        await do_what_is_due(runtime)
        assert set((await states(client)).values()) == {"open"}


async def test_sessions_of_other_users_and_tenants_do_not_count() -> None:
    async with served(max_sessions_per_user=1) as (client, runtime):
        globex = await key(runtime, "admin", tenant="globex")
        admin = await key(runtime, "admin")
        await chat(client, "hello", session_id="a1", user_id="ada", headers=admin)
        await chat(client, "hello", session_id="b1", user_id="bob", headers=admin)
        await chat(client, "hello", session_id="g1", user_id="ada", headers=globex)
        await do_what_is_due(runtime)
        ours = await read(client, "/sessions", headers=admin)
        await chat(client, "hello", session_id="a2", user_id="ada", headers=admin)
        await do_what_is_due(runtime)
        later = await read(client, "/sessions", headers=admin)
    assert {s["state"] for s in ours["sessions"]} == {"open"}
    assert {s["session_id"]: s["state"] for s in later["sessions"]} == {
        "a1": "closed",
        "a2": "open",
        "b1": "open",
    }


async def test_a_message_to_an_open_session_closes_none() -> None:
    """Many may be open when the setting is made; a turn that opens nothing pays nothing for it."""
    async with served(max_sessions_per_user=1) as (client, runtime):
        await chat(client, "hello", session_id="s1")
        await chat(client, "hello", session_id="s2")
        await chat(client, "hello again", session_id="s1")
        assert await states(client) == {"s1": "open", "s2": "open"}
        await do_what_is_due(runtime)  # the job was for what s1 held when s2 came
        assert (await states(client))["s1"] == "open"


async def test_a_session_that_is_being_answered_is_not_closed() -> None:
    with model_server(script=("Hello there, friend.",), latency_seconds=0.6) as model:
        async with served(**groq(model, max_sessions_per_user=2)) as (client, runtime):
            await chat(client, "hello", session_id="s1")
            model.fault, model.fault_times = "slow", 1
            busy = asyncio.create_task(chat(client, "a long question", session_id="s1"))
            while len(model.requests) < 2:
                await asyncio.sleep(0.01)
            await chat(client, "hello", session_id="s2")
            await chat(client, "hello", session_id="s3")
            assert not busy.done()
            await do_what_is_due(runtime)
            between = await states(client)
            await busy
    assert between == {"s1": "open", "s2": "closed", "s3": "open"}


async def test_a_reopened_session_counts_and_has_another_one_closed() -> None:
    async with served(max_sessions_per_user=1) as (client, runtime):
        await chat(client, "hello", session_id="s1")
        await close(client, "s1")
        await chat(client, "hello", session_id="s2")
        answered(await client.post(at("sessions", "s1", "reopen")))
        await do_what_is_due(runtime)
        assert await states(client) == {"s1": "open", "s2": "closed"}


async def test_reopening_is_idempotent_and_for_its_user_only() -> None:
    async with served() as (client, runtime):
        ada, bob = (
            await key(runtime, "user", user="ada"),
            await key(runtime, "user", user="bob"),
        )
        await chat(client, PORTO, session_id="s1", headers=ada)
        reopen = at("sessions", "s1", "reopen")
        untouched = answered(await client.post(reopen, headers=ada))
        before = await read(client, "/sessions", headers=ada)
        await close(client, "s1", headers=ada)
        refused(await client.post(reopen, headers=bob), 404)
        opened = answered(await client.post(reopen, headers=ada))
        again = answered(await client.post(reopen, headers=ada))
    assert before["sessions"] == [untouched]
    assert (opened["state"], opened["closed_at"], opened["message_count"]) == ("open", None, 2)
    assert again == opened


async def test_a_reopened_session_is_closed_again_after_a_quiet_spell_of_its_own() -> None:
    clock = Clock()
    async with serving(clock, stale_after_seconds=3600.0) as (client, runtime):

        async def sweep() -> str:
            await runtime.monitor.sweep(clock.now)
            await do_what_is_due(runtime)
            return (await states(client))["s1"]

        await chat(client, PORTO, session_id="s1")
        clock.now += timedelta(days=3)
        assert await sweep() == "closed"
        summary = (await read(client, at("sessions", "s1")))["summary"]
        answered(await client.post(at("sessions", "s1", "reopen")))
        clock.now += timedelta(minutes=30)
        assert await sweep() == "open"
        clock.now += timedelta(minutes=31)
        assert await sweep() == "closed"
        detail = await read(client, at("sessions", "s1"))
    assert (detail["summary"], detail["summary_covers_seq"]) == (summary, 2)


async def test_a_job_that_was_to_close_a_session_before_does_not_close_the_reopened_one() -> None:
    async with serving(Clock(), summary_every_messages=2) as (client, runtime):
        await chat(client, PORTO, session_id="s1")
        session = await runtime.sessions.get("default", "s1", None)
        left = await runtime.episodes.ask_to_close(session, delay_seconds=3600.0)
        await do_what_is_due(runtime)  # the summary, so that the next one to close it is another
        closed = await close(client, "s1")
        answered(await client.post(at("sessions", "s1", "reopen")))
        await runtime.worker.run_now("default", "close", left)
        state = (await states(client))["s1"]
    assert (closed["state"], state) == ("closed", "open")


async def test_the_model_sees_summary_and_last_messages_of_a_session_that_is_opened_again() -> None:
    def script(body: dict[str, Any]) -> str:
        asks_for_summary = "<transcript" in body["messages"][-1]["content"]
        return "The user moved to Porto on 2026-03-04." if asks_for_summary else "Noted, friend."

    with model_server(script=script) as model:
        chosen = groq(model, history_max_messages=4, question_rewriting=False)
        async with served(**chosen) as (client, _):
            await chat(client, PORTO, session_id="s1")
            for n in range(4):
                await chat(client, f"Remark number {n}.", session_id="s1")
            closed = await close(client, "s1")
            covered = (await read(client, at("sessions", "s1")))["summary_covers_seq"]
            opened = answered(await client.post(at("sessions", "s1", "reopen")))
            detail = await read(client, at("sessions", "s1"))
            await chat(client, "And now?", session_id="s1")
            seen = str(_asked(model.requests))
    assert "Porto" in closed["summary"]
    assert opened["state"] == "open"
    assert (detail["summary"], detail["summary_covers_seq"]) == (closed["summary"], covered)
    assert closed["summary"] in seen
    assert "Remark number 3." in seen
    assert PORTO not in seen  # it is too far back, and stands in the summary


def _asked(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the chat model was sent last."""
    messages: list[dict[str, Any]] = [b for b in requests if "And now?" in str(b)][-1]["messages"]
    return messages
