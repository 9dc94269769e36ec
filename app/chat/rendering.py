"""The messages of a prompt, as the model reads them. Touches nothing.

Retrieved text stands in delimited blocks of the last user message and never reaches the system
role. A plain call binds no tools, and providers refuse tool messages there, so of tool calls in
the history it shows what the assistant said, and an agent's call shows them as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.knowledge.search import Passage
from app.llm.base import Say
from app.llm.blocks import block, container
from app.memory.recall import Memory


@dataclass(frozen=True, slots=True)
class Last:
    """What stands in the last message, in this order. Memories and passages as they were cut."""

    question: str
    asked: str = ""
    blocks: Sequence[tuple[str, str]] = ()
    profile: Sequence[str] = ()
    summary: str = ""
    memories: Sequence[tuple[Memory, str]] = ()
    passages: Sequence[tuple[Passage, str]] = ()

    def rendered(self, now: datetime) -> str:
        parts = [core_memory(label, text) for label, text in self.blocks]
        if self.profile:
            parts.append(profile_block(self.profile))
        if self.summary:
            parts.append(block("conversation_summary", self.summary))
        if self.memories:
            shown = [
                memory_block(n, memory, text, now)
                for n, (memory, text) in enumerate(self.memories, start=1)
            ]
            parts.append(container("memories", shown))
        if self.passages:
            shown = [
                document_block(n, passage, text)
                for n, (passage, text) in enumerate(self.passages, start=1)
            ]
            parts.append(container("documents", shown))
        if self.asked:
            parts.append(block("question_meant", self.asked))
        parts.append(block("question", self.question))
        return "\n".join(parts)


def core_memory(label: str, text: str) -> str:
    return block("core_memory", text, label=label)


def profile_block(lines: Sequence[str]) -> str:
    return block("profile", "\n".join(lines))


def memory_block(number: int, memory: Memory, text: str, now: datetime) -> str:
    day = memory.created_at.astimezone(now.tzinfo).date().isoformat()
    return block("memory", text, id=f"m{number}", date=day)


def document_block(number: int, passage: Passage, text: str) -> str:
    return block("document", text, id=str(number), source=str(passage.metadata.get("source", "")))


def system_text(told: str, instructions: Sequence[str]) -> str:
    """Return the one system message: ours first, then the client's own, whole."""
    return "\n\n".join([told, *instructions])


def spoken(unit: Sequence[Say], *, keeps_calls: bool) -> tuple[Say, ...]:
    """Return a unit of the history as it is sent: with its tool calls, or what was said of it."""
    if keeps_calls:
        return tuple(unit)
    said = [say for say in unit if say.role != "tool" and say.content.strip()]
    return tuple([Say(say.role, say.content) if say.calls or say.call_id else say for say in said])
