"""Changes of documents: committed with the job that brings each to the index, then brought there.

Touches: the jobs.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from app import jobs
from app.db import Connection, Database
from app.errors import AppError, UpstreamUnavailable

KIND = "sync_documents"

RunNow = Callable[[str, str, str], Awaitable[BaseException | None]]


class Changes:
    """Commits and brings. run_now: see `Documents`."""

    def __init__(self, database: Database, run_now: RunNow) -> None:
        self._database = database
        self._run_now = run_now

    async def make(
        self, tenant_id: str, change: Callable[[Connection], dict[str, int]], now: datetime
    ) -> dict[str, int]:
        """Commit a change with the job that brings it to the index, and have the job done."""
        key, touched = await self.commit(tenant_id, change, now)
        if touched:
            await self._bring(tenant_id, key)
        return touched

    async def commit(
        self, tenant_id: str, change: Callable[[Connection], dict[str, int]], now: datetime
    ) -> tuple[str, dict[str, int]]:
        """Commit a change with the job that brings it to the index; returns that job's key.

        `change` returns document id -> chunks that the index may hold, or is about to.
        """
        key = uuid.uuid4().hex

        def commit(connection: Connection) -> dict[str, int]:
            touched = change(connection)
            if touched:
                jobs.put(
                    connection,
                    tenant_id,
                    KIND,
                    key,
                    {"documents": touched},
                    subject="documents",
                    now=now,
                    delay_seconds=jobs.CALLER_SECONDS,
                )
            return touched

        return key, await self._database.write(commit)

    async def _bring(self, tenant_id: str, key: str) -> None:
        """Have a change brought to the index now. Raises `UpstreamError`."""
        failure = await self._run_now(tenant_id, KIND, key)
        if isinstance(failure, AppError):
            raise failure
        if failure is not None:
            raise UpstreamUnavailable(
                "index",
                "the change is stored, and will be in the index a little later",
                retry_after=5,
            ) from failure

    async def bring_all(self, tenant_id: str, parts: Mapping[str, int]) -> int:
        """Have parts brought to the index once all rows are gone: it may fail."""
        for key in parts:
            await self._bring(tenant_id, key)
        return sum(parts.values())
