"""Memories and documents for a question, from both namespaces at once. Touches: both rooms."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app.index.base import Filter
from app.knowledge.documents import Documents, Found
from app.llm.base import Embedder
from app.memory.recall import Recall, Recalled
from app.sessions.base import MemoryMode


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a turn may look for. `top_k` is for documents; None means the setting."""

    tenant_id: str
    user_id: str
    session_id: str
    question: str
    memory: MemoryMode
    filters: Filter | None
    top_k: int | None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`recalled` is None where the turn does without memory."""

    recalled: Recalled | None
    found: Found


class Retriever:
    """Embeds the question once and searches both namespaces with it."""

    def __init__(self, embedder: Embedder, recall: Recall, documents: Documents) -> None:
        self._embedder = embedder
        self._recall = recall
        self._documents = documents

    async def search(self, wanted: Wanted) -> Retrieved:
        """Raises `UpstreamError` when the embedder or the index fails."""
        question = (await self._embedder.embed([wanted.question], kind="query"))[0]
        documents = self._documents.search(
            wanted.tenant_id, question, filter=wanted.filters, top_k=wanted.top_k
        )
        if wanted.memory == "off":
            return Retrieved(None, await documents)
        memories = self._recall.search(
            wanted.tenant_id,
            wanted.user_id,
            question,
            words=wanted.question,
            leave_out_session=wanted.session_id,
        )
        recalled, found = await asyncio.gather(memories, documents)
        return Retrieved(recalled, found)
