"""What the index holds of a user, found by their id and removed. Touches: the index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from app.index.base import Index, Match, Values, namespace

FOUND_AT_ONCE = 1_000
ROUNDS_WITHOUT_NEWS = 3
PAUSE_SECONDS = 1.0  # for an index that shows for a while what was removed

Kept = Callable[[Sequence[Match]], Awaitable[Collection[str]]]


async def _nothing(_: Sequence[Match]) -> Collection[str]:
    return ()


async def remove_vectors(
    index: Index,
    tenant_id: str,
    user_id: str,
    *,
    fields: Collection[str],
    known: Sequence[str] = (),
    kept: Kept = _nothing,
) -> int:
    """Remove all vectors that name a user; returns how many were found. Raises `UpstreamError`.

    fields: of documents, those that hold ids of users. known: ids that memories may have had.
    kept: asked after they were found, returns the ids of those memories' vectors that stay.
    """
    memory, documents = namespace("memory", tenant_id), namespace("documents", tenant_id)
    count = await _remove_found(index, memory, {"user_id": user_id}, kept)
    if known:
        await index.delete(memory, known)
    for name in sorted(fields):
        count += await _remove_found(index, documents, {name: user_id}, _nothing)
    return count


async def remaining_vectors(
    index: Index,
    tenant_id: str,
    user_id: str,
    *,
    fields: Collection[str],
    known: Sequence[str] = (),
) -> int:
    """Ask the index again; returns how many vectors it still shows. Raises `UpstreamError`."""
    memory, documents = namespace("memory", tenant_id), namespace("documents", tenant_id)
    left = {match.id for match in await _found(index, memory, {"user_id": user_id})}
    for start in range(0, len(known), FOUND_AT_ONCE):
        left |= set(await index.fetch(memory, known[start : start + FOUND_AT_ONCE]))
    count = len(left)
    for name in sorted(fields):
        count += len(await _found(index, documents, {name: user_id}))
    return count


async def _remove_found(index: Index, where: str, filter: Mapping[str, Any], kept: Kept) -> int:
    gone: set[str] = set()
    quiet = 0
    while quiet < ROUNDS_WITHOUT_NEWS:
        matches = await _found(index, where, filter)
        stay = await kept(matches)
        found = [match.id for match in matches if match.id not in stay]
        if not found:
            break
        quiet = 0 if set(found) - gone else quiet + 1
        if quiet:
            await asyncio.sleep(PAUSE_SECONDS)
        await index.delete(where, found)
        gone.update(found)
    return len(gone)


async def _found(index: Index, where: str, filter: Mapping[str, Any]) -> list[Match]:
    """Return some of the rows that pass a filter, whichever way they point."""
    direction: Values = np.zeros(index.dimension, np.float32)
    direction[0] = 1.0
    return await index.query(where, direction, top_k=FOUND_AT_ONCE, filter=filter)
