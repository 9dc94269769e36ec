"""The vectors of the texts embedded last. Touches nothing.

A message is searched with, compared and later stored: so it is embedded, and paid for, once.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]

TEXTS = 2_000


class RecentRows:
    """Text -> unit vector, the least lately used forgotten first. Safe across threads.

    hits, misses: the texts that were found, and those that were not.
    """

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, Row] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def find(self, texts: Iterable[str]) -> dict[str, Row]:
        """Return the rows of the texts that are remembered."""
        keys = {text: _key(text) for text in texts}
        with self._lock:
            found = {text: self._rows[key] for text, key in keys.items() if key in self._rows}
            for text in found:
                self._rows.move_to_end(keys[text])
            self.hits += len(found)
            self.misses += len(keys) - len(found)
        return found

    def keep(self, texts: Sequence[str], rows: Iterable[Row]) -> None:
        # A copy, for a row of a batch would keep the whole batch alive.
        kept = {_key(text): row.copy() for text, row in zip(texts, rows, strict=True)}
        with self._lock:
            self._rows.update(kept)
            while len(self._rows) > TEXTS:
                self._rows.popitem(last=False)


def _key(text: str) -> bytes:
    """Return a hash, so that what is kept of a long text is no more than its row."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
