"""What a user allows: read it, say it. Touches: consents."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.big_bodies import BigBodies
from app.api.deps import Body, CallerDep, RuntimeDep, UserInPath
from app.api.responses import documented
from app.consents import Consent

router = APIRouter(tags=["privacy"], route_class=BigBodies)

LONGEST_DAYS = 365_000
MemoryEnabled = Annotated[
    bool,
    Field(
        description="Without it nothing is recalled, nothing is written beyond the live session, "
        "and that ends unsummarised."
    ),
]
PiiAllowed = Annotated[
    bool,
    Field(
        description="Without it e-mail, telephone and IP addresses are taken out of what is kept."
    ),
]
Retention = Annotated[
    float | None,
    Field(
        gt=0,
        le=LONGEST_DAYS,
        allow_inf_nan=False,
        description="What was said last so many days ago is forgotten; null: as the settings say.",
        examples=[90],
    ),
]


class ConsentIn(Body):
    """The whole of what a user allows; a retention that is not sent is none."""

    memory_enabled: MemoryEnabled
    pii_storage_allowed: PiiAllowed
    retention_days: Retention = None


class ConsentOut(BaseModel):
    """`origin`: "user" once it was said for this user; "setting": nobody has."""

    user_id: str
    memory_enabled: bool
    pii_storage_allowed: bool
    retention_days: float | None
    origin: Literal["user", "setting"]
    updated_at: datetime | None


@router.get("/users/{user_id:path}/consent", responses=documented(403, 404, 422))
async def get_consent(user: UserInPath, caller: CallerDep, runtime: RuntimeDep) -> ConsentOut:
    """Return what a user allows."""
    return _out(user, await runtime.consents.of(caller.tenant_id, user))


@router.put(
    "/users/{user_id:path}/consent", responses=documented(400, 403, 404, 409, 413, 422, 507)
)
async def put_consent(
    body: ConsentIn, user: UserInPath, caller: CallerDep, runtime: RuntimeDep
) -> ConsentOut:
    """Say what a user allows from now on.

    What was remembered before stays, unused, until it is allowed again or erased. A user who was
    erased is let in again by this: replayed events and imports may name them then.
    """
    said = Consent(body.memory_enabled, body.pii_storage_allowed, body.retention_days)
    return _out(user, await runtime.consents.put(caller.tenant_id, user, said, caller.actor))


def _out(user_id: str, consent: Consent) -> ConsentOut:
    return ConsentOut(
        user_id=user_id,
        memory_enabled=consent.memory_enabled,
        pii_storage_allowed=consent.pii_storage_allowed,
        retention_days=consent.retention_days,
        origin="setting" if consent.updated_at is None else "user",
        updated_at=consent.updated_at,
    )
