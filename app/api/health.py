"""Whether the process lives, and whether it can answer. Touches: every part, lightly.

For anybody who asks, a balancer above all: so it names parts, settings and counts, and no tenant,
no user, no text and no secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from app.api.one_look import OneLook
from app.backlog import SUMMARIES
from app.chat.by_words import FAILURES as WITHOUT_INDEX
from app.errors import AppError, UpstreamTimeout
from app.jwts import Jwts
from app.llm.base import ChatModel, Embedder
from app.redact import mask_secrets
from app.wiring import Runtime

router = APIRouter(tags=["operations"])

PART_SECONDS = 2.0  # a part that takes longer is out of order, whatever it is about to say

T = TypeVar("T")
Status = Literal["ok", "degraded", "failing", "stopping"]
Jobs = Mapping[str, dict[str, Any]]
Backlog = tuple[Jobs, Mapping[str, int], Mapping[str, int], Mapping[str, int]]

NOTHING_WAITS: Backlog = ({}, {}, {"pending": 0, "failed": 0}, {})


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
    """`degraded`: it answers, but something needs a look; `stopping`: ask another process.

    `problems`: all that is wrong, a line each; empty where the status is ok.
    `jobs`: by kind, those that are not done; `deferred` of them wait and did not fail.
    `late_jobs`: by kind, second looks, minutes after a change, whose time has not come.
    `stale_records`: by provider, CRM objects whose values have to be fetched.
    `loops`: those whose last pass failed; `late_failures`: work after a request that failed so far.
    """

    status: Status
    problems: list[str]
    parts: dict[str, Part]
    summaries: Summaries
    jobs: dict[str, dict[str, Any]]
    late_jobs: dict[str, int]
    deliveries: InboxCounts
    stale_records: dict[str, int]
    loops: dict[str, str]
    late_failures: int
    breakers: dict[str, Literal["closed", "half_open", "open"]]


@router.get("/health/live")
async def live() -> Live:
    """Say that the process runs."""
    return Live()


@router.get("/health/ready", responses={503: {"model": Ready}})
async def ready(request: Request, response: Response) -> Ready:
    """Say what each part's state is; 503 while no question can be answered, or at the end.

    An index that can't be reached leaves answers by words, so it only degrades; one that refuses
    our key leaves none. A part that does not answer within two seconds is out of order.
    """
    look: OneLook[Ready] = request.app.state.ready  # anybody may ask, as often as they like
    found = await look()
    if found.status in ("failing", "stopping"):
        response.status_code = 503
    return found


async def look_around(runtime: Runtime) -> Ready:
    """Look at each part."""
    database, index, sessions, limits = await asyncio.gather(
        _database(runtime), _index(runtime), _sessions(runtime), _limits(runtime)
    )
    parts = {
        "database": database,
        "index": index[0],
        "session_store": sessions,
        "chat_model": _last_call(runtime.chat_model),
        "summary_model": _last_call(runtime.summary_model),
        "embedder": _last_call(runtime.embedder),
        "limits": limits,
    }
    if runtime.jwts is not None:
        parts["identity_provider"] = _last_call(runtime.jwts)
    jobs, late, deliveries, stale = NOTHING_WAITS
    if database.status == "ok":
        error, waiting = await _asked(_backlog(runtime))
        if error is not None:
            parts["database"] = _failed(error.message)
        jobs, late, deliveries, stale = waiting or NOTHING_WAITS
    loops, breakers = dict(runtime.background.failures), dict(runtime.breakers.states())
    problems = list(_problems(parts, jobs, deliveries["failed"], loops, breakers))
    is_lame = index[1] or any(
        parts[name].status == "failing" for name in ("database", "session_store")
    )
    status: Status = "failing" if is_lame else "degraded" if problems else "ok"
    if runtime.background.is_stopping:
        status = "stopping"
    summaries = [jobs[kind] for kind in SUMMARIES if kind in jobs]
    return Ready(
        status=status,
        problems=problems,
        parts=parts,
        summaries=Summaries(
            pending=sum(kind["pending"] for kind in summaries),
            failed=sum(kind["failed"] for kind in summaries),
            last_error=next((k["last_error"] for k in summaries if k["last_error"]), None),
        ),
        jobs=dict(jobs),
        late_jobs=dict(late),
        deliveries=InboxCounts.model_validate(deliveries),
        stale_records=dict(stale),
        loops=loops,
        late_failures=runtime.background.late_failures,
        breakers=breakers,
    )


def _problems(
    parts: Mapping[str, Part],
    jobs: Mapping[str, Mapping[str, Any]],
    put_aside: int,
    loops: Mapping[str, str],
    breakers: Mapping[str, str],
) -> Iterator[str]:
    for name, part in parts.items():
        if part.status == "failing":
            yield f"{name}: {part.detail}"
    for host, state in breakers.items():
        if state != "closed":
            yield f"{host} is left alone after failures (its circuit breaker is {state})"
    for kind, about in jobs.items():
        if about["failed"]:
            yield f"jobs of kind {kind} failed and are tried again: {about['failed']}"
    if put_aside:
        yield f"webhook events that were put aside: {put_aside}"
    for name, failure in loops.items():
        yield f"the last pass of {name} failed: {failure}"


def _last_call(part: ChatModel | Embedder | Jwts) -> Part:
    """Say how the last call went: a probe would cost tokens."""
    if part.trouble is not None:
        return Part(status="failing", detail=mask_secrets(f"{part.name}: {part.trouble}"))
    return Part(status="ok", detail=part.name)


async def _limits(runtime: Runtime) -> Part:
    error, trouble = await _asked(runtime.limiter.check())
    if error is not None:
        return _failed(error.message)
    if trouble is not None:
        return _failed(trouble)
    return Part(status="ok", detail=runtime.limiter.place)


async def _sessions(runtime: Runtime) -> Part:
    error, health = await _asked(runtime.sessions.health())
    if error is not None or health is None:
        return _failed(error.message if error is not None else "it tells nothing")
    if health.trouble is not None:
        return _failed(f"{health.place}: {health.trouble}")
    return Part(status="ok", detail=health.place)


async def _database(runtime: Runtime) -> Part:
    error, _ = await _asked(runtime.database.read(lambda c: c.exec_driver_sql("SELECT 1").scalar()))
    return (
        Part(status="ok", detail=runtime.database.dialect)
        if error is None
        else _failed(error.message)
    )


async def _index(runtime: Runtime) -> tuple[Part, bool]:
    """Return its state, and whether it refuses what we ask."""
    error, _ = await _asked(runtime.index.ping())
    if error is None:
        return Part(status="ok", detail=str(runtime.stamp)), False
    return _failed(error.message), not isinstance(error, WITHOUT_INDEX)


async def _backlog(runtime: Runtime) -> Backlog:
    """Return the jobs, the late ones, the deliveries and the stale records that wait."""
    jobs, late, deliveries, stale = await asyncio.gather(
        runtime.jobs.pending(), runtime.jobs.late(), runtime.inbox.counts(), runtime.records.stale()
    )
    return jobs, late, deliveries, stale


async def _asked(call: Awaitable[T]) -> tuple[AppError | None, T | None]:
    """Return what a part says, or why it does not."""
    try:
        async with asyncio.timeout(PART_SECONDS):
            return None, await call
    except TimeoutError:
        return UpstreamTimeout("part", f"no answer within {PART_SECONDS:.0f} s"), None
    except AppError as error:
        return error, None


def _failed(detail: str) -> Part:
    return Part(status="failing", detail=mask_secrets(detail))
