"""The tools of an agent that write: facts and blocks, on the user's word alone. Touches: memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from app.chat.ask import Ask
from app.chat.tool_forms import EditBlock, Forget, Remember, Revise
from app.chat.trust import Words
from app.llm.tools import ToolAnswer
from app.memory.base import USER, Fact, FoundFact
from app.memory.blocks import Blocks
from app.memory.fact_edits import Edit, stated
from app.memory.facts import Facts
from app.memory.keys import is_many
from app.sessions.base import Turn
from app.text.sentences import sentences

NOT_SAID = "the user has not said so; only what the user says in this conversation may be kept"
NO_QUOTE = "the quote is in no message of the user in this conversation; copy their words exactly"
NOT_ASKED = "the user's message neither asks for that nor names it"


class Refused(Exception):
    """What a model asked for is not done: the user has not said it."""


@dataclass(frozen=True, slots=True)
class Keepers:
    """What there is to write to."""

    facts: Facts
    blocks: Blocks


class Writes:
    """The writes of one turn. words: what the user said, read when the first write comes."""

    def __init__(
        self,
        keepers: Keepers,
        ask: Ask,
        turn: Turn,
        now: datetime,
        words: Callable[[], Awaitable[Words]],
    ) -> None:
        self._facts = keepers.facts
        self._blocks = keepers.blocks
        self._ask = ask
        self._turn = turn
        self._now = now.astimezone(UTC)
        self._words = words
        self._one_at_a_time = asyncio.Lock()

    async def remember(self, form: Remember) -> ToolAnswer:
        words = await self._words()
        seq = await asyncio.to_thread(_place, words, form.quote)
        if not await asyncio.to_thread(words.state, seq, form.value, form.statement):
            raise Refused(NOT_SAID)
        told = FoundFact(
            subject=form.subject,
            predicate=form.predicate,
            value=form.value,
            statement=form.statement,
            kind=form.kind,
            is_many=is_many(form.predicate, form.many),
            confidence=1.0,
            said_by="user",
            seq=seq,
            quote=form.quote,
            said_at=words.said_at(seq),
            valid_from=words.said_at(seq),
        )
        fact = await self._store(told)
        return ToolAnswer(f"Remembered as fact {fact.fact_id}.")

    async def revise(self, form: Revise) -> ToolAnswer:
        """Let a new value follow the old one; what was true before stays in the fact's history.

        The old value ends where the new one begins, so that forgetting the session brings it back.
        """
        words = await self._words()
        seq = await asyncio.to_thread(_place, words, form.quote)
        async with self._one_at_a_time:
            fact = await self._facts.get(self._ask.tenant_id, self._ask.user_id, form.fact_id)
            if form.value is None:
                if not words.ask_to_change(fact.value):
                    raise Refused(NOT_ASKED)
                await self._end(fact)
                return ToolAnswer(f"The fact {fact.fact_id} holds no longer.")
            ours = stated(fact.subject, fact.predicate, form.value)
            statement = form.statement or ours
            is_said = await asyncio.to_thread(words.state, seq, form.value, statement)
            if not is_said and words.correct(seq, fact.value):
                is_said = await asyncio.to_thread(
                    words.state, seq, form.value, statement, known=f"{fact.statement}\n{ours}"
                )
            if not is_said:
                raise Refused(NOT_SAID)
            told = FoundFact(
                subject=fact.subject,
                predicate=fact.predicate,
                value=form.value,
                statement=statement,
                kind=fact.kind,
                is_many=fact.is_many,
                confidence=1.0,
                said_by="user",
                seq=seq,
                quote=form.quote,
                said_at=words.said_at(seq),
                valid_from=self._now,
                mark=fact.mark,
            )
            new = await self._store(told)
            if fact.is_many and new.fact_id != fact.fact_id:
                await self._end(fact)
        return ToolAnswer(f"Revised: it is fact {new.fact_id} now.")

    async def forget(self, form: Forget) -> ToolAnswer:
        words = await self._words()
        await asyncio.to_thread(_place, words, form.quote)
        fact = await self._facts.get(self._ask.tenant_id, self._ask.user_id, form.fact_id)
        named = [fact.value] if fact.subject == USER else [fact.value, fact.subject]
        if not words.ask_to_forget(*named):
            raise Refused(NOT_ASKED)
        await self._facts.delete(self._ask.tenant_id, self._ask.user_id, form.fact_id)
        return ToolAnswer(f"The fact {form.fact_id} is forgotten.")

    async def edit_block(self, form: EditBlock) -> ToolAnswer:
        words = await self._words()
        seq = await asyncio.to_thread(_place, words, form.quote)
        async with self._one_at_a_time:
            held = await self._blocks.of(self._ask.tenant_id, self._ask.user_id)
            old = next((one for one in held if one.label == form.label), None)
            before = "" if old is None else old.value
            if not await asyncio.to_thread(words.support, seq, form.value, known=before):
                raise Refused(NOT_SAID)
            dropped = [one for one in sentences(before) if one not in form.value]
            if dropped and not words.ask_to_change(*dropped):
                raise Refused(f"{NOT_ASKED}: what stands in the block has to stay")
            block = await self._blocks.write(
                self._ask.tenant_id,
                self._ask.user_id,
                form.label,
                form.value,
                written_by="assistant",
                session_id=self._ask.session_id,
                seq=seq,
                expected_version=None if old is None else old.version,
            )
        return ToolAnswer(f"The block {form.label} is at version {block.version}.")

    async def _store(self, told: FoundFact) -> Fact:
        kept = await self._facts.store(
            self._ask.tenant_id, self._ask.user_id, told, session_id=self._ask.session_id
        )
        return kept.fact

    async def _end(self, fact: Fact) -> None:
        ends_at = max(self._now, fact.valid_from)
        await self._facts.change(
            self._ask.tenant_id, self._ask.user_id, fact.fact_id, Edit(ends_at=ends_at)
        )


def _place(words: Words, quote: str) -> int:
    """Return the number of the user's message that holds a quote. Raises `Refused`."""
    seq = words.place_of(quote)
    if seq is None:
        raise Refused(NO_QUOTE)
    return seq
