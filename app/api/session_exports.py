"""GET /sessions/{id}/export: a whole conversation as one document. Touches: sessions, memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match
from starlette.types import Scope

from app.api.deps import CallerDep, Id, RuntimeDep, UserQuery
from app.api.fact_models import FactOut, fact_out
from app.api.responses import documented
from app.api.session_models import MessageOut, SessionOut, message_out, session_out
from app.chat.withholding import receipt_for
from app.erased import pseudonym
from app.errors import NotFound
from app.identity import Caller
from app.memory.base import Fact
from app.sessions.base import Message, Session
from app.sessions.titles import shown_title
from app.wiring import Runtime

PAGE = 200
_MEDIA = {
    "json": ("application/json", "json"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
    "import": ("application/json", "json"),
}


class _Unescaped(APIRoute):
    """Leaves a session whose own id ends with "/export" to the route that reads it: there, the
    slash is escaped."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw: bytes = scope.get("raw_path") or b""
        if raw.lower().endswith(b"%2fexport"):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(tags=["sessions"], route_class=_Unescaped)


class ExportedSession(BaseModel):
    exported_at: datetime
    session: SessionOut
    timezone: str | None
    summary: str | None
    summary_covers_seq: int
    removed_up_to_seq: int
    facts: list[FactOut]


class ExportedMessage(MessageOut):
    receipt: dict[str, Any] | None


class Export(ExportedSession):
    """`facts` were said in the session. A message has its `receipt` where that was asked for."""

    messages: list[MessageOut | ExportedMessage]


class LineToImport(BaseModel):
    role: Literal["user", "assistant"]
    content: str
    created_at: datetime
    speaker: str | None = None


class ConversationToImport(BaseModel):
    session_id: str
    messages: list[LineToImport]


class ExportToImport(BaseModel):
    """With `format=import`: a body for `POST /memories/import`."""

    user_id: str
    timezone: str | None
    conversations: list[ConversationToImport]


@router.get(
    "/sessions/{session_id:path}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The session in the format that was asked for.",
            "model": Export | ExportToImport,
            "content": {"text/markdown": {"schema": {"type": "string"}}},
        },
        **documented(403, 404, 422, 507),
    },
)
async def export_session(
    session_id: Id,
    caller: CallerDep,
    runtime: RuntimeDep,
    user_id: UserQuery = None,
    format: Annotated[
        Literal["json", "markdown", "import"],
        Query(
            description="json: all there is. markdown: to read. import: a body for "
            "`POST /memories/import`, with what was said and when."
        ),
    ] = "json",
    receipts: Annotated[
        bool, Query(description="The receipts of the replies as well; in json.")
    ] = False,
) -> StreamingResponse:
    """Export a session: its messages in order, its summary, the facts that were said in it."""
    tenant = caller.tenant_id
    session = await runtime.sessions.get(tenant, session_id, caller.may_see(user_id))
    if caller.on_behalf is not None:
        subject = pseudonym(tenant, session.user_id)
        await runtime.audit.write(caller.on_behalf, "session.export", subject=subject)
    episode, facts, removed, page = await asyncio.gather(
        runtime.episodes.get(tenant, session_id),
        runtime.facts.said_in(tenant, session_id),
        runtime.retention.removed_up_to(session),
        runtime.sessions.messages_after(tenant, session_id, 0, limit=PAGE),
    )
    summary = None if episode is None else episode.text
    said = _said(runtime, session, page, removed)
    if format == "markdown":
        pieces = _markdown(session, summary, facts, removed, said)
    elif format == "import":
        pieces = _to_import(session, said)
    else:
        now = runtime.clock()
        head = ExportedSession(
            exported_at=now,
            session=session_out(session),
            timezone=session.timezone,
            summary=summary,
            summary_covers_seq=session.covered_seq,
            removed_up_to_seq=removed,
            facts=[fact_out(fact, now) for fact in facts],
        )
        seen = _Receipts(runtime, caller) if receipts else None
        pieces = _json(head, said, seen)
    media_type, ending = _MEDIA[format]
    attached = {"Content-Disposition": f'attachment; filename="session.{ending}"'}
    return StreamingResponse(pieces, media_type=media_type, headers=attached)


