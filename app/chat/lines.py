"""A fact as a line of a prompt. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from app.memory.base import Fact


def fact_line(fact: Fact, zone: tzinfo) -> str:
    """Return "- what is true (since when)" in one line; dates are those of the user's zone."""
    told = " ".join(fact.statement.split()).rstrip(".")
    since = f"since {fact.valid_from.astimezone(zone):%Y-%m-%d}"
    until = "" if fact.ends_at is None else f", until {fact.ends_at.astimezone(zone):%Y-%m-%d}"
    by = "recommended by the assistant, " if fact.kind == "recommendation" else ""
    return f"- {told} ({by}{since}{until})"


def memory_text(text: str, facts: Sequence[Fact], zone: tzinfo) -> str:
    """Return a memory with the facts that matched, in front: what is cut, is cut at the end.

    A fact that was told by itself is its own text, and stands there once.
    """
    lines = [fact_line(fact, zone) for fact in facts]
    is_told = any(fact.statement == text for fact in facts)
    return "\n".join(lines if is_told else [*lines, text])
