"""POST /memories/import: old conversations with their own dates. Touches: memory, the jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal, ParamSpec, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, FailFast, Field, ValidationError, WrapValidator

from app.api.big_bodies import BigBodies
from app.api.deps import Body, CallerDep, Id, RuntimeDep, Text, Zone
from app.api.responses import documented
from app.chat.door import Cleaner
from app.errors import TooLarge
from app.memory.transcripts import Line, Transcript

router = APIRouter(tags=["memories"], route_class=BigBodies)

P = ParamSpec("P")
T = TypeVar("T")

SMALL_BYTES = 8 * 1024  # checked and cleaned sooner than handed to a thread
MAX_CONVERSATIONS = 500
MAX_MESSAGES = 20_000
MAX_MESSAGES_OF_ONE = 5_000  # they are stored in one transaction


class LineIn(Body):
    role: Annotated[
        Literal["user", "assistant"], Field(description="Every human one counts as user.")
    ]
    content: Annotated[Text, Field(examples=["I went to a support group yesterday."])]
    created_at: Annotated[
        datetime,
        Field(
            description="Without an offset: a wall clock's, in `timezone`. Messages come in order.",
            examples=["2023-05-08T13:56:00-05:00"],
        ),
    ]
    speaker: Annotated[Id | None, Field(description="A person's name.", examples=["Caroline"])] = (
        None
    )


class ConversationIn(Body):
    messages: Annotated[list[LineIn], Field(min_length=1), FailFast()]
    session_id: Annotated[
        Id | None,
        Field(
            description="Without one, the content decides it, so a repeat changes nothing; with "
            "one, a conversation that has become longer is gone on with."
        ),
    ] = None


class ImportRequest(Body):
    conversations: Annotated[list[ConversationIn], Field(min_length=1), FailFast()]
    user_id: Annotated[
        Id | None, Field(description="Whose memory it is; counts from gateways and admins only.")
    ] = None
    timezone: Annotated[
        Zone | None,
        Field(
            description="The user's, an IANA name; without one, the offset of the first message "
            'says when their "yesterday" was, else the service\'s setting.',
            examples=["America/Chicago"],
        ),
    ] = None


# Twenty thousand messages take too long to check on the loop: see `_read`.
Unchecked = Annotated[ImportRequest, WrapValidator(lambda given, _: given)]


class ImportedOut(BaseModel):
    """`messages`: those that the session has now, `added` of them by this request.

    `href`: its `summary` and `summary_covers_seq` say how far it is remembered.
    """

    session_id: str
    state: Literal["imported", "extended", "unchanged"]
    messages: int
    added: int
    href: str = Field(examples=["/sessions/2023-05-08"])


class ImportResponse(BaseModel):
    user_id: str
    conversations: list[ImportedOut]


@router.post(
    "/memories/import", status_code=202, responses=documented(400, 403, 404, 409, 413, 422, 507)
)
async def import_conversations(
    request: Request, body: Unchecked, caller: CallerDep, runtime: RuntimeDep
) -> ImportResponse:
    """Store old conversations as sessions with their own dates; they are summarised afterwards.

    What is answered for is stored. `GET /sessions/{id}` shows each summary once it is there,
    `GET /health/ready` how many are pending.
    """
    is_small = len(await request.body()) <= SMALL_BYTES
    named, transcripts = await _done(is_small, _read, body, runtime.limits.message_chars)
    user_id = caller.acts_for(named)
    cleaner = await runtime.door.cleaner(caller.tenant_id, user_id)
    transcripts = await _done(is_small, _clean, transcripts, cleaner)
    found = await runtime.imports.take(
        caller.tenant_id, user_id, transcripts, actor=caller.on_behalf
    )
    return ImportResponse(
        user_id=user_id,
        conversations=[
            ImportedOut(
                session_id=one.session_id,
                state=one.state,
                messages=one.messages,
                added=one.added,
                href=f"/sessions/{quote(one.session_id, safe='')}",
            )
            for one in found
        ],
    )


async def _done(is_small: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do what takes long with many messages: in a thread, unless they are few."""
    return work(*args, **kwargs) if is_small else await asyncio.to_thread(work, *args, **kwargs)


def _read(given: object, message_chars: int) -> tuple[str | None, Sequence[Transcript]]:
    """Check a body; returns the user that it names, and its conversations."""
    try:
        body = ImportRequest.model_validate(given, from_attributes=True)
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(errors) from error
    _check_sizes(body, message_chars)
    return body.user_id, [
        Transcript(
            lines=tuple(
                Line(line.role, line.content, line.created_at, line.speaker)
                for line in conversation.messages
            ),
            session_id=conversation.session_id,
            timezone=body.timezone,
        )
        for conversation in body.conversations
    ]


def _clean(transcripts: Sequence[Transcript], cleaner: Cleaner) -> list[Transcript]:
    """Return conversations as they may be kept. A speaker is the same throughout."""
    cleaned = []
    for transcript in transcripts:
        speakers = cleaner.json_here([line.speaker for line in transcript.lines])
        lines = zip(transcript.lines, speakers, strict=True)
        clean = [
            replace(line, content=cleaner.json_here(line.content), speaker=speaker)
            for line, speaker in lines
        ]
        cleaned.append(replace(transcript, lines=tuple(clean)))
    return cleaned


def _check_sizes(body: ImportRequest, message_chars: int) -> None:
    conversations = len(body.conversations)
    if conversations > MAX_CONVERSATIONS:
        raise TooLarge(
            f"the request has {conversations} conversations, the limit is {MAX_CONVERSATIONS}",
            param="conversations",
        )
    messages = sum(len(conversation.messages) for conversation in body.conversations)
    if messages > MAX_MESSAGES:
        raise TooLarge(
            f"the request has {messages} messages, the limit is {MAX_MESSAGES}",
            param="conversations",
        )
    for number, conversation in enumerate(body.conversations):
        if len(conversation.messages) > MAX_MESSAGES_OF_ONE:
            raise TooLarge(
                f"conversations.{number} has {len(conversation.messages)} messages, the limit is "
                f"{MAX_MESSAGES_OF_ONE}",
                param=f"conversations.{number}.messages",
            )
        for at, line in enumerate(conversation.messages):
            if len(line.content) > message_chars:
                param = f"conversations.{number}.messages.{at}.content"
                raise TooLarge(
                    f"{param} has {len(line.content)} characters, the limit is {message_chars}",
                    param=param,
                )
