"""A text's terms for the lexical index: folded, stemmed, without stop words. Touches nothing.

Scripts without spaces between words are indexed by single signs and by pairs, so that a question
of one or two signs finds its text; a code (`ORD-2026-0311`) whole and by its parts; a number
without the separators of its thousands.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import snowballstemmer

from app.lexical.scripts import (
    LETTER,
    SIGNS,
    asked_signs,
    folded,
    pointless,
    signs_and_pairs,
    spelled_out,
)
from app.text.words import STOP

VERSION = 1  # moves with the terms: a store that has others is indexed anew
MAX_TERM_CHARS = 64

_PLAIN = f"(?:(?![{SIGNS}]){LETTER})"
_PIECE = re.compile(
    r"(?P<number>(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d+[.,]\d+)"
    r"(?![^\W_]*\d)(?![^\W\d_]*[-_/.,@+:&]\w))"
    r"|(?P<symbol>(?<![^\W_])[A-Za-z](?:\+\+|\#)(?![^\W_]))"
    rf"|(?P<code>{LETTER}+(?:[-_/.@+:&]{LETTER}+)+)"
    rf"|(?P<signs>[{SIGNS}]+)"
    rf"|(?P<word>{_PLAIN}+(?:['’]{_PLAIN}+)*)"
    r"|(?P<emoji>[\u2600-\u27bf\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
    r"|[\U0001f1e6-\U0001f1ff]{2})"
)
_PART = re.compile(f"{LETTER}+")
_SIGN_RUN = re.compile(f"[{SIGNS}]+")
_GROUPED = re.compile("(?<=\\d)[\u00a0\u2009\u202f'’](?=\\d{3}(?!\\d))")
_POSSESSIVE = re.compile(r"['’]s?$", re.IGNORECASE)
_ELIDED = re.compile(r"^(?:[cdjlmnst]|qu|all|dell|nell|dall|sull|un)['’]", re.IGNORECASE)

# The month is told from the verb by its capital, unless someone may do something, and by what
# stands beside it where there are no capitals.
_MAY_I = re.compile(r"\bMay(?=\s+(?:I|you|we|he|she|they|it|one|the|be)\b)")
_IN_MAY = re.compile(
    r"\b(in|by|of|since|until|till|from|last|next|this|early|mid|late|before|after|during|every"
    r"|\d{1,2}(?:st|nd|rd|th)?\.?)([\s-]+)may\b"
)
_SENTENCE = re.compile(r"(?:^|[.!?:]\s)[\W_]*$")  # what stands before a sentence's first word
_NEAR = 20  # so far back is looked for it
_YEAR = re.compile(r"(?:19|20)\d\d")
_MAY_2026 = re.compile(r"\bmay(?=\s+\d)")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Stop words of one language that tell something in another, mostly in English: in a question they
# count, unless one of the others shows that it is asked in theirs.
_TELLING = _set("son die war sin pour con hat den ton met bin hier era sur")
_GERMAN = _set(
    "der das dem des ein eine einen einem einer und oder ist sind nicht wie wer wen wem wann "
    "wo warum welche welcher welches fur ich wir ihr"
)
_ELSEWHERE = _GERMAN | _set(
    "le les est que qui quoi quand des une et dans avec ou il elle nous vous je el los las es "
    "y cual cuando donde como quien una del por para il gli di che chi quale quando perche "
    "per sono os um uma em na com quem het een van mit wat welke wie wanneer waar hoe niet "
    "zijn"
)
_STOP = frozenset(folded(word) for word in STOP - _TELLING) | _set(
    "did does doing done having been being before after again further once here there few own "
    "same both each such only now until while during above below nor off because between "
    "through"
)


def index_terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeated as often as they occur."""
    return list(_terms(text, is_query=False))


def word_terms(word: str) -> list[str]:
    """Return the same of one word in lower case."""
    if word.isascii() and word.isalpha():
        return [] if word in _STOP else [_stem(word)[:MAX_TERM_CHARS]]
    return index_terms(word)


def query_terms(text: str) -> list[str]:
    """Return the terms of a question, each once."""
    found = dict.fromkeys(_terms(text, is_query=True))
    if _has(text, _ELSEWHERE):
        found = {term: None for term in found if term not in _TELLING}
    return list(found)


def code_terms(text: str) -> frozenset[str]:
    """Return the terms of a question that can only name one thing: codes, long numbers."""
    return frozenset(
        term
        for match in _PIECE.finditer(_read(text))
        if sum(map(str.isdigit, match[0])) >= 3 or "@" in match[0]
        for term in _of(match.lastgroup or "", match[0], is_query=True)
        if len(term) >= 3
        and not _YEAR.fullmatch(term)
        and ("@" in match[0] or any(map(str.isdigit, term)))
    )


