"""What is told of a text, remembered where the same text comes again. Touches nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

REMEMBERED = 16_384  # texts; a few megabytes
REMEMBERED_CHARS = 8_000  # of a text: longer ones hardly come again


def remembering(tell: Callable[[str], T]) -> Callable[[str], T]:
    """Return what tells the same of a text, and works it out once. From any thread.

    It keeps a digest of a text under a key of this process, and never the text: what users said may
    be erased meanwhile.
    """
    known: dict[bytes, T] = {}
    secret = secrets.token_bytes(32)

    def remembered(text: str) -> T:
        if len(text) > REMEMBERED_CHARS:
            return tell(text)
        key = blake2b(text.encode(errors="surrogatepass"), digest_size=16, key=secret).digest()
        told = known.get(key)
        if told is None:
            if len(known) >= REMEMBERED:
                known.clear()
            told = known[key] = tell(text)
        return told

    return remembered
