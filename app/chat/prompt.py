"""The prompt: instructions, profile, history, memories, documents, question, within a budget.

Touches nothing. Nothing that is sent exceeds the model's window: what could is counted as sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from app.chat.budget import Budget, Item, cut, share_out
from app.chat.flagging import Shown, with_source
from app.chat.instructions import CHAT
from app.chat.lines import fact_line, memory_text
from app.chat.rendering import (
    Last,
    core_memory,
    document_block,
    memory_block,
    profile_block,
    spoken,
    system_text,
)
from app.chat.window import JOIN_TOKENS, tokens_left, tokens_of
from app.knowledge.search import Passage
from app.llm.base import Say
from app.llm.blocks import block
from app.llm.tokens import MESSAGE_TOKENS
from app.memory.base import Fact
from app.memory.blocks import Block
from app.memory.recall import Memory

PROFILE_SHARE = 0.25  # of what a long question leaves: it must not push out all the rest
SUMMARY_SHARE = 0.1  # of the window


@dataclass(frozen=True, slots=True)
class Prompt:
    """`tokens` and `dropped` are by part: what is in, in tokens, and the items that are out.

    The memories are as they stand in it: with the facts that are in, and hold. shown: what is data
    in its last message, as it was cut.
    """

    says: tuple[Say, ...]
    blocks: tuple[Block, ...]
    profile: tuple[Fact, ...]
    memories: tuple[Memory, ...]
    passages: tuple[Passage, ...]
    tokens: dict[str, int]
    dropped: dict[str, int]
    shown: tuple[Shown, ...] = ()


def build_prompt(
    question: str,
    *,
    now: datetime,
    profile: Sequence[Fact],
    history: Sequence[tuple[Say, ...]],
    summary: str,
    memories: Sequence[Memory],
    passages: Sequence[Passage],
    budget: Budget,
    asked: str | None = None,
    blocks: Sequence[Block] = (),
    instructions: Sequence[str] = (),
    template: str = CHAT,
    keeps_calls: bool = False,
) -> Prompt:
    """Fit the parts into the budget, each by relevance (history by recency).

    now: in the user's time zone, as are the dates of facts and memories.
    asked: the stand-alone question, where it is not the user's words. history: units, oldest first;
    what is in a unit stays together, and system messages in it always stay. instructions: the
    client's own, which always stay. keeps_calls: tool calls are shown, as only agents may.
    The question and the instructions are always whole; core memory comes next, then the summary
    and the profile, which have caps, and then what is shared out. Raises `PromptTooLarge` for a
    question that fits nowhere.
    """
    pinned = [say.content for unit in history for say in unit if say.role == "system"]
    fixed = [*instructions, *(text for text in pinned if text not in instructions)]
    told = template.format(now=now.strftime("%A %Y-%m-%d %H:%M %Z"))
    said = [spoken(unit, keeps_calls=keeps_calls) for unit in history if unit[0].role != "system"]
    parts = _Parts(
        question=question,
        asked=asked or "",
        system=system_text(told, fixed),
        now=now,
        profile=profile,
        units=[unit for unit in said if unit],
        summary=summary,
        memories=_current(memories, now),
        passages=passages,
        blocks=blocks,
        budget=budget,
    )
    left = tokens_left(question, budget, fixed, template)
    while True:
        prompt = parts.fitted(left)
        if _is_small(prompt, budget):
            return prompt
        over = sum(tokens_of(say, budget) for say in prompt.says) - budget.prompt_tokens
        if over <= 0 or left <= 0:
            return prompt
        left -= over + JOIN_TOKENS  # joined, the parts are counted differently


@dataclass(frozen=True, slots=True)
class _Parts:
    """All that wants a place beside the question; `fitted` gives it one."""

    question: str
    asked: str
    system: str
    now: datetime
    profile: Sequence[Fact]
    units: Sequence[tuple[Say, ...]]
    summary: str
    memories: Sequence[Memory]
    passages: Sequence[Passage]
    blocks: Sequence[Block]
    budget: Budget

    def fitted(self, left: int) -> Prompt:
        """Return the prompt that takes `left` tokens beside the question and the instructions."""
        room = left
        blocks = self._blocks(room)
        tokens = {"blocks": sum(self._cost(core_memory(*one)) for one in blocks)}
        room -= tokens["blocks"]
        is_asked_in = bool(self.asked) and self._cost(self.asked) + JOIN_TOKENS <= room
        asked = self.asked if is_asked_in else ""
        fixed = self._cost(self.system) + self._cost(self.question)
        meant = self._cost(block("question_meant", asked)) if asked else 0
        room -= meant
        summary = self._summary(room)
        tokens["summary"] = self._cost(_summary_block(summary)) if summary else 0
        room -= tokens["summary"]
        lines = self._profile_lines(room)
        tokens["profile"] = self._cost(profile_block(lines)) if lines else 0
        room -= tokens["profile"]

        wanted = self._wanted()
        kept, spent = share_out(wanted, room, self.budget.shares)
        memories = list(zip(self.memories, kept["memories"], strict=False))
        passages = list(zip(self.passages, kept["documents"], strict=False))
        last = Last(self.question, asked, blocks, lines, summary, memories, passages)
        says = (
            Say("system", self.system),
            *self._recent(kept["history"]),
            Say("user", last.rendered(self.now)),
        )
        return Prompt(
            says=says,
            blocks=tuple(one for one in self.blocks if one.label in dict(blocks)),
            profile=tuple(self.profile[: len(lines)]),
            memories=tuple(_as_kept(memory, text, self.now) for memory, text in memories),
            passages=tuple(passage for passage, _ in passages),
            tokens={**tokens, **spent, "fixed": fixed + meant},
            dropped={
                **{part: len(items) - len(kept[part]) for part, items in wanted.items()},
                "profile": len(self.profile) - len(lines),
            },
            shown=(
                *(Shown("block", label, text) for label, text in blocks),
                *(
                    Shown("fact", fact.fact_id, line)
                    for fact, line in zip(self.profile, lines, strict=False)
                ),
                *([Shown("summary", "", summary)] if summary else []),
                *(Shown("memory", memory.id, text) for memory, text in memories),
                *(
                    Shown("document", passage.id, with_source(text, passage.metadata))
                    for passage, text in passages
                ),
            ),
        )

    def _cost(self, text: str) -> int:
        return self.budget.count(text) + JOIN_TOKENS

    def _blocks(self, room: int) -> list[tuple[str, str]]:
        kept: list[tuple[str, str]] = []
        for one in self.blocks:
            text = self._capped(one.value, room, partial(core_memory, one.label))
            if text:
                kept.append((one.label, text))
                room -= self._cost(core_memory(one.label, text))
        return kept

    def _summary(self, room: int) -> str:
        most = min(room // 2, int(self.budget.context_tokens * SUMMARY_SHARE))
        return self._capped(self.summary, most, _summary_block)

    def _capped(self, text: str, most_tokens: int, shown: Callable[[str], str]) -> str:
        return cut(text, most_tokens, lambda piece: self._cost(shown(piece)))

    def _profile_lines(self, room: int) -> list[str]:
        """Return the lines of the leading facts that fit together."""
        left = min(self.budget.profile_tokens, int(room * PROFILE_SHARE))
        lines: list[str] = []
        for fact in self.profile:
            line = fact_line(fact, self.now.tzinfo or UTC)
            left -= self.budget.count(line) + 1
            if left < 0:
                break
            lines.append(line)
        return lines

    def _wanted(self) -> dict[str, list[Item]]:
        zone = self.now.tzinfo or UTC
        return {
            "documents": [
                Item(one.text, self._priced(partial(document_block, n, one)))
                for n, one in enumerate(self.passages, start=1)
            ],
            "history": [self._of(unit) for unit in reversed(self.units)],
            "memories": [
                Item(
                    memory_text(one.text, one.facts, zone),
                    self._priced(partial(memory_block, n, one, now=self.now)),
                )
                for n, one in enumerate(self.memories, start=1)
            ],
        }

    def _priced(self, shown: Callable[[str], str]) -> Callable[[str], int]:
        return lambda text: self._cost(shown(text))

    def _of(self, unit: tuple[Say, ...]) -> Item:
        if len(unit) == 1 and not unit[0].calls:
            return Item(unit[0].content, lambda text: self.budget.count(text) + MESSAGE_TOKENS)
        whole = sum(tokens_of(say, self.budget) for say in unit)
        return Item("", lambda _: whole, is_whole=True)

    def _recent(self, kept: Sequence[str]) -> list[Say]:
        """Return the messages of the kept units, oldest first; only a single one may be cut."""
        pairs = list(zip(reversed(self.units), kept, strict=False))[::-1]
        return [
            say if say.calls or len(unit) > 1 or text == say.content else replace(say, content=text)
            for unit, text in pairs
            for say in unit
        ]


def _is_small(prompt: Prompt, budget: Budget) -> bool:
    """Say whether a prompt fits without a count of it: no text has more tokens than bytes.

    Twice as many, for a counter that counts what others don't.
    """
    if any(say.calls for say in prompt.says):
        return False
    texts = [say.content.encode(errors="surrogatepass") for say in prompt.says]
    return 2 * (sum(map(len, texts)) + MESSAGE_TOKENS * len(texts)) <= budget.prompt_tokens


def _summary_block(text: str) -> str:
    return block("conversation_summary", text)


def _current(memories: Sequence[Memory], now: datetime) -> list[Memory]:
    """Return memories without the facts that hold no more: in a prompt they would pass for true."""
    held = [
        _with_facts(memory, [fact for fact in memory.facts if fact.holds(now)])
        for memory in memories
    ]
    return [memory for memory in held if memory.facts or memory.memory_type != "fact"]


def _as_kept(memory: Memory, text: str, now: datetime) -> Memory:
    """Return a memory with the facts that are left in a text that may have been cut."""
    lines = text.splitlines()
    facts = [fact for fact in memory.facts if fact_line(fact, now.tzinfo or UTC) in lines]
    return _with_facts(memory, facts)


def _with_facts(memory: Memory, facts: Sequence[Fact]) -> Memory:
    """Return a memory with some of its facts."""
    return memory if len(facts) == len(memory.facts) else replace(memory, facts=tuple(facts))
