"""A turn that failed, was read without its answer, and is answered after that."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.memory import lexicon
from tests.api.calls import chat, close, groq
from tests.knowledge.calls import finish_jobs
from tests.memory.agreement import assert_memory_agrees
from tests.memory.test_lexicon import held
from tests.served import served
from tests.wire.openai import ModelServer, model_server


async def ask(client: httpx.AsyncClient, **fields: str) -> int:
    told = {"session_id": "s1", "user_id": "ada", "client_message_id": "c1", **fields}
    told["message"] = "I bought a terrier. I live in Porto."
    return (await client.post("/chat", json=told)).status_code


@pytest.mark.parametrize("memory", ["on", "off"])
async def test_it_is_indexed_once_and_as_its_user_now_wants(memory: str) -> None:
    with model_server() as model:
        await _answered_late(model, memory)


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def kept(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of where sessions live."""
    if request.param == "redis":
        return {"session_store": request.getfixturevalue("redis_url")}
    if request.param == "postgresql":
        return {"database_url": request.getfixturevalue("postgres_state")}
    return {}


@pytest.mark.parametrize("memory", ["on", "off"])
async def test_one_that_others_followed_is_indexed_with_its_answer(
    kept: dict[str, Any], memory: str
) -> None:
    with model_server(script=lambda _: "A terrier is a dog.") as model:
        options = groq(model, chat_model="talker", summary_model="offline", **kept)
        async with served(**options) as (client, runtime):
            model.fault, model.fault_times = "unauthorized", 1
            failed = await ask(client)
            await chat(client, "Hello.", session_id="s1", user_id="ada")
            await close(client, "s1")
            before = await held(runtime, lexicon.SAID, "terrier")
            again = await ask(client, memory=memory)
            await finish_jobs(runtime)
            after = await held(runtime, lexicon.SAID, "terrier")
            await assert_memory_agrees(runtime)
    assert (failed, again) == (502, 200)
    assert before == {"s1": [1, 4]}
    assert after == {"s1": [1, 2, 4] if memory == "on" else [4]}


async def _answered_late(model: ModelServer, memory: str) -> None:
    options = groq(model, chat_model="talker", summary_model="offline")
    async with served(**options) as (client, runtime):
        await chat(client, "Hello.", session_id="s1", user_id="ada")
        model.fault, model.fault_times = "unauthorized", 1
        failed = await ask(client)
        await close(client, "s1")
        before = await held(runtime, lexicon.SAID, "terrier")
        again = await ask(client, memory=memory)
        await close(client, "s1")
        await finish_jobs(runtime)
        after = await held(runtime, lexicon.SAID, "terrier")
        await assert_memory_agrees(runtime)
    assert (failed, again) == (502, 200)
    assert before == {"s1": [3]}
    assert after == ({"s1": [3]} if memory == "on" else {})
