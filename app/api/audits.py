"""The audit log, for admins. Touches: audit."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from app.api.deps import Id, RuntimeDep, WholeAdminDep
from app.api.responses import documented
from app.api.times import QueryMoment
from app.erased import pseudonym
from app.errors import InvalidRequest

router = APIRouter(tags=["operations"])

MAX_ID = 2**63 - 1


class ActOut(BaseModel):
    """A privileged act. `subject`: an id of what it was about, of a user a pseudonym."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: datetime
    actor: str = Field(examples=["key:3f2a9c41d7e0"])
    role: str = Field(examples=["admin"])
    action: str = Field(examples=["documents.delete_source"])
    subject: str | None = Field(examples=["handbook"])
    counts: dict[str, int] | None = Field(examples=[{"documents": 12}])
    request_id: str | None


class AuditPage(BaseModel):
    acts: list[ActOut]
    next_after: int | None


@router.get("/audit", responses=documented(403, 422))
async def list_acts(
    caller: WholeAdminDep,
    runtime: RuntimeDep,
    action: Annotated[Id | None, Query(examples=["documents.delete_source"])] = None,
    actor: Annotated[Id | None, Query(examples=["key:3f2a9c41d7e0"])] = None,
    subject: Annotated[Id | None, Query(description="An id, or a source.")] = None,
    user_id: Annotated[Id | None, Query(description="What was done to this user's things.")] = None,
    since: Annotated[QueryMoment | None, Query()] = None,
    until: Annotated[QueryMoment | None, Query(description="Itself left out.")] = None,
    after: Annotated[int | None, Query(ge=1, le=MAX_ID, description="`next_after`")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> AuditPage:
    """List the privileged acts within the tenant, the newest first; they are kept for good."""
    if subject is not None and user_id is not None:
        raise InvalidRequest("name a subject or a user_id, not both", param="subject")
    page = await runtime.audit.list_acts(
        caller.tenant_id,
        action=action,
        actor=actor,
        subject=subject if user_id is None else pseudonym(caller.tenant_id, user_id),
        since=since,
        until=until,
        before=after,
        limit=limit,
    )
    return AuditPage(
        acts=[ActOut.model_validate(act) for act in page],
        next_after=page[-1].id if len(page) == limit else None,
    )
