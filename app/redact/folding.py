"""Texts in plain characters, with the way back to where each one stood. Touches nothing."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# Digits of other scripts, wide forms, hyphens and spaces of print, and what takes no room.
_ODD = re.compile(
    "(?![0-9])\\d|[\uff01-\uff5e\u00a0\u2007\u2009\u202f\u2010-\u2015\u2212\u3000]"
    "|[\u00ad\u200b-\u200f\u2060\ufeff]"
)
_NO_ROOM = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
_HYPHENS = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2212")
_SPACES = frozenset("\u00a0\u2007\u2009\u202f\u3000")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in plain characters. places: where each stood, None: at the same place."""

    text: str
    places: tuple[int, ...] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a span of the folded text stands in the one that came."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def fold(text: str) -> Folded:
    """Return a text with what looks like a plain character as one."""
    if text.isascii() or _ODD.search(text) is None:
        return Folded(text)
    kept = [(at, char) for at, char in enumerate(text) if char not in _NO_ROOM]
    return Folded("".join(_plain(char) for _, char in kept), tuple(at for at, _ in kept))


def _plain(char: str) -> str:
    if char in _HYPHENS:
        return "-"
    if char in _SPACES:
        return " "
    if "\uff01" <= char <= "\uff5e":
        return chr(ord(char) - 0xFEE0)
    if char.isdecimal() and not char.isascii():
        return str(unicodedata.decimal(char))
    return char
