"""All that is held about a user, out and in again. Touches: privacy."""

from __future__ import annotations

import codecs
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.deps import CallerDep, Id, RuntimeDep, UserInPath, WholeAdminDep
from app.api.responses import documented
from app.errors import Malformed

router = APIRouter(tags=["privacy"])

_DOCUMENT: dict[str, Any] = {
    "type": "object",
    "required": ["format", "user_id"],
    "properties": {
        "format": {"type": "string", "const": "conversational-rag.user/1"},
        "user_id": {"type": "string"},
        "consent": {"type": ["object", "null"]},
        **{
            name: {"type": "array", "items": {"type": "object"}}
            for name in (
                *("sessions", "messages", "episodes", "facts", "fact_sightings", "entities"),
                *("memory_blocks", "store_items", "usage", "quarantine", "documents", "records"),
                *("record_references", "deliveries"),
            )
        },
    },
}


class RestoredOut(BaseModel):
    """Rows by part of the document.

    `restored` were not there, `unchanged` were. `left_out` name a user who was erased, or (of the
    quarantine list) what is not in the document.
    """

    user_id: str
    restored: dict[str, int] = Field(examples=[{"sessions": 3, "messages": 42, "facts": 9}])
    unchanged: dict[str, int]
    left_out: dict[str, int]


@router.get(
    "/users/{user_id:path}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One JSON document: each part is a list of rows as they are stored.",
            "content": {"application/json": {"schema": _DOCUMENT}},
        },
        **documented(403, 404, 422),
    },
)
async def export_user(
    user: UserInPath, caller: CallerDep, runtime: RuntimeDep
) -> StreamingResponse:
    """Export all that is held about a user: what was said, what is remembered, what was used.

    An export that was cut off is not whole JSON. With a document filter, documents that don't pass
    it are left out, and so are the webhook events.
    """
    await runtime.sessions.settle(caller.tenant_id, user)
    pieces = await runtime.exports.begin(
        caller.tenant_id, user, actor=caller.actor, within=caller.document_filter
    )
    attached = {"Content-Disposition": 'attachment; filename="user.json"'}
    return StreamingResponse(pieces, media_type="application/json", headers=attached)


async def read_text(request: Request) -> str:
    """Return a body as text, read as it comes: it may be large."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        pieces = [decoder.decode(chunk) async for chunk in request.stream()]
        return "".join([*pieces, decoder.decode(b"", final=True)])
    except UnicodeDecodeError as error:
        raise Malformed("the body is not UTF-8") from error


@router.post(
    "/users/{user_id:path}/import",
    responses=documented(400, 403, 404, 409, 413, 422, 507),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _DOCUMENT}},
        }
    },
)
async def import_user(
    user_id: Id,
    caller: WholeAdminDep,
    runtime: RuntimeDep,
    text: Annotated[str, Depends(read_text)],
) -> RestoredOut:
    """Restore a user from an export, exactly; a repeat changes nothing.

    Nothing is stored where something else is there already (409). Afterwards the memory is in the
    index as soon as the jobs are done that `GET /health/ready` counts.
    """
    await runtime.sessions.settle(caller.tenant_id, user_id)
    restored = await runtime.restoring.restore(caller.tenant_id, user_id, text, actor=caller.actor)
    await runtime.sessions.let_go(caller.tenant_id, user_id=user_id)
    return RestoredOut(
        user_id=user_id,
        restored=dict(+restored.restored),
        unchanged=dict(+restored.unchanged),
        left_out=dict(+restored.left_out),
    )
