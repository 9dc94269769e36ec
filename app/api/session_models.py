"""Sessions and messages as they go in and out over HTTP. Touches nothing."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from app.api.deps import Change, NotBlank, Printable, Storable
from app.sessions.base import Message, Session
from app.sessions.titles import shown_title

MAX_TITLE_CHARS = 200
MAX_METADATA_BYTES = 16 * 1024

StateOut = Literal["open", "closed"]


def _flat(metadata: dict[str, Any]) -> dict[str, Any]:
    for name, value in metadata.items():
        if not name.strip():
            raise ValueError("must not have a name that is blank")
        if isinstance(value, dict | list):
            kind = "an object" if isinstance(value, dict) else "an array"
            raise ValueError(f"must be flat: {name[:100]!r} holds {kind}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"must hold finite numbers: {name[:100]!r} is {value}")
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > MAX_METADATA_BYTES:
        raise ValueError(f"has {size} bytes as JSON, the limit is {MAX_METADATA_BYTES}")
    return metadata


Title = Annotated[
    str,
    Field(max_length=MAX_TITLE_CHARS),
    Storable,
    NotBlank,
    AfterValidator(lambda text: " ".join(text.split())),
    Printable,
]
FlatJson = Annotated[dict[str, Any], Storable, AfterValidator(_flat)]


class SessionChange(Change):
    """What to change; what is not sent stays, null empties."""

    title: Title | None = Field(
        None,
        description="null: one is made of the first message again.",
        examples=["The move to Porto"],
    )
    metadata: FlatJson | None = Field(
        None,
        description="Your own, as a whole: texts, numbers, true, false, null; at most 16 KB.",
        examples=[{"channel": "web", "ticket": 4711}],
    )


class SessionOut(BaseModel):
    """`title`: the one that it was given (`has_own_title`), else one made of its first message
    that is still there. `tokens`: of all its messages, by estimate. `last_message_at`: also when
    it was opened again without a message."""

    session_id: str
    user_id: str
    title: str | None
    has_own_title: bool
    metadata: dict[str, Any]
    state: StateOut
    message_count: int
    tokens: int
    created_at: datetime
    last_message_at: datetime
    closed_at: datetime | None


class StepOut(BaseModel):
    """A tool that an agent called for its reply, and what it was told."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str | None = None
    is_error: bool = False


class MessageOut(BaseModel):
    message_id: str
    seq: int
    role: Literal["user", "assistant"]
    speaker: str | None
    content: str
    status: Literal["pending", "complete", "interrupted", "failed"]
    client_message_id: str | None
    created_at: datetime
    error: dict[str, Any] | None
    steps: list[StepOut]


def session_out(session: Session) -> SessionOut:
    return SessionOut(
        session_id=session.session_id,
        user_id=session.user_id,
        title=shown_title(session),
        has_own_title=session.title is not None,
        metadata=dict(session.metadata or {}),
        state=session.state,
        message_count=session.last_seq,
        tokens=session.tokens,
        created_at=session.created_at,
        last_message_at=session.last_message_at,
        closed_at=session.closed_at,
    )


def message_out(message: Message) -> MessageOut:
    return MessageOut(
        message_id=message.id,
        seq=message.seq,
        role=message.role,
        speaker=message.speaker,
        content=message.content,
        status=message.status,
        client_message_id=message.client_message_id,
        created_at=message.created_at,
        error=None if message.error is None else dict(message.error),
        steps=[StepOut.model_validate(step) for step in message.steps or ()],
    )
