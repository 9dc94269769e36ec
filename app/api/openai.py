"""OpenAI's chat completions and models, with our turn behind them. Touches: chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from app.api.big_bodies import BigBodies
from app.api.deps import CallerDep, RuntimeDep, count_question
from app.api.openai_callers import (
    Headers,
    is_aside,
    is_sdk_retry,
    memory_of,
    message_id_of,
    session_of,
    user_of,
)
from app.api.openai_replies import Completion, Reply, data, reply_of
from app.api.openai_requests import CompletionRequest, Told, read_messages
from app.api.responses import EVENTS, documented, error_body, event_stream, in_openai_terms
from app.chat.ask import Ask, Mode
from app.chat.place import Wish
from app.chat.running import Answer, Failed, Running
from app.errors import NotFound, TooLarge
from app.identity import Caller
from app.llm.base import Say, Token
from app.runtime import Runtime

router = APIRouter(prefix="/v1", tags=["openai"], route_class=BigBodies)

AGENT = "-agent"
MADE_AT = 1_767_225_600  # OpenAI's shape wants a time; ours are no trained models


class ModelOut(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = MADE_AT
    owned_by: str = "conversational-rag"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelOut]


@router.get("/models", responses=documented())
async def list_models(caller: CallerDep, runtime: RuntimeDep) -> ModelList:
    """List the models by which OpenAI's clients ask: the chat, and the agent."""
    return ModelList(data=[ModelOut(id=name) for name in _modes(runtime)])


@router.get("/models/{model_id:path}", responses=documented(404, 422))
async def get_model(model_id: str, caller: CallerDep, runtime: RuntimeDep) -> ModelOut:
    """Return one of the models."""
    _mode(model_id, runtime)
    return ModelOut(id=model_id)


@router.post(
    "/chat/completions",
    response_class=JSONResponse,
    responses={
        200: {
            "description": "OpenAI's `chat.completion`; with `stream: true`, its chunks as "
            "server-sent events. Citations are `annotations`.",
            "content": EVENTS,
        },
        **documented(400, 403, 404, 409, 413, 422, 429, 502, 504, 507),
    },
)
async def complete(
    body: CompletionRequest, request: Request, caller: CallerDep, runtime: RuntimeDep
) -> Response:
    """Answer as OpenAI's chat completions do, from documents, memory and the conversation.

    Headers: `X-User-Id` (counts from gateways and admins only), `X-Session-Id`, `X-Memory` (on,
    read, off), `X-Client-Task` (a title or the like: nothing of it is stored), `Idempotency-Key`.
    """
    headers = request.headers
    mode = _mode(body.model, runtime)
    secret = runtime.limits.open_webui_secret.get_secret_value()
    user_id = user_of(caller, headers, body, secret, runtime.clock())
    await count_question(caller, user_id, runtime)
    told = read_messages(body.messages)
    completion = Completion(body.model)
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    if is_aside(headers, body, told):
        reply = await _aside(body, told, caller, user_id, runtime)
        if body.stream:
            chunks = _aside_chunks(completion, reply, with_usage)
            return event_stream(chunks, heartbeat_seconds=runtime.limits.heartbeat_seconds)
        return JSONResponse(completion.whole(reply))
    running = await runtime.turns.start(
        await _ask(body, headers, told, caller, user_id, mode, runtime)
    )
    if body.stream:
        return event_stream(
            _chunks(running, completion, with_usage, runtime),
            heartbeat_seconds=runtime.limits.heartbeat_seconds,
        )
    answer = await running.answer()
    if not await request.is_disconnected():
        runtime.places.note_delivered(answer.message_id)
    return JSONResponse(completion.whole(reply_of(answer, runtime.limits.public_base_url)))


async def _ask(
    body: CompletionRequest,
    headers: Headers,
    told: Told,
    caller: Caller,
    user_id: str,
    mode: Mode,
    runtime: Runtime,
) -> Ask:
    limit = runtime.limits.message_chars
    if len(told.question) > limit:
        raise TooLarge(
            f"the message has {len(told.question)} characters, the limit is {limit}",
            param="messages",
        )
    cleaner = await runtime.door.cleaner(caller.tenant_id, user_id)
    question = await cleaner.counted(told.question)
    before = await cleaner.says(told.before)  # what is stored, and compared with, is clean
    session_id, tells_all = session_of(headers, body)
    place = await runtime.places.find(
        Wish(
            caller.tenant_id,
            user_id,
            session_id,
            question.text,
            before,
            tells_all,
            client_message_id=message_id_of(headers),
            is_retry=is_sdk_retry(headers),
        )
    )
    return Ask(
        tenant_id=caller.tenant_id,
        user_id=user_id,
        bound=caller.document_filter,
        session_id=place.session_id,
        text=question.text,
        redacted=question.counts,
        client_message_id=place.client_message_id,
        memory=memory_of(headers),
        mode=mode,
        told=place.told,
        instructions=told.instructions,
        reply_tokens=body.max_completion_tokens or body.max_tokens,
        is_streamed=bool(body.stream),
    )


async def _aside(
    body: CompletionRequest, told: Told, caller: Caller, user_id: str, runtime: Runtime
) -> Reply:
    says = [Say("system", text) for text in told.instructions]
    says += [Say(s.role, s.content) for s in told.before if s.role != "tool" and s.content.strip()]
    says.append(Say("user", told.question))
    cleaner = await runtime.door.cleaner(caller.tenant_id, user_id)
    says = list(await cleaner.says(says))
    said = await runtime.asides.answer(
        caller.tenant_id, user_id, says, body.max_completion_tokens or body.max_tokens
    )
    return Reply(said.text, said.reason, said.usage.input_tokens, said.usage.output_tokens)


async def _aside_chunks(
    completion: Completion, reply: Reply, with_usage: bool
) -> AsyncIterator[str]:
    yield completion.first()
    yield completion.text(reply.text)
    for chunk in completion.last(reply, with_usage=with_usage):
        yield chunk


async def _chunks(
    running: Running, completion: Completion, with_usage: bool, runtime: Runtime
) -> AsyncIterator[str]:
    yield completion.first()
    async for happened in running.events():
        match happened:
            case Token(text):
                yield completion.text(text)
            case Answer():
                reply = reply_of(happened, runtime.limits.public_base_url)
                for chunk in completion.last(reply, with_usage=with_usage):
                    yield chunk
                runtime.places.note_delivered(happened.message_id)  # not reached if it left
            case Failed(error):
                yield data(error_body(in_openai_terms(error)))


def _modes(runtime: Runtime) -> dict[str, Mode]:
    name = runtime.limits.served_model_name
    return {name: "chat", name + AGENT: "agent"}


def _mode(model: str, runtime: Runtime) -> Mode:
    modes = _modes(runtime)
    if model not in modes:
        known = " and ".join(repr(name) for name in modes)
        missing = NotFound(f"there is no model {model[:100]!r}; there are {known}", param="model")
        missing.code = "model_not_found"
        raise missing
    return modes[model]
