"""Names of entities, found in texts. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from app.text.words import fold

T = TypeVar("T")

_WORD = re.compile(r"[^\W_]+")
_SIGNS = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
MIN_SIGNS = 2  # of a name in a script without spaces: one sign stands within many words


def name_key(name: str) -> str:
    """Return a name's normal form."""
    return " ".join(_WORD.findall(fold(name))) or fold(" ".join(name.split()))


class Names(Generic[T]):
    """Finds names as whole words; in a script without spaces, wherever they stand."""

    def __init__(self, named: Mapping[str, T]) -> None:
        """named: normal form -> what it names."""
        self._named = named
        self._most_words = max((key.count(" ") + 1 for key in named), default=0)
        self._signs = [key for key in named if _SIGNS.search(key) and len(key) >= MIN_SIGNS]

    def within(self, text: str) -> list[T]:
        """Return what a text names, each once; of names within each other, the longest."""
        found = [*self._spaced(_WORD.findall(fold(text))), *self._unspaced(fold(text))]
        return list({id(what): what for what in found}.values())

    def _spaced(self, words: list[str]) -> Iterator[T]:
        at = 0
        while at < len(words):
            for length in range(min(self._most_words, len(words) - at), 0, -1):
                what = self._named.get(" ".join(words[at : at + length]))
                if what is not None:
                    yield what
                    at += length
                    break
            else:
                at += 1

    def _unspaced(self, text: str) -> Iterable[T]:
        return (self._named[key] for key in self._signs if key in text)
