"""One call to Pinecone: a deadline, a few attempts, our errors. Touches: Pinecone, over HTTPS.

The SDK retries inside a call, obeying a `Retry-After` of up to a minute before each attempt, so
one query could take minutes and hide why. So its own retries are switched off, and what is tried
again before the deadline is decided here. Every call of the adapter is safe to repeat.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import httpx

from app.breaker import Breaker, guarded
from app.errors import (
    AppError,
    LeftAlone,
    TooLarge,
    UpstreamBusy,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)

if TYPE_CHECKING:
    from pinecone import AsyncIndex

PART = "index"
ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
CONCURRENT_CALLS = 4

T = TypeVar("T")
Item = TypeVar("Item")


async def called(
    deed: str,
    call: Callable[[], Awaitable[T]],
    *,
    seconds: float,
    breaker: Breaker | None = None,
) -> T:
    """Return what `call` returns within `seconds`, its further attempts included.

    `deed` completes "Pinecone could not …". breaker: each attempt counts. Raises `UpstreamError`
    (part "index") or `TooLarge`, with the SDK's error as the cause.
    """
    deadline = asyncio.get_running_loop().time() + seconds

    async def attempt() -> T:
        with guarded(breaker, PART):
            return await _translated(deed, call, seconds, deadline)

    pause = FIRST_PAUSE_SECONDS
    for _ in range(ATTEMPTS - 1):
        try:
            return await attempt()
        except LeftAlone:
            raise
        except UpstreamUnavailable as error:
            wait = pause if error.retry_after is None else error.retry_after
            left = deadline - asyncio.get_running_loop().time()
            if wait > min(LONGEST_PAUSE_SECONDS, left):
                raise
        await asyncio.sleep(wait)
        pause *= 4
    return await attempt()


async def together(
    call: Callable[[Item], Awaitable[T]], items: Iterable[Item], *, at_once: int = CONCURRENT_CALLS
) -> list[T]:
    """Return `call` of each item, in order; the first failure stops what still runs."""
    gate = asyncio.Semaphore(at_once)

    async def gated(item: Item) -> T:
        async with gate:
            return await call(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(gated(item)) for item in items]
    except ExceptionGroup as failures:
        first = failures.exceptions[0]
        raise first from first.__cause__
    return [task.result() for task in tasks]


def without_own_retries(index: AsyncIndex) -> AsyncIndex:
    """Switch off the SDK's retries of data calls, for which it has no public switch.

    Should a later release move it, the deadline still holds, and only `retry_after` gets lost.
    """
    from pinecone import RetryConfig

    with contextlib.suppress(AttributeError, TypeError):
        http = index._http
        http._config = replace(http._config, retry_config=RetryConfig(max_retries=0))
    return index


async def _translated(
    deed: str, call: Callable[[], Awaitable[T]], seconds: float, deadline: float
) -> T:
    from pinecone.errors import PineconeError

    try:
        async with asyncio.timeout_at(deadline):
            return await call()
    except TimeoutError as error:  # the SDK's own timeout is one, too
        raise UpstreamTimeout(PART, f"Pinecone did not {deed} within {seconds:g} s.") from error
    except (PineconeError, httpx.HTTPError) as error:
        raise _ours(deed, error) from error


def _retry_after(error: Exception) -> float | None:
    """Return the seconds that the answer asked us to wait, if it did."""
    headers = getattr(error, "headers", None) or {}
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _ours(deed: str, error: Exception) -> AppError:
    from pinecone.errors import (
        ApiError,
        PayloadTooLargeError,
        PineconeConnectionError,
        RateLimitError,
        ResponseParsingError,
        ServiceError,
        UnauthorizedError,
    )

    match error:
        case RateLimitError():
            message = f"Pinecone limits our rate and did not {deed}."
            return UpstreamBusy(PART, message, retry_after=_retry_after(error))
        case ServiceError():
            message = f"Pinecone could not {deed} (HTTP {error.status_code})."
            return UpstreamUnavailable(PART, message, retry_after=_retry_after(error))
        case PineconeConnectionError():
            return UpstreamUnavailable(PART, f"Pinecone could not be reached to {deed}.")
        case PayloadTooLargeError():
            return TooLarge(f"The request to {deed} is larger than Pinecone takes.")
        case UnauthorizedError():
            return UpstreamRefused(PART, "Pinecone refused the API key (PINECONE_API_KEY).")
        case ApiError():
            return UpstreamRefused(PART, _refusal(deed, error.status_code, error.message))
        case ResponseParsingError() | httpx.HTTPError():
            return UpstreamInvalid(PART, f"Pinecone was asked to {deed} and answered garbage.")
        case _:
            return UpstreamRefused(PART, f"The Pinecone client refused to {deed}.")


def _refusal(deed: str, status: int, message: str) -> str:
    if "document schema" in message:
        return (
            "The Pinecone index is a document index, which takes no vectors of ours; "
            "point PINECONE_INDEX or PINECONE_HOST at a vector index."
        )
    return f"Pinecone refused to {deed} (HTTP {status})."
