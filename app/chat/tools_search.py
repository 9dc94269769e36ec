"""The tools of an agent that search: memory, history, documents. Touches: memory, knowledge, the
embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import TypeVar

from app.chat.ask import Ask
from app.chat.by_words import Degraded, Part, Searching
from app.chat.lines import fact_line
from app.chat.tool_forms import SearchDocuments, SearchHistory, SearchMemory
from app.index.base import Values
from app.index.filters import both, validate
from app.knowledge.search import DocumentSearch, Found, Passage
from app.llm.base import Embedder
from app.llm.blocks import block, container
from app.llm.tokens import estimate_tokens
from app.llm.tools import ToolAnswer
from app.memory.base import Fact
from app.memory.recall import Memory, Recall, Recalled, Span
from app.memory.said import Here, Said, Saying
from app.metrics import Metrics
from app.sessions.base import Turn
from app.text.sentences import cut_to_sentences

MOST_MESSAGES = 10
BLOCK_TOKENS = 24  # of the tags around one text
BY_WORDS: Mapping[Part, str] = {
    "memory": "Memory can only be searched word by word just now: what is missing may well have "
    "been told.\n",
    "documents": "The documents can only be searched word by word just now: what is missing may "
    "well be there.\n",
}

T = TypeVar("T", Memory, Passage)


@dataclass(frozen=True, slots=True)
class Sources:
    """What there is to search."""

    embedder: Embedder
    recall: Recall
    said: Said
    documents: DocumentSearch
    metrics: Metrics


class Searches:
    """The searches of one turn; `memories` and `passages` are what they have found so far.

    `degraded` is what they searched by words only.

    now: in the user's time zone. result_tokens: the most that one result takes.
    """

    def __init__(
        self, sources: Sources, ask: Ask, turn: Turn, now: datetime, *, result_tokens: int
    ) -> None:
        self._sources = sources
        self._ask = ask
        self._turn = turn
        self._now = now
        self._result_tokens = result_tokens
        self.memories: list[Memory] = []
        self.passages: list[Passage] = []
        self.degraded: list[Degraded] = []

    async def memory(self, form: SearchMemory) -> ToolAnswer:
        """Search memories of other sessions, and facts of this one too: they can be revised."""
        ask, recall = self._ask, self._sources.recall
        question = Searching(self._sources.embedder, form.query, self._sources.metrics)
        await question.embed()
        since, until = self._bounds(form.since, form.until)
        span = Span(since=since, until=until)

        async def elsewhere(vector: Values | None) -> Recalled:
            return await recall.search(
                ask.tenant_id,
                ask.user_id,
                vector,
                words=form.query,
                span=span,
                leave_out_session=ask.session_id,
            )

        async def of_facts(vector: Values | None) -> Recalled:
            return await recall.search(
                ask.tenant_id,
                ask.user_id,
                vector,
                words=form.query,
                span=span,
                memory_type="fact",
            )

        recalled, told = await asyncio.gather(
            question.of("memory", elsewhere), question.of("memory", of_facts)
        )
        note = self._note(question)
        found = [self._current(memory) for memory in recalled.memories]
        known = {fact.fact_id for memory in found for fact in memory.facts}
        found += [
            self._current(memory)
            for memory in told.memories
            if not known.issuperset(fact.fact_id for fact in memory.facts)
        ]
        found = [memory for memory in found if memory.facts or memory.memory_type != "fact"]
        if not found:
            return ToolAnswer(f"{note}No memory fits.")
        texts = self._fitted([self._memory_text(memory) for memory in found])
        found = found[: len(texts)]
        blocks = [
            block("memory", text, id=f"m{place}", date=f"{self._local(memory.created_at):%Y-%m-%d}")
            for place, memory, text in zip(_add(self.memories, found), found, texts, strict=True)
        ]
        return ToolAnswer(note + container("memories", blocks), kept=_kept(found))

    async def history(self, form: SearchHistory) -> ToolAnswer:
        ask = self._ask
        since, until = self._bounds(form.since, form.until)
        found = await self._sources.said.search(
            ask.tenant_id,
            ask.user_id,
            form.query,
            here=Here(ask.session_id, self._turn.question.seq),
            since=since,
            until=until,
            limit=MOST_MESSAGES,
        )
        if not found:
            return ToolAnswer("No message fits.")
        texts = self._fitted([one.text for one in found])
        blocks = [self._said(one, text) for one, text in zip(found, texts, strict=False)]
        places = ", ".join(f"{one.session_id}#{one.seq}" for one in found[: len(texts)])
        return ToolAnswer(container("messages", blocks), kept=f"Found the messages {places}.")

    async def documents(self, form: SearchDocuments) -> ToolAnswer:
        """Search within the filters of the request, which the model can only narrow."""
        if form.filters is not None:
            validate(form.filters)
        question = Searching(self._sources.embedder, form.query, self._sources.metrics)
        await question.embed()

        async def search(vector: Values | None) -> Found:
            return await self._sources.documents.search(
                self._ask.tenant_id,
                vector,
                words=form.query,
                filter=both(self._ask.document_filter, form.filters),
                top_k=self._ask.top_k,
            )

        found = list((await question.of("documents", search)).passages)
        note = self._note(question)
        if not found:
            return ToolAnswer(f"{note}No document fits.")
        texts = self._fitted([passage.text for passage in found])
        found = found[: len(texts)]
        blocks = [
            block("document", text, id=f"{place}", source=str(one.metadata.get("source", "")))
            for place, one, text in zip(_add(self.passages, found), found, texts, strict=True)
        ]
        kept = f"Documents found: {len(found)}."
        return ToolAnswer(note + container("documents", blocks), kept=kept)

    def _note(self, question: Searching) -> str:
        """Note what was searched by words only, and return what the model is told of it."""
        known = [one.part for one in self.degraded]
        self.degraded += [one for one in question.degraded if one.part not in known]
        return "".join(BY_WORDS[one.part] for one in question.degraded)

    def _current(self, memory: Memory) -> Memory:
        """Return a memory without the facts that hold no more."""
        return replace(memory, facts=tuple(f for f in memory.facts if f.holds(self._now)))

    def _memory_text(self, memory: Memory) -> str:
        lines = [self._fact_line(fact) for fact in memory.facts]
        is_told = any(fact.statement == memory.text for fact in memory.facts)
        return "\n".join(lines if is_told else [*lines, memory.text])

    def _fact_line(self, fact: Fact) -> str:
        told, _, when = fact_line(fact, self._now.tzinfo or UTC).rpartition(" (")
        return f"{told} (fact {fact.fact_id}, {when}"

    def _said(self, saying: Saying, text: str) -> str:
        at = f"{self._local(saying.created_at):%Y-%m-%d %H:%M}"
        return block("message", text, role=saying.role, date=at, session=saying.session_id)

    def _local(self, moment: datetime) -> datetime:
        return moment.astimezone(self._now.tzinfo)

    def _bounds(self, since: date | None, until: date | None) -> tuple[datetime | None, ...]:
        """Return the first moment and the last one of two days in the user's time zone."""
        zone = self._now.tzinfo
        begins = None if since is None else datetime.combine(since, time.min, zone)
        ends = None if until is None else datetime.combine(until, time.max, zone)
        return begins, ends

    def _fitted(self, texts: Sequence[str]) -> list[str]:
        """Return the leading texts, the long ones cut: together they fit one result."""
        share = self._result_tokens // min(len(texts), 4) - BLOCK_TOKENS
        left, fitted = self._result_tokens, []
        for text in texts:
            piece = cut_to_sentences(text, lambda t: estimate_tokens(t) <= share)
            left -= estimate_tokens(piece) + BLOCK_TOKENS
            if left < 0:
                break
            fitted.append(piece)
        return fitted


def _kept(found: Sequence[Memory]) -> str:
    """Return what may be stored of a search: what is forgotten later must be gone from it.

    Of documents not even the ids are: who reads the session later may not be allowed to see them.
    """
    return f"Found the memories {', '.join(one.id for one in found)}."


def _add(known: list[T], found: Sequence[T]) -> list[int]:
    """Add what is new to what was found before; returns the places of all, from 1."""
    places = []
    for one in found:
        ids = [other.id for other in known]
        if one.id not in ids:
            known.append(one)
        places.append(ids.index(one.id) + 1 if one.id in ids else len(known))
    return places
