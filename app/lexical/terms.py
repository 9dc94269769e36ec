"""A text's terms for the lexical index: folded, stemmed, without stop words. Touches nothing.

Scripts without spaces between words are indexed by single signs and by pairs, so that a question
of one or two signs finds its text; a code (`ORD-2026-0311`) whole and by its parts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import snowballstemmer

from app.text.words import STOP, fold

# Han, kana, Hangul, Thai, Lao, Khmer, Burmese: no spaces, or particles that stick to the word.
_SIGNS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff々〆"
)
_PIECE = re.compile(
    r"(?P<code>[^\W_]+(?:[-_/.@+:][^\W_]+)+)"
    rf"|(?P<signs>[{_SIGNS}]+)"
    rf"|(?P<word>(?:(?![{_SIGNS}])[^\W_])+(?:['’](?:(?![{_SIGNS}])[^\W_])+)*)"
    r"|(?P<emoji>[\u2600-\u27bf\U0001f300-\U0001faff])"
)
_PARTS = re.compile(r"[^\W_]+")
_SIGN_RUN = re.compile(f"[{_SIGNS}]+")
_POSSESSIVE = re.compile(r"['’]s?$")
MAX_TERM_CHARS = 64

# Stop words of one language that tell something in another, mostly in English.
_TELLING = frozenset(_PARTS.findall("son die war sin pour con hat den ton met bin hier era sur"))
_STOP = (STOP - _TELLING) | frozenset(
    _PARTS.findall(
        "did does doing done having been being before after again further once here there few own "
        "same both each such only now until while during above below nor off because between "
        "through"
    )
)


def index_terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeated as often as they occur."""
    return list(_terms(text, is_query=False))


def query_terms(text: str) -> list[str]:
    """Return the terms of a question, each once."""
    return list(dict.fromkeys(_terms(text, is_query=True)))


def _terms(text: str, *, is_query: bool) -> Iterator[str]:
    for match in _PIECE.finditer(unicodedata.normalize("NFKC", text)):
        piece = match[0]
        if match.lastgroup == "code":
            yield from _code(piece, is_query=is_query)
        elif match.lastgroup == "signs":
            yield from _signs(piece, is_query=is_query)
        elif match.lastgroup == "emoji":
            yield piece
        else:
            yield from _word(piece)


def _code(piece: str, *, is_query: bool) -> Iterator[str]:
    """Yield a code without its separators, and its parts; `e-mail` is one word."""
    for run in _SIGN_RUN.findall(piece):
        yield from _signs(run, is_query=is_query)
    parts = [part for part in _PARTS.findall(piece) if not _SIGN_RUN.search(part)]
    whole = fold("".join(parts))
    if len(parts) > 1 and len(whole) <= MAX_TERM_CHARS:
        yield whole if any(map(str.isdigit, whole)) else _stem(whole)
    for part in parts:
        yield from _word(part)


def _signs(run: str, *, is_query: bool) -> Iterator[str]:
    if not is_query or len(run) == 1:
        yield from run
    yield from (run[at : at + 2] for at in range(len(run) - 1))


def _word(piece: str) -> Iterator[str]:
    if piece == "May":  # the month; a sentence that begins with the verb is rare
        yield "may"
        return
    folded = fold(_POSSESSIVE.sub("", piece)).replace("'", "").replace("’", "")
    if folded and folded not in _STOP and len(folded) <= MAX_TERM_CHARS:
        yield _stem(folded)


_STEMMER = snowballstemmer.stemmer("porter")


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    """Cut the endings of English; what this does to another language, it does on both sides."""
    return str(_STEMMER.stemWord(word)) if word.isalpha() else word
