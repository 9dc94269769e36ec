"""Work that goes on beside other work, and ends with it. Touches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[Awaitable[T]]:
    """Begin some work, to be awaited within; what nobody awaited is dropped, failed or not."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # told to whoever awaited it, if anybody did
