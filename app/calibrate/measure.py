"""Scores of related and unrelated pairs, as a search gives them. Touches: the index, embedder, SQL.

For memory and facts, unrelated is the best that another user's whole memory scores: a threshold
answers "does memory know anything about this?". A store with one user has only another conversation
of theirs for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.calibrate.places import Places, with_documents, with_episodes, with_facts
from app.calibrate.questions import (
    Asked,
    Said,
    messages_of_episodes,
    questions_of_documents,
    quotes,
    quotes_of_facts,
    statements_of_facts,
)
from app.calibrate.spread import FEWEST_PAIRS, Spread
from app.db import Connection, Database
from app.index.base import Index, Values, namespace
from app.llm.base import Embedder

MOST_VECTORS = 60  # of a session, looked through for one that does not quote the question

Kind = str  # "memory" | "facts" | "documents"
Conditions = dict[str, Any]
Pair = tuple[float, float]


class Measure:
    """Measures with today's index and embedder; `sample` is the most questions of a kind."""

    def __init__(
        self, database: Database, index: Index, embedder: Embedder, *, sample: int
    ) -> None:
        self._database = database
        self._index = index
        self._embedder = embedder
        self._sample = sample

    async def all(self, tenants: Sequence[str]) -> Mapping[Kind, Spread]:
        """Measure some tenants together; no pair crosses from one to another."""
        found: dict[Kind, list[Pair]] = {"memory": [], "facts": [], "documents": []}
        for tenant_id in tenants:
            found["memory"] += await self._memory(tenant_id)
            found["facts"] += await self._facts(tenant_id)
            found["documents"] += await self._documents(tenant_id)
        return {kind: Spread.of(pairs) for kind, pairs in found.items()}

    async def _memory(self, tenant_id: str) -> list[Pair]:
        """A fact's statement is most like a question; messages are for a store with few facts."""

        def read(connection: Connection) -> tuple[list[Said], Places]:
            said = statements_of_facts(connection, tenant_id, self._sample)
            if len(said) < min(FEWEST_PAIRS, self._sample):
                said += messages_of_episodes(connection, tenant_id, self._sample - len(said))
            return said, with_episodes(connection, tenant_id)

        said, places = await self._database.read(read)
        return await self._pairs(tenant_id, said, places, {"memory_type": {"$ne": "fact"}})

    async def _facts(self, tenant_id: str) -> list[Pair]:
        said, places = await self._database.read(
            lambda c: (quotes_of_facts(c, tenant_id, self._sample), with_facts(c, tenant_id))
        )
        return await self._pairs(tenant_id, said, places, {"memory_type": {"$eq": "fact"}})

    async def _pairs(
        self, tenant_id: str, said: Sequence[Said], places: Places, kind: Conditions
    ) -> list[Pair]:
        where = namespace("memory", tenant_id)
        values = await self._embedder.embed([one.text for one in said], kind="query")
        pairs: list[Pair] = []
        for one, question in zip(said, values, strict=True):
            others = _others(one, places)
            if others is None:
                continue
            besides = "" if one.fact_id else one.text
            related = await self._best(where, question, {**_own(one), **kind}, besides=besides)
            unrelated = await self._best(where, question, {**others, **kind})
            if related is not None and unrelated is not None:
                pairs.append((related, unrelated))
        return pairs

    async def _documents(self, tenant_id: str) -> list[Pair]:
        asked, places = await self._database.read(
            lambda c: (
                questions_of_documents(c, tenant_id, self._sample),
                with_documents(c, tenant_id),
            )
        )
        where = namespace("documents", tenant_id)
        values = await self._embedder.embed([one.text for one in asked], kind="query")
        pairs: list[Pair] = []
        for one, question in zip(asked, values, strict=True):
            other = _other_document(one, places)
            if other is None:
                continue
            related = await self._own_document(where, question, one)
            unrelated = await self._best(where, question, {"document_id": {"$eq": other}})
            if related is not None and unrelated is not None:
                pairs.append((related, unrelated))
        return pairs

    async def _own_document(self, where: str, question: Values, one: Asked) -> float | None:
        if one.rest is None:
            return await self._best(where, question, {"document_id": {"$eq": one.document_id}})
        (rest,) = await self._embedder.embed([one.rest])
        return max(0.0, float(np.dot(rest, question)))

    async def _best(
        self, where: str, question: Values, filter: Conditions, *, besides: str = ""
    ) -> float | None:
        """Return the best score, or None if there is none; `besides`: what must not be quoted."""
        most = MOST_VECTORS if besides else 1
        for match in await self._index.query(where, question, top_k=most, filter=filter):
            if not besides or not quotes(str(match.metadata.get("text", "")), besides):
                return match.score
        return None


def _own(one: Said) -> Conditions:
    place: Conditions = {
        "user_id": {"$eq": one.user_id},
        "session_id": {"$eq": one.session_id},
    }
    return place if one.fact_id is None else {**place, "fact_id": {"$eq": one.fact_id}}


def _others(one: Said, places: Places) -> Conditions | None:
    """Return where to look for what is unrelated: at another user, or in another session."""
    if (user := places.another_owner(one.user_id, one.text)) is not None:
        return {"user_id": {"$eq": user}}
    session = places.another_place(one.user_id, one.session_id, one.text)
    if session is None:
        return None
    return {"user_id": {"$eq": one.user_id}, "session_id": {"$eq": session}}


def _other_document(one: Asked, places: Places) -> str | None:
    """Return a document of another source, or of the same."""
    source = places.another_owner(one.source, one.text)
    if source is not None:
        return places.another_place(source, one.document_id, one.text) or places.by_owner[source][0]
    return places.another_place(one.source, one.document_id, one.text)
