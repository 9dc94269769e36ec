"""The telling words of a text, in many languages. Touches nothing."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from app.text.sentences import sentences
from app.text.words import DENIES, STOP

ALIKE = 0.8  # the share of words that two sentences have in common

_TERM = re.compile(
    r"(?P<number>\d+(?:[.,:/\-]\d+)*)"
    r"|(?P<sign>[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々ー]+)"
    r"|(?P<word>[^\W\d_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+)"
)
_JOINED = re.compile(r"(?<=[^\W\d_])[-‐‑'’.](?=[^\W\d_])")
_HIRAGANA = re.compile(r"[\u3040-\u309f]")

_SUFFIXES = (  # (ending, what stays of it, shortest stem)
    ("ies", "y", 3),
    ("ied", "y", 3),
    ("ings", "", 4),
    ("ing", "", 4),
    ("ed", "", 4),
    ("es", "", 4),
    ("s", "", 3),
    ("ly", "", 4),
    ("al", "", 4),
    ("er", "", 5),
)


def names(text: str) -> set[str]:
    """Return the terms of the words written with a capital inside a sentence."""
    found: set[str] = set()
    for sentence in sentences(text):
        words = list(_TERM.finditer(_JOINED.sub("", sentence)))
        capital = [word.group() for word in words[1:] if word.group()[0].isupper()]
        found.update(term for word in capital for term in terms(word))
    return found


def without(text: str, dropped: set[str]) -> str:
    """Return the text without the words whose term is in `dropped`."""
    return _TERM.sub(lambda word: "" if set(terms(word.group())) & dropped else word.group(), text)


def terms(text: str) -> list[str]:
    """Return the telling words in order: stop words dropped, endings cut, signs in pairs."""
    found: list[str] = []
    text = _JOINED.sub("", unicodedata.normalize("NFKC", text))
    for match in _TERM.finditer(text):
        piece = match.group().casefold()
        if match.lastgroup == "number":
            found.append(piece.replace(",", ""))
        elif match.lastgroup == "sign":
            found += [pair for pair in _pairs(piece) if pair not in STOP]
        elif piece not in STOP:
            found.append(_stem(piece))
    return found


def _pairs(run: str) -> list[str]:
    # Pairs with hiragana are grammar; without a space between words, they are all the noise.
    pairs = [run[at : at + 2] for at in range(len(run) - 1)] or [run]
    return [pair for pair in pairs if not _HIRAGANA.search(pair)]


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    for ending, rest, shortest in _SUFFIXES:
        if word.endswith(ending) and len(word) - len(ending) >= shortest:
            word = word.removesuffix(ending) + rest
            break
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


class Kept:
    """Sentences of which no two say the same in nearly the same words.

    Another number, or a "not", makes another statement of the same words.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[frozenset[str], frozenset[str], bool]] = []

    def add(self, sentence: str) -> bool:
        """Take a sentence in; False where one like it is there already."""
        words = frozenset(terms(sentence)) or frozenset({sentence.strip().casefold()})
        figures = frozenset(word for word in words if word[0].isdigit())
        denies = DENIES.search(sentence) is not None
        if any(
            figures == old_figures and denies == old_denies and _overlap(words, old) >= ALIKE
            for old, old_figures, old_denies in self._seen
        ):
            return False
        self._seen.append((words, figures, denies))
        return True


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)
