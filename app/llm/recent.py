"""The vectors of the texts embedded last. Touches nothing.

A message is searched with, compared and later stored: so it is embedded, and paid for, once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]

TEXTS = 2_000
CHARS = 1_000  # longer texts are chunks of documents, which hardly come again


class RecentRows:
    """Text -> unit vector, the least lately used forgotten first. Safe across threads."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Row] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, texts: Iterable[str]) -> dict[str, Row]:
        """Return the rows of the texts that are remembered."""
        with self._lock:
            found = {text: self._rows[text] for text in texts if text in self._rows}
            for text in found:
                self._rows.move_to_end(text)
            return found

    def keep(self, texts: Sequence[str], rows: Iterable[Row]) -> None:
        with self._lock:
            for text, row in zip(texts, rows, strict=True):
                if len(text) <= CHARS:
                    self._rows[text] = row
            while len(self._rows) > TEXTS:
                self._rows.popitem(last=False)
