"""Numbers, dates, times, addresses and words of a text, in any usual spelling. Touches nothing.

`scan` reads a text once, with one pattern whose parts are bounded, so that it is linear; the other
functions say what a token may mean. Where a spelling is ambiguous (10/11/2026, 2:30), they return
every reading, and two texts agree if one reading is common to both.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import date
from functools import cache
from typing import NamedTuple

from app.memory import vocabulary as w
from app.text.words import MONTH_NAMES, MONTH_WORDS, MONTHS, fold

NO_CAPITALS = "\u0590-\u06ff\u0900-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_JOINED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # written without spaces
_L = rf"[^\W\d_{_JOINED}]"
_END = rf"(?!{_L})"


def _any(names: Iterable[str]) -> str:
    spelt = {name for word in names for name in (word, fold(word))}
    return "(?:" + "|".join(re.escape(n) for n in sorted(spelt, key=lambda n: (-len(n), n))) + ")"


_MONTH = rf"(?<!{_L}){_any(MONTH_WORDS)}{_END}\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|o|a|\.)?(?!\d)"
_OF = r"(?:,?\s?(?:(?:de|del|di|do|of)\s)?)"
_TO = r"\s?(?:-|–|—|to|bis|au|al|a|до)\s?"
_AND = r"\s?(?:-|–|—|&|to|and|bis|und|au|et|al|y|e|a|и|до)\s?"
_YEAR = rf"(?:{_OF}\d{{4}}(?!\d))"
_HALF_DAY = rf"(?:[ap]\.?m{_END}\.?|uhr{_END})"
_LONG_SCALES = _any(name for name in w.SCALES if name not in "kmb")
_BOTH = rf"(?<=the )two{_END}"  # the speakers, or what was named before
_NUMBER_WORD = _any(w.NUMBER_WORDS)

_DIGIT = "〇零一二三四五六七八九"
_HAN_UNITS = {"十": 10, "百": 100, "千": 1_000, "万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8}
_HAN_NUMBER = re.compile(
    "(?!十分|一[^月〇一-九十百千万萬億亿])"
    "(?:[〇零一二三四五六七八九两兩十][〇零一二三四五六七八九十百千万萬億亿]{0,15}"
    "(?=[年月日号號人个個名件回次時时間分歳岁週周天台本枚円元美%点點位つ])"
    "|[一二三四五六七八九两兩][十百千万萬億亿][〇零一二三四五六七八九十百千万萬億亿]{0,15}"
    "|十[一二三四五六七八九])"
)

_DIGITS = re.compile(r"\d+")
_UNSAID = re.compile(r"[®™©\u200b-\u200f\u2060\ufeff]|(?<![０-９])，")
_MARKS = str.maketrans("’ʼ٫٬⁄−", "''.,/-")


def lower(text: str) -> str:
    """Return the text in lower case, at the same length: much faster to search than IGNORECASE."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower()[0] for c in text)


@cache
def _token() -> re.Pattern[str]:
    """Return the pattern of a token; compiled on first use, for that takes a tenth of a second."""
    return re.compile(
        "|".join(
            f"(?P<{kind}>{pattern})"
            for kind, pattern in {
                "url": r"(?:https?://|www\.)[\w.~:/?#\[\]@!$&()*+,;=%-]+"
                r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"
                r"|(?:[a-z0-9-]{1,63}\.){1,4}"
                r"(?:com|org|net|io|ai|dev|app|eu|de|fr|es|uk|info)\b(?:/[\w./?=&%-]*)?",
                "iso": r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)(?:t(?=\d))?",
                "dmy": r"\d{1,2}(?:(?:/\d{1,2}/|-\d{1,2}-|\.\s?\d{1,2}\.\s?)(?:\d{4}|\d\d)(?!\d)"
                r"|\.\d{1,2}\.(?=\s|$))",
                "east": r"(?:\d{4}\s?[年년]\s?)?\d{1,2}\s?[月월](?:\s?\d{1,2}\s?[日号號일])?"
                r"|\d{4}[年년]",
                "day": rf"(?:{_DAY}{_AND})?{_DAY}{_OF}{_MONTH}{_YEAR}?"
                rf"|{_MONTH}\s{{0,2}}(?:the\s)?{_DAY}(?:{_TO}{_DAY})?(?!:|[.,]?\d){_YEAR}?"
                rf"|{_MONTH}{_YEAR}",
                "month": rf"(?<!{_L}){_any(MONTH_NAMES)}{_END}",
                "weekday": rf"(?<!{_L}){_any(w.WEEKDAY_WORDS)}s?{_END}",
                "clock": rf"\d{{1,2}}[:h]\d\d(?!\d)(?::\d\d)?(?:\s?{_HALF_DAY})?"
                rf"|\d{{1,2}}(?:\.\d\d)?\s?(?:{_HALF_DAY}|h{_END})",
                "pair": r"\d{1,2}/\d{1,2}(?![\d/])",
                "code": rf"{_L}+(?:[-_/]{_L}+){{0,3}}[-_/.\#]?\d\w*(?:[-_./\#]\w+)*"
                rf"|\d+{_L}+\d\w*(?:[-_./\#]\w+)*",
                "number": rf"(?:\d{{1,3}}(?:[ ']\d{{3}})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,]\d+)*)"
                rf"(?:[kmb]{_END}|[\s-]?{_LONG_SCALES}{_END}|(?:st|nd|rd|th){_END}|[日号號])?",
                # `the two` are the speakers, or what was named before.
                "counted": rf"(?<!{_L})(?!{_BOTH}){_NUMBER_WORD}"
                rf"(?:(?:\s|-|\sand\s){_NUMBER_WORD}){{0,7}}{_END}",
                "word": rf"{_L}+(?:'{_L}+)*",
            }.items()
        )
    )


