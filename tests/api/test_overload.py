"""More questions than the model may be asked at once, from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.calls import Json, answered, at, chat, close, groq, read, refused
from tests.chat.agents import in_turn
from tests.served import events_of, served
from tests.wire.held import Held
from tests.wire.openai import Calls, ModelServer, model_server

# One user may have half of the places: two.
ONE = {"model_max_concurrent": 1, "model_max_queued": 3, "model_timeout_seconds": 30.0}

SAID = [{"role": "user", "content": "hi"}]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(held=Held()) as server:
        yield server


def held(model: ModelServer) -> Held:
    assert model.held is not None
    return model.held


async def waiting(client: httpx.AsyncClient, session_id: str, **fields: Any) -> asyncio.Task[Json]:
    """Ask, and return once the message is stored: its turn has begun."""
    asked = asyncio.create_task(chat(client, "hi", session_id=session_id, **fields))
    while (await client.get(at("sessions", session_id))).status_code != 200:
        await asyncio.sleep(0.01)
    return asked


async def test_a_question_too_many_is_refused_before_it_is_stored_and_may_come_again(
    model: ModelServer,
) -> None:
    async with served(**{**groq(model), **ONE}) as (client, _):
        runs = await waiting(client, "s1")
        await held(model).arrived()
        waits = await waiting(client, "s2")
        again = {"message": "hi", "session_id": "s3", "client_message_id": "m1"}
        responses = [
            await client.post("/chat", json=again),
            await client.post("/chat", json={**again, "stream": True}),
            await client.post(
                "/v1/chat/completions",
                json={"model": "conversational-rag", "messages": SAID},
            ),
        ]
        for response in responses[:2]:
            assert refused(response, 503)["code"] == "model_overloaded"
        for response in responses:
            assert response.json()["error"]["code"] == "model_overloaded"
            assert response.headers["retry-after"] == "5"
        assert (await client.get(at("sessions", "s3"))).status_code == 404
        assert len(model.requests) == 1
        counted = (await client.get("/metrics")).text
        held(model).let_go()
        await asyncio.gather(runs, waits)
        answer = answered(await client.post("/chat", json=again))
        stored = await read(client, at("sessions", "s3"))
    assert "rag_model_queue_refusals_total 3.0" in counted
    assert "rag_model_calls_in_progress 1.0" in counted
    assert "rag_model_calls_queued 1.0" in counted
    assert answer["reply"] == "Hello there, friend."
    assert [m["content"] for m in stored["messages"]] == ["hi", "Hello there, friend."]


async def test_what_was_answered_is_told_again_whoever_waits(model: ModelServer) -> None:
    held(model).let_go()
    asked = {"message": "hi", "session_id": "s0", "client_message_id": "m1"}
    async with served(**{**groq(model), **ONE}) as (client, _):
        first = answered(await client.post("/chat", json=asked))
        model.held = Held()
        runs = await waiting(client, "s1")
        waits = await waiting(client, "s2")
        again = answered(await client.post("/chat", json=asked))
        model.held.let_go()
        await asyncio.gather(runs, waits)
    assert again["message_id"] == first["message_id"]


async def test_a_stream_holds_its_place_to_its_end_and_is_served_in_turn(
    model: ModelServer,
) -> None:
    held(model).let_go()
    model.fault, model.fault_times, model.latency_seconds = "stall", 1, 0.5
    async with served(**{**groq(model), **ONE}) as (client, _):
        asked = {"message": "hi", "session_id": "s1", "stream": True}
        stream = asyncio.create_task(client.post("/chat", json=asked))
        await held(model).arrived()
        second = await waiting(client, "s2")
        assert len(model.requests) == 1
        events = events_of((await stream).text)
        await second
    assert events[-1][0] == "done"
    assert len(model.requests) == 2


async def test_a_question_that_waited_in_vain_is_kept_and_its_repeat_is_answered(
    model: ModelServer,
) -> None:
    model.held = Held(first=2)
    chosen = {**groq(model), **ONE, "model_timeout_seconds": 2.0}
    asked = {"message": "hi", "session_id": "s2", "client_message_id": "m1"}
    async with served(**chosen) as (client, _):
        runs = asyncio.create_task(client.post("/chat", json={"message": "hi"}))
        await held(model).arrived()
        late = await client.post("/chat", json=asked)
        assert (await runs).status_code == 504
        stored = await read(client, at("sessions", "s2"))
        held(model).let_go()
        again = answered(await client.post("/chat", json=asked))
    assert late.status_code in (503, 504)  # its place may come in the last moment
    assert [m["role"] for m in stored["messages"]] == ["user", "assistant"]
    assert again["reply"] == "Hello there, friend."


async def test_a_summary_gives_way_and_waits_without_having_failed(model: ModelServer) -> None:
    held(model).let_go()
    chosen = {**groq(model), **ONE, "model_max_queued": 0}
    async with served(**chosen) as (client, _):
        await chat(client, "I live in Bonn.", session_id="s1")
        model.held = Held()
        runs = await waiting(client, "s2")
        await model.held.arrived()
        closed = await close(client, "s1")
        ready = await read(client, "/health/ready")
        model.held.let_go()
        await runs
    assert closed["state"] == "open"
    assert "calls of the models run" in closed["pending"]
    assert (ready["summaries"]["pending"], ready["summaries"]["failed"]) == (1, 0)


async def test_an_agent_s_calls_count_too(model: ModelServer) -> None:
    held(model).let_go()
    model.script = in_turn(Calls((("search_documents", {"query": "refunds"}),)), "None.")
    async with served(**{**groq(model), **ONE}) as (client, _):
        model.held = Held()
        runs = await waiting(client, "s1", mode="agent")
        waits = await waiting(client, "s2")
        refusal = await client.post("/chat", json={"message": "hi", "mode": "agent"})
        model.held.let_go()
        await asyncio.gather(runs, waits)
    assert refused(refusal, 503)["code"] == "model_overloaded"
