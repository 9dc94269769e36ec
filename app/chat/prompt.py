"""The prompt: instructions, profile, history, memories, documents, question, within a budget.

Touches nothing. Retrieved text stands in delimited blocks of the last user message and never
reaches the system role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from app.chat.instructions import CHAT
from app.chat.lines import fact_line, memory_text
from app.errors import PromptTooLarge
from app.knowledge.search import Passage
from app.llm.base import Say
from app.llm.blocks import block, container
from app.llm.tokens import estimate_tokens
from app.memory.base import Fact
from app.memory.blocks import Block
from app.memory.recall import Memory
from app.text.sentences import cut_to_sentences

BLOCK_OVERHEAD_TOKENS = 24
PROFILE_SHARE = 0.25  # of what a long question leaves: it must not push out all the rest
SHARES = {"documents": 0.5, "history": 0.3, "memories": 0.2}
SMALLEST_CUT_TOKENS = 40  # less of an item than this is not worth its place


@dataclass(frozen=True, slots=True)
class Budget:
    """`context_tokens` is the model's window, `reply_tokens` what the reply may take of it.

    profile_tokens: the most that the lines of the profile take.
    """

    context_tokens: int
    reply_tokens: int
    profile_tokens: int
    documents: float = 50
    history: float = 30
    memories: float = 20


@dataclass(frozen=True, slots=True)
class Prompt:
    """`tokens` and `dropped` are by part: estimates of what is in, and items that are out.

    The memories are as they stand in it: with the facts that are in, and hold.
    """

    says: tuple[Say, ...]
    profile: tuple[Fact, ...]
    memories: tuple[Memory, ...]
    passages: tuple[Passage, ...]
    tokens: dict[str, int]
    dropped: dict[str, int]


def check_size(question: str, budget: Budget) -> None:
    """Raise `PromptTooLarge` for a question that fits no prompt."""
    room = budget.context_tokens - budget.reply_tokens - estimate_tokens(CHAT)
    if estimate_tokens(question) + BLOCK_OVERHEAD_TOKENS > room:
        raise PromptTooLarge(
            f"the message is longer than the model can take ({room} tokens)", param="message"
        )


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
) -> Prompt:
    """Fit the parts into the budget, each by relevance (history by recency).

    now: in the user's time zone, as are the dates of facts and memories.
    asked: the stand-alone question, where it is not the user's words. history: units, oldest first;
    what is in a unit stays together. instructions: the client's own, which always stay.
    The profile has a cap of its own. Each other part has its share; what it leaves free goes to
    the others. The first item of a part is cut at a sentence rather than dropped. Raises
    `PromptTooLarge` for a question that fits nowhere.
    """
    check_size(question, budget)
    told = template.format(now=now.strftime("%A %Y-%m-%d %H:%M %Z"))
    fixed = estimate_tokens(told) + estimate_tokens(question) + 2 * BLOCK_OVERHEAD_TOKENS
    summary = cut_to_sentences(summary, lambda t: estimate_tokens(t) <= budget.context_tokens // 10)
    fixed += estimate_tokens(summary)
    room = budget.context_tokens - budget.reply_tokens - fixed
    lines = profile_lines(profile, min(budget.profile_tokens, int(room * PROFILE_SHARE)), now)
    profile_tokens = _cost("\n".join(lines)) if lines else 0
    room -= profile_tokens

    remembered = _current(memories, now)
    wanted: dict[str, list[str]] = {
        "documents": [passage.text for passage in passages],
        "history": [say.content for unit in reversed(history) for say in reversed(unit)],
        "memories": [_shown(memory, now) for memory in remembered],
    }
    kept = share_out(wanted, room)
    tokens = {part: sum(map(estimate_tokens, texts)) for part, texts in kept.items()}
    backwards = [say for unit in reversed(history) for say in reversed(unit)]
    recent = list(zip(backwards, kept["history"], strict=False))[::-1]
    used_memories = list(zip(remembered, kept["memories"], strict=False))
    used_passages = list(zip(passages, kept["documents"], strict=False))
    says = [Say("system", told)]
    says += [Say(say.role, text) for say, text in recent]
    last = _last(question, lines, summary, used_memories, used_passages, now)
    return Prompt(
        says=(*says, Say("user", last)),
        profile=tuple(profile[: len(lines)]),
        memories=tuple(_as_kept(memory, text, now) for memory, text in used_memories),
        passages=tuple(passage for passage, _ in used_passages),
        tokens={**tokens, "profile": profile_tokens, "fixed": fixed},
        dropped={
            **{part: len(texts) - len(kept[part]) for part, texts in wanted.items()},
            "profile": len(profile) - len(lines),
        },
    )


def profile_lines(profile: Sequence[Fact], most_tokens: int, now: datetime) -> list[str]:
    """Return the lines of the leading facts that fit together."""
    lines: list[str] = []
    for fact in profile:
        line = fact_line(fact, now.tzinfo or UTC)
        most_tokens -= estimate_tokens(line)
        if most_tokens < 0:
            break
        lines.append(line)
    return lines


def share_out(wanted: dict[str, list[str]], room: int) -> dict[str, list[str]]:
    """Return the leading items of each part that fit `room` tokens together, by `SHARES`.

    The first item that does not fit is cut at a sentence where enough of it would be left.
    """
    spent = 0
    kept: dict[str, list[str]] = {part: [] for part in wanted}
    for part, texts in wanted.items():
        share = int(room * SHARES[part])
        for text in texts:
            cost = _cost(text)
            if cost > share:
                break
            kept[part].append(text)
            share -= cost
            spent += cost
    for part, texts in wanted.items():  # what the shares left free
        for text in texts[len(kept[part]) :]:
            piece = _fitted(text, room - spent)
            if piece:
                kept[part].append(piece)
                spent += _cost(piece)
            if piece != text:
                break
    return kept


def _fitted(text: str, left: int) -> str:
    """Return the text, or as many of its sentences as `left` tokens hold, or nothing."""

    def fits(piece: str) -> bool:
        return _cost(piece) <= left

    if fits(text):
        return text
    piece = cut_to_sentences(text, fits) if left >= SMALLEST_CUT_TOKENS else ""
    return piece if fits(piece) else ""


def _cost(text: str) -> int:
    return estimate_tokens(text) + BLOCK_OVERHEAD_TOKENS


def _current(memories: Sequence[Memory], now: datetime) -> list[Memory]:
    """Return memories without the facts that hold no more: in a prompt they would pass for true."""
    held = [
        replace(memory, facts=tuple(fact for fact in memory.facts if fact.holds(now)))
        for memory in memories
    ]
    return [memory for memory in held if memory.facts or memory.memory_type != "fact"]


def _shown(memory: Memory, now: datetime) -> str:
    return memory_text(memory.text, memory.facts, now.tzinfo or UTC)


def _as_kept(memory: Memory, text: str, now: datetime) -> Memory:
    """Return a memory with the facts that are left in a text that may have been cut."""
    lines = text.splitlines()
    facts = tuple(fact for fact in memory.facts if fact_line(fact, now.tzinfo or UTC) in lines)
    return replace(memory, facts=facts)


def _last(
    question: str,
    profile: Sequence[str],
    summary: str,
    memories: Sequence[tuple[Memory, str]],
    passages: Sequence[tuple[Passage, str]],
    now: datetime,
) -> str:
    parts: list[str] = []
    if profile:
        parts.append(block("profile", "\n".join(profile)))
    if summary:
        parts.append(block("conversation_summary", summary))
    if memories:
        blocks = [
            block("memory", text, id=f"m{n}", date=_date(memory.created_at, now))
            for n, (memory, text) in enumerate(memories, start=1)
        ]
        parts.append(container("memories", blocks))
    if passages:
        blocks = [
            block("document", text, id=str(n), source=str(passage.metadata.get("source", "")))
            for n, (passage, text) in enumerate(passages, start=1)
        ]
        parts.append(container("documents", blocks))
    parts.append(block("question", question))
    return "\n".join(parts)


def _date(at: datetime, now: datetime) -> str:
    return at.astimezone(now.tzinfo).date().isoformat()
