"""An OpenAI-wire model server over HTTP: chat (at Groq's path too) and embeddings, with faults.

Groq's path reports streaming usage as Groq does (`x_groq.usage`), OpenAI's in a last chunk with no
choices, on request.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import os
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tests.wire.held import Held
from tests.wire.serving import serving

Fault = Literal[
    "rate_limit",  # 429 with Retry-After
    "too_large",  # 413
    "unauthorized",  # 401
    "unknown_model",  # 404
    "bad_request",  # 400
    "tool_use_failed",  # 400, as Groq's: the model's call of a tool could not be read
    "tool_use_failed_late",  # the same in mid-stream
    "flex_capacity",  # 498
    "server_error",  # 500
    "stream_error",  # an error event inside the stream
    "slow",  # `latency_seconds` before the first byte
    "stall",  # `latency_seconds` in mid-stream
    "garbage",  # 200 and no JSON
    "early_end",  # a clean close without a finish reason
    "empty",  # no text
    "length",  # finish reason "length"
    "reset",  # the connection dies
]


@dataclass(frozen=True)
class Calls:
    """An answer that asks for tools: (name, arguments), all at once.

    Arguments that are a text are sent as they are: they may be no JSON. said: the text before.
    """

    calls: tuple[tuple[str, dict[str, Any] | str], ...]
    said: str = ""


def call(name: str, **arguments: Any) -> Calls:
    """An answer that asks for one tool."""
    return Calls(((name, arguments),))


Said = str | Calls
Script = Sequence[Said] | Callable[[dict[str, Any]], Said]

PROMPT_TOKENS, COMPLETION_TOKENS = 11, 7

Count = Callable[[dict[str, Any], str], tuple[int, int]]
"""Of a request's body and the reply, its calls of tools too: the tokens in and out."""

_REFUSALS: dict[str, tuple[int, str]] = {
    "rate_limit": (429, "rate_limit_exceeded"),
    "too_large": (413, "rate_limit_exceeded"),
    "unauthorized": (401, "invalid_api_key"),
    "unknown_model": (404, "model_not_found"),
    "bad_request": (400, "json_validate_failed"),
    "tool_use_failed": (400, "tool_use_failed"),
    "flex_capacity": (498, "capacity_exceeded"),
    "server_error": (500, "internal_server_error"),
}


@dataclass
class ModelServer:
    """What the server says and what it was asked.

    script: texts or `Calls` in order (the last one repeats), or a function of the request's body.
    pause: waits, by a request's body, after the first word of a stream or before another answer.
    fault: None or one of `Fault`; `fault_times` of None is every request, n the next n.
    spares_embeddings: faults are the chat model's alone.
    usage: the tokens that it reports, in and out, or what counts them.
    vector: embeds a text in so many dimensions; None is `words_vector`.
    held: holds answers back.
    requests: the JSON bodies as received; `headers` the headers beside them.
    """

    script: Script = ("Hello there, friend.",)
    fault: Fault | None = None
    fault_times: int | None = None
    spares_embeddings: bool = False
    retry_after: str | None = "7"
    latency_seconds: float = 30.0
    pause: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    dimension: int = 1536
    vector: Callable[[str, int], list[float]] | None = None
    usage: tuple[int, int] | Count = (PROMPT_TOKENS, COMPLETION_TOKENS)
    url: str = ""
    held: Held | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    _said: int = 0

    def heard(self, body: dict[str, Any], headers: dict[str, str]) -> Fault | None:
        """Record a request and return the fault that it meets."""
        self.requests.append(body)
        self.headers.append(headers)
        if self.spares_embeddings and "messages" not in body:
            return None
        if self.fault is None or self.fault_times is None:
            return self.fault
        self.fault_times -= 1
        return self.fault if self.fault_times >= 0 else None

    def reply(self, body: dict[str, Any]) -> Said:
        if callable(self.script):
            return self.script(body)
        text = self.script[min(self._said, len(self.script) - 1)]
        self._said += 1
        return text


@contextmanager
def model_server(**options: Any) -> Iterator[ModelServer]:
    """Serve a `ModelServer` over HTTP; `url` is the root, without /v1."""
    server = ModelServer(**options)
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    with serving(_app(server)) as server.url:
        yield server


def _app(server: ModelServer) -> Starlette:
    async def groq(request: Request) -> Response:
        return await _chat(server, request, is_groq=True)

    async def openai(request: Request) -> Response:
        return await _chat(server, request, is_groq=False)

    async def embeddings(request: Request) -> Response:
        return await _embeddings(server, request)

    return Starlette(
        routes=[
            Route("/openai/v1/chat/completions", groq, methods=["POST"]),
            Route("/v1/chat/completions", openai, methods=["POST"]),
            Route("/v1/embeddings", embeddings, methods=["POST"]),
        ]
    )


