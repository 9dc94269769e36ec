"""Text that every store and every client can take. Touches nothing.

Postgres takes no NUL, and UTF-8 no half of a surrogate pair; a model's reply may hold either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def clean(text: str) -> str:
    """Return the text without NUL, its surrogate pairs joined, and U+FFFD for a lone one."""
    text = text.replace("\x00", "")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def cleaned(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with all its texts clean."""

    def one(value: Any) -> Any:
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, list):
            return [one(item) for item in value]
        return cleaned(value) if isinstance(value, dict) else value

    return {clean(name): one(value) for name, value in values.items()}


def is_shallow(value: Any, most: int = 100) -> bool:
    """Say whether JSON is nested at most so deep: what reads it later calls itself for each."""
    outer = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        inner = [p for part in outer for p in (part.values() if isinstance(part, dict) else part)]
        outer = [part for part in inner if isinstance(part, dict | list)]
        if not outer:
            return True
    return False


class Pieces:
    """`clean` for a text that comes in pieces: a pair may be split over two of them."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what is certain after this piece; "" for none."""
        if not self._half and piece.isascii():
            return piece.replace("\x00", "")
        text, self._half = self._half + piece.replace("\x00", ""), ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean(text)

    def rest(self) -> str:
        """Return what was held back when the text ended."""
        half, self._half = self._half, ""
        return clean(half)
