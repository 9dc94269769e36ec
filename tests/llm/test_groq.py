"""The real ChatGroq over HTTP against the model server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from app.errors import (
    AppError,
    Misconfigured,
    PromptTooLarge,
    UpstreamBusy,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.llm.base import Finish, Say, Token, Usage
from app.llm.chat import LangChainChat
from app.llm.groq import groq_chat, root_url
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, Fault, ModelServer, model_server

PROMPT = [
    Say("system", "Be brief."),
    Say("user", "Hi"),
    Say("assistant", "Yes?"),
    Say("user", "Go"),
]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
async def chat(server: ModelServer) -> AsyncIterator[LangChainChat]:
    model = a_chat(server)
    yield model
    await model.close()


def a_chat(server: ModelServer, **options: Any) -> LangChainChat:
    given = {"timeout_seconds": 10.0, "max_retries": 0} | options
    return groq_chat(api_key="gsk-1", model="openai/gpt-oss-120b", base_url=server.url, **given)


async def test_a_reply_streams_and_ends_with_its_reason_and_counted_usage(
    chat: LangChainChat,
) -> None:
    events = [event async for event in chat.stream(PROMPT, max_tokens=50)]
    assert [event.text for event in events if isinstance(event, Token)] == [
        "Hello ",
        "there, ",
        "friend.",
    ]
    assert events[-1] == Finish(
        "stop", Usage(PROMPT_TOKENS, COMPLETION_TOKENS), "groq:openai/gpt-oss-120b"
    )


async def test_what_is_sent_names_the_model_the_limit_and_hides_the_reasoning(
    server: ModelServer, chat: LangChainChat
) -> None:
    completion = await chat.complete(PROMPT, max_tokens=50)
    assert completion.text == "Hello there, friend."
    assert completion.usage == Usage(PROMPT_TOKENS, COMPLETION_TOKENS)
    (sent,) = server.requests
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Go"},
    ]
    assert (sent["model"], sent["max_tokens"]) == ("openai/gpt-oss-120b", 50)
    assert (sent["reasoning_format"], sent["reasoning_effort"]) == ("hidden", "low")
    assert server.headers[0]["authorization"] == "Bearer gsk-1"


async def test_another_model_family_keeps_its_own_reasoning_effort(server: ModelServer) -> None:
    chat = groq_chat(api_key="k", model="qwen/qwen3.6-27b", base_url=server.url)
    await chat.complete(PROMPT, max_tokens=50)
    await chat.close()
    assert server.requests[0]["reasoning_effort"] is None


async def test_a_reply_cut_by_the_limit_says_so(server: ModelServer, chat: LangChainChat) -> None:
    server.fault = "length"
    events = [event async for event in chat.stream(PROMPT, max_tokens=50)]
    completion = await chat.complete(PROMPT, max_tokens=50)
    assert isinstance(events[-1], Finish)
    assert (events[-1].reason, completion.reason) == ("length", "length")


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("rate_limit", UpstreamBusy),
        ("too_large", PromptTooLarge),
        ("unauthorized", UpstreamRefused),
        ("unknown_model", UpstreamRefused),
        ("bad_request", UpstreamRefused),
        ("flex_capacity", UpstreamUnavailable),
        ("server_error", UpstreamUnavailable),
        ("garbage", UpstreamInvalid),
        ("early_end", UpstreamInvalid),
        ("empty", UpstreamInvalid),
        ("reset", UpstreamUnavailable),
    ],
)
async def test_every_fault_has_its_error_streamed_or_whole(
    server: ModelServer, chat: LangChainChat, fault: Fault, kind: type[AppError]
) -> None:
    server.fault = fault
    with pytest.raises(AppError) as streamed:
        [event async for event in chat.stream(PROMPT, max_tokens=50)]
    with pytest.raises(AppError) as whole:
        await chat.complete(PROMPT, max_tokens=50)
    assert (type(streamed.value), type(whole.value)) == (kind, kind)
    assert "secret" not in streamed.value.message + whole.value.message


async def test_an_error_inside_a_stream_is_unavailable(
    server: ModelServer, chat: LangChainChat
) -> None:
    server.fault = "stream_error"
    events = chat.stream(PROMPT, max_tokens=50)
    assert await anext(events) == Token("Hello ")
    with pytest.raises(UpstreamUnavailable):
        await anext(events)


async def test_a_refusal_names_the_setting_to_change(server: ModelServer) -> None:
    chat = a_chat(server, setting="SUMMARY_MODEL")
    server.fault = "unauthorized"
    with pytest.raises(UpstreamRefused, match="GROQ_API_KEY"):
        await chat.complete(PROMPT, max_tokens=50)
    server.fault = "unknown_model"
    with pytest.raises(UpstreamRefused, match="'openai/gpt-oss-120b': check SUMMARY_MODEL"):
        await chat.complete(PROMPT, max_tokens=50)
    await chat.close()


async def test_a_rate_limit_that_does_not_fit_is_reported_at_once(server: ModelServer) -> None:
    chat = a_chat(server, max_retries=3)
    server.fault = "rate_limit"
    with pytest.raises(UpstreamBusy) as refused:
        await chat.complete(PROMPT, max_tokens=50)
    await chat.close()
    assert (refused.value.retry_after, len(server.requests)) == (7.0, 1)


@pytest.mark.parametrize("fault", ["rate_limit", "server_error", "reset"])
async def test_a_passing_fault_is_retried(server: ModelServer, fault: Fault) -> None:
    chat = a_chat(server, max_retries=1)
    server.fault, server.fault_times, server.retry_after = fault, 1, "0.01"
    events = [event async for event in chat.stream(PROMPT, max_tokens=50)]
    await chat.close()
    assert "".join(e.text for e in events if isinstance(e, Token)) == "Hello there, friend."
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", ["unauthorized", "too_large", "bad_request", "garbage"])
async def test_a_fault_that_stays_is_not_retried(server: ModelServer, fault: Fault) -> None:
    chat = a_chat(server, max_retries=3)
    server.fault = fault
    with pytest.raises(AppError):
        await chat.complete(PROMPT, max_tokens=50)
    await chat.close()
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", ["slow", "stall"])
async def test_the_deadline_holds_before_and_inside_a_stream(
    server: ModelServer, fault: Fault
) -> None:
    chat = a_chat(server, timeout_seconds=0.4, max_retries=3)
    await chat.warm()
    server.fault = fault
    with pytest.raises(UpstreamTimeout):
        [event async for event in chat.stream(PROMPT, max_tokens=50)]
    await chat.close()
    assert len(server.requests) == 1


async def test_a_reader_may_leave_a_stream(server: ModelServer, chat: LangChainChat) -> None:
    server.fault = "stall"
    async with aclosing(chat.stream(PROMPT, max_tokens=50)) as events:
        assert await anext(events) == Token("Hello ")
    server.fault = None
    assert (await chat.complete(PROMPT, max_tokens=50)).text == "Hello there, friend."


async def test_nobody_there_is_unavailable() -> None:
    chat = groq_chat(
        api_key="k", model="m", base_url="http://127.0.0.1:9", max_retries=0, timeout_seconds=5
    )
    with pytest.raises(UpstreamUnavailable, match="can't be reached"):
        await chat.complete(PROMPT, max_tokens=50)
    await chat.close()


async def test_thinking_aloud_never_reaches_the_reader(
    server: ModelServer, chat: LangChainChat
) -> None:
    server.script = ["<think>the user wants Acme</think> Here you are."]
    events = [event async for event in chat.stream(PROMPT, max_tokens=50)]
    completion = await chat.complete(PROMPT, max_tokens=50)
    streamed = "".join(event.text for event in events if isinstance(event, Token))
    assert (streamed, completion.text) == ("Here you are.", "Here you are.")
    server.script = ["<think>I never came to an"]
    with pytest.raises(UpstreamInvalid, match="empty"):
        await chat.complete(PROMPT, max_tokens=50)


async def test_a_missing_key_and_an_impossible_address_are_refused_by_name() -> None:
    with pytest.raises(Misconfigured, match="GROQ_API_KEY"):
        groq_chat(api_key="", model="m")
    with pytest.raises(Misconfigured, match="GROQ_API_BASE"):
        await groq_chat(api_key="k", model="m", base_url="http://host:port").warm()


@pytest.mark.parametrize(
    "url",
    [
        "https://api.groq.com",
        "https://api.groq.com/",
        "https://api.groq.com/openai/v1",
        "https://api.groq.com/openai/v1/",
        "https://api.groq.com/openai",
    ],
)
def test_any_form_of_the_base_url_leads_to_the_root(url: str) -> None:
    assert root_url(url) == "https://api.groq.com"
