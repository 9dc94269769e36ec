"""When a call is tried again, and after how long. Touches nothing but the clock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from app.errors import LeftAlone, UpstreamUnavailable

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0  # a person is waiting: rather tell them to come back


async def retried(
    call: Callable[[], Awaitable[T]],
    *,
    times: int,
    deadline: float,
    longest_pause: float = LONGEST_PAUSE_SECONDS,
) -> T:
    """Return what `call` returns, trying it again where the part is unavailable or busy.

    A pause that is longer than a person waits, or than the deadline (of the loop's clock) leaves,
    is not slept: the error comes at once, with its `retry_after`.
    """
    pause = FIRST_PAUSE_SECONDS
    for _ in range(times):
        try:
            return await call()
        except LeftAlone:
            raise
        except UpstreamUnavailable as error:
            wanted = pause if error.retry_after is None else error.retry_after
            left = deadline - asyncio.get_running_loop().time()
            if wanted > min(left, longest_pause):
                raise
        await asyncio.sleep(wanted)
        pause *= 2
    return await call()


def seconds_asked(value: str) -> float | None:
    """Return the seconds that a `Retry-After` header asks for; a date counts from now."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (aware - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
