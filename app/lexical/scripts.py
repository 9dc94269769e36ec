"""What the lexical index makes of scripts other than Latin, and of its special letters.

Touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.text.words import fold

# Han, kana, Hangul, Thai, Lao, Khmer, Burmese: no spaces, or particles that stick to the word.
SIGNS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f々〆"
)
# A letter or digit; Python's \w leaves out the vowels of Hindi, which stand behind theirs.
LETTER = "(?:[^\\W_]|[\u0900-\u0963\u0966-\u0dff])"

_HIRAGANA = re.compile("[\u3041-\u309f]+")
# Vowel points and the stroke that stretches a word: written or not, it is the same word.
_POINTS = re.compile("[\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]")
_ARTICLE = re.compile("^(?:وال|بال|كال|فال|لل|ال)(?=[\u0620-\u064a]{3})")
_ARABIC = str.maketrans({"ى": "ي", "ة": "ه"})
_WITHOUT_PARTS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
)
_UMLAUT = re.compile("[äöü]")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def pointless(text: str) -> str:
    """Return the text without Arabic and Hebrew vowel points."""
    return text if text.isascii() else _POINTS.sub("", text)


def folded(word: str) -> str:
    """Return a word in the form in which it is looked up, its ending apart."""
    if word.isascii():
        return word.lower()
    plain = fold(word).translate(_WITHOUT_PARTS).translate(_ARABIC)
    return _ARTICLE.sub("", plain)


def spelled_out(word: str) -> str | None:
    """Return a word with umlauts as it is written without: `Mueller` for `Müller`."""
    lower = word.lower()
    return folded(lower.translate(_UMLAUTS)) if _UMLAUT.search(lower) else None


def signs_and_pairs(run: str) -> Iterator[str]:
    """Yield what a text's run of signs is found by."""
    yield from run
    yield from _pairs(run)


def asked_signs(run: str) -> Iterator[str]:
    """Yield what a question's run of signs asks for: pairs, or one that stands alone.

    Hiragana between other signs is grammar.
    """
    told = [part for part in _HIRAGANA.split(run) if part]
    for part in told or [run]:
        yield from _pairs(part) if len(part) > 1 else part


def _pairs(run: str) -> Iterator[str]:
    yield from (run[at : at + 2] for at in range(len(run) - 1))
