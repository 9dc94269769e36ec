"""Health and statistics. Touches: every part, lightly."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from app.api.deps import RuntimeDep, WholeAdminDep
from app.api.responses import documented
from app.errors import AppError
from app.index.base import namespace
from app.jwts import Jwts
from app.llm.base import ChatModel, Embedder
from app.memory import tally

router = APIRouter(tags=["operations"])


class Live(BaseModel):
    status: Literal["ok"] = "ok"


class Part(BaseModel):
    status: Literal["ok", "failing"]
    detail: str


class Summaries(BaseModel):
    """Checkpoints that wait or run, and those of them whose last try failed, with one reason."""

    pending: int
    failed: int
    last_error: str | None


class InboxCounts(BaseModel):
    """Webhook events that wait, and those that kept failing and were put aside."""

    pending: int
    failed: int


class Ready(BaseModel):
    """`degraded`: it answers, but something needs a look.

    `stale_records`: by provider, CRM objects whose values have to be fetched.
    `loops`: those whose last pass failed; `late_failures`: work after a request that failed so far.
    """

    status: Literal["ok", "degraded", "failing"]
    parts: dict[str, Part]
    summaries: Summaries
    jobs: dict[str, dict[str, Any]]
    deliveries: InboxCounts
    stale_records: dict[str, int]
    loops: dict[str, str]
    late_failures: int


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


@router.get("/health/live")
async def live() -> Live:
    """Say that the process runs."""
    return Live()


@router.get("/health/ready", responses={503: {"model": Ready}})
async def ready(runtime: RuntimeDep, response: Response) -> Ready:
    """Say what each part's state is; 503 while the database or the index fails."""
    parts = {
        "database": await _database(runtime),
        "index": await _index(runtime),
        "chat_model": _last_call(runtime.chat_model),
        "summary_model": _last_call(runtime.summary_model),
        "embedder": _last_call(runtime.embedder),
        "limits": await _limits(runtime),
    }
    if runtime.jwts is not None:
        parts["identity_provider"] = _last_call(runtime.jwts)
    failing = any(parts[name].status == "failing" for name in ("database", "index"))
    has_database = parts["database"].status != "failing"
    waiting = await runtime.jobs.pending() if has_database else {}
    deliveries = await runtime.inbox.counts() if has_database else {"pending": 0, "failed": 0}
    summaries = [waiting[kind] for kind in ("summarise", "close") if kind in waiting]
    loops = runtime.background.failures
    degraded = (
        bool(loops)
        or bool(deliveries["failed"])
        or any(kind["failed"] for kind in waiting.values())
        or any(part.status == "failing" for part in parts.values())
    )
    if failing:
        response.status_code = 503
    return Ready(
        status="failing" if failing else "degraded" if degraded else "ok",
        parts=parts,
        summaries=Summaries(
            pending=sum(kind["pending"] for kind in summaries),
            failed=sum(kind["failed"] for kind in summaries),
            last_error=next((k["last_error"] for k in summaries if k["last_error"]), None),
        ),
        jobs=waiting,
        deliveries=InboxCounts.model_validate(deliveries),
        stale_records=await runtime.records.stale() if has_database else {},
        loops=dict(loops),
        late_failures=runtime.background.late_failures,
    )


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


def _last_call(part: ChatModel | Embedder | Jwts) -> Part:
    """Say how the last call went: a probe would cost tokens."""
    if part.trouble is not None:
        return Part(status="failing", detail=f"{part.name}: {part.trouble}")
    return Part(status="ok", detail=part.name)


async def _limits(runtime: RuntimeDep) -> Part:
    limiter = runtime.limiter
    if (trouble := await limiter.check()) is not None:
        return Part(status="failing", detail=trouble)
    return Part(status="ok", detail=limiter.place)


async def _database(runtime: RuntimeDep) -> Part:
    try:
        await runtime.database.read(lambda c: c.exec_driver_sql("SELECT 1").scalar())
    except AppError as error:
        return Part(status="failing", detail=error.message)
    return Part(status="ok", detail=runtime.database.dialect)


async def _index(runtime: RuntimeDep) -> Part:
    try:
        await runtime.index.ping()
    except AppError as error:
        return Part(status="failing", detail=error.message)
    return Part(status="ok", detail=str(runtime.stamp))
