"""What a model thinks aloud, kept out of its answer. Touches nothing.

Only blocks at the start of an answer count: further on, `<think>` is the answer's own text.
"""

from __future__ import annotations

_OPEN, _CLOSE = "<think>", "</think>"


class Answer:
    """The text of a streamed answer without the `<think>…</think>` it may begin with."""

    def __init__(self) -> None:
        self.text = ""
        self._held = ""
        self._has_begun = False

    def feed(self, piece: str) -> str:
        """Return what of the answer is certain after this piece; "" while it may be reasoning."""
        if self._has_begun:
            self.text += piece
            return piece
        self._held = _skip_blocks(self._held + piece)
        if not self._held or _OPEN.startswith(self._held[: len(_OPEN)]):
            return ""
        return self._begin()

    def rest(self) -> str:
        """Return what was held back when the stream ended; an unclosed block is reasoning."""
        return "" if self._has_begun or self._held.startswith(_OPEN) else self._begin()

    def _begin(self) -> str:
        self._has_begun = True
        self.text, self._held = self._held, ""
        return self.text


def _skip_blocks(text: str) -> str:
    text = text.lstrip()
    while text.startswith(_OPEN) and _CLOSE in text:
        text = text.partition(_CLOSE)[2].lstrip()
    return text


def without_reasoning(text: str) -> str:
    """Return a whole answer without the reasoning that it begins with."""
    answer = Answer()
    return answer.feed(text) + answer.rest()
