"""What is deleted stays deleted, also where something was under way or the id is used again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.served import served
from tests.wire.openai import ModelServer, model_server
from tests.wire.pinecone import API_KEY, Faults, serving_pinecone

PIN = "My PIN is 4711."


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


def groq(model: ModelServer) -> dict[str, Any]:
    return {"groq_api_key": "gsk_test_of_forgetting", "groq_api_base": model.url}


async def chat(
    client: httpx.AsyncClient, message: str, user: str, session: str = "s", **fields: Any
) -> httpx.Response:
    body = {"message": message, "user_id": user, "session_id": session, **fields}
    return await client.post("/chat", json=body)


async def remembered(client: httpx.AsyncClient, user: str) -> str:
    found = await client.get("/memories", params={"user_id": user, "query": PIN, "min_score": 0})
    listed = await client.get("/memories", params={"user_id": user})
    return found.text + listed.text


async def test_an_id_that_is_used_again_at_once_inherits_nothing() -> None:
    async with served() as (client, runtime):
        await chat(client, PIN, "ada")
        await client.post("/sessions/s/close")
        # The process dies between the deletion and the removal of the vectors.
        await runtime.sessions.delete("default", "s", now=runtime.clock())
        await chat(client, "Hello there.", "eve")
        await client.post("/sessions/s/close")
        detail = (await client.get("/sessions/s")).json()
        of_ada = await remembered(client, "ada")
    assert "4711" not in json.dumps(detail)
    assert "4711" not in of_ada


async def test_a_deletion_and_a_new_beginning_at_once_leak_nothing() -> None:
    async with served() as (client, _):
        for _ in range(10):
            await chat(client, PIN, "ada")
            await client.post("/sessions/s/close")
            await asyncio.gather(client.delete("/sessions/s"), chat(client, "Hello.", "eve"))
            if (await client.get("/sessions/s", params={"user_id": "eve"})).status_code == 200:
                assert "4711" not in (await client.get("/sessions/s")).text
                await client.delete("/sessions/s")
            assert "4711" not in await remembered(client, "ada")


async def test_a_job_asked_for_a_deleted_session_does_not_use_up_its_successors_key() -> None:
    async with served() as (client, runtime):
        await chat(client, PIN, "ada")
        gone = await runtime.sessions.get("default", "s", None)
        await client.delete("/sessions/s")
        await runtime.episodes.ask_to_close(gone)
        await runtime.worker.drain()
        await chat(client, "I like tea.", "eve")
        closed = (await client.post("/sessions/s/close")).json()
    assert (closed["state"], closed["summary"]) == ("closed", "User: I like tea.")


async def test_what_was_forgotten_does_not_come_back_with_a_late_retry(
    model: ModelServer,
) -> None:
    async with served(**groq(model), groq_max_retries=0) as (client, _):
        model.fault, model.fault_times = "unauthorized", 1
        failed = await chat(client, "Hello.", "ada", client_message_id="c1")
        await chat(client, PIN, "ada")
        assert (await client.delete("/memories/s", params={"user_id": "ada"})).status_code == 200
        model.script = (PIN,)  # what a summary of it all would say
        again = await chat(client, "Hello.", "ada", client_message_id="c1")
        await client.post("/sessions/s/close")
        of_ada = await remembered(client, "ada")
    assert (failed.status_code, again.status_code) == (502, 200)
    assert "4711" not in of_ada


async def test_a_turn_that_waited_through_a_deletion_sees_nothing_of_the_next_owner(
    model: ModelServer,
) -> None:
    model.fault, model.latency_seconds, model.fault_times = "slow", 0.6, 1
    async with served(**groq(model)) as (client, _):
        first = asyncio.create_task(chat(client, "one", "ada"))
        while not model.requests:
            await asyncio.sleep(0.01)
        waiting = asyncio.create_task(chat(client, "two", "ada"))
        while (await client.get("/sessions/s")).json()["message_count"] < 4:
            await asyncio.sleep(0.01)
        await client.delete("/sessions/s")
        theirs = await chat(client, "Eve's PIN is 9999.", "eve")
        responses = [await first, await waiting]
    assert theirs.status_code == 200
    assert [response.status_code for response in responses] == [409, 409]
    of_ada = [r for r in model.requests if "two" in json.dumps(r["messages"])]
    assert "9999" not in json.dumps(of_ada)


async def test_a_push_that_landed_late_is_looked_for_again_later() -> None:
    with serving_pinecone(dimension=32) as pinecone:
        chosen = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
        async with served(**chosen) as (client, runtime):
            await chat(client, PIN, "ada")
            session = await runtime.sessions.get("default", "s", None)
            await runtime.episodes.ask_to_close(session)
            pinecone.faults = Faults(reset=True)  # it lands, and the answer is lost
            await runtime.worker.drain()
            pinecone.faults = Faults()
            await client.delete("/sessions/s")
            assert await runtime.index.fetch("memory", ["s"]) == {}
            late = await runtime.jobs.late()
    assert late["sync_episode"] == 1


async def test_a_memory_on_its_way_to_the_index_is_recalled() -> None:
    with serving_pinecone(dimension=32) as pinecone:
        chosen = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
        async with served(**chosen, pinecone_timeout_seconds=1.0) as (client, runtime):
            await chat(client, PIN, "ada")
            session = await runtime.sessions.get("default", "s", None)
            await runtime.episodes.ask_to_close(session)
            pinecone.faults = Faults(status=500)
            await runtime.worker.drain()
            pinecone.faults = Faults()
            covered = await runtime.sessions.get("default", "s", None)
            assert covered.covered_seq == 2
            assert await runtime.index.fetch("memory", ["s"]) == {}
            assert "4711" in await remembered(client, "ada")


async def test_a_repeat_comes_without_its_sources_while_the_index_is_down() -> None:
    with serving_pinecone(dimension=32) as pinecone:
        chosen = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
        async with served(**chosen, pinecone_timeout_seconds=1.0) as (client, _):
            await client.post("/documents", json={"documents": [{"id": "d", "text": "A text."}]})
            first = await chat(client, "Hello?", "ada", client_message_id="c1")
            pinecone.faults = Faults(status=500)
            again = await chat(client, "Hello?", "ada", client_message_id="c1")
    assert len(first.json()["sources"]) == 1
    assert (again.status_code, again.json()["sources"]) == (200, [])
    assert again.json()["reply"] == first.json()["reply"]


async def test_a_retry_says_anew_whether_it_may_be_remembered(model: ModelServer) -> None:
    model.fault, model.fault_times = "unauthorized", 1
    async with served(**groq(model)) as (client, _):
        await chat(client, PIN, "ada", client_message_id="c1")
        await chat(client, PIN, "ada", client_message_id="c1", memory="off")
        closed = (await client.post("/sessions/s/close")).json()
    assert (closed["state"], closed["summary"]) == ("closed", None)
