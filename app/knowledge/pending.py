"""The loads that are still to come when documents are deleted. Touches: the jobs, the uploads.

A load that was queued or running at the time must not bring back what was deleted: that of a
deleted source is cancelled, and that of a source that stays is told what to leave out. Rows of
`jobs` are locked before those of `documents`, here and in `Documents.put`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from app import jobs
from app.db import Connection
from app.knowledge import uploads

LOAD = "load"


def subject_of(source: str) -> str:
    """Return what the loads of a source are about."""
    return f"source:{source}"


def cancel_loads(connection: Connection, tenant_id: str, source: str) -> None:
    """Put an end to the loads of a source, running ones included, and drop their files."""
    for job in jobs.undone(connection, tenant_id, LOAD, [subject_of(source)]):
        error = {"code": "cancelled", "message": "the source was deleted"}
        jobs.end(connection, job.id, {**(job.result or {}), "error": error})
        uploads.drop(connection, job.key)


def leave_out(connection: Connection, tenant_id: str, sources: Mapping[str, str]) -> None:
    """Tell the loads that would bring some documents back to leave them out.

    sources: by document id.
    """
    subjects = {subject_of(source) for source in sources.values()}
    for job in jobs.undone(connection, tenant_id, LOAD, subjects):
        ids = {i for i, source in sources.items() if subject_of(source) == job.subject}
        all_ids = sorted(ids.union(left_out(job.payload)))
        jobs.tell(connection, job.id, {**job.payload, "left_out": all_ids})


def left_out(payload: Mapping[str, Any]) -> Collection[str]:
    """Return the ids of the documents that a load has to leave out."""
    return frozenset(payload.get("left_out", ()))
