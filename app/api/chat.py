"""POST /chat: one turn, as one JSON object or as a stream of events. Touches: chat."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.big_bodies import BigBodies
from app.api.deps import (
    Body,
    CallerDep,
    Id,
    MemoryOut,
    RuntimeDep,
    Storable,
    Text,
    Zone,
    count_question,
)
from app.api.responses import EVENTS, documented, error_body, event, event_stream
from app.chat.ask import Ask, HistoryWish, Mode, Strategy
from app.chat.running import Answer, Failed, Running, Step
from app.errors import TooLarge
from app.index.filters import validate
from app.llm.base import Token
from app.sessions.base import MemoryMode

router = APIRouter(tags=["chat"], route_class=BigBodies)

_FIRST_MESSAGES = uuid.UUID("3a2f3c52-2f3a-4f0e-9a3b-6f5a2f0c7d11")


class HistoryBody(Body):
    """How much of the conversation the model sees; what is not said is as the settings say.

    `window` and `tokens` narrow whatever the strategy shows.
    """

    strategy: Annotated[
        Strategy | None,
        Field(
            description="buffer: all recent messages; window: the last exchanges; token: the last "
            "messages within `tokens`; summary: the summary and what it does not cover yet; "
            "summary_buffer: all recent messages, and the summary of what is older."
        ),
    ] = None
    window: Annotated[
        int | None, Field(ge=1, le=500, description="The last exchanges, at most so many.")
    ] = None
    tokens: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="The last messages, in so many tokens.")
    ] = None


class ChatRequest(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "user_id": "ada",
                    "session_id": "friday",
                    "message": "When does Acme Corp's contract renew?",
                }
            ]
        }
    )

    message: Annotated[Text, Field(examples=["When does Acme Corp's contract renew?"])]
    session_id: Annotated[
        Id | None, Field(description="Goes on with a conversation; without one, a new one begins.")
    ] = None
    user_id: Annotated[
        Id | None, Field(description="Whose memory it is; counts from gateways and admins only.")
    ] = None
    client_message_id: Annotated[
        Id | None, Field(description="Makes a repeat return the stored reply.")
    ] = None
    stream: Annotated[bool, Field(description="Answer with events instead of one object.")] = False
    memory: Annotated[
        MemoryMode,
        Field(description="on: recall and remember; read: only recall; off: neither."),
    ] = "on"
    mode: Annotated[
        Mode, Field(description="chat: one search, one answer; agent: the model calls tools.")
    ] = "chat"
    filters: Annotated[
        dict[str, Any] | None,
        Storable,
        Field(
            description="For documents: values to equal, or Pinecone's filter language.",
            examples=[{"doc_type": "customer", "contract_value": {"$gte": 100000}}],
        ),
    ] = None
    top_k: Annotated[int | None, Field(ge=0, le=100, description="How many documents.")] = None
    timezone: Annotated[
        Zone | None,
        Field(
            description='The user\'s, an IANA name: when their "yesterday" was.',
            examples=["America/Chicago"],
        ),
    ] = None
    history: Annotated[
        HistoryBody | None,
        Field(
            description="How much of the conversation the model sees.",
            examples=[{"strategy": "window", "window": 3}],
        ),
    ] = None


class Source(BaseModel):
    """A passage. `relevance` orders the sources of one reply; `why`: what each side says of it."""

    id: str
    score: float
    relevance: float
    why: dict[str, float]
    text: str
    metadata: dict[str, Any]


class ChatResponse(BaseModel):
    session_id: str
    message_id: str
    reply: str
    sources: list[Source]
    memories: list[MemoryOut]
    receipt: dict[str, Any]


@router.post(
    "/chat",
    response_model=ChatResponse,
    responses={
        200: {
            "description": "The reply; with `stream: true`, the events `token`, `sources`, "
            "`done` and `error`, and `step` for each tool that an agent called.",
            "content": EVENTS,
        },
        **documented(400, 403, 404, 409, 413, 422, 429, 502, 504, 507),
    },
)
async def chat(
    body: ChatRequest, caller: CallerDep, runtime: RuntimeDep
) -> Response | ChatResponse:
    """Answer a message from documents, from the user's memory and from the conversation."""
    limit = runtime.limits.message_chars
    if len(body.message) > limit:
        raise TooLarge(
            f"the message has {len(body.message)} characters, the limit is {limit}",
            param="message",
        )
    filters = body.filters or None
    if filters is not None:
        validate(filters)
    user_id = caller.acts_for(body.user_id)
    await count_question(caller, user_id, runtime)
    ask = Ask(
        tenant_id=caller.tenant_id,
        user_id=user_id,
        bound=caller.document_filter,
        session_id=body.session_id or _new_session_id(user_id, body.client_message_id),
        text=body.message,
        client_message_id=body.client_message_id,
        memory=body.memory,
        filters=filters,
        top_k=body.top_k,
        timezone=body.timezone,
        mode=body.mode,
        is_streamed=body.stream,
        history=HistoryWish() if body.history is None else HistoryWish(**dict(body.history)),
    )
    running = await runtime.turns.start(ask)
    if body.stream:
        return event_stream(_as_events(running), heartbeat_seconds=runtime.limits.heartbeat_seconds)
    return as_response(await running.answer())


def _new_session_id(user_id: str, client_message_id: str | None) -> str:
    """Return an id of chance, or one that a repeat of the same first message finds again."""
    if client_message_id is None:
        return uuid.uuid4().hex
    return uuid.uuid5(_FIRST_MESSAGES, f"{user_id}\n{client_message_id}").hex


async def _as_events(running: Running) -> AsyncIterator[str]:
    async for happened in running.events():
        match happened:
            case Token(text):
                yield event("token", {"text": text})
            case Step():
                yield event("step", asdict(happened))
            case Answer():
                whole = as_response(happened).model_dump(mode="json")
                yield event("sources", {k: whole[k] for k in ("sources", "memories")})
                yield event("done", whole)
            case Failed(error):
                yield event("error", error_body(error))


def as_response(answer: Answer) -> ChatResponse:
    return ChatResponse(
        session_id=answer.session_id,
        message_id=answer.message_id,
        reply=answer.reply,
        sources=[
            Source(
                id=p.id,
                score=p.score,
                relevance=p.relevance,
                why=dict(p.why),
                text=p.text,
                metadata=dict(p.metadata),
            )
            for p in answer.passages
        ],
        memories=[MemoryOut.model_validate(m, from_attributes=True) for m in answer.memories],
        receipt=dict(answer.receipt),
    )
