"""GET /metrics: what was counted, with what is read for the answer. Touches: the database, index.

What is read has two seconds; what can't be read is left out and said, and the rest is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Response

from app.api.deps import AdminDep, RuntimeDep
from app.api.responses import documented
from app.backlog import Backlog, read_backlog
from app.errors import AppError
from app.metrics import CONTENT_TYPE, Stored
from app.wiring import Runtime

router = APIRouter(tags=["operations"])

READ_SECONDS = 2.0


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Counters, gauges and histograms in the Prometheus text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **documented(403),
    },
)
async def metrics(caller: AdminDep, runtime: RuntimeDep) -> Response:
    """Tell what was counted here since the start, and what waits in the database.

    Each replica tells its own counts; processes that serve one port together tell theirs together.
    """
    backlog, vectors = await asyncio.gather(_backlog(runtime), runtime.index_sizes.by_kind())
    stored = _stored(runtime, backlog, vectors)
    return Response(await asyncio.to_thread(runtime.metrics.text, stored), media_type=CONTENT_TYPE)


async def _backlog(runtime: Runtime) -> Backlog | None:
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await read_backlog(runtime.database)
    except (AppError, TimeoutError):
        return None


def _stored(runtime: Runtime, backlog: Backlog | None, vectors: Mapping[str, int] | None) -> Stored:
    errors = {"database": backlog is None, "index": runtime.index_sizes.fails}
    if backlog is None:
        return Stored(vectors=vectors, errors=errors)
    oldest = backlog.oldest_delivery
    age = 0.0 if oldest is None else (runtime.clock() - oldest).total_seconds()
    return Stored(
        jobs=backlog.jobs,
        failed_jobs=backlog.failed,
        summaries={"pending": backlog.pending_summaries, "failed": backlog.failed_summaries},
        deliveries=backlog.deliveries,
        oldest_delivery_seconds=max(0.0, age),
        vectors=vectors,
        errors=errors,
    )
