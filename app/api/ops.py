"""Health and statistics. Touches: every part, lightly."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from app.api.deps import AdminDep, RuntimeDep
from app.api.responses import documented
from app.errors import AppError
from app.index.base import namespace

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


class Ready(BaseModel):
    """`degraded`: it answers, but something needs a look."""

    status: Literal["ok", "degraded", "failing"]
    parts: dict[str, Part]
    summaries: Summaries
    jobs: dict[str, dict[str, Any]]
    loops: dict[str, str]


class Stats(BaseModel):
    tenant_id: str
    sessions: dict[str, int]
    episodes: dict[str, int]
    documents: dict[str, int]
    vectors: dict[str, int]


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
        "chat_model": Part(status="ok", detail=runtime.chat_model.name),
        "summary_model": Part(status="ok", detail=runtime.summary_model.name),
        "embedder": Part(status="ok", detail=runtime.embedder.name),
    }
    failing = any(part.status == "failing" for part in parts.values())
    waiting = {} if parts["database"].status == "failing" else await runtime.jobs.pending()
    summaries = [waiting[kind] for kind in ("summarise", "close") if kind in waiting]
    loops = runtime.background.failures
    degraded = bool(loops) or any(kind["failed"] for kind in waiting.values())
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
        loops=dict(loops),
    )


@router.get("/stats", responses=documented(403, 502, 504))
async def stats(caller: AdminDep, runtime: RuntimeDep) -> Stats:
    """Count what a tenant has."""
    tenant = caller.tenant_id
    vectors = await runtime.index.counts()
    return Stats(
        tenant_id=tenant,
        sessions=dict(await runtime.sessions.counts(tenant)),
        episodes=await runtime.episodes.counts(tenant),
        documents=await runtime.documents.counts(tenant),
        vectors={kind: vectors.get(namespace(kind, tenant), 0) for kind in ("documents", "memory")},
    )


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
