"""Uploaded files as durable loads: looked through at once, stored by a job.

Touches: the jobs, `uploads`, the disk, the documents.

Loads of one source run one after the other, in the order in which they came. One that broke off is
run again from its beginning: what is stored unchanged costs no embedding.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from app import jobs
from app.audit import Actor, note
from app.db import Connection, Database
from app.errors import AppError, InvalidRequest
from app.jobs import Claim, Handler, Job, Jobs, LostClaim
from app.knowledge import uploads
from app.knowledge.documents import Documents
from app.knowledge.pending import LOAD, subject_of
from app.knowledge.uploads import Upload

if TYPE_CHECKING:
    from app.knowledge.reading import Load
    from ingest.kinds import Kinds

log = logging.getLogger(__name__)

HEAD_START_SECONDS = 5.0  # a small load is left to its request for so long
INLINE_TEXT_BYTES = 1_000_000  # a PDF beyond may take minutes to read
MOST_TRIES = 5  # of a load that fails for a reason that nobody foresaw
KEPT_WITHOUT_JOB = timedelta(days=1)

Run = Callable[[Claim], Awaitable[BaseException | None]]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a file would become: its report, and its first texts."""

    report: Mapping[str, Any]
    samples: tuple[str, ...]


class Loads:
    """Takes files and stores what they hold.

    run: does a claimed job. wake: tells who does the loads that there is one. inline_rows: up to
    so many, a file is stored before `put` returns.
    """

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        documents: Documents,
        *,
        run: Run,
        wake: Callable[[], None],
        inline_rows: int,
        kinds: Kinds,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._queue = queue
        self._documents = documents
        self._run = run
        self._wake = wake
        self._inline_rows = inline_rows
        self._kinds = kinds
        self._clock = clock

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {LOAD: self._load}

    async def rehearse(self, path: Path, upload: Upload) -> Rehearsal:
        """Read a file without storing anything. Raises `UnreadableFile`."""
        load = await asyncio.to_thread(_open, path, upload, self._kinds)
        from app.knowledge.reading import rehearse_load

        return Rehearsal(*await rehearse_load(load))

    async def put(
        self, tenant_id: str, path: Path, upload: Upload, *, actor: Actor | None = None
    ) -> Job:
        """Keep a file with the job that stores what it holds, and return that job.

        A small one is done on return, unless another load of its source is still to be done, or
        something failed that the job will try again. Raises `UnreadableFile`; nothing is kept then.
        actor: whose act it is, for the audit log.
        """
        load = await asyncio.to_thread(_looked_through, path, upload, self._kinds)
        is_small = load is not None and load.rows <= self._inline_rows
        key = uuid.uuid4().hex
        now = self._clock()
        await uploads.keep(self._database, tenant_id, key, path, now)

        def add(connection: Connection) -> None:
            jobs.put(
                connection,
                tenant_id,
                LOAD,
                key,
                upload.payload(),
                subject=subject_of(upload.source),
                now=now,
                delay_seconds=HEAD_START_SECONDS if is_small else 0.0,
            )
            if actor is not None:
                note(connection, actor, "documents.upload", subject=upload.source, now=now)

        await self._database.write(add)
        if is_small and (claim := await self._queue.claim_key(tenant_id, LOAD, key)):
            await self._run(claim)
        else:
            self._wake()
        job = await self._queue.find(tenant_id, LOAD, key)
        if job is None:
            raise RuntimeError(f"the job of the upload {key} is gone")
        return job

    async def purge(self, now: datetime) -> int:
        """Drop files that no job waits for: the service ended before it had put one."""
        return await self._database.write(uploads.purge(now - KEPT_WITHOUT_JOB))

    async def _load(self, claim: Claim) -> None:
        """Store one kept file; a bad one ends its job as well, with the reason."""
        try:
            result = await self._store(claim)
        except InvalidRequest as error:
            log.warning("load %s failed: %s", claim.id, error.message)
            result = {"error": {"code": error.code, "message": error.message, **error.details}}
        except (AppError, LostClaim):
            raise
        except Exception:
            if claim.attempts < MOST_TRIES:
                raise
            log.exception("load %s failed %d times", claim.id, claim.attempts)
            message = "something went wrong on our side, each time that it was tried"
            result = {"error": {"code": "internal_error", "message": message}}

        def end(connection: Connection) -> None:
            jobs.note(connection, claim, result)
            uploads.drop(connection, claim.key)

        await self._queue.finish(claim, end)

    async def _store(self, claim: Claim) -> dict[str, Any]:
        """Store all that a file holds; returns what the job comes to."""
        upload = Upload.of(claim.payload)
        with TemporaryDirectory(prefix="load-") as folder:
            path = Path(folder) / f"upload{upload.suffix}"
            await uploads.fetch(self._database, claim.key, path)
            load = await asyncio.to_thread(_open, path, upload, self._kinds)
            from app.knowledge.reading import Sink, store_load

            async def progress() -> None:
                told = {"progress": _progress(load)}
                await self._queue.commit(claim, lambda c: jobs.note(c, claim, told))

            await progress()
            report = await store_load(load, upload, Sink(self._documents, claim, progress))
            return {"progress": _progress(load), "report": report}


def _looked_through(path: Path, upload: Upload, kinds: Kinds) -> Load | None:
    """Return a file opened, but a long text unread: that may take minutes."""
    is_long = upload.form == "text" and path.stat().st_size > INLINE_TEXT_BYTES
    return None if is_long else _open(path, upload, kinds)


def _open(path: Path, upload: Upload, kinds: Kinds) -> Load:
    from app.knowledge.reading import open_load

    return open_load(path, upload, kinds)


def _progress(load: Load) -> dict[str, int]:
    return {"rows_read": load.rows_read, "rows": load.rows}
