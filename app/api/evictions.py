"""Eviction on request, and what it would take. Touches: memory."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.big_bodies import BigBodies
from app.api.deps import Body, CallerDep, Id, RuntimeDep
from app.api.responses import documented
from app.errors import InvalidRequest
from app.memory.eviction import Policy

router = APIRouter(tags=["memories"], route_class=BigBodies)


class Eviction(Body):
    """What is left out is as the service's settings have it. Without a user: all, for an admin."""

    user_id: Id | None = None
    policy: Literal["time", "count", "importance", "hybrid"] | None = Field(
        None,
        description="`time`: what is older than `max_age_days`. `count`: what is beyond "
        "`max_memories`. `importance`: what is below `min_importance`. `hybrid`: what is beyond "
        "the count, or both old and unimportant.",
        examples=["time"],
    )
    max_age_days: Annotated[float | None, Field(gt=0, le=365_000, examples=[365])] = None
    max_memories: Annotated[int | None, Field(ge=1, le=2**31 - 1, examples=[1000])] = None
    min_importance: Annotated[float | None, Field(ge=0, le=1, examples=[0.2])] = None
    keep_facts: Annotated[
        bool | None, Field(description="Keep the facts of a conversation whose summary goes.")
    ] = None
    dry_run: Annotated[bool, Field(description="Only say what would go.")] = False
    limit: Annotated[int, Field(ge=0, le=1000, description="how many a dry run lists")] = 100


class DoomedOut(BaseModel):
    id: str
    kind: Literal["episode", "fact"]
    user_id: str
    text: str = Field(description="how it begins")
    at: datetime = Field(description="when it was said last")
    importance: float
    reason: str


class Counts(BaseModel):
    """`kept_facts`: of conversations that went, for they were said elsewhere too, or are to stay.

    `waiting_vectors`: of so many memories a worker still has to remove the vectors.
    """

    episodes: int
    facts: int
    kept_facts: int
    entities: int
    waiting_vectors: int


class EvictionOut(BaseModel):
    """A dry run says what would go: the first ones, and the total. Else: what went.

    `more`: a request evicts so many at most; ask again for the others.
    """

    dry_run: bool
    policy: Literal["time", "count", "importance", "hybrid"]
    max_age_days: float
    max_memories: int
    min_importance: float
    keep_facts: bool
    total: int
    would_go: list[DoomedOut] | None = None
    evicted: Counts | None = None
    more: bool = False


@router.post("/memories/evict", responses=documented(400, 403, 413, 422, 507))
async def evict_memories(body: Eviction, caller: CallerDep, runtime: RuntimeDep) -> EvictionOut:
    """Evict memories by a policy; what is marked critical or pinned stays."""
    user = caller.may_see(body.user_id)
    policy = _policy(body, runtime.evictor.policy)
    now = runtime.clock()
    told = {name: getattr(policy, name) for name in Policy.__slots__ if name != "name"}
    told |= {"policy": policy.name, "dry_run": body.dry_run}
    if body.dry_run:
        would_go, total = await runtime.evictor.would_go(
            caller.tenant_id, user, policy, now, limit=body.limit
        )
        shown = [DoomedOut.model_validate(each, from_attributes=True) for each in would_go]
        return EvictionOut(**told, total=total, would_go=shown)
    evicted = await runtime.evictor.evict(
        caller.tenant_id, user, policy, now, actor=caller.on_behalf
    )
    runtime.worker.wake()
    return EvictionOut(
        **told,
        total=evicted.memories,
        evicted=Counts.model_validate(evicted, from_attributes=True),
        more=evicted.more,
    )


def _policy(body: Eviction, usual: Policy) -> Policy:
    chosen = {name: getattr(body, name) for name in Policy.__slots__ if name != "name"}
    chosen["name"] = body.policy
    given = {name: value for name, value in chosen.items() if value is not None}
    policy = Policy(**{**{name: getattr(usual, name) for name in Policy.__slots__}, **given})
    if policy.name == "none":
        raise InvalidRequest(
            "name a policy: time, count, importance or hybrid (EVICTION_POLICY is none)",
            param="policy",
        )
    return policy
