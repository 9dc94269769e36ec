"""Statistics of a tenant. Touches: every part, lightly."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from app.api.deps import RuntimeDep, WholeAdminDep
from app.api.responses import documented
from app.index.base import namespace
from app.memory import tally

router = APIRouter(tags=["operations"])


class Threshold(BaseModel):
    """From which score on things count, and who says so: the settings, `calibrate`, the model."""

    value: float
    origin: Literal["setting", "calibrated", "default"]


class Thresholds(BaseModel):
    """As they were when the service started."""

    memory: Threshold
    facts: Threshold
    documents: Threshold


class Stats(BaseModel):
    """`forgotten`: what eviction and the retention of messages have removed so far."""

    tenant_id: str
    sessions: dict[str, int]
    episodes: dict[str, int]
    documents: dict[str, int]
    vectors: dict[str, int]
    forgotten: dict[str, int]
    thresholds: Thresholds


@router.get("/stats", responses=documented(403, 502, 504))
async def stats(caller: WholeAdminDep, runtime: RuntimeDep) -> Stats:
    """Count what a tenant has; the thresholds in force are the whole service's."""
    tenant = caller.tenant_id
    vectors = await runtime.index.counts()
    return Stats(
        tenant_id=tenant,
        sessions=dict(await runtime.sessions.counts(tenant)),
        episodes=await runtime.episodes.counts(tenant),
        documents=await runtime.documents.counts(tenant),
        vectors={kind: vectors.get(namespace(kind, tenant), 0) for kind in ("documents", "memory")},
        forgotten=await tally.read(runtime.database, tenant),
        thresholds=Thresholds.model_validate(runtime.gates, from_attributes=True),
    )
