"""Does the jobs that are due, one after the other. Touches: the jobs, through their handlers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from app.errors import AppError
from app.jobs import Claim, Defer, Handler, Jobs, LostClaim, Postpone

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.1


class Worker:
    """Claims due jobs and hands them to the handler of their kind."""

    def __init__(
        self, queue: Jobs, handlers: Mapping[str, Handler], *, lease_seconds: float
    ) -> None:
        self._queue = queue
        self._handlers = handlers
        self._lease_seconds = lease_seconds
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Say that there may be something due, so that it need not wait for the next poll."""
        self._news.set()

    async def work(self, *, poll_seconds: float) -> None:
        """One pass: do all that is due, then wait for news or for the next poll."""
        self._news.clear()
        await self.drain()
        try:
            async with asyncio.timeout(poll_seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def drain(self) -> int:
        """Do all that is due now; returns the number of jobs tried."""
        tried = 0
        while (claim := await self._queue.claim(list(self._handlers))) is not None:
            await self.run(claim)
            tried += 1
        return tried

    async def run_now(self, tenant_id: str, kind: str, key: str) -> BaseException | None:
        """Do one named job now, or wait for the worker that is at it.

        Returns None once it is done, else why not; the job is back in the queue then.
        """
        patience = time.monotonic() + self._lease_seconds
        while time.monotonic() < patience:
            claim = await self._queue.claim_key(tenant_id, kind, key)
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
        work = asyncio.ensure_future(self._handlers[claim.kind](claim))
        renewal = asyncio.ensure_future(self._renew(claim, work))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait([work])
            await self._queue.fail(claim, "the service was stopped")
            raise
        finally:
            renewal.cancel()
        return await self._settle(claim, work)

    async def _settle(self, claim: Claim, work: asyncio.Future[None]) -> BaseException | None:
        """Put a job back that failed, with its reason; returns the failure."""
        error = LostClaim() if work.cancelled() else work.exception()
        if error is None:
            return None
        if isinstance(error, LostClaim):
            log.info("job %s %s was taken over or cancelled", claim.kind, claim.id)
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
