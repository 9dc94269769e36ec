"""OpenAI's own Python client against the served app."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.api.calls import groq
from tests.served import in_thread, listening
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, ModelServer, model_server

MODEL = "conversational-rag"
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
REPLY = "Refunds take 30 days [1]."
QUESTION: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How long do refunds take?"},
]


@pytest.fixture(scope="module")
def served_model() -> Iterator[ModelServer]:
    with model_server(script=(REPLY,)) as model:
        yield model


@pytest.fixture(scope="module")
def url(served_model: ModelServer) -> Iterator[str]:
    with in_thread(**groq(served_model)) as url:
        document = {"id": "d1", "text": "Refunds take 30 days.", "source": "faq"}
        httpx.post(f"{url}/documents", json={"documents": [document]}).raise_for_status()
        yield url


@contextmanager
def client_of(url: str, **options: Any) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{url}/v1", api_key="not needed", **options) as client:
        yield client


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    with client_of(url) as client:
        yield client


def sessions(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/sessions").json()["sessions"]
    return found


def test_models_are_listed_and_found(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL, f"{MODEL}-agent"]
    assert client.models.retrieve(MODEL).owned_by == "conversational-rag"


def test_a_completion_has_its_text_its_citations_and_its_usage(client: OpenAI) -> None:
    said = client.chat.completions.create(model=MODEL, messages=QUESTION)
    message = said.choices[0].message
    assert (message.content, said.choices[0].finish_reason) == (REPLY, "stop")
    assert message.annotations is not None
    (mark,) = message.annotations
    assert (mark.url_citation.url, mark.url_citation.title) == ("/documents/d1", "faq")
    assert REPLY[mark.url_citation.start_index : mark.url_citation.end_index] == "[1]"
    assert said.usage is not None
    assert said.usage.total_tokens == PROMPT_TOKENS + COMPLETION_TOKENS
    assert said.model_extra is not None
    assert said.model_extra["x_sources"][0]["id"] == "d1"


def test_a_stream_has_the_same_in_chunks(client: OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == REPLY
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == PROMPT_TOKENS


def test_the_helper_for_streams_gathers_the_whole(client: OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=QUESTION) as stream:
        told = [event.delta for event in stream if event.type == "content.delta"]
        whole = stream.get_final_completion()
    assert "".join(told) == whole.choices[0].message.content == REPLY
    assert whole.choices[0].finish_reason == "stop"


def test_ids_reach_us_by_each_way_that_the_client_has(url: str, client: OpenAI) -> None:
    for session_id, options in {
        "by-header": {"extra_headers": {"X-Session-Id": "by-header"}},
        "by-metadata": {"metadata": {"session_id": "by-metadata"}},
        "by-body": {"extra_body": {"session_id": "by-body"}},
    }.items():
        given: dict[str, Any] = options
        client.chat.completions.create(model=MODEL, messages=HELLO, user="ada", **given)
        session = httpx.get(f"{url}/sessions/{session_id}").json()
        assert (session["user_id"], session["message_count"]) == ("ada", 2)


def test_refusals_are_the_errors_that_the_client_knows_with_our_text(
    url: str, client: OpenAI
) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-5'; there are") as no:
        client.chat.completions.create(model="gpt-5", messages=HELLO)
    assert no.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="the last message must be the user's") as bad:
        client.chat.completions.create(
            model=MODEL, messages=[*HELLO, {"role": "assistant", "content": "Hello, I"}]
        )
    assert bad.value.param == "messages.1.role"
    with pytest.raises(openai.BadRequestError, match="the limit is 32000") as long:
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x" * 40_000}]
        )
    assert long.value.code == "context_length_exceeded"
    with (
        OpenAI(base_url=url, api_key="x") as wrong,
        pytest.raises(openai.NotFoundError, match="ends in /v1"),
    ):
        wrong.chat.completions.create(model=MODEL, messages=HELLO)


def test_a_wrong_key_is_an_authentication_error() -> None:
    with (
        in_thread(api_key="the-right-key") as url,
        client_of(url) as client,
        pytest.raises(openai.AuthenticationError, match="send a valid API key") as wrong,
    ):
        client.chat.completions.create(model=MODEL, messages=HELLO)
    assert wrong.value.code == "invalid_api_key"


def test_a_failure_in_mid_stream_is_an_error_with_our_text() -> None:
    with (
        model_server(fault="stream_error") as model,
        in_thread(**groq(model)) as url,
        client_of(url, max_retries=0) as client,
    ):
        stream = client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        with stream, pytest.raises(openai.APIError, match="Groq broke off its answer"):
            list(stream)


def test_the_client_s_own_retries_are_stored_and_answered_once() -> None:
    with (
        model_server(fault="server_error", fault_times=2) as model,
        in_thread(**groq(model)) as url,
        client_of(url) as client,
    ):
        said = client.chat.completions.create(model=MODEL, messages=HELLO)
        (session,) = sessions(url)
    assert said.choices[0].message.content == "Hello there, friend."
    assert len(model.requests) == 3
    assert session["message_count"] == 2


async def test_a_retry_after_a_timeout_finds_the_reply_of_the_first_try() -> None:
    with model_server(fault="slow", fault_times=1, latency_seconds=1.0) as model:
        async with listening(**groq(model)) as (http, _):
            async with AsyncOpenAI(
                base_url=f"{http.base_url}/v1", api_key="x", timeout=0.5, max_retries=4
            ) as client:
                said = await client.chat.completions.create(model=MODEL, messages=HELLO)
            (session,) = (await http.get("/sessions")).json()["sessions"]
    assert said.choices[0].message.content == "Hello there, friend."
    assert session["message_count"] == 2
    assert len(model.requests) == 1
