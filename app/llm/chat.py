"""Any LangChain chat model behind our contract. Touches: the network, through LangChain.

LangChain costs over a second to import and a vendor's client some more, so the model is built in a
thread on first use or by `warm()`. SDK retries are switched off: only here is it known how much of
the deadline is left, so a `Retry-After` that does not fit becomes `UpstreamBusy` at once, where an
SDK would sleep until the deadline and leave nothing but a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from app.breaker import Breaker, Breakers, guarded, is_failure
from app.errors import AppError, Misconfigured, UpstreamInvalid
from app.llm.base import Completion, Finish, Say, Token, ToolCall, Usage
from app.llm.cap import Cap
from app.llm.carrying import carry
from app.llm.messages import (
    added,
    estimated,
    finish_reason,
    langchain_messages,
    read_calls,
    usage_of,
)
from app.llm.reasoning import Answer, without_reasoning
from app.llm.upstream import Vendor
from app.retry import retried
from app.text.clean import Pieces, clean

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage

T = TypeVar("T")


def _max_tokens(limit: int) -> dict[str, Any]:
    return {"max_tokens": limit}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A whole answer: its text, or the tools that are to be called.

    unreadable: ids of calls whose arguments are no JSON object.
    """

    text: str
    reason: str
    usage: Usage
    calls: tuple[ToolCall, ...] = ()
    unreadable: frozenset[str] = frozenset()


