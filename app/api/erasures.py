"""A user erased, with a receipt of what went. Touches: privacy."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.api.deps import CallerDep, RuntimeDep, UserInPath
from app.api.responses import documented

router = APIRouter(tags=["privacy"])


class ErasedOut(BaseModel):
    """What went, and what a second look found.

    `removed`, `remaining`: rows by table, and `vectors`. `verified`: every store was read again,
    and holds nothing. `pending`: jobs that go on with the rest; nothing of it is lost.
    """

    user_id: str
    erased_at: datetime
    removed: dict[str, int] = Field(examples=[{"messages": 12, "facts": 3, "vectors": 31}])
    remaining: dict[str, int]
    verified: bool
    bytes: Literal["scrubbed", "pending", "left to the server"] = Field(
        description="Whether the database's files were rewritten without what was deleted."
    )
    pending: list[str] = Field(examples=[[]])


@router.delete(
    "/users/{user_id:path}",
    responses={
        202: {"model": ErasedOut, "description": "The rest is on its way: see `pending`."},
        **documented(403, 404, 422, 507),
    },
)
async def erase_user(
    user: UserInPath, caller: CallerDep, runtime: RuntimeDep, response: Response
) -> ErasedOut:
    """Erase a user and all that is held about them, wherever it is held.

    A tombstone without their name stays, so that nothing that comes late brings it back.
    """
    erased = await runtime.erasure.erase(caller.tenant_id, user, caller.actor)
    if erased.pending or not erased.verified:
        response.status_code = 202
    return ErasedOut.model_validate(erased, from_attributes=True)
