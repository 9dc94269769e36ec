"""Which tools the offline answerer calls, and what it makes of their answers. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from app.llm.blocks import block
from app.llm.offline.cues import ASKS, OPENS_OR_CLOSES
from app.llm.offline.facts import facts

MOST_VALUE_CHARS = 400

_REMEMBER = re.compile(
    r"^\W*(?:please |can you |could you |hey,? )*"
    r"(?:remember|note|keep in mind|don['’]t forget)(?: that\b|:|,|(?= (?:i|my|we|our)\b))\s*"
    r"(?P<what>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
REMEMBERED = "I'll remember that."
NOT_REMEMBERED = "I could not remember that."


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]


def wanted(question: str, tools: Collection[str]) -> list[Wanted]:
    """Return the calls that come before an answer: what is to be remembered, else both searches."""
    asked = _REMEMBER.match(question)
    if asked and "remember" in tools:
        return [Wanted("remember", told) for told in _told(asked["what"].strip())]
    if OPENS_OR_CLOSES.match(question) and not ASKS.search(question):
        return []
    searches = ("search_memory", "search_documents")
    return [Wanted(name, {"query": question}) for name in searches if name in tools]


def after_remembering(results: Sequence[tuple[str, str]]) -> str | None:
    """Return the reply once all that was called is `remember`; None where there is more to say.

    results: (name of the tool, what it told).
    """
    if not results or any(name != "remember" for name, _ in results):
        return None
    done = [told.startswith("Remembered") for _, told in results]
    if all(done):
        return REMEMBERED
    failed = [told for (_, told), is_done in zip(results, done, strict=True) if not is_done]
    return f"{NOT_REMEMBERED} {failed[0]}"


def _told(what: str) -> list[dict[str, Any]]:
    found, _ = facts(block("transcript", f"[1] user: {what}"))
    known = [
        {
            "statement": fact["statement"],
            "predicate": fact["predicate"],
            "value": fact["value"],
            "kind": fact["kind"],
            "many": fact["many"],
            "quote": what,
        }
        for fact in found
        if fact["subject"] == "user"
    ]
    value = " ".join(what.split())[:MOST_VALUE_CHARS]
    noted = {
        "statement": value[:1].upper() + value[1:],
        "predicate": "note",
        "value": value,
        "many": True,
        "quote": what,
    }
    return known or [noted]
