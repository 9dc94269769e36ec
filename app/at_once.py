"""Several pieces of work at once, of which none outlives a failure. Touches: the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Work = Coroutine[Any, Any, A]


@overload
async def at_once(one: Work[A], two: Work[B], /) -> tuple[A, B]: ...
@overload
async def at_once(one: Work[A], two: Work[B], three: Work[C], /) -> tuple[A, B, C]: ...
async def at_once(*works: Work[Any]) -> tuple[Any, ...]:
    """Return all results. The first failure ends the others, and is raised as it is.

    `asyncio.gather` would leave them running, with nobody who waits for them.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
    else:
        return tuple(task.result() for task in tasks)
    raise failure  # out here, where it keeps its own cause