class LangChainChat:
    """A `ChatModel` over a LangChain `BaseChatModel`.

    build: makes the model; runs in a thread, so it may import and block. Raises `Misconfigured`.
    translate: turns what the model raises into ours.
    deadline_seconds: for one call with its retries, and for a whole stream.
    limit: how this model is told the most tokens to answer with.
    cap: of the calls at once; a call that waits for its place waits within its deadline.
    breaker: of the host; each attempt counts.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], BaseChatModel],
        translate: Callable[[Exception], AppError],
        *,
        deadline_seconds: float,
        max_retries: int = 2,
        limit: Callable[[int], dict[str, Any]] = _max_tokens,
        cap: Cap | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.name = name
        self._build = build
        self._translate = translate
        self._deadline_seconds = deadline_seconds
        self._max_retries = max_retries
        self._limit = limit
        self._cap = cap
        self._breaker = breaker
        self._model: BaseChatModel | None = None
        self._building = asyncio.Lock()
        self.trouble: str | None = None

    async def stream(
        self, prompt: Sequence[Say], *, max_tokens: int
    ) -> AsyncGenerator[Token | Finish, None]:
        """Yield the reply as it comes, then exactly one `Finish`. See `ChatModel.stream`."""
        async with aclosing(self.speak(prompt, max_tokens=max_tokens)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Token):
                    yield piece
                else:
                    yield Finish(piece.reason, piece.usage, self.name)

    async def speak(
        self,
        prompt: Sequence[Say],
        *,
        max_tokens: int,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> AsyncGenerator[Token | Spoken, None]:
        """Yield an answer as it comes, then the whole of it, which may ask for tools.

        tools: as OpenAI describes functions. Raises as `stream` does.
        """
        loaded = await self.loaded()
        model = loaded.bind_tools([dict(tool) for tool in tools]) if tools else loaded
        messages = langchain_messages(prompt)
        deadline = self._deadline()

        async def opened() -> tuple[AsyncGenerator[BaseMessage, None], BaseMessage | None]:
            chunks = cast(
                "AsyncGenerator[BaseMessage, None]",
                model.astream(messages, **self._limit(max_tokens)),
            )
            return chunks, await anext(chunks, None)

        answer, pieces = Answer(), Pieces()
        reason, usage = "", None
        asked: list[AIMessageChunk] = []
        async with self._place(deadline):
            chunks, chunk = await self._retried(opened, deadline, is_whole=False)
            async with aclosing(chunks):
                while chunk is not None:
                    if text := answer.feed(pieces.feed(str(chunk.text))):
                        yield Token(text)
                    if getattr(chunk, "tool_call_chunks", None):
                        asked.append(cast("AIMessageChunk", chunk))
                    reason = finish_reason(chunk) or reason
                    usage = added(usage, usage_of(chunk))
                    chunk = await self._further(anext(chunks, None), deadline)
        if self._breaker is not None:
            self._breaker.succeeded()
        if rest := answer.feed(pieces.rest()) + answer.rest():
            yield Token(rest)
        calls, unreadable = read_calls(asked)
        self._check(answer.text, reason, is_call=bool(calls))
        used = usage or estimated(prompt, answer.text, calls, tools)
        yield Spoken(answer.text, reason, used, calls, unreadable)

    async def complete(
        self, prompt: Sequence[Say], *, max_tokens: int, is_awaited: bool = True
    ) -> Completion:
        """Return the whole reply. See `ChatModel.complete`."""
        model = await self.loaded()
        messages = langchain_messages(prompt)
        deadline = self._deadline()
        async with self._place(deadline, is_awaited=is_awaited):
            message = await self._retried(
                lambda: model.ainvoke(messages, **self._limit(max_tokens)), deadline
            )
        text = without_reasoning(clean(str(message.text)))
        reason = finish_reason(message)
        self._check(text, reason)
        return Completion(text, reason, usage_of(message) or estimated(prompt, text), self.name)

    async def warm(self) -> None:
        """Import LangChain and build the model. No network. Raises `Misconfigured`."""
        await self.loaded()

    async def close(self) -> None:
        """Close the HTTP client that `build` gave to the model, if it gave one."""
        client = getattr(self._model, "http_async_client", None)
        self._model = None
        if client is not None:
            await client.aclose()

    async def loaded(self) -> BaseChatModel:
        async with self._building:
            if self._model is None:
                self._model = await asyncio.to_thread(self._build)
            return self._model

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._deadline_seconds

    def _place(
        self, deadline: float, *, is_awaited: bool = True
    ) -> AbstractAsyncContextManager[None]:
        if self._cap is None:
            return nullcontext()
        return self._cap.place(deadline, is_awaited=is_awaited)

    async def _retried(
        self, call: Callable[[], Awaitable[T]], deadline: float, *, is_whole: bool = True
    ) -> T:
        async def attempt() -> T:
            with guarded(self._breaker, "model", is_whole=is_whole):
                return await self._guarded(call(), deadline)

        return await retried(attempt, times=self._max_retries, deadline=deadline)

    async def _further(self, call: Awaitable[T], deadline: float) -> T:
        """Return the next piece of a stream: one that breaks off has failed as a call."""
        try:
            return await self._guarded(call, deadline)
        except AppError as error:
            if self._breaker is not None and is_failure(error):
                self._breaker.failed()
            raise

    async def _guarded(self, call: Awaitable[T], deadline: float) -> T:
        # The deadline goes around each wait for the vendor, never around a `yield`: there it would
        # cancel the reader of the stream instead.
        try:
            async with asyncio.timeout_at(deadline):
                answer = await call
        except Exception as error:
            ours = self._translate(error)
            self.trouble = ours.message
            raise ours from error
        self.trouble = None
        return answer

    def _check(self, text: str, reason: str, *, is_call: bool = False) -> None:
        if not reason:
            message = f"The answer of {self.name} was cut off."
            raise UpstreamInvalid("model", message, said=text)
        if not text.strip() and not is_call:
            raise UpstreamInvalid(
                "model", f"{self.name} gave an empty answer (finish reason {reason!r})."
            )


def provider_chat(
    spec: str,
    *,
    timeout_seconds: float,
    api_key: str | None = None,
    base_url: str | None = None,
    max_retries: int = 2,
    setting: str = "CHAT_MODEL",
    cap: Cap | None = None,
    breakers: Breakers | None = None,
) -> LangChainChat:
    """Return the chat model of "provider:model", through LangChain's `init_chat_model`.

    api_key, base_url: None leaves both to the provider's own environment variables.
    setting: the setting that a refusal points to.
    Raises `Misconfigured` for a malformed spec; the model's `warm` does for a missing package.
    """
    provider, _, model = spec.partition(":")
    if not provider or not model:
        raise Misconfigured(
            f"{setting} must look like provider:model, as in openai:gpt-5-mini; it is {spec!r}.",
            param=setting,
        )
    key_setting = f"the API key of {provider} ({provider.upper()}_API_KEY)"
    vendor = Vendor("model", provider, model, key_setting, setting)
    extra: dict[str, Any] = {"timeout": timeout_seconds, "max_retries": 0}
    if api_key:
        extra["api_key"] = api_key
    if base_url:
        extra["base_url"] = base_url

    def build() -> BaseChatModel:
        try:
            from langchain.chat_models import init_chat_model

            if provider == "openai":
                from openai import DefaultAsyncHttpxClient

                # LangChain shares one client per base URL in the process; ours can be closed.
                hooks = {"request": [carry]}
                extra["http_async_client"] = DefaultAsyncHttpxClient(event_hooks=hooks)
                extra["stream_usage"] = True
            made: BaseChatModel = init_chat_model(model, model_provider=provider, **extra)
            return made
        except ImportError as error:
            raise missing_package(setting, spec, error) from error
        except Exception as error:
            raise Misconfigured(
                f"{setting}={spec!r} can't be set up ({type(error).__name__}): "
                f"check the provider's name and {key_setting}.",
                param=setting,
            ) from error

    return LangChainChat(
        spec,
        build,
        vendor.translate,
        deadline_seconds=timeout_seconds,
        max_retries=max_retries,
        limit=_LIMITS.get(provider, _max_tokens),
        cap=cap,
        breaker=None if breakers is None else breakers.of(provider),
    )


_LIMITS: dict[str, Callable[[int], dict[str, Any]]] = {
    "ollama": lambda limit: {"options": {"num_predict": limit}},
    "google_genai": lambda limit: {"max_output_tokens": limit},
    "google_vertexai": lambda limit: {"max_output_tokens": limit},
}


def missing_package(setting: str, spec: str, error: ImportError) -> Misconfigured:
    """Return the refusal for a LangChain provider whose package is not installed."""
    cause = error.__cause__
    module = (cause.name if isinstance(cause, ImportError) else None) or error.name
    package = (module or f"langchain-{spec.partition(':')[0]}").partition(".")[0]
    package = package.replace("_", "-")
    return Misconfigured(
        f"{setting}={spec!r} needs the package {package}: pip install {package}", param=setting
    )
