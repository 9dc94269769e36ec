"""Where the chunks of long documents stand in their texts, so that a text is cut once.

Touches nothing. Kept in memory by the fingerprint of what was cut; numbers, no texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.document import CHUNK_CHARS, Document

MOST_CHUNKS = 200_000  # of all documents together: some 20 MB

Span = tuple[int, int]


class Cuts:
    """Cuts documents. May be called from any thread."""

    def __init__(self, most_chunks: int = MOST_CHUNKS) -> None:
        self._most_chunks = most_chunks
        self._known: dict[str, Sequence[Span]] = {}
        self._chunks = 0

    def of(self, document: Document, fingerprint: str) -> list[str]:
        """Return the chunks of a document as `Document.passages` does."""
        if len(document.text) <= CHUNK_CHARS:
            return document.passages()
        spans = self._known.get(fingerprint)
        if spans is None:
            spans = _spans(document)
            if self._chunks + len(spans) > self._most_chunks:
                self._known, self._chunks = {}, 0
            self._known[fingerprint] = spans
            self._chunks += len(spans)
        return [document.text[start:end] for start, end in spans]


def _spans(document: Document) -> list[Span]:
    """Return where a text says what each chunk says: none begins before the one in front of it."""
    spans: list[Span] = []
    start = 0
    for passage in document.passages():
        start = document.text.index(passage, start)
        spans.append((start, start + len(passage)))
    return spans
