"""Conversations: list, read, close, delete; a reply's receipt. Touches: sessions, memory."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.api.cursors import decoded, encoded
from app.api.deps import CallerDep, Id, RuntimeDep, UserQuery
from app.api.responses import documented
from app.errors import NotFound
from app.jobs import CALLER_SECONDS
from app.sessions.base import Message, Session

router = APIRouter(tags=["sessions"])

MAX_SEQ = 2**31 - 1  # what the column holds on every database


class SessionOut(BaseModel):
    session_id: str
    user_id: str
    state: Literal["open", "closed"]
    message_count: int
    created_at: datetime
    last_message_at: datetime
    closed_at: datetime | None


class SessionList(BaseModel):
    sessions: list[SessionOut]
    next_cursor: str | None


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


class SessionDetail(SessionOut):
    """`removed_up_to_seq`: messages up to it were old and summarised, and are gone; 0: none is."""

    summary: str | None
    summary_covers_seq: int
    removed_up_to_seq: int
    messages: list[MessageOut]
    next_after_seq: int | None


class Closed(BaseModel):
    session_id: str
    state: Literal["open", "closed"]
    summary: str | None
    pending: str | None


class DeletedSession(BaseModel):
    session_id: str
    messages: int
    vectors: Literal["removed", "being removed"]


class Receipt(BaseModel):
    message_id: str
    session_id: str
    status: str
    receipt: dict[str, Any] | None


@router.get("/sessions", responses=documented(403, 422))
async def list_sessions(
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the last page")] = None,
) -> SessionList:
    """List sessions, the latest first."""
    found = await runtime.sessions.list_sessions(
        caller.tenant_id, caller.may_see(user_id), limit=limit, after=decoded(cursor, of="sessions")
    )
    more = None
    if len(found) == limit:
        more = encoded(found[-1].last_message_at, found[-1].session_id)
    return SessionList(sessions=[_session_out(s) for s in found], next_cursor=more)


@router.post("/sessions/{session_id:path}/close", responses=documented(403, 404, 422, 502, 504))
async def close_session(
    session_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> Closed:
    """Summarise what is new and close the session, now.

    If the model fails, the session stays open, and the summary pending until it succeeds.
    """
    tenant, user = caller.tenant_id, caller.may_see(user_id)
    session = await runtime.sessions.get(tenant, session_id, user)
    pending = None
    if session.state == "open":
        key = await runtime.episodes.ask_to_close(session, delay_seconds=CALLER_SECONDS)
        if await runtime.worker.run_now(tenant, "close", key) is not None:
            state = await runtime.jobs.state(tenant, "close", key)
            pending = (state and state[1]) or "it is being summarised"
        session = await runtime.sessions.get(tenant, session_id, user)
    episode = await runtime.episodes.get(tenant, session_id)
    return Closed(
        session_id=session_id,
        state=session.state,
        summary=None if episode is None else episode.text,
        pending=pending,
    )


@router.get("/sessions/{session_id:path}", responses=documented(403, 404, 422))
async def get_session(
    session_id: Id,
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    after_seq: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> SessionDetail:
    """Return a session with its messages in order, its summary and its state."""
    tenant = caller.tenant_id
    session = await runtime.sessions.get(tenant, session_id, caller.may_see(user_id))
    page = await runtime.sessions.messages_after(tenant, session_id, after_seq, limit=limit)
    episode = await runtime.episodes.get(tenant, session_id)
    return SessionDetail(
        **_session_out(session).model_dump(),
        summary=None if episode is None else episode.text,
        summary_covers_seq=session.covered_seq,
        removed_up_to_seq=await runtime.retention.removed_up_to(session),
        messages=[_message_out(message) for message in page],
        next_after_seq=page[-1].seq if len(page) == limit else None,
    )


@router.delete("/sessions/{session_id:path}", responses=documented(403, 404, 422))
async def delete_session(
    session_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> DeletedSession:
    """Remove a session: its messages, its episode, its vector."""
    tenant = caller.tenant_id
    await runtime.sessions.get(tenant, session_id, caller.may_see(user_id))
    key, messages = await runtime.sessions.delete(tenant, session_id, now=runtime.clock())
    failure = await runtime.worker.run_now(tenant, "sync_episode", key)
    return DeletedSession(
        session_id=session_id,
        messages=messages,
        vectors="removed" if failure is None else "being removed",
    )


@router.get("/messages/{message_id}/receipt", responses=documented(403, 404, 422))
async def get_receipt(
    message_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> Receipt:
    """Explain a reply: what it was made from, with scores, thresholds and tokens."""
    message, owner = await runtime.sessions.message(caller.tenant_id, message_id)
    if caller.may_see(user_id) not in (None, owner) or message.role != "assistant":
        raise NotFound("there is no such reply", param="message_id")
    return Receipt(
        message_id=message.id,
        session_id=message.session_id,
        status=message.status,
        receipt=None if message.receipt is None else dict(message.receipt),
    )


def _session_out(session: Session) -> SessionOut:
    return SessionOut(
        session_id=session.session_id,
        user_id=session.user_id,
        state=session.state,
        message_count=session.last_seq,
        created_at=session.created_at,
        last_message_at=session.last_message_at,
        closed_at=session.closed_at,
    )


def _message_out(message: Message) -> MessageOut:
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
    )
