"""Memories and documents for a question, from both namespaces at once, and the user's profile.

Touches: the embedder, memory, knowledge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.chat.ask import Ask
from app.knowledge.search import DocumentSearch, Found
from app.llm.base import Embedder
from app.memory.base import Fact
from app.memory.profile import Profile
from app.memory.recall import Recall, Recalled


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`recalled` is None where the turn does without memory; then the profile is empty too."""

    profile: Sequence[Fact]
    recalled: Recalled | None
    found: Found


class Retriever:
    """Embeds the question once and searches both namespaces with it."""

    def __init__(
        self, embedder: Embedder, recall: Recall, documents: DocumentSearch, profile: Profile
    ) -> None:
        self._embedder = embedder
        self._recall = recall
        self._documents = documents
        self._profile = profile

    async def search(self, ask: Ask, now: datetime) -> Retrieved:
        """Raises `UpstreamError` when the embedder or the index fails."""
        if ask.memory == "off":
            _, found = await self._found(ask)
            return Retrieved((), None, found)
        profile, (recalled, found) = await asyncio.gather(
            self._profile.of(ask.tenant_id, ask.user_id, now), self._found(ask)
        )
        return Retrieved(profile, recalled, found)

    async def _found(self, ask: Ask) -> tuple[Recalled | None, Found]:
        question = (await self._embedder.embed([ask.text], kind="query"))[0]
        documents = self._documents.search(
            ask.tenant_id, question, words=ask.text, filter=ask.filters, top_k=ask.top_k
        )
        if ask.memory == "off":
            return None, await documents
        memories = self._recall.search(
            ask.tenant_id,
            ask.user_id,
            question,
            words=ask.text,
            leave_out_session=ask.session_id,
        )
        recalled, found = await asyncio.gather(memories, documents)
        return recalled, found
