"""Conversations: list, read, name, close, reopen, delete; a reply's receipt.

Touches: sessions, memory.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.api.big_bodies import BigBodies
from app.api.contexts import Context, context_of
from app.api.cursors import decoded, encoded
from app.api.deps import CallerDep, Id, RuntimeDep, UserQuery
from app.api.looks import note_look
from app.api.responses import documented
from app.api.session_models import (
    MessageOut,
    SessionChange,
    SessionOut,
    StateOut,
    message_out,
    session_out,
)
from app.chat.withholding import receipt_for
from app.errors import NotFound
from app.jobs import CALLER_SECONDS
from app.sessions.base import Described

router = APIRouter(tags=["sessions"], route_class=BigBodies)

MAX_SEQ = 2**31 - 1  # what the column holds on every database


class SessionList(BaseModel):
    sessions: list[SessionOut]
    next_cursor: str | None


class SessionDetail(SessionOut):
    """`removed_up_to_seq`: messages up to it were old and summarised, and are gone; 0: none is."""

    summary: str | None
    summary_covers_seq: int
    removed_up_to_seq: int
    messages: list[MessageOut]
    next_after_seq: int | None
    context: Context


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


@router.get("/sessions", responses=documented(403, 422, 507))
async def list_sessions(
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    state: Annotated[StateOut | None, Query(description="Without one, both.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the last page")] = None,
) -> SessionList:
    """List sessions, the latest first."""
    owner = caller.may_see(user_id)
    if owner is None:
        await note_look(runtime, caller, "sessions.list", None)
    found = await runtime.sessions.list_sessions(
        caller.tenant_id,
        owner,
        state=state,
        limit=limit,
        after=decoded(cursor, of="sessions"),
    )
    more = None
    if len(found) == limit:
        more = encoded(found[-1].last_message_at, found[-1].session_id)
    return SessionList(sessions=[session_out(s) for s in found], next_cursor=more)


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


@router.post("/sessions/{session_id:path}/reopen", responses=documented(403, 404, 422))
async def reopen_session(
    session_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> SessionOut:
    """Open a closed session again, with its summary and its messages, as a message to it does.

    It counts as used now, so it is closed again only after it has been quiet for as long as any.
    """
    opened = await runtime.sessions.reopen(
        caller.tenant_id, session_id, caller.may_see(user_id), now=runtime.clock()
    )
    return session_out(opened)


@router.patch("/sessions/{session_id:path}", responses=documented(400, 403, 404, 413, 422, 507))
async def describe_session(
    session_id: Id,
    body: SessionChange,
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
) -> SessionOut:
    """Give a session a title and metadata of your own."""
    user = caller.may_see(user_id)
    session = await runtime.sessions.get(caller.tenant_id, session_id, user)
    cleaner = await runtime.door.cleaner(caller.tenant_id, session.user_id)
    said: Described = {}
    if "title" in body.model_fields_set:
        said["title"] = await cleaner.json(body.title)
    if "metadata" in body.model_fields_set:
        said["metadata"] = await cleaner.json(body.metadata) or None
    changed = await runtime.sessions.describe(caller.tenant_id, session_id, user, said)
    return session_out(changed)


@router.get("/sessions/{session_id:path}", responses=documented(403, 404, 422, 507))
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
    await note_look(runtime, caller, "session.read", session.user_id)
    page = await runtime.sessions.messages_after(tenant, session_id, after_seq, limit=limit)
    episode = await runtime.episodes.get(tenant, session_id)
    consent = await runtime.consents.of(tenant, session.user_id)
    history = await runtime.histories.now(session, has_consent=consent.memory_enabled)
    return SessionDetail(
        **session_out(session).model_dump(),
        summary=None if episode is None else episode.text,
        summary_covers_seq=session.covered_seq,
        removed_up_to_seq=await runtime.retention.removed_up_to(session),
        messages=[message_out(message) for message in page],
        next_after_seq=page[-1].seq if len(page) == limit else None,
        context=await context_of(history),
    )


@router.delete("/sessions/{session_id:path}", responses=documented(403, 404, 422))
async def delete_session(
    session_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> DeletedSession:
    """Remove a session: its title and metadata, its messages, its episode, its vectors."""
    tenant = caller.tenant_id
    await runtime.sessions.get(tenant, session_id, caller.may_see(user_id))
    key, messages = await runtime.sessions.delete(
        tenant, session_id, now=runtime.clock(), actor=caller.on_behalf
    )
    failure = await runtime.worker.run_now(tenant, "sync_episode", key)
    return DeletedSession(
        session_id=session_id,
        messages=messages,
        vectors="removed" if failure is None else "being removed",
    )


@router.get("/messages/{message_id}/receipt", responses=documented(403, 404, 422, 507))
async def get_receipt(
    message_id: Id, caller: CallerDep, runtime: RuntimeDep, user_id: UserQuery = None
) -> Receipt:
    """Explain a reply: what it was made from, with scores, thresholds and tokens.

    With a document filter, it names the documents that pass it now; `withheld` counts the others.
    """
    message, owner = await runtime.sessions.message(caller.tenant_id, message_id)
    if caller.may_see(user_id) not in (None, owner):
        raise NotFound("there is no such message", param="message_id")
    if message.role != "assistant":
        raise NotFound("there is no such reply", param="message_id")
    await note_look(runtime, caller, "session.read", owner)
    receipt = None
    if message.receipt is not None:
        receipt = await receipt_for(
            runtime.document_search, caller.tenant_id, message.receipt, caller.document_filter
        )
    return Receipt(
        message_id=message.id,
        session_id=message.session_id,
        status=message.status,
        receipt=receipt,
    )
