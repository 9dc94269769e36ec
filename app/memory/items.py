"""Items of agents that run elsewhere: JSON under a namespace and a key. Touches: `store_items`,
facts, recall, the embedder.

An item is told as a fact in the transaction that stores it, so that chats recall it too; where it
is replaced or removed, so is its fact.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.consents import Consents
from app.db import Connection, Database
from app.erased import refuse
from app.errors import UpstreamError
from app.llm.base import Embedder
from app.memory.fact_sync import Job
from app.memory.facts import RunNow
from app.memory.item_ops import Get, Item, ListNamespaces, Namespace, Op, Put, Search
from app.memory.item_rows import found, items_at, namespaces, stored, write
from app.memory.recall import Recall
from app.memory.recall_rows import Whose
from app.memory.recalled import FACT

log = logging.getLogger(__name__)

RANKED = 200  # facts of the user, the nearest to a query
JOBS_AT_ONCE = 8

Scores = Mapping[str, Mapping[str, float] | None]  # by query, by the id of a fact


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. is_ranked: by its query; not without one, or while that can't be."""

    items: tuple[Item, ...]
    is_ranked: bool


Result = Item | Found | list[Namespace] | None


class Items:
    """Reads and writes items of users.

    run_now: does the job of a tenant, kind and key at once; None when it is done, else the failure.
    """

    def __init__(
        self,
        database: Database,
        recall: Recall,
        embedder: Embedder,
        consents: Consents,
        *,
        run_now: RunNow,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._recall = recall
        self._embedder = embedder
        self._consents = consents
        self._run_now = run_now
        self._clock = clock

    async def batch(self, tenant_id: str, user_id: str, ops: Sequence[Op]) -> list[Result]:
        """Do all operations in one transaction, or none; returns the results in their order.

        What is read is what was there before; of several puts of one key the last one counts.
        Raises `MemoryDisabled` where one of them stores something.
        """
        owner = Whose(tenant_id, user_id)
        queries = {op.query for op in ops if isinstance(op, Search) and op.query}
        scores = await self._scores(owner, sorted(queries)) if queries else {}
        puts = [op for op in ops if isinstance(op, Put)]
        if not puts:
            return await self._database.read(lambda c: _read(c, owner, ops, scores))
        now = self._clock()

        def apply(connection: Connection) -> tuple[list[Result], Sequence[Job]]:
            refuse(connection, tenant_id, user_id, now)
            if any(put.value is not None for put in puts):
                self._consents.require_memory(connection, tenant_id, user_id)
            results = _read(connection, owner, ops, scores)
            return results, write(connection, owner, puts, now)

        results, left = await self._database.write(apply)
        await self._bring(tenant_id, left)
        return results

    async def _scores(self, owner: Whose, queries: Sequence[str]) -> Scores:
        """Return how near the user's facts are to each query; None where that can't be told now."""
        try:
            questions = await self._embedder.embed(queries, kind="query")
            recalled = [
                await self._recall.search(
                    owner.tenant_id,
                    owner.user_id,
                    question,
                    words=query,
                    top_k=RANKED,
                    threshold=0.0,
                    memory_type="fact",
                )
                for query, question in zip(queries, questions, strict=True)
            ]
        except UpstreamError as error:
            log.warning("items are searched without their meaning: %s", error)
            return dict.fromkeys(queries)
        return {
            query: {memory.id.removeprefix(FACT): memory.score for memory in one.memories}
            for query, one in zip(queries, recalled, strict=True)
        }

    async def _bring(self, tenant_id: str, left: Sequence[Job]) -> None:
        """Have the facts' vectors follow; what fails now is tried again by a worker."""
        for start in range(0, len(left), JOBS_AT_ONCE):
            some = left[start : start + JOBS_AT_ONCE]
            await asyncio.gather(*(self._run_now(tenant_id, job.kind, job.key) for job in some))


def _read(connection: Connection, owner: Whose, ops: Sequence[Op], scores: Scores) -> list[Result]:
    places = {(stored(op.namespace), op.key) for op in ops if isinstance(op, Get)}
    there = items_at(connection, owner, places)
    results: list[Result] = []
    for op in ops:
        if isinstance(op, Get):
            results.append(there.get((stored(op.namespace), op.key)))
        elif isinstance(op, Search):
            ranks = scores.get(op.query) if op.query else None
            some = found(connection, owner, op, ranks)
            results.append(Found(tuple(some), ranks is not None))
        elif isinstance(op, ListNamespaces):
            results.append(namespaces(connection, owner, op))
        else:
            results.append(None)
    return results