async def _said(
    runtime: Runtime, session: Session, page: Sequence[Message], removed_up_to: int
) -> AsyncIterator[Message]:
    """Give the messages that the session had when it was read, by pages; the first one is there.

    Raises `NotFound`, which breaks the transfer off, where the rest of them has gone meanwhile.
    """
    seq = removed_up_to
    while page:
        for message in page:
            if message.seq > session.last_seq:
                return
            yield message
        seq = page[-1].seq
        if len(page) < PAGE:
            break
        page = await runtime.sessions.messages_after(
            session.tenant_id, session.session_id, seq, limit=PAGE
        )
    if seq < session.last_seq:
        raise NotFound("the session was deleted meanwhile", param="session_id")


@dataclass(frozen=True, slots=True)
class _Receipts:
    """The receipts as the caller may see them."""

    runtime: Runtime
    caller: Caller

    async def of(self, message: Message) -> dict[str, Any] | None:
        if message.receipt is None:
            return None
        return await receipt_for(
            self.runtime.document_search,
            message.tenant_id,
            message.receipt,
            self.caller.document_filter,
        )


async def _json(
    head: ExportedSession, said: AsyncIterator[Message], receipts: _Receipts | None
) -> AsyncIterator[str]:
    yield head.model_dump_json()[:-1] + ',"messages":['
    between = "\n"
    async for message in said:
        shown = message_out(message)
        if receipts is not None:
            receipt = await receipts.of(message)
            shown = ExportedMessage(**shown.model_dump(), receipt=receipt)
        yield between + shown.model_dump_json()
        between = ",\n"
    yield "]}\n"


async def _to_import(session: Session, said: AsyncIterator[Message]) -> AsyncIterator[str]:
    """Give what an import takes: no empty reply, and no time before that of the message above."""
    opened = {"session_id": session.session_id}
    whose = json.dumps(session.user_id, ensure_ascii=False)
    yield f'{{"user_id": {whose}, "timezone": {json.dumps(session.timezone)}, "conversations": ['
    yield json.dumps(opened, ensure_ascii=False)[:-1] + ', "messages": ['
    between, last = "\n", session.created_at
    async for message in said:
        if not message.content.strip() or message.status == "pending":
            continue
        last = max(last, message.created_at)
        row = {"role": message.role, "content": message.content, "created_at": last.isoformat()}
        if message.speaker is not None:
            row["speaker"] = message.speaker
        yield between + json.dumps(row, ensure_ascii=False)
        between = ",\n"
    yield "]}]}\n"


async def _markdown(
    session: Session,
    summary: str | None,
    facts: Sequence[Fact],
    removed_up_to: int,
    said: AsyncIterator[Message],
) -> AsyncIterator[str]:
    yield f"# {shown_title(session) or session.session_id}\n\n"
    yield f"- Session: {session.session_id}\n- User: {session.user_id}\n"
    yield f"- From {_minute(session.created_at)} to {_minute(session.last_message_at)}\n"
    if summary:
        yield f"\n## Summary\n\n{summary}\n"
    if facts:
        yield "\n## Facts\n\n" + "".join(f"- {fact.statement}\n" for fact in facts)
    yield "\n## Conversation\n"
    if removed_up_to:
        yield f"\n*The first {removed_up_to} messages were old and summarised, and are gone.*\n"
    async for message in said:
        name = message.speaker or message.role.capitalize()
        yield f"\n**{name}**, {_minute(message.created_at)}\n"
        if message.steps:
            yield f"\n*Tools: {', '.join(str(step['name']) for step in message.steps)}*\n"
        if message.content:
            yield f"\n{message.content}\n"
        if message.status != "complete":
            yield f"\n*({message.status})*\n"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
