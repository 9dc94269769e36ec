"""One suite for every chat model: offline, and ChatGroq over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.llm.base import ChatModel, Completion, Finish, Say, Token
from app.llm.blocks import block, container
from app.llm.groq import groq_chat
from app.llm.offline import offline_chat
from tests.wire.openai import model_server

DOCUMENT = block("document", "The zebra code is 4711.", id="1")
PROMPT = [
    Say("system", "Answer from the documents."),
    Say("user", "Hello"),
    Say("assistant", "Hello."),
    Say("user", f"{container('documents', [DOCUMENT])}\n{block('question', 'Which zebra code?')}"),
]


def echo(body: dict[str, Any]) -> str:
    return "The zebra code is 4711. [1]" if "4711" in body["messages"][-1]["content"] else "?"


@pytest.fixture(params=["offline", "groq"])
async def model(request: pytest.FixtureRequest) -> AsyncIterator[ChatModel]:
    with model_server(script=echo) as server:
        made: ChatModel = (
            offline_chat()
            if request.param == "offline"
            else groq_chat(api_key="k", model="openai/gpt-oss-20b", base_url=server.url)
        )
        yield made
        await made.close()


async def test_a_stream_is_tokens_and_then_one_finish(model: ChatModel) -> None:
    events = [event async for event in model.stream(PROMPT, max_tokens=200)]
    tokens = [event for event in events if isinstance(event, Token)]
    finishes = [event for event in events if isinstance(event, Finish)]
    assert len(tokens) > 1
    assert all(token.text for token in tokens)
    assert "".join(token.text for token in tokens) == "The zebra code is 4711. [1]"
    assert (finishes, events[-1]) == ([events[-1]], finishes[0])
    assert (finishes[0].reason, finishes[0].model) == ("stop", model.name)


async def test_a_whole_reply_is_the_streamed_one(model: ChatModel) -> None:
    completion = await model.complete(PROMPT, max_tokens=200)
    assert isinstance(completion, Completion)
    assert completion.text == "The zebra code is 4711. [1]"
    assert (completion.reason, completion.model) == ("stop", model.name)
    assert completion.usage.input_tokens > 0
    assert completion.usage.output_tokens > 0


async def test_many_callers_at_once_share_one_model(model: ChatModel) -> None:
    replies = await asyncio.gather(*(model.complete(PROMPT, max_tokens=200) for _ in range(8)))
    assert {reply.text for reply in replies} == {"The zebra code is 4711. [1]"}


async def test_warming_and_closing_twice_does_no_harm(model: ChatModel) -> None:
    await model.warm()
    await model.warm()
    await model.close()
    await model.close()
