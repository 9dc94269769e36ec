"""While one user's model, embedder, index or tool is slow, everybody else is served.

What is asserted is the order of events: the slow part is let go only after others were answered.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from app.llm.operator_tools import AgentContext
from tests.api.calls import Json, answered, groq
from tests.served import events_of, listening
from tests.wire.held import Held
from tests.wire.openai import ModelServer, call, model_server
from tests.wire.pinecone import API_KEY, serving_pinecone

WAITS_SECONDS = 20
PATIENT = {
    "model_timeout_seconds": 60.0,
    "pinecone_timeout_seconds": 60.0,
    "retrieval_timeout_seconds": 60.0,
}
STUCK, LET_GO = threading.Event(), threading.Event()


def stuck(context: AgentContext) -> str:
    """Wait, as code that blocks does."""
    STUCK.set()
    assert LET_GO.wait(WAITS_SECONDS), "nobody else was answered meanwhile"
    return "done"


class Slow:
    """A service, and what holds its first question back."""

    def __init__(self, model: ModelServer, held: Held, chosen: dict[str, Any]) -> None:
        self.model = model
        self.held = held
        self.chosen = chosen


@pytest.fixture(params=["model", "embedder", "index"])
def slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    with ExitStack() as servers:
        model = servers.enter_context(model_server())
        chosen: dict[str, Any] = groq(model, **PATIENT)
        if request.param == "model":
            model.held = held = Held()
        elif request.param == "embedder":
            embedder = servers.enter_context(model_server(held=Held()))
            monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
            monkeypatch.setenv("OPENAI_BASE_URL", f"{embedder.url}/v1")
            chosen["embedding_model"] = "openai:text-embedding-3-small"
            assert embedder.held is not None
            held = embedder.held
        else:
            pinecone = servers.enter_context(serving_pinecone(dimension=32, held=Held(first=2)))
            chosen |= {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
            assert pinecone.held is not None
            held = pinecone.held
        yield Slow(model, held, chosen)


async def ask(client: httpx.AsyncClient, user: str, question: str, *, streams: bool) -> Json:
    """Ask, and return the whole answer, however it comes."""
    asked = {"message": question, "user_id": user, "stream": streams}
    response = await client.post("/chat", json=asked)
    if not streams:
        return answered(response)
    name, data = events_of(response.text)[-1]
    assert name == "done"
    whole: Json = json.loads(data)
    return whole


@asynccontextmanager
async def first_words(client: httpx.AsyncClient, user: str) -> AsyncIterator[str]:
    """Yield the first event of a streamed answer, while it is under way."""
    asked = {"message": "What else is there?", "user_id": user, "stream": True}
    async with client.stream("POST", "/chat", json=asked) as response:
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                yield line.removeprefix("event: ")
                return


@pytest.mark.parametrize("streams", [False, True])
async def test_others_are_answered_while_a_part_of_one_turn_is_slow(
    slow: Slow, streams: bool
) -> None:
    async with listening(**slow.chosen) as (client, _):
        waits = asyncio.create_task(ask(client, "ada", "What is there?", streams=streams))
        await slow.held.arrived()
        assert answered(await client.get("/health/live")) == {"status": "ok"}
        async with first_words(client, "bob") as event:
            assert event == "token"
        whole = await ask(client, "carol", "And now?", streams=False)
        assert whole["reply"] == "Hello there, friend."
        assert not waits.done()
        slow.held.let_go()
        assert (await waits)["reply"] == "Hello there, friend."


async def test_others_are_answered_while_a_tool_of_the_operator_blocks() -> None:
    STUCK.clear()
    LET_GO.clear()
    with model_server() as model:
        tools = f"{__name__}:{stuck.__name__}"
        chosen = groq(model, **PATIENT, agent_tools=tools)
        model.script = (call(stuck.__name__), "Hello there, friend.")
        async with listening(**chosen) as (client, _):
            asked = {"message": "Do it.", "user_id": "ada", "mode": "agent"}
            waits = asyncio.create_task(client.post("/chat", json=asked))
            while not STUCK.is_set():
                assert not waits.done()
                await asyncio.sleep(0.005)
            assert answered(await client.get("/health/live")) == {"status": "ok"}
            whole = await ask(client, "bob", "And now?", streams=True)
            assert whole["reply"] == "Hello there, friend."
            assert not waits.done()
            LET_GO.set()
            steps = answered(await waits)["receipt"]["steps"]
    assert [(step["name"], step["is_error"]) for step in steps] == [("stuck", False)]