class Token(NamedTuple):
    kind: str  # url iso dmy east day month weekday clock pair code number counted word
    text: str
    start: int
    end: int


def scan(text: str) -> Iterator[Token]:
    """Yield the tokens of a text that went through `plain`, from left to right."""
    for match in _token().finditer(lower(text)):
        start, end = match.span()
        yield Token(match.lastgroup or "", text[start:end], start, end)


def plain(text: str) -> str:
    """Bring all numerals (full-width, Arabic-Indic, simple Han) and quotes to one form."""
    if text.isascii():
        return text
    text = _UNSAID.sub(" ", text)
    text = unicodedata.normalize("NFKC", text)
    text = text.translate(_MARKS)
    if text.isascii():
        return text
    text = re.sub(r"(?![0-9])\d", lambda m: str(unicodedata.decimal(m[0])), text)
    return _HAN_NUMBER.sub(lambda m: str(_han_value(m[0])), text)


def _han_value(numeral: str) -> int:
    total = section = digit = 0
    for char in numeral:
        unit = _HAN_UNITS.get(char)
        if unit is None:
            digit = digit * 10 + (2 if char in "两兩" else max(_DIGIT.index(char) - 1, 0))
        elif unit < 10_000:
            section, digit = section + (digit or 1) * unit, 0
        else:
            total, section, digit = total + (section + digit or 1) * unit, 0, 0
    return total + section + digit


class Day(NamedTuple):
    """A date, or a part of one: 0 stands for what it does not say."""

    year: int
    month: int
    day: int

    def parts(self) -> set[Day]:
        year, month, day = self
        return {Day(*part) for part in [(year, month, day), (year, month, 0), (0, month, day)]} | {
            Day(year, 0, 0),
            Day(0, month, 0),
        }

    def whole(self) -> date | None:
        try:
            return date(*self)
        except ValueError:
            return None


def days(kind: str, text: str) -> list[list[Day]]:
    """Return the readings of a date token; a reading is one day, or the two ends of a range."""
    found = [int(n) for n in _DIGITS.findall(text)]
    if kind == "iso":
        readings = [[Day(*found)]]
    elif kind == "east":
        year = found.pop(0) if found[0] > 31 else 0
        readings = [[Day(year, *[*found, 0, 0][:2])]]
    elif kind in {"dmy", "pair"}:
        a, b, year = [*found, 0][:3]
        year += 2000 if 0 < year < 100 else 0
        readings = [[Day(year, b, a)], [Day(year, a, b)]]
    else:
        name = re.search(_MONTH, text, re.IGNORECASE)
        month = MONTHS.get(fold(name[0].rstrip(".")), 0) if name else 0
        year = found.pop() if found and found[-1] > 31 else 0
        readings = [[Day(year, month, day) for day in found or [0]]]
    return [days for days in readings if all(d.month <= 12 and d.day <= 31 for d in days)]


def minutes(text: str) -> set[int]:
    """Return the minutes of the day that a time may mean; without am or pm it may be either."""
    hour, minute = [*(int(n) for n in re.findall(r"\d+", text)), 0][:2]
    half = re.search(r"([ap])\.?m", text, re.IGNORECASE)
    if half:
        return {(hour % 12 + (12 if half[1] in "pP" else 0)) * 60 + minute}
    return {hour * 60 + minute} | ({(hour + 12) % 24 * 60 + minute} if hour <= 12 else set())


def values(text: str) -> set[str]:
    """Return the canonical decimals that a number may mean: `1.5M` and `1,500,000` are `1500000`.

    A point or comma before three digits groups them, unless a scale follows; empty for `1.2.3`.
    """
    figure, unit = re.findall(r"^([\d.,' ]*\d)(.*)$", text, re.DOTALL)[0]
    raw = re.sub(r"[ ']", "", figure)
    unit = fold(unit.strip(" -"))
    power = w.SCALES.get(unit, 0)
    marks, groups = re.findall(r"[.,]", raw), re.split(r"[.,]", raw)
    grouped = canonical("".join(groups), power=power)
    decimal = canonical("".join(groups[:-1]), groups[-1], power=power)
    thousands = (
        re.fullmatch(r"[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}", raw)
        is not None
    )
    if not marks or thousands:
        found = {grouped, decimal} if power and len(marks) == 1 else {grouped}
    elif marks.count(marks[-1]) == 1:
        found = {decimal}
    else:
        found = set()
    return found | (values(figure) if unit == "m" else set())


def canonical(whole: str, fraction: str = "", *, power: int = 0) -> str:
    """Return `whole.fraction` times ten to the power, exact, without needless zeros."""
    fraction = fraction.ljust(power, "0")
    whole = (whole + fraction[:power]).lstrip("0") or "0"
    fraction = fraction[power:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def count(text: str) -> int:
    """Return the value of English number words: `one hundred and twenty thousand`, `third`."""
    total = current = 0
    for word in re.findall(rf"{_L}+", text):
        value = w.NUMBER_WORDS.get(fold(word), 0)
        if value >= 1_000:
            total, current = total + max(current, 1) * value, 0
        elif value == 100 or word.casefold() == "dozen":
            current = max(current, 1) * value
        else:
            current += value
    return total + current


def enumerated(text: str) -> list[int]:
    """Return the single values of number words in a row (`two three`); none where they multiply."""
    values = [count(word) for word in text.split()]
    return values if all(0 < value < 100 for value in values) else []
