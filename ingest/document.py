"""One natural-language text with metadata, a deterministic id, and chunks. Touches nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Scalar = str | int | float | bool
Metadata = Mapping[str, Scalar | list[str]]

# The doc_type of what is told of a whole table: each paragraph answers a question of its own.
TABLE_SUMMARY = "table_summary"
CHUNK_CHARS = 1_000
CHUNK_OVERLAP_CHARS = 150


@dataclass(frozen=True, slots=True)
class Document:
    """`id` is stable for the same thing from the same `source`; `metadata` has no nulls."""

    id: str
    text: str
    source: str
    doc_type: str = "document"
    metadata: Metadata = field(default_factory=dict)

    def fingerprint(self) -> str:
        """Return a hash of all that is stored: equal fingerprints cost no embedding."""
        whole = [self.text, self.source, self.doc_type, dict(self.metadata)]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def passages(self) -> list[str]:
        """Return what is embedded and found: chunks, in a summary none across two paragraphs."""
        if self.doc_type != TABLE_SUMMARY:
            return chunks(self.text)
        return [piece for paragraph in self.text.split("\n\n") for piece in chunks(paragraph)]


def stable_id(source: str, *parts: str) -> str:
    """Return a deterministic ASCII id for something that `source` names by `parts`.

    Hashed as a JSON list, so that no character within a part can move the border between two.
    """
    return hashlib.sha256(json.dumps([source, *parts]).encode()).hexdigest()[:32]


def chunks(text: str, *, size: int = CHUNK_CHARS, overlap: int = CHUNK_OVERLAP_CHARS) -> list[str]:
    """Cut a text at paragraph, line, sentence or word ends into pieces of up to `size` characters.

    Neighbours share up to `overlap` characters, so that what stands at a border keeps some context;
    an overlap above a quarter of `size` is taken as that quarter. A word is cut only where it is
    longer than half a piece. A text that fits is returned as it is, without outer white space.
    Raises ValueError for a size below 1 or an overlap below 0.
    """
    if size < 1 or overlap < 0:
        raise ValueError(
            f"size must be at least 1 and overlap at least 0, got {size} and {overlap}"
        )
    text = text.strip()
    overlap = min(overlap, size // 4)
    pieces: list[str] = []
    start = 0
    while len(text) - start > size:
        end = _good_end(text, start, start + size)
        pieces.append(text[start:end].strip())
        start = _good_start(text, end - overlap, end)
    pieces.append(text[start:].strip())
    return [piece for piece in pieces if piece]


_ENDS = ("\n\n", "\n", "。", "！", "？", ". ", "! ", "? ", "; ", " ")
_SPACE = re.compile(r"\s")


def _good_end(text: str, start: int, limit: int) -> int:
    # The second half only, so that every piece moves on by more than the overlap.
    floor = start + (limit - start) // 2
    for mark in _ENDS:
        # White space at the very end may lie outside: it is stripped from the piece.
        at = text.rfind(mark, floor, limit + mark[-1].isspace())
        if at != -1:
            return at + len(mark)
    for at in range(limit, floor, -1):
        if text[at].isspace():
            return at
    return limit


def _good_start(text: str, earliest: int, end: int) -> int:
    """Return where in [earliest, end] to go on: at a word's start, unless `end` cut a word."""
    space = _SPACE.search(text, earliest, end)
    if space is not None:
        return space.end()
    mid_word = end < len(text) and not text[end].isspace() and not text[end - 1].isspace()
    return earliest if mid_word else end