class _Reset(Response):
    """Promises more bytes than it sends, so that the server has to drop the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"1000")],
        }
        await send(start)
        await send({"type": "http.response.body", "body": b"{", "more_body": True})


async def _meet(server: ModelServer, fault: Fault | None) -> Response | None:
    """Return the whole response of a fault that comes before any content, else None."""
    if server.held is not None:
        await server.held.pass_by()
    if fault == "slow":
        await asyncio.sleep(server.latency_seconds)
    if fault == "reset":
        return _Reset()
    if fault == "garbage":
        return Response("<html>It works!</html>", media_type="application/json")
    if fault in _REFUSALS:
        status, code = _REFUSALS[fault]
        error = {"message": "secret upstream text", "type": "error", "code": code}
        with_pause = fault == "rate_limit" and server.retry_after is not None
        headers = {"retry-after": server.retry_after or ""} if with_pause else {}
        return JSONResponse({"error": error}, status_code=status, headers=headers)
    return None


async def _chat(server: ModelServer, request: Request, *, is_groq: bool) -> Response:
    body = json.loads(await request.body())
    fault = server.heard(body, dict(request.headers))
    if (refusal := await _meet(server, fault)) is not None:
        return refusal
    said: Said = "" if fault == "empty" else server.reply(body)
    text, calls = (said.said, _tool_calls(said, server)) if isinstance(said, Calls) else (said, [])
    reason = "length" if fault == "length" else "tool_calls" if calls else "stop"
    if body.get("stream"):
        chunks = _chunks(server, body, text, calls, reason, fault, is_groq)
        return StreamingResponse(chunks, media_type="text/event-stream")
    if server.pause is not None:
        await server.pause(body)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    cut = fault == "early_end"
    choice = {"index": 0, "message": message, "finish_reason": None if cut else reason}
    usage = _usage(server, body, text, calls)
    return JSONResponse(_envelope(body, "chat.completion") | {"choices": [choice], "usage": usage})


async def _chunks(
    server: ModelServer,
    body: dict[str, Any],
    text: str,
    calls: Sequence[dict[str, Any]],
    reason: str,
    fault: Fault | None,
    is_groq: bool,
) -> AsyncIterator[str]:
    envelope = _envelope(body, "chat.completion.chunk")
    yield _event(envelope, {"role": "assistant", "content": ""}, None)
    words = [word + " " for word in text.split(" ")]
    words[-1] = words[-1].removesuffix(" ")
    for at, word in enumerate(words):
        if at == 1 and fault == "early_end":
            return
        if at == 1 and fault == "stall":
            await asyncio.sleep(server.latency_seconds)
        if at == 1 and server.pause is not None:
            await server.pause(body)
        if at == 1 and fault == "stream_error":
            yield f"data: {json.dumps({'error': {'message': 'over capacity'}})}\n\n"
            return
        yield _event(envelope, {"content": word}, None)
    if fault == "tool_use_failed_late":
        error = {"message": "secret upstream text", "code": "tool_use_failed", "status_code": 400}
        yield f"event: error\ndata: {json.dumps({'error': error})}\n\n"
        return
    for index, asked in enumerate(calls):
        for delta in _call_deltas(asked, index, is_groq):
            yield _event(envelope, {"tool_calls": [delta]}, None)
    usage = _usage(server, body, text, calls)
    if is_groq:
        yield _event(envelope | {"x_groq": {"id": "req_1", "usage": usage}}, {}, reason)
    else:
        yield _event(envelope, {}, reason)
        if (body.get("stream_options") or {}).get("include_usage"):
            yield f"data: {json.dumps(envelope | {'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _tool_calls(said: Calls, server: ModelServer) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{len(server.requests)}_{index}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for index, (name, arguments) in enumerate(said.calls)
    ]


def _call_deltas(asked: dict[str, Any], index: int, is_groq: bool) -> list[dict[str, Any]]:
    """Return a call as it is streamed: whole by Groq, its arguments in pieces by OpenAI."""
    if is_groq:
        return [{"index": index, **asked}]
    name, arguments = asked["function"]["name"], asked["function"]["arguments"]
    half = len(arguments) // 2
    first = {"index": index, **asked, "function": {"name": name, "arguments": ""}}
    rest = [
        {"index": index, "function": {"arguments": part}}
        for part in (arguments[:half], arguments[half:])
    ]
    return [first, *rest]


def _event(envelope: dict[str, Any], delta: dict[str, Any], reason: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return f"data: {json.dumps(envelope | {'choices': [choice]})}\n\n"


def _envelope(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": body["model"]}


def _usage(
    server: ModelServer, body: dict[str, Any], text: str, calls: Sequence[dict[str, Any]]
) -> dict[str, int]:
    written = text + "".join(
        each["function"]["name"] + each["function"]["arguments"] for each in calls
    )
    asked, said = server.usage if isinstance(server.usage, tuple) else server.usage(body, written)
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


async def _embeddings(server: ModelServer, request: Request) -> Response:
    body = json.loads(await request.body())
    fault = server.heard(body, dict(request.headers))
    if (refusal := await _meet(server, fault)) is not None:
        return refusal
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    dimension = body.get("dimensions") or server.dimension
    embed = server.vector or words_vector
    told = _as_base64 if body.get("encoding_format") == "base64" else list
    data = [
        {"object": "embedding", "index": at, "embedding": told(embed(text, dimension))}
        for at, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS}
    return JSONResponse({"object": "list", "model": body["model"], "data": data, "usage": usage})


def _as_base64(values: list[float]) -> str:
    """Return float32, little endian, in Base64, as OpenAI's SDK asks for unless told otherwise."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def words_vector(text: str, dimension: int) -> list[float]:
    """Return a bag of hashed words, not normalised: texts that share words are near."""
    values = [0.0] * dimension
    for word in text.lower().split() or ["(empty)"]:
        digest = hashlib.sha256(word.encode()).digest()
        values[int.from_bytes(digest[:4]) % dimension] += math.sqrt(2)
    return values
