"""Any LangChain provider by its name: OpenAI's over HTTP, one that is not installed, a bad spec."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import numpy as np
import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from app.errors import (
    Misconfigured,
    TooLarge,
    UpstreamBusy,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.llm.base import Finish, Say, Token, Usage
from app.llm.chat import LangChainChat, provider_chat
from app.llm.embeddings import embedder_for
from app.llm.upstream import Vendor, retry_after_of
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, Fault, ModelServer, model_server

PROMPT = [Say("system", "Be brief."), Say("user", "Hi")]
STOP = {"finish_reason": "stop"}
VENDOR = Vendor("model", "Acme AI", "m-1", "ACME_API_KEY", "CHAT_MODEL")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def openai_chat(server: ModelServer, timeout_seconds: float = 10.0) -> LangChainChat:
    return provider_chat(
        "openai:gpt-5-mini",
        api_key="k",
        base_url=f"{server.url}/v1",
        timeout_seconds=timeout_seconds,
        max_retries=0,
    )


async def test_an_openai_model_streams_with_counted_usage(server: ModelServer) -> None:
    chat = openai_chat(server)
    events = [event async for event in chat.stream(PROMPT, max_tokens=50)]
    await chat.close()
    assert "".join(e.text for e in events if isinstance(e, Token)) == "Hello there, friend."
    assert events[-1] == Finish(
        "stop", Usage(PROMPT_TOKENS, COMPLETION_TOKENS), "openai:gpt-5-mini"
    )
    assert server.requests[0]["max_completion_tokens"] == 50


async def test_two_models_of_one_address_close_without_each_other(server: ModelServer) -> None:
    first, second = openai_chat(server), openai_chat(server)
    await first.complete(PROMPT, max_tokens=50)
    await second.warm()
    await first.close()
    assert (await second.complete(PROMPT, max_tokens=50)).text == "Hello there, friend."
    await second.close()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("rate_limit", UpstreamBusy),
        ("unauthorized", UpstreamRefused),
        ("server_error", UpstreamUnavailable),
        ("early_end", UpstreamInvalid),
        ("garbage", UpstreamInvalid),
        ("reset", UpstreamUnavailable),
    ],
)
async def test_the_faults_of_another_vendor_have_the_same_errors(
    server: ModelServer, fault: Fault, kind: type[Exception]
) -> None:
    chat = openai_chat(server)
    server.fault = fault
    with pytest.raises(kind):
        [event async for event in chat.stream(PROMPT, max_tokens=50)]
    await chat.close()


class Halves(GenericFakeChatModel):
    """Streams a character in two halves, NUL, and a half at the end; says the same as a whole."""

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for piece in ("Hi ", "\ud83d", "\ude00", "\x00", "!\x00", "\ud83d"):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", response_metadata=STOP))


async def test_a_reply_holds_nothing_that_no_store_takes_streamed_or_whole() -> None:
    whole = AIMessage(content="Hi \ud83d\ude00\x00!\x00\ud83d", response_metadata=STOP)
    chat = LangChainChat(
        "halves", lambda: Halves(messages=iter([whole])), VENDOR.translate, deadline_seconds=10
    )
    events = [event async for event in chat.stream(PROMPT, max_tokens=50)]
    assert [e.text for e in events if isinstance(e, Token)] == ["Hi ", "😀", "!", "\ufffd"]
    assert (await chat.complete(PROMPT, max_tokens=50)).text == "Hi 😀!\ufffd"


async def test_a_slow_vendor_meets_the_deadline(server: ModelServer) -> None:
    chat = openai_chat(server, timeout_seconds=0.4)
    await chat.warm()
    server.fault = "slow"
    with pytest.raises(UpstreamTimeout):
        await chat.complete(PROMPT, max_tokens=50)
    await chat.close()


@pytest.mark.parametrize("spec", ["gpt-5-mini", "openai:", ":gpt-5-mini", ""])
def test_a_model_without_its_provider_is_refused_at_once(spec: str) -> None:
    with pytest.raises(Misconfigured, match="provider:model"):
        provider_chat(spec, timeout_seconds=1)


async def test_a_provider_that_is_not_installed_is_refused_with_its_package() -> None:
    with pytest.raises(Misconfigured, match="pip install langchain-anthropic"):
        await provider_chat("anthropic:claude-x", timeout_seconds=1).warm()
    embedder = embedder_for("cohere:embed-v4", dimension=1024)
    with pytest.raises(Misconfigured, match="pip install langchain-cohere"):
        await embedder.warm()


async def test_a_provider_that_nobody_knows_is_refused() -> None:
    with pytest.raises(Misconfigured, match="CHAT_MODEL='acme:m'"):
        await provider_chat("acme:m", timeout_seconds=1).warm()
    with pytest.raises(Misconfigured, match="EMBEDDING_MODEL='acme:m'"):
        await embedder_for("acme:m", dimension=3).warm()


async def test_openai_embeddings_are_unit_rows_in_order(server: ModelServer) -> None:
    embedder = embedder_for(
        "openai:text-embedding-3-small", api_key="k", base_url=f"{server.url}/v1"
    )
    assert (embedder.dimension, embedder.thresholds.memory) == (1536, 0.70)
    texts = [f"text number {n}" for n in range(100)] + [" "]
    rows = await embedder.embed(texts)
    alone = await embedder.embed([texts[40]], kind="query")
    nothing = await embedder.embed([])
    await embedder.close()
    assert (rows.shape, nothing.shape) == ((101, 1536), (0, 1536))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(rows[40], alone[0], atol=1e-6)
    assert [len(request["input"]) for request in server.requests[:2]] == [96, 5]
    assert " " not in server.requests[1]["input"]


async def test_a_shorter_openai_vector_is_asked_for(server: ModelServer) -> None:
    embedder = embedder_for(
        "openai:text-embedding-3-small", dimension=256, api_key="k", base_url=f"{server.url}/v1"
    )
    assert (await embedder.embed(["one"])).shape == (1, 256)
    await embedder.close()
    assert server.requests[0]["dimensions"] == 256


async def test_vectors_of_another_size_are_refused_with_both_sizes(server: ModelServer) -> None:
    server.dimension = 8
    embedder = embedder_for(
        "openai:text-embedding-3-small", api_key="k", base_url=f"{server.url}/v1"
    )
    with pytest.raises(UpstreamInvalid, match=r"\(1, 8\), expected \(1, 1536\)"):
        await embedder.embed(["one"])
    await embedder.close()


async def test_a_text_that_is_too_long_is_embedded_by_its_beginning(server: ModelServer) -> None:
    embedder = embedder_for(
        "openai:text-embedding-3-small", api_key="k", base_url=f"{server.url}/v1"
    )
    signs = "契約" * 4_000
    rows = await embedder.embed(["word " * 6_400, signs, "short\x00 \ud83d"])
    again = await embedder.embed([signs, "word " * 6_400])
    await embedder.close()
    np.testing.assert_array_equal(again, rows[[1, 0]])
    (request,) = server.requests  # a long text is remembered as well
    assert request["input"] == ["word " * 1_600, signs[:2_666], "short \ufffd"]
    assert max(len(text.encode()) for text in request["input"]) <= 8_000


async def test_a_refused_embedding_key_says_which(server: ModelServer) -> None:
    server.fault = "unauthorized"
    embedder = embedder_for(
        "openai:text-embedding-3-small", api_key="k", base_url=f"{server.url}/v1"
    )
    with pytest.raises(UpstreamRefused, match="OPENAI_API_KEY") as refused:
        await embedder.embed(["one"])
    await embedder.close()
    assert refused.value.part == "embedder"


def failed(status: int, headers: dict[str, str] | None = None) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://models.test")
    response = httpx.Response(status, headers=headers, request=request)
    return httpx.HTTPStatusError("secret", request=request, response=response)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (failed(429), UpstreamBusy),
        (failed(403), UpstreamRefused),
        (failed(408), UpstreamTimeout),
        (failed(503), UpstreamUnavailable),
        (TimeoutError(), UpstreamTimeout),
        (httpx.ReadTimeout("secret"), UpstreamTimeout),
        (httpx.ConnectError("secret"), UpstreamUnavailable),
        (httpx.RemoteProtocolError("secret"), UpstreamUnavailable),
        (ConnectionResetError("secret"), UpstreamUnavailable),
        (KeyError("choices"), UpstreamInvalid),
    ],
)
def test_an_error_is_told_by_its_shape(error: Exception, kind: type[Exception]) -> None:
    translated = VENDOR.translate(error)
    assert type(translated) is kind
    assert "secret" not in translated.message


def test_an_embedder_that_gets_too_much_speaks_of_a_text() -> None:
    vendor = Vendor("embedder", "Acme AI", "m-1", "ACME_API_KEY", "EMBEDDING_MODEL")
    translated = vendor.translate(failed(413))
    assert type(translated) is TooLarge
    assert translated.message.startswith("A text is larger")


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert retry_after_of(failed(429, {"Retry-After": "2.5"})) == 2.5
    assert 90 < (retry_after_of(failed(429, {"Retry-After": soon})) or 0) <= 100
    assert retry_after_of(failed(429, {"Retry-After": "soon"})) is None
    assert retry_after_of(failed(429)) is None
