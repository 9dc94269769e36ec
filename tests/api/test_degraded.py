"""What of a turn is left while the index or the embedder is out of order, from outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.wiring import Runtime
from tests.api.calls import Json, answered, at, chat, close, groq, put, read, refused
from tests.served import events_of, served
from tests.wire.held import Held
from tests.wire.openai import ModelServer, call, model_server
from tests.wire.pinecone import API_KEY, Faults, PineconeServer, serving_pinecone

BERTH = "The berth of the ferry Aurora is number seven."
SPOTTED = "My cat Zerlina is spotted."
BY_WORDS = "can only be searched word by word just now"


@pytest.fixture
def pinecone() -> Iterator[PineconeServer]:
    with serving_pinecone(dimension=32) as server:
        yield server


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@asynccontextmanager
async def known(
    pinecone: PineconeServer, **chosen: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Serve an app that knows a document, and what ada said in another session."""
    on_pinecone = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
    async with served(**on_pinecone, **chosen) as (client, runtime):
        await put(client, {"id": "ferry", "text": BERTH, "source": "harbour"})
        await chat(client, SPOTTED, session_id="s1", user_id="ada")
        await close(client, "s1", params={"user_id": "ada"})
        yield client, runtime


def degraded(code: str, of: str = "index") -> list[Json]:
    return [{"part": part, "code": code, "of": of} for part in ("memory", "documents")]


def by_part(receipt: Json) -> list[Json]:
    return sorted(receipt["degraded"], key=lambda one: str(one["part"]), reverse=True)


QUESTION = "Which berth has the ferry Aurora, and what is my cat Zerlina?"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Faults(status=500), "upstream_unavailable"),
        (Faults(status=429, retry_after="30"), "upstream_busy"),
        (Faults(reset=True), "upstream_unavailable"),
        (Faults(garbage=True), "upstream_invalid"),
    ],
)
async def test_without_the_index_a_turn_finds_by_words_and_its_receipt_says_so(
    pinecone: PineconeServer, model: ModelServer, fault: Faults, code: str
) -> None:
    async with known(pinecone, **groq(model, summary_model="offline")) as (client, _):
        before = await chat(client, QUESTION, user_id="ada")
        pinecone.faults = fault
        body = await chat(client, QUESTION, user_id="ada", session_id="s2")
        receipt = await read(client, f"/messages/{body['message_id']}/receipt")
        ready = await read(client, "/health/ready")
    assert before["receipt"]["degraded"] == []
    assert BY_WORDS not in model.requests[-2]["messages"][0]["content"]
    assert [source["id"] for source in body["sources"]] == ["ferry"]
    assert [memory["session_id"] for memory in body["memories"]] == ["s1"]
    assert by_part(body["receipt"]) == degraded(code)
    assert receipt["receipt"] == body["receipt"]
    told = model.requests[-1]["messages"][0]
    assert told["role"] == "system"
    assert told["content"].count(BY_WORDS) == 2
    assert (ready["status"], ready["parts"]["index"]["status"]) == ("degraded", "failing")


async def test_a_stream_and_openai_s_clients_get_what_is_left_too(
    pinecone: PineconeServer, model: ModelServer
) -> None:
    async with known(pinecone, **groq(model, summary_model="offline")) as (client, _):
        pinecone.faults = Faults(status=503)
        asked = {"message": QUESTION, "user_id": "ada", "stream": True}
        events = events_of((await client.post("/chat", json=asked)).text)
        said = [{"role": "user", "content": QUESTION}]
        whole = await client.post(
            "/v1/chat/completions",
            json={"model": "conversational-rag", "messages": said},
            headers={"X-User-Id": "ada"},
        )
    name, data = events[-1]
    assert name == "done"
    assert by_part(json.loads(data)["receipt"]) == degraded("upstream_unavailable")
    assert answered(whole)["choices"][0]["message"]["content"] == "Hello there, friend."


async def test_with_nothing_found_the_offline_answerer_denies_nothing(
    pinecone: PineconeServer,
) -> None:
    async with known(pinecone) as (client, _):
        honest = await chat(client, "Where does Bob live?", user_id="ada")
        pinecone.faults = Faults(status=500)
        careful = await chat(client, "Where does Carol live?", user_id="ada")
        known_still = await chat(client, "Is my cat Zerlina spotted?", user_id="ada")
    assert "I can't look at everything just now" not in honest["reply"]
    assert "I can't look at everything just now" in careful["reply"]
    assert "spotted" in known_still["reply"]


async def test_without_the_index_a_name_is_enough_to_find_its_document(
    pinecone: PineconeServer, model: ModelServer
) -> None:
    async with known(pinecone, **groq(model, summary_model="offline")) as (client, _):
        pinecone.faults = Faults(status=500)
        named = await chat(client, "Where does the Aurora dock?", user_id="ada")
        other = await chat(client, "Where does the train stop?", user_id="ada")
    assert [source["id"] for source in named["sources"]] == ["ferry"]
    assert other["sources"] == []


