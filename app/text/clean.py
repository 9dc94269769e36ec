"""Text that every store and every client can take. Touches nothing.

Postgres takes no NUL, and UTF-8 no half of a surrogate pair; a model's reply may hold either.
"""

from __future__ import annotations


def clean(text: str) -> str:
    """Return the text without NUL, its surrogate pairs joined, and U+FFFD for a lone one."""
    text = text.replace("\x00", "")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Pieces:
    """`clean` for a text that comes in pieces: a pair may be split over two of them."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Return what is certain after this piece; "" for none."""
        text, self._half = self._half + piece.replace("\x00", ""), ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean(text)

    def rest(self) -> str:
        """Return what was held back when the text ended."""
        half, self._half = self._half, ""
        return clean(half)
