"""Calls of the OpenAI-compatible endpoint that its tests share."""

from __future__ import annotations

import json
from typing import Any

import httpx
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.api.calls import Json, answered, at, read

MODEL = "conversational-rag"
PATH = "/v1/chat/completions"
Said = str | tuple[str, ...] | list[Json]


def messages(said: Said) -> list[Json]:
    """Return messages: a text, or texts of a user and an assistant in turns."""
    if isinstance(said, list):
        return said
    texts = (said,) if isinstance(said, str) else said
    return [
        {"role": "assistant" if at % 2 else "user", "content": text}
        for at, text in enumerate(texts)
    ]


async def post(
    client: httpx.AsyncClient, said: Said, *, headers: dict[str, str] | None = None, **fields: Any
) -> httpx.Response:
    body = {"model": MODEL, "messages": messages(said), **fields}
    return await client.post(PATH, json=body, headers=headers)


async def ask(client: httpx.AsyncClient, said: Said, **options: Any) -> Json:
    """Return a whole completion, of which OpenAI's own types accept every value."""
    body = answered(await post(client, said, **options))
    ChatCompletion.model_validate(body, strict=True)
    return body


def text(body: Json) -> str:
    return str(body["choices"][0]["message"]["content"])


def chunks(response: httpx.Response) -> list[Json]:
    """Return the chunks of a stream, of which OpenAI's own types accept every value."""
    assert response.status_code == 200, response.text
    lines = [line for line in response.text.split("\n\n") if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]"
    found: list[Json] = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    for chunk in found:
        ChatCompletionChunk.model_validate(chunk, strict=True)
    return found


async def stored(client: httpx.AsyncClient, session_id: str, **options: Any) -> list[str]:
    """Return what a session holds, one text a message."""
    body = await read(client, at("sessions", session_id), **options)
    return [message["content"] for message in body["messages"]]


async def session_ids(client: httpx.AsyncClient, **options: Any) -> list[str]:
    listed = await read(client, "/sessions", **options)
    return sorted(session["session_id"] for session in listed["sessions"])


def asked_of(request: Json) -> list[tuple[str, str]]:
    """Return the conversation that a model was sent, without the system's part."""
    return [(m["role"], m["content"]) for m in request["messages"] if m["role"] != "system"]
