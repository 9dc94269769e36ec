"""All that stands between a question and its prompt. Touches: the rooms that it calls."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from app.chat import instructions
from app.chat.ask import Ask
from app.chat.budget import Budget
from app.chat.draft import Draft
from app.chat.history import Histories, History
from app.chat.prompt import Prompt, build_prompt
from app.chat.retrieve import Known, Retrieved, Retriever
from app.chat.understand import Understanding, Understood
from app.chat.window import check_size
from app.tracing import span

INLINE_CHARS = 12_000  # counted in several passes, of a millisecond each; more goes to a thread


@dataclass(frozen=True, slots=True)
class Composed:
    """A prompt, and what it was made of."""

    prompt: Prompt
    understood: Understood
    history: History
    retrieved: Retrieved


class Composer:
    """Composes prompts. agent_tokens: what the prompt of an agent may take of the window."""

    def __init__(
        self,
        histories: Histories,
        understanding: Understanding,
        retriever: Retriever,
        budget: Budget,
        *,
        agent_tokens: int,
    ) -> None:
        self._histories = histories
        self._understanding = understanding
        self._retriever = retriever
        self._budget = budget
        self._agent_budget = replace(budget, context_tokens=agent_tokens)

    async def check(self, ask: Ask) -> None:
        """Raise `PromptTooLarge` for a message that fits no prompt."""
        template = instructions.of(ask.mode, has_consent=ask.has_consent)
        size = ask.text, self._budget_of(ask), ask.instructions, template
        if sum(map(len, (ask.text, *ask.instructions))) <= INLINE_CHARS:
            check_size(*size)
        else:
            await asyncio.to_thread(check_size, *size)

    def look_back(self, ask: Ask) -> int:
        """Return how many messages before it a turn is to bring along."""
        return self._histories.look_back(ask)

    async def known(self, ask: Ask, now: datetime) -> Known:
        """Return what stands in every prompt of the user."""
        return await self._retriever.known(ask, now)

    async def compose(self, ask: Ask, draft: Draft, known: Known, now: datetime) -> Composed:
        """Read the history, understand, retrieve, and build the prompt, in this order.

        known: of `self.known`. now: in the user's time zone.
        """
        with span("read the history"):
            history = await self._histories.before(draft.turn, ask)
        understood, retrieved = Understood(ask.text, "hybrid", "agent"), Retrieved()
        is_agent = ask.mode == "agent"  # it looks for what it needs by itself
        if not is_agent:
            said = [say for unit in history.units for say in unit]
            with span("understand"):
                understood = await self._understanding.of(
                    ask, said, known.profile, now, draft.bill, summary=history.summary
                )
        draft.route = understood.route
        draft.marks["understood"] = time.monotonic()
        if not is_agent:
            retrieved = await self._retriever.search(ask, understood)
            draft.degraded = retrieved.degraded
        draft.marks["retrieved"] = time.monotonic()
        prompt = await self._build(ask, understood, history, known, retrieved, now)
        if prompt.dropped["history"] and not history.summary:
            history = await self._histories.with_summary(draft.turn.session, history)
            if history.summary:
                prompt = await self._build(ask, understood, history, known, retrieved, now)
        draft.memories, draft.passages = prompt.memories, prompt.passages
        return Composed(prompt, understood, history, retrieved)

    async def _build(
        self,
        ask: Ask,
        understood: Understood,
        history: History,
        known: Known,
        retrieved: Retrieved,
        now: datetime,
    ) -> Prompt:
        build = partial(
            build_prompt,
            ask.text,
            asked=understood.question if understood.is_rewritten else None,
            now=now,
            template=instructions.of(
                ask.mode,
                has_consent=ask.has_consent,
                degraded=[one.part for one in retrieved.degraded],
            ),
            instructions=ask.instructions,
            profile=known.profile,
            blocks=known.blocks,
            history=history.units,
            summary=history.summary,
            memories=() if retrieved.recalled is None else retrieved.recalled.memories,
            passages=() if retrieved.found is None else retrieved.found.passages,
            budget=self._budget_of(ask),
            keeps_calls=ask.mode == "agent",
        )
        size = len(ask.text) + _chars(ask, history, known, retrieved)
        with span("build the prompt"):
            return build() if size <= INLINE_CHARS else await asyncio.to_thread(build)

    def _budget_of(self, ask: Ask) -> Budget:
        return self._agent_budget if ask.mode == "agent" else self._budget


def _chars(ask: Ask, history: History, known: Known, retrieved: Retrieved) -> int:
    """Return about how many characters want a place in a prompt beside its question."""
    memories = () if retrieved.recalled is None else retrieved.recalled.memories
    passages = () if retrieved.found is None else retrieved.found.passages
    says = [say for unit in history.units for say in unit]
    texts = [
        *ask.instructions,
        *[say.content for say in says],
        *[call.text for say in says for call in say.calls],
        history.summary,
        *[one.value for one in known.blocks],
        *[fact.statement for fact in known.profile],
        *[one.text for one in memories],
        *[fact.statement for one in memories for fact in one.facts],
        *[one.text for one in passages],
    ]
    return sum(map(len, texts))
