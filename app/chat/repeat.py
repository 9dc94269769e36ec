"""A stored answer again, with what is still there of its sources. Touches: memory, knowledge."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from app.chat.receipt import used_memories, used_passages
from app.chat.running import Answer
from app.chat.withholding import receipt_for
from app.errors import UpstreamError
from app.index.base import Filter
from app.knowledge.search import DocumentSearch, Passage
from app.memory.recall import Recall
from app.sessions.base import Turn

log = logging.getLogger(__name__)


class Repeats:
    """Answers a message that was answered before."""

    def __init__(self, recall: Recall, documents: DocumentSearch) -> None:
        self._recall = recall
        self._documents = documents

    async def answer(self, turn: Turn, bound: Filter | None, *, recalls: bool) -> Answer:
        """Return the turn's stored reply, its memories and passages in the order of its receipt.

        bound: the filter of every document that the caller may read. recalls: whether the user
        allows memory now.
        """
        stored = turn.reply
        receipt = stored.receipt or {}
        used = used_memories(receipt) if recalls else []
        memories = await self._recall.load(
            stored.tenant_id, turn.session.user_id, used, until=stored.created_at
        )
        order = [one["id"] for one in used]
        shown = await receipt_for(self._documents, stored.tenant_id, receipt, bound)
        passages = await self._passages(stored.tenant_id, used_passages(receipt), bound)
        return Answer(
            session_id=stored.session_id,
            message_id=stored.id,
            reply=stored.content,
            memories=tuple(sorted(memories, key=lambda memory: order.index(memory.id))),
            passages=tuple(passages),
            receipt={**shown, "repeated": True},
        )

    async def _passages(
        self, tenant_id: str, used: Sequence[Mapping[str, Any]], bound: Filter | None
    ) -> list[Passage]:
        try:
            return await self._documents.load(tenant_id, used, filter=bound) if used else []
        except UpstreamError as error:  # the reply itself is here, whatever ails the index
            log.warning("a repeated reply comes without its sources: %s", error.message)
            return []
