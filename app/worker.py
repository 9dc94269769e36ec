"""Does the jobs that are due, one after the other. Touches: the jobs, through their handlers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping

from app.db.together import reading_together
from app.errors import AppError, ModelOverloaded
from app.jobs import Claim, Defer, Handler, Jobs, LostClaim, Postpone
from app.metrics import Metrics
from app.quiet import Quiet
from app.telemetry import about, note
from app.tracing import CARRIED, Tracer, Value, working

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.1
PATIENCE_SECONDS = 1.0  # where nobody pauses, what is due is done all the same


class Worker:
    """Claims due jobs and hands them to the handler of their kind.

    quiet: says when nobody is being served; that is waited for, if not for long.
    """

    def __init__(
        self,
        queue: Jobs,
        handlers: Mapping[str, Handler],
        *,
        lease_seconds: float,
        metrics: Metrics | None = None,
        tracer: Tracer | None = None,
        quiet: Quiet | None = None,
    ) -> None:
        self._queue = queue
        self._handlers = handlers
        self._metrics = metrics or Metrics()
        self._tracer = tracer
        self._quiet = quiet or Quiet()
        self._lease_seconds = lease_seconds
        self._news = asyncio.Event()
        self._is_stopping = False

    def wake(self) -> None:
        """Say that there may be something due, so that it need not wait for the next poll."""
        self._news.set()

    def stop(self) -> None:
        """Claim no further job by itself; the one that runs goes on."""
        self._is_stopping = True
        self._news.set()

    async def work(self, *, poll_seconds: float) -> None:
        """One pass: do all that is due, in a pause, then wait for news or for the next poll."""
        self._news.clear()
        await self.drain(patience_seconds=PATIENCE_SECONDS)
        if self._is_stopping:
            return
        try:
            async with asyncio.timeout(poll_seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def drain(self, *, patience_seconds: float = 0.0) -> int:
        """Do all that is due now; returns the number of jobs tried.

        patience_seconds: how long it may wait, in all, for nobody to be served.
        """
        tried = 0
        kinds = list(self._handlers)
        patience = time.monotonic() + patience_seconds
        while True:
            await self._quiet.wait(patience)
            if self._is_stopping:
                break
            claim = await self._claimed(self._queue.claim(kinds))
            if claim is None:
                break
            await self.run(claim)
            tried += 1
        return tried

    async def run_now(self, tenant_id: str, kind: str, key: str) -> BaseException | None:
        """Do one named job now, or wait for the worker that is at it.

        Returns None once it is done, else why not; the job is back in the queue then.
        """
        patience = time.monotonic() + self._lease_seconds
        while time.monotonic() < patience:
            claim = await self._claimed(self._queue.claim_key(tenant_id, kind, key))
            if claim is not None:
                failure = await self.run(claim)
                if not isinstance(failure, LostClaim):
                    return failure
            state = await self._queue.state(tenant_id, kind, key)
            if state is None or state[0] == "done":
                return LostClaim() if state is None else None
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        return Postpone("another worker is at it")

    async def run(self, claim: Claim) -> BaseException | None:
        """Do one claimed job while renewing its lease; returns why it failed, if it did."""
        began, outcome = time.monotonic(), "stopped"
        if claim.is_taken_over:
            self._metrics.lease_taken_over(claim.kind)
        of_it: dict[str, Value] = {"rag.job.kind": claim.kind, "rag.job.id": claim.id}
        asked_by = claim.payload.get(CARRIED)
        with (
            about(tenant_id=claim.tenant_id, job=claim.kind, job_id=claim.id),
            reading_together(),
            working(self._tracer, f"job {claim.kind}", of_it, asked_by) as span,
        ):
            if (session_id := claim.payload.get("session_id")) is not None:
                note(tenant_id=claim.tenant_id, session_id=session_id)
            try:
                failure = await self._run(claim)
                outcome = _outcome(failure)
                if outcome in ("failed", "lost"):
                    span.fail(outcome)
                return failure
            finally:
                self._metrics.job(claim.kind, outcome, time.monotonic() - began)

    async def _run(self, claim: Claim) -> BaseException | None:
        work = asyncio.ensure_future(self._handlers[claim.kind](claim))
        renewal = asyncio.ensure_future(self._renew(claim, work))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait([work])
            await self._hand_back(claim)
            raise
        finally:
            renewal.cancel()
        return await self._settle(claim, work)

    async def _claimed(self, claiming: Awaitable[Claim | None]) -> Claim | None:
        """Return what is claimed; if we are stopped meanwhile, it does not wait for its lease."""
        claim = asyncio.ensure_future(claiming)
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            if (taken := await claim) is not None:
                await self._hand_back(taken)
            raise

    async def _hand_back(self, claim: Claim) -> None:
        """Let any worker take a job at once, as if nobody had tried."""
        await self._queue.defer(claim, "the service was stopped", seconds=0.0)

    async def _settle(self, claim: Claim, work: asyncio.Future[None]) -> BaseException | None:
        """Put a job back that failed, with its reason; returns the failure."""
        error = LostClaim() if work.cancelled() else work.exception()
        if error is None:
            return None
        if isinstance(error, LostClaim):
            log.info("job %s %s was taken over or cancelled", claim.kind, claim.id)
        elif isinstance(error, ModelOverloaded):  # people are served first
            await self._queue.defer(claim, error.message, seconds=error.retry_after or 0.0)
        elif isinstance(error, Defer):
            await self._queue.defer(claim, error.reason, seconds=error.seconds)
        elif isinstance(error, Postpone):
            await self._queue.fail(claim, error.reason)
        elif isinstance(error, AppError):
            log.warning("job %s %s failed: %s", claim.kind, claim.id, error.message)
            await self._queue.fail(claim, error.message, after_seconds=error.retry_after)
        else:
            log.error("job %s %s failed", claim.kind, claim.id, exc_info=error)
            await self._queue.fail(claim, type(error).__name__)
        return error

    async def _renew(self, claim: Claim, work: asyncio.Future[None]) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            try:
                await self._queue.extend(claim)
            except LostClaim:
                work.cancel()
                return
            except AppError as error:  # the lease has two more chances before it runs out
                log.warning("could not renew the lease of job %s: %s", claim.id, error.message)


def _outcome(failure: BaseException | None) -> str:
    if failure is None:
        return "done"
    if isinstance(failure, LostClaim):
        return "lost"
    return "deferred" if isinstance(failure, Defer) else "failed"
