"""Memories and documents for a question, from both namespaces at once.

Touches: the embedder, memory, knowledge.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app.chat.ask import Ask
from app.knowledge.search import DocumentSearch, Found
from app.llm.base import Embedder
from app.memory.recall import Recall, Recalled


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`recalled` is None where the turn does without memory."""

    recalled: Recalled | None
    found: Found


class Retriever:
    """Embeds the question once and searches both namespaces with it."""

    def __init__(self, embedder: Embedder, recall: Recall, documents: DocumentSearch) -> None:
        self._embedder = embedder
        self._recall = recall
        self._documents = documents

    async def search(self, ask: Ask) -> Retrieved:
        """Raises `UpstreamError` when the embedder or the index fails."""
        question = (await self._embedder.embed([ask.text], kind="query"))[0]
        documents = self._documents.search(
            ask.tenant_id, question, filter=ask.filters, top_k=ask.top_k
        )
        if ask.memory == "off":
            return Retrieved(None, await documents)
        memories = self._recall.search(
            ask.tenant_id,
            ask.user_id,
            question,
            words=ask.text,
            leave_out_session=ask.session_id,
        )
        recalled, found = await asyncio.gather(memories, documents)
        return Retrieved(recalled, found)
