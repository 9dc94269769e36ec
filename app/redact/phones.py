"""Telephone numbers: where one may stand, the library says whether it is one. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

_CANDIDATE = re.compile(r"(?<!\w)(?<![0-9]\.)(?:\+|\()?[0-9](?:[ ()./-]{0,3}[0-9]){5,}+")
_WORD = re.compile(r"\w")
_EXTENSION = re.compile(r"[ ,;]{0,2}(?:ext(?:ension)?\.?|x|#|durchwahl)[ .:]{0,2}[0-9]{1,7}", re.I)
_DATE = re.compile(
    r"[12][0-9]{3}[-/.][01]?[0-9][-/.][0-3]?[0-9]|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{4}"
)
_NORTH_AMERICAN = re.compile(
    r"(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}"
)
_WORDS = re.compile(
    r"call|phone|\btel\b|\bfon\b|mobil|\bcell\b|\bfax|\bruf|handy|whatsapp|\bsms\b|text me|\bdial"
    r"|reach|durchwahl|nummer|my number|teléfono|móvil|llám|télé|appel|portable|telefoon|\bbel\b",
    re.IGNORECASE,
)
_OTHER_NUMBER = re.compile(
    r"order|invoice|\bpart\b|ticket|sku|tracking|isbn|\bid\b|article|item|serial|account|konto"
    r"|rechnung|bestell|kunden|customer|auftrag|vorgang|case|reference|\bref\b|commande|pedido",
    re.IGNORECASE,
)
WORDS_BEFORE = 30  # characters in which a word tells what a number is


def find_phones(text: str, region: str) -> Iterator[Span]:
    """Return where telephone numbers stand. region: of those without a country."""
    for match in _CANDIDATE.finditer(text):
        found = match[0]
        digits = sum(map(str.isdigit, found))
        if not 7 <= digits <= 30 or _DATE.search(found) or _WORD.match(text, match.end()):
            continue
        if found.startswith("+") or _may_be_national(text, match, region):
            yield from _numbers(text, match, region)


def _may_be_national(text: str, match: re.Match[str], region: str) -> bool:
    """Say whether digits without a country are written or named as a telephone number."""
    before = text[max(0, match.start() - WORDS_BEFORE) : match.start()]
    words = list(_WORDS.finditer(before))
    others = list(_OTHER_NUMBER.finditer(before))
    if words and (not others or words[-1].start() > others[-1].start()):
        return True
    if others:
        return False
    if match[0].startswith("00"):
        return True
    return region in ("US", "CA") and _NORTH_AMERICAN.fullmatch(match[0]) is not None


def _numbers(text: str, match: re.Match[str], region: str) -> Iterator[Span]:
    from phonenumbers import Leniency, PhoneNumberMatcher  # slow to load, seldom needed

    start = match.start()
    extension = _EXTENSION.match(text, match.end())
    end = match.end() if extension is None else extension.end()
    window, offset = text[start:end], start
    if window.startswith("00"):
        window, offset = "+" + window[2:], start + 1
    for found in PhoneNumberMatcher(window, region, leniency=Leniency.VALID, max_tries=5):
        begin = max(start, offset + found.start)
        if begin < match.end():
            yield begin if found.start else start, offset + found.end
