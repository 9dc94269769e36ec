"""LangChain's `ChatOpenAI` against the served app."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.api.calls import groq
from tests.served import in_thread
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, model_server

REPLY = "Hello there, friend."


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with model_server(script=(REPLY,)) as model, in_thread(**groq(model)) as url:
        yield url


@pytest.fixture
def chat(url: str) -> Iterator[ChatOpenAI]:
    with httpx.Client() as http:
        yield ChatOpenAI(
            model="conversational-rag",
            base_url=f"{url}/v1",
            api_key=SecretStr("not needed"),
            http_client=http,
            stream_usage=True,
            default_headers={"X-Session-Id": "s1"},
            model_kwargs={"user": "ada"},
        )


def test_it_answers_a_conversation_in_the_session_that_is_named(url: str, chat: ChatOpenAI) -> None:
    first = chat.invoke([SystemMessage("Be brief."), HumanMessage("Hi")])
    again = chat.invoke([HumanMessage("Hi"), AIMessage(str(first.content)), HumanMessage("Well?")])
    session = httpx.get(f"{url}/sessions/s1").json()
    assert first.content == again.content == REPLY
    assert first.response_metadata["finish_reason"] == "stop"
    assert first.usage_metadata is not None
    assert first.usage_metadata["input_tokens"] == PROMPT_TOKENS
    assert session["user_id"] == "ada"
    assert [m["content"] for m in session["messages"]] == ["Hi", REPLY, "Well?", REPLY]


def test_it_streams_with_usage(chat: ChatOpenAI) -> None:
    chunks = [chunk for chunk in chat.stream("Hello?") if isinstance(chunk, AIMessageChunk)]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert len(chunks) > 3
    assert whole.content == REPLY
    assert whole.response_metadata["finish_reason"] == "stop"
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == PROMPT_TOKENS + COMPLETION_TOKENS


async def test_it_answers_without_blocking(url: str) -> None:
    async with httpx.AsyncClient() as http:
        chat = ChatOpenAI(
            model="conversational-rag",
            base_url=f"{url}/v1",
            api_key=SecretStr("not needed"),
            http_async_client=http,
        )
        said = await chat.ainvoke("Hi")
    assert said.content == REPLY
