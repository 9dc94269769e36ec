"""Passages of documents for a question. Touches: the index, `documents`.

The index only ranks: what is found is told as SQL holds it now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.db import Database
from app.index.base import Filter, Index, Match, Metadata, Values, namespace
from app.index.filters import Test, matcher
from app.knowledge.chunked import chunk_rows
from app.knowledge.rows import rows_by_id

SPARE = 4  # asked for beyond `top_k`, for the index may still hold what is gone
MOST_ASKED = 500
INLINE_CHARS = 100_000  # cutting so much into chunks takes less time than asking another thread


@dataclass(frozen=True, slots=True)
class Passage:
    """A found chunk. `id` is the chunk's: the document's id, with `#n` from the second one on."""

    id: str
    score: float
    text: str
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Found:
    """The passages at or above `threshold`, best first, and the best score below it."""

    passages: tuple[Passage, ...]
    threshold: float
    best_below: float | None


class DocumentSearch:
    """Finds passages. `threshold` and `top_k` are the defaults of a request."""

    def __init__(self, database: Database, index: Index, *, threshold: float, top_k: int) -> None:
        self._database = database
        self._index = index
        self._threshold = threshold
        self._top_k = top_k

    async def search(
        self,
        tenant_id: str,
        question: Values,
        *,
        filter: Filter | None = None,
        top_k: int | None = None,
    ) -> Found:
        """Rank passages by their cosine with `question` (float32, unit length).

        A passage is what SQL holds now: the index, which may lag behind, only says which ones.
        """
        gate = self._threshold
        top_k = self._top_k if top_k is None else top_k
        if top_k == 0:
            return Found((), gate, None)
        where = namespace("documents", tenant_id)
        test = None if filter is None else matcher(filter)
        asked = top_k + SPARE
        while True:
            matches = await self._index.query(where, question, top_k=asked, filter=filter)
            live = await self._live(tenant_id, matches, test)
            passed = [passage for passage in live if passage.score >= gate]
            is_all = len(matches) < asked or matches[-1].score < gate
            if len(passed) >= top_k or is_all or asked >= MOST_ASKED:
                break
            asked = min(asked * 4, MOST_ASKED)
        below = [passage.score for passage in live if passage.score < gate]
        return Found(tuple(passed[:top_k]), gate, max(below, default=None))

    async def load(self, tenant_id: str, scores: Mapping[str, float]) -> list[Passage]:
        """Return the passages that are still there among ids, with the scores given."""
        rows = await self._index.fetch(namespace("documents", tenant_id), list(scores))
        known = [Match(row.id, scores[row.id], row.metadata) for row in rows.values()]
        return await self._live(tenant_id, known, None)

    async def _live(
        self, tenant_id: str, matches: Sequence[Match], test: Test | None
    ) -> list[Passage]:
        """Return what SQL holds of the matches, in their order, where it passes the test."""
        if not matches:
            return []
        ids = {str(match.metadata.get("document_id")) for match in matches}
        rows = await self._database.read(rows_by_id(tenant_id, ids))
        if sum(len(row.text) for row in rows.values()) <= INLINE_CHARS:
            return _passages(tenant_id, matches, rows, test)
        return await asyncio.to_thread(_passages, tenant_id, matches, rows, test)


def _passages(
    tenant_id: str, matches: Sequence[Match], rows: Mapping[str, Any], test: Test | None
) -> list[Passage]:
    held = {id: metadata for row in rows.values() for id, metadata in chunk_rows(tenant_id, row)}
    return [
        _passage(match.id, match.score, held[match.id])
        for match in matches
        if match.id in held and (test is None or test(held[match.id]))
    ]


def _passage(chunk_id: str, score: float, metadata: Metadata) -> Passage:
    shown = {k: v for k, v in metadata.items() if k not in ("text", "tenant_id")}
    return Passage(chunk_id, score, str(metadata["text"]), shown)
