"""Delimited data in a prompt that can't close its own delimiter. Touches nothing.

Retrieved text is data, never instructions. It stands between tags, and whatever in it looks like
one of our tags is defused, so it can neither end its block nor open another.
"""

from __future__ import annotations

import re

TAGS = (
    "memories",
    "memory",
    "documents",
    "document",
    "question",
    "transcript",
    "previous_summary",
    "conversation_summary",
)
_OURS = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)


def defuse(text: str) -> str:
    """Return `text` with `<` as `&lt;` wherever it would begin one of our tags."""
    return _OURS.sub("&lt;", text)


def block(tag: str, text: str, **attributes: str) -> str:
    """Return `text` between `<tag …>` and `</tag>`."""
    shown = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{shown}>\n{defuse(text)}\n</{tag}>"


def container(tag: str, blocks: list[str]) -> str:
    """Return finished blocks between `<tag>` and `</tag>`."""
    return "\n".join([f"<{tag}>", *blocks, f"</{tag}>"])


def _attribute(value: str) -> str:
    return re.sub(r'[<>"\s]+', " ", value)[:200]