def name_terms(text: str) -> frozenset[str]:
    """Return the terms of a question that are written as names are: capitals inside a sentence."""
    if text.isupper() or _has(text, _GERMAN):  # there, every word and every noun has one
        return frozenset()
    read = _read(text)
    return frozenset(
        term
        for match in _PIECE.finditer(read)
        if match.lastgroup in ("word", "code")
        and match[0][0].isupper()
        and not _SENTENCE.search(read, max(0, match.start() - _NEAR), match.start())
        for term in _of(match.lastgroup, match[0], is_query=True)
        if len(term) >= 3 and not any(map(str.isdigit, term))
    )


def _has(text: str, words: frozenset[str]) -> bool:
    if text.isascii():
        return not words.isdisjoint(_PART.findall(text.lower()))
    return any(folded(word) in words for word in _PART.findall(text))


def _read(text: str) -> str:
    """Return a text in one spelling: widths, points, groups of digits, the month of May."""
    if not text.isascii() or "'" in text:
        text = _GROUPED.sub("", text)
        text = pointless(unicodedata.normalize("NFKC", text))
    if "ay" in text:
        text = _IN_MAY.sub(r"\1\2May", _MAY_I.sub("may", text))
        text = _MAY_2026.sub("May", text)
    return text


def _terms(text: str, *, is_query: bool) -> Iterator[str]:
    for match in _PIECE.finditer(_read(text)):
        yield from _of(match.lastgroup or "", match[0], is_query=is_query)


def lookups() -> tuple[int, int]:
    """Return how many words' terms were known already, and how many were not."""
    known = _of.cache_info()
    return known.hits, known.misses


@lru_cache(maxsize=65_536)
def _of(kind: str, piece: str, *, is_query: bool) -> tuple[str, ...]:
    """Return the terms of a piece of a text; most pieces come again."""
    match kind:
        case "number":
            found = _number(piece, is_query=is_query)
        case "code":
            found = _code(piece, is_query=is_query)
        case "signs":
            found = _signs(piece, is_query=is_query)
        case "word":
            found = _word(piece, is_query=is_query)
        case _:
            return (piece.lower(),)
    return tuple(term[:MAX_TERM_CHARS] for term in found)


def _number(piece: str, *, is_query: bool) -> Iterator[str]:
    """Yield `1200.5` for `1,200.50` and `1.200,50`; a text is found by the whole part as well."""
    whole, mark, rest = piece.rpartition("." if piece.rfind(".") > piece.rfind(",") else ",")
    is_mixed = "." in whole or "," in whole
    whole = whole.replace(",", "").replace(".", "")
    if len(rest) == 3 and (mark == "," or len(whole) <= 3) and not (is_mixed and mark == "."):
        yield whole + rest
        if mark == ",":
            return
    rest = rest.rstrip("0")
    yield f"{whole}.{rest}" if rest else whole
    if rest and not is_query:
        yield whole


def _code(piece: str, *, is_query: bool) -> Iterator[str]:
    """Yield a code without its separators, and its parts; `e-mail` is one word."""
    for run in _SIGN_RUN.findall(piece):
        yield from _signs(run, is_query=is_query)
    parts = [part for part in _PART.findall(piece) if not _SIGN_RUN.search(part)]
    if len(parts) > 1:
        yield _whole(parts)
    sides = piece.split("@")
    if len(sides) > 1 and not is_query:  # who and where of an address
        for side in sides:
            if len(_PART.findall(side)) > 1:
                yield _whole(_PART.findall(side))
    for part in parts:
        yield from _word(part, is_query=is_query)


def _whole(parts: list[str]) -> str:
    joined = folded("".join(parts))
    return joined if any(map(str.isdigit, joined)) else _stem(joined)


def _signs(run: str, *, is_query: bool) -> Iterator[str]:
    found = asked_signs(run) if is_query else signs_and_pairs(run)
    yield from (term for term in found if term not in _STOP)


def _word(piece: str, *, is_query: bool) -> Iterator[str]:
    if piece in ("May", "MAY"):
        yield "may"
        return
    if "'" in piece or "’" in piece:
        piece = _POSSESSIVE.sub("", piece)
        kept = _ELIDED.sub("", piece)
        if kept != piece and not is_query:
            yield from _word(kept, is_query=False)
        elif kept != piece:
            piece = kept
        piece = piece.replace("'", "").replace("’", "")
    plain = folded(piece)
    if not plain or plain in _STOP:
        return
    yield _stem(plain)
    if not is_query and not piece.isascii() and (other := spelled_out(piece)):
        yield _stem(other)


_STEMMER = snowballstemmer.stemmer("porter")
_ONE_AT_A_TIME = threading.Lock()  # the stemmer keeps the word it is at in itself


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    """Cut the endings of English; what this does to another language, it does on both sides."""
    if not word.isalpha():
        return word
    with _ONE_AT_A_TIME:
        return str(_STEMMER.stemWord(word))
