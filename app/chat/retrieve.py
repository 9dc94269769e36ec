"""Memories and documents for a question, from both namespaces at once; what is known anyway.

Touches: the embedder, memory, knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from app.at_once import at_once
from app.chat.ask import Ask
from app.chat.by_words import Degraded, Searching
from app.chat.understand import Understood
from app.db import Database
from app.index.base import Values
from app.knowledge.search import DocumentSearch, Found
from app.llm.base import Embedder
from app.memory.base import Fact
from app.memory.blocks import Block, Blocks
from app.memory.profile import Profile
from app.memory.recall import EVER, Recall, Recalled, Span
from app.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Known:
    """What stands in every prompt of a user; nothing where the turn does without memory."""

    profile: Sequence[Fact] = ()
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Retrieved:
    """None where the route, or the turn's wish to do without memory, left a namespace out.

    range_dropped: nothing fitted in the time that was asked for, so all of memory was searched.
    route_dropped: nothing was found where the route says, so the other namespace was searched too.
    degraded: what was searched by words only, for the index or the embedder is out of order.
    """

    recalled: Recalled | None = None
    found: Found | None = None
    range_dropped: bool = False
    route_dropped: bool = False
    degraded: Sequence[Degraded] = ()


class Retriever:
    """Embeds the question once and searches both namespaces with it."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        recall: Recall,
        documents: DocumentSearch,
        profile: Profile,
        blocks: Blocks,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._recall = recall
        self._documents = documents
        self._profile = profile
        self._blocks = blocks
        self._metrics = metrics

    async def known(self, ask: Ask, now: datetime) -> Known:
        if ask.memory == "off":
            return Known()
        whose = ask.tenant_id, ask.user_id
        return await self._database.read(
            lambda c: Known(self._profile.within(c, *whose, now), self._blocks.within(c, *whose))
        )

    async def search(self, ask: Ask, understood: Understood) -> Retrieved:
        """Search where the route says, and in the other namespace where that finds nothing.

        A wrong route costs one more search then, and no answer; so does an index or an embedder
        that is out of order. Raises `UpstreamRefused` of one that refuses.
        """
        if understood.route == "clarification":
            return Retrieved()
        question = Searching(self._embedder, understood.question, self._metrics)
        await question.embed()
        found = await self._by_route(ask, understood, question)
        return replace(found, degraded=question.degraded)

    async def _by_route(self, ask: Ask, understood: Understood, question: Searching) -> Retrieved:
        if ask.memory == "off":
            return Retrieved(found=await self._passages(ask, understood, question))
        if understood.route == "memory":
            recalled, range_dropped = await self._memories(ask, understood, question)
            if recalled.memories:
                return Retrieved(recalled, range_dropped=range_dropped)
            found = await self._passages(ask, understood, question)
            return Retrieved(recalled, found, range_dropped, route_dropped=True)
        if understood.route == "knowledge":
            found = await self._passages(ask, understood, question)
            if found.passages:
                return Retrieved(found=found)
            recalled, range_dropped = await self._memories(ask, understood, question)
            return Retrieved(recalled, found, range_dropped, route_dropped=True)
        (recalled, range_dropped), found = await at_once(
            self._memories(ask, understood, question), self._passages(ask, understood, question)
        )
        return Retrieved(recalled, found, range_dropped)

    async def _passages(self, ask: Ask, understood: Understood, question: Searching) -> Found:
        async def search(vector: Values | None) -> Found:
            return await self._documents.search(
                ask.tenant_id,
                vector,
                words=understood.question,
                filter=ask.document_filter,
                top_k=ask.top_k,
            )

        return await question.of("documents", search)

    async def _memories(
        self, ask: Ask, understood: Understood, question: Searching
    ) -> tuple[Recalled, bool]:
        """Search in the time that was asked for, then in all; with whether the time was dropped."""

        async def within(span: Span) -> Recalled:
            async def search(vector: Values | None) -> Recalled:
                return await self._recall.search(
                    ask.tenant_id,
                    ask.user_id,
                    vector,
                    words=understood.topic or understood.question,
                    span=span,
                    leave_out_session=ask.session_id,
                )

            return await question.of("memory", search)

        span = _span(understood)
        found = await within(span)
        if span == EVER or found.memories:
            return found, False
        if understood.of_anything:
            latest = await self._recall.latest(
                ask.tenant_id, ask.user_id, span=span, leave_out_session=ask.session_id
            )
            if latest:
                return replace(found, memories=tuple(latest)), False
        return await within(EVER), True


def _span(understood: Understood) -> Span:
    """Return the range as recall counts it, whose end belongs to it."""
    until = understood.until
    last = None if until is None else until - timedelta(microseconds=1)
    return Span(since=understood.since, until=last)
