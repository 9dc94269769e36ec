"""JSON out of a text that is not quite JSON. Touches nothing.

Reads a trailing comma, a missing one, line breaks in strings, Python's words and quotes, comments,
and a text that ends in the middle: of that, what was complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

MOST_DEPTH = 30
MOST_CHARS = 200_000
MOST_OBJECTS = 8

# Possessive, and comments are short: what models write must not take long to be refused.
_SPACE = re.compile(r"(?:\s++|//[^\n]{0,300}+|/\*[^*]{0,300}+\*/)*+")
_LIST = re.compile(r"\[\s*\{\s*[\"']\w+[\"']\s*:")
_BARE = re.compile(r"[^\s,:{}\[\]\"']+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_CLOSES = {'"': '"', "'": "'", "“": "”", "„": "“", "「": "」"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_AFTER_STRING = re.compile(r"\s*(?:[,:}\]]|$)")


class _Cut(Exception):
    """The text ended, or is no JSON from here on. `kept` is what was complete."""

    def __init__(self, kept: Any = None) -> None:
        self.kept = kept


def find_objects(text: str, keys: Collection[str]) -> list[tuple[Any, bool]]:
    """Return each object that has one of the keys first, and a list of objects behind them.

    With each one whether it is whole. What lies within another that is whole is not looked for.
    """
    text = text[:MOST_CHARS]
    wanted = "|".join(keys)
    objects = re.compile(rf"\{{{_SPACE.pattern}[\"'“]?(?:{wanted})[\"'”]?\s*:")
    found: list[tuple[Any, bool]] = []
    at = 0
    while len(found) < MOST_OBJECTS and (start := objects.search(text, at)) is not None:
        value, end, is_whole = _read(text, start.start())
        found.append((value, is_whole))
        at = max(end, start.end())
    is_whole = all(it for _, it in found)
    if is_whole and (start := _LIST.search(text, at)) is not None:
        value, _, is_whole = _read(text, start.start())
        found.append((value, is_whole))
    return found


def _read(text: str, start: int) -> tuple[Any, int, bool]:
    """Return what starts there, where it ends, and whether it is whole."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        reader = _Reader(text, start)
        try:
            value = reader.value(0)
        except _Cut as cut:
            return cut.kept, start, False
        return value, reader.at, True
    return value, end, True


class _Reader:
    """A lenient reader. Each method raises `_Cut` with what it has where it can't go on."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def value(self, depth: int) -> Any:
        char = self._next()
        if depth > MOST_DEPTH:
            raise _Cut
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._list(depth)
        if char in _CLOSES:
            return self._string()
        return self._bare()

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        try:
            while (char := self._next()) != "}":
                if char == ",":
                    self.at += 1
                    continue
                key = self._string() if char in _CLOSES else self._word()
                if self._next() != ":":
                    raise _Cut
                self.at += 1
                try:
                    found[key] = self.value(depth + 1)
                except _Cut as cut:
                    if isinstance(cut.kept, list) or (depth == 0 and isinstance(cut.kept, dict)):
                        found[key] = cut.kept
                    raise
        except _Cut as cut:
            # An object that was cut off is not to be told from one that says less: only the
            # outermost is kept.
            raise _Cut(found if depth == 0 else None) from cut
        self.at += 1
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        try:
            while (char := self._next()) != "]":
                if char == ",":
                    self.at += 1
                    continue
                found.append(self.value(depth + 1))
        except _Cut as cut:
            raise _Cut(found) from cut
        self.at += 1
        return found

    def _string(self) -> str:
        """Read a string; a quote inside it that nobody escaped belongs to it."""
        closing = _CLOSES[self._text[self.at]]
        at = self.at + 1
        while True:
            at = self._text.find(closing, at)
            if at < 0:
                raise _Cut
            slashes = at
            while self._text[slashes - 1] == "\\":
                slashes -= 1
            if (at - slashes) % 2 == 0 and _AFTER_STRING.match(self._text, at + 1):
                break
            at += 1
        raw, self.at = self._text[self.at + 1 : at], at + 1
        return _ESCAPE.sub(_unescaped, raw)

    def _bare(self) -> Any:
        word = self._word()
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        if _NUMBER.fullmatch(word) and len(word) < 40:
            return float(word) if set(word) & set(".eE") else int(word)
        return word

    def _word(self) -> str:
        found = _BARE.match(self._text, self.at)
        if found is None or found.end() == len(self._text):
            raise _Cut  # no word, or one that may go on
        self.at = found.end()
        return found[0]

    def _next(self) -> str:
        """Return the next character that means something, and stand at it."""
        space = _SPACE.match(self._text, self.at)
        self.at = space.end() if space else self.at
        if self.at >= len(self._text):
            raise _Cut
        return self._text[self.at]


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    return _ESCAPED.get(found[2], found[2])