async def test_without_the_embedder_words_are_left_and_documents_wait_for_it(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(dimension=1536) as embedder:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{embedder.url}/v1")
        chosen = groq(
            model, embedding_model="openai:text-embedding-3-small", model_timeout_seconds=60.0
        )
        async with served(**chosen) as (client, _):
            await put(client, {"id": "ferry", "text": BERTH})
            embedder.fault = "rate_limit"
            body = await chat(client, "Which berth has the ferry Aurora?", user_id="ada")
            late = await client.post("/documents", json={"documents": [{"text": "New."}]})
            ready = await read(client, "/health/ready")
    assert [source["id"] for source in body["sources"]] == ["ferry"]
    assert by_part(body["receipt"]) == degraded("upstream_busy", of="embedder")
    assert (late.status_code, late.json()["error"]["code"]) == (503, "upstream_busy")
    assert ready["jobs"]["sync_documents"]["pending"] == 1
    assert ready["parts"]["embedder"]["status"] == "failing"


async def test_an_agent_s_search_tells_it_what_could_not_be_searched(
    pinecone: PineconeServer, model: ModelServer
) -> None:
    async with known(pinecone, **groq(model, summary_model="offline")) as (client, _):
        pinecone.faults = Faults(status=500)
        model.script = (
            call("search_memory", query="Who is Zerlina the cat?"),
            call("search_documents", query="Where is the lighthouse?"),
            "Spotted [m1].",
        )
        model._said = 0
        body = await chat(client, "What of my cat?", user_id="ada", mode="agent", session_id="s2")
    results = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "tool"]
    assert [BY_WORDS in result for result in results] == [True, True]
    assert "spotted" in results[0]
    assert "No document fits." in results[1]
    assert [memory["session_id"] for memory in body["memories"]] == ["s1"]
    assert [(one["part"], one["of"]) for one in body["receipt"]["degraded"]] == [
        ("memory", "index"),
        ("documents", "index"),
    ]


async def test_a_refused_key_is_an_error_which_somebody_has_to_see(
    pinecone: PineconeServer, model: ModelServer
) -> None:
    async with known(pinecone, **groq(model, summary_model="offline")) as (client, _):
        pinecone.faults = Faults(status=401)
        asked = len(model.requests)
        response = await client.post("/chat", json={"message": QUESTION, "user_id": "ada"})
        ready = await client.get("/health/ready")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (502, "upstream_refused")
    assert (ready.status_code, ready.json()["status"]) == (503, "failing")
    assert len(model.requests) == asked


async def test_an_index_that_was_never_there_costs_no_answer(model: ModelServer) -> None:
    nowhere = {"pinecone_api_key": "pcsk_test", "pinecone_host": "http://127.0.0.1:9"}
    async with served(**groq(model), **nowhere) as (client, _):
        body = await chat(client, "hi")
        ready = await read(client, "/health/ready")
    assert by_part(body["receipt"]) == degraded("upstream_unavailable")
    assert ready["status"] == "degraded"


async def test_a_host_that_keeps_failing_is_left_alone(
    pinecone: PineconeServer, model: ModelServer
) -> None:
    chosen = groq(model, breaker_failures=2, breaker_seconds=600.0, summary_model="offline")
    async with known(pinecone, **chosen) as (client, _):
        pinecone.faults = Faults(status=500)
        await chat(client, QUESTION, user_id="ada")
        asked = len(pinecone.paths())
        left_alone = await chat(client, QUESTION, user_id="ada")
        ready = await read(client, "/health/ready")
        counted = (await client.get("/metrics")).text
    assert len(pinecone.paths()) == asked  # neither of them called
    assert by_part(left_alone["receipt"]) == degraded("upstream_unavailable")
    assert (ready["breakers"]["pinecone"], ready["status"]) == ("open", "degraded")
    assert 'rag_circuit_breaker_state{host="pinecone"} 2.0' in counted


async def test_a_host_that_was_left_alone_is_tried_by_one_call_before_the_others(
    pinecone: PineconeServer, model: ModelServer
) -> None:
    chosen = groq(model, breaker_failures=1, breaker_seconds=0.01, summary_model="offline")
    async with known(pinecone, **chosen) as (client, _):
        pinecone.faults = Faults(status=500)
        await chat(client, QUESTION, user_id="ada")
        await asyncio.sleep(0.02)
        pinecone.faults, pinecone.held = Faults(), Held(first=1)
        asked = len(pinecone.paths())
        trying = asyncio.create_task(chat(client, QUESTION, user_id="ada"))
        await pinecone.held.arrived()
        meanwhile = await chat(client, QUESTION, user_id="bob")
        assert len(pinecone.paths()) == asked + 1
        pinecone.held.let_go()
        await trying
        again = await chat(client, QUESTION, user_id="ada")
        ready = await read(client, "/health/ready")
    assert len(meanwhile["receipt"]["degraded"]) == 2
    assert again["receipt"]["degraded"] == []
    assert (ready["breakers"]["pinecone"], ready["status"]) == ("closed", "ok")


async def test_a_model_that_keeps_failing_is_refused_at_once_and_every_message_is_kept(
    model: ModelServer,
) -> None:
    model.fault, chosen = "server_error", groq(model, breaker_failures=1, groq_max_retries=0)
    async with served(**chosen) as (client, _):
        asks = [{"message": f"hi {n}", "session_id": f"s{n}"} for n in range(2)]
        failed, left_alone = [await client.post("/chat", json=ask) for ask in asks]
        streamed = await client.post("/chat", json={**asks[0], "stream": True})
        stored = await read(client, at("sessions", "s1"))
    assert failed.json()["error"]["code"] == "upstream_unavailable"
    error = left_alone.json()["error"]
    assert (left_alone.status_code, error["code"]) == (503, "upstream_unavailable")
    assert "left alone" in error["message"]
    assert 0 < int(left_alone.headers["retry-after"]) <= 15
    assert [name for name, _ in events_of(streamed.text)] == ["error"]
    assert len(model.requests) == 1
    assert [m["status"] for m in stored["messages"]] == ["complete", "failed"]


async def test_storage_that_fails_is_no_matter_of_degrees(pinecone: PineconeServer) -> None:
    async with known(pinecone) as (client, runtime):
        pinecone.faults = Faults(status=500)
        await runtime.database.close()
        response = await client.post("/chat", json={"message": QUESTION, "user_id": "ada"})
    assert refused(response, 503)["code"] == "storage_unavailable"
