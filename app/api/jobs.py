"""What became of jobs, for admins: loads of files first of all. Touches: the jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from app.api.deps import RuntimeDep, WholeAdminDep
from app.api.responses import documented
from app.errors import NotFound
from app.jobs import Job

router = APIRouter(tags=["documents"])

MAX_ID = 2**63 - 1
_STATES: dict[str, Literal["queued", "running", "done"]] = {"due": "queued", "running": "running"}


class Progress(BaseModel):
    rows_read: int = Field(examples=[45_000])
    rows: int = Field(examples=[100_000])


class Trouble(BaseModel):
    code: str = Field(examples=["unreadable_file"])
    message: str = Field(examples=["line 7: a quote is opened in the row that starts here"])
    skipped: list[dict[str, Any]] | None = None


class JobOut(BaseModel):
    """A job. `error` of one that is queued is why it is tried again.

    `waits_for`: loads of one source are done one after the other; it is the one that comes first.
    """

    id: int
    kind: str = Field(examples=["load"])
    state: Literal["queued", "running", "done", "failed"]
    attempts: int
    progress: Progress | None
    report: Annotated[dict[str, Any] | None, Field(description="As `POST /documents/table` has.")]
    error: Trouble | None
    waits_for: int | None
    created_at: datetime
    finished_at: datetime | None


class JobList(BaseModel):
    jobs: list[JobOut]
    next_after: int | None


@router.get("/jobs", responses=documented(403, 422))
async def list_jobs(
    caller: WholeAdminDep,
    runtime: RuntimeDep,
    kind: Annotated[str, Query(min_length=1, max_length=100)] = "load",
    after: Annotated[int | None, Query(ge=1, le=MAX_ID, description="`next_after`")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> JobList:
    """List the jobs of a kind, the newest first; those that are done for two weeks."""
    page = await runtime.jobs.list_jobs(caller.tenant_id, kind=kind, before=after, limit=limit)
    return JobList(
        jobs=[shown(job) for job in page],
        next_after=page[-1].id if len(page) == limit else None,
    )


@router.get("/jobs/{job_id}", responses=documented(403, 404, 422))
async def get_job(
    job_id: Annotated[int, Path(ge=1, le=MAX_ID)], caller: WholeAdminDep, runtime: RuntimeDep
) -> JobOut:
    """Say how far a job is, and what came of it."""
    job = await runtime.jobs.get(caller.tenant_id, job_id)
    if job is None:
        raise NotFound("there is no such job", param="job_id")
    return shown(job)


def shown(job: Job) -> JobOut:
    result = job.result or {}
    error = result.get("error")
    if error is None and job.state == "due" and job.last_error is not None:
        error = {"code": "will_be_tried_again", "message": job.last_error}
    return JobOut(
        id=job.id,
        kind=job.kind,
        state="failed" if "error" in result else _STATES.get(job.state, "done"),
        attempts=job.attempts,
        progress=result.get("progress"),
        report=result.get("report"),
        error=error,
        waits_for=job.waits_for,
        created_at=job.created_at,
        finished_at=job.finished_at,
    )
