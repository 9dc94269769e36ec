"""The time that a question speaks of ("last week", "in March", 先週) as a range. Touches nothing.

What `app.memory.when` reads as a moment is here the whole day, week, month or year that it names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.memory import calendar_words as c
from app.memory import vocabulary as w
from app.memory.figures import days, plain, scan
from app.memory.source import DATES, weekday_of
from app.memory.when import resolve
from app.text.words import fold

MOST_CHARS = 240

_WORDS = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_YEAR = re.compile(
    r"\b(?:in|im jahr|en|nel|em|since|seit|depuis|desde|в) ((?:19|20)\d\d)\b(?![-/.]\d)"
)
_OPEN = re.compile(
    r"\b(?:since|seit|depuis|desde|dal|sinds|с)(?: the| le| la| el| il| dem| der| den)?\W*$"
)
_CLOSED = re.compile(
    r"\b(?:before|vor|avant|antes de|prima di|antes da|vóór|voor|до)(?: the| le| la| el)?\W*$"
)
_UNTIL = re.compile(
    r"\b(?:until|till|through|up to|bis|jusqu'(?:a|au|en)|hasta|fino ad?|ate|tot)"
    r"(?: the| zu[mr]?| la| le| l'| el| il)?\W*$"
)
_FROM_ITS_END = re.compile(
    r"\b(?:after|nach|apres|despues de|dopo|depois de|после)"
    r"(?: the| dem| der| la| le| el| il)?\W*$"
)
_BETWEEN = re.compile(
    r"\b(?:between|zwischen|entre|tra|fra|tussen|между)(?: the| dem| le| el)?\W*$"
)
_FROM = re.compile(r"\b(?:from|von|vom|du|de|del|dal|dalla|van|с)(?: the| la| el)?\W*$")
_TO = re.compile(r"^\W*(?:to|until|till|through|bis|au|jusqu|al?|hasta|fino|tot|по|до)\b")
_ABOUT = re.compile(r"\b(?:about|uber|sur|sobre|over)\W*$")
_RUNNING = re.compile(r"\b(?:in|over|during|within)(?: the)?\W*$")
_MANY = (
    "weeks months years wochen monate monaten jahre jahren semaines annees semanas meses anos "
    "settimane mesi anni weken maanden jaren"
)
_PLURALS = frozenset(_MANY.split())
_THIS = c.THIS - {"dit"}  # French for "said"
_PHRASES = dict(c.PHRASES)
_SHIFTS = {**c.SHIFTS, **w.SHIFTS}
_PHRASE = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, _PHRASES))})(?!\w)")
_NUMBERS: dict[str, int] = {
    word: int(number)
    for numbers in (c.ARTICLES, w.FOREIGN_NUMBERS, w.NUMBER_WORDS)
    for word, number in numbers.items()
    if number
}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True)
class Range:
    """since <= t < until; None is open. `words`: what in the text told it."""

    since: datetime | None
    until: datetime | None
    words: str


def time_range(text: str, now: datetime) -> Range | None:
    """Return the range of past time that a text names; None where it names none we can read.

    now: in the user's zone, whose calendar counts. What lies wholly ahead is no range.
    """
    if len(text) > MOST_CHARS:
        return None
    try:
        found = _Reader(text, now).read()
    except (ValueError, OverflowError):  # a million years ago
        return None
    if found is None or (found.since is not None and found.since > now):
        return None
    return found


class _Reader:
    def __init__(self, text: str, now: datetime) -> None:
        self._text = " ".join(text.split())
        self._folded = fold(self._text)
        self._now = now
        self._zone = now.tzinfo or UTC
        self._words = list(_WORDS.finditer(self._folded))
        self._today = self._start_of("today")

    def read(self) -> Range | None:
        return (
            self._signs()
            or self._ago()
            or self._period()
            or self._day()
            or self._date()
            or self._year()
        )

    def _start_of(self, words: str) -> datetime:
        found = resolve(words, self._now, self._zone)
        if found is None:
            raise ValueError(words)
        return found

    def _range(
        self, start: datetime, unit: str, begin: int, end: int, *, is_ago: bool = False
    ) -> Range:
        """Return the unit of time that begins at `start`, or from it on, or up to it.

        is_ago: a word before it has been read already (`vor zwei Wochen`).
        """
        words, before, after = self._folded[begin:end], self._folded[:begin], self._folded[end:]
        if _BETWEEN.search(before) or (_FROM.search(before) and _TO.search(after)):
            raise ValueError("from one date to another")
        if _OPEN.search(before) or "以来" in after[:2]:
            return Range(start, None, words)
        if not is_ago and _CLOSED.search(before):
            return Range(None, start, words)
        if _UNTIL.search(before):
            return Range(None, self._after(start, unit), words)
        if not is_ago and _FROM_ITS_END.search(before):
            return Range(self._after(start, unit), None, words)
        return Range(start, self._after(start, unit), words)

    def _after(self, start: datetime, unit: str) -> datetime:
        if unit in ("month", "year"):
            month = start.month if unit == "month" else 12
            return start.replace(year=start.year + month // 12, month=month % 12 + 1, day=1)
        length = {"day": 1, "weekend": 2, "week": 7}[unit]
        return self._midnight(start + timedelta(days=length))

    def _midnight(self, moment: datetime) -> datetime:
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)

    def _around(self, day: datetime, unit: str) -> datetime:
        """Return the first day of the week, month or year that a day lies in."""
        day = self._midnight(day)
        if unit == "week":
            return day - timedelta(days=day.weekday())
        if unit == "month":
            return day.replace(day=1)
        return day.replace(month=1, day=1) if unit == "year" else day

    def _signs(self) -> Range | None:
        """Read Japanese, Chinese and Korean."""
        text = plain(self._text)
        if (found := c.SIGN_SPAN.search(text)) is not None:
            unit = c.SIGN_UNITS[found[2]]
            day = resolve(found[0], self._now, self._zone)
            if found[3] not in c.SIGNS_AGO or day is None:
                return None
            return self._range(self._around(day, unit), unit, *found.span())
        if (found := c.SIGN_PERIOD.search(text)) is not None:
            start = resolve(found[0], self._now, self._zone)
            unit = "day" if found[2] or found[3] else c.SIGN_PERIODS[found[1]][1]
            return None if start is None else self._range(start, unit, *found.span())
        if (found := c.SIGN_SHIFT.search(text)) is not None:
            start = resolve(found[0], self._now, self._zone)
            return None if start is None else self._range(start, "day", *found.span())
        return None

    def _ago(self) -> Range | None:
        """Read `two weeks ago`, and `in the last two weeks`, which ends now."""
        for at, found in enumerate(self._words):
            if at == 0 or found[0] not in c.UNITS:
                continue
            unit = c.UNITS[found[0]]
            number = self._number(at - 1)
            if number is None:
                continue
            before = [word[0] for word in self._words[max(0, at - 4) : at - 1]]
            after = [word[0] for word in self._words[at + 1 : at + 2]]
            is_ago = c.is_ago(before) or not c.AGO_AFTER.isdisjoint(after)
            is_last = not c.LAST.isdisjoint(before[-1:]) or not c.LAST.isdisjoint(after)
            if not is_ago and not is_last:
                continue
            moment = resolve(f"{number} {unit}s ago", self._now, self._zone)
            if moment is None:
                return None
            span = self._words[at - 1].start(), found.end()
            if is_last or before[-1:] in (["seit"], ["depuis"], ["sinds"]):
                return Range(moment, None, self._folded[slice(*span)])
            if unit in c.CLOCK_UNITS:
                return Range(moment - c.CLOCK_UNITS[unit], moment + c.CLOCK_UNITS[unit], found[0])
            return self._range(self._around(moment, unit), unit, *span, is_ago=True)
        return None

    def _number(self, at: int) -> int | None:
        word = self._words[at][0]
        if word.isdecimal() and len(word) < 4:
            return int(word)
        return _NUMBERS.get(word)

    def _period(self) -> Range | None:
        """Read `last week`, `this month`, `vorige Woche`, `la semaine dernière`."""
        for at, found in enumerate(self._words):
            if found[0] not in c.UNITS or found[0] in _PLURALS:
                continue
            unit = c.UNITS[found[0]]
            if unit not in c.CALENDAR_UNITS:
                continue
            near = self._words[max(0, at - 1) : at] + self._words[at + 1 : at + 2]
            for words, way in ((c.LAST, "last"), (c.THIS, "this")):
                beside = [word for word in near if word[0] in words]
                if beside:
                    begin = min(found.start(), beside[0].start())
                    end = max(found.end(), beside[0].end())
                    start = self._start_of(f"{way} {unit}")
                    is_past = any(word[0] == "past" for word in beside)
                    if way == "last" and (is_past or _RUNNING.search(self._folded[:begin])):
                        return Range(start, None, self._folded[begin:end])  # it may end now
                    return self._range(start, unit, begin, end)
        return None

    def _day(self) -> Range | None:
        """Read `yesterday`, `last Friday`, `on Friday`."""
        if (phrase := _PHRASE.search(self._folded)) is not None:
            return self._shifted(_PHRASES[phrase[0]], *phrase.span())
        for found in self._words:
            if found[0] == "hier" and c.IS_FRENCH.search(f" {self._folded} "):
                return self._shifted(-1, *found.span())
            if found[0] in _SHIFTS:
                return self._shifted(_SHIFTS[found[0]], *found.span())
        return None

    def _shifted(self, shift: int, begin: int, end: int) -> Range | None:
        if shift > 0:
            return None
        return self._range(self._midnight(self._today + timedelta(days=shift)), "day", begin, end)

    def _date(self) -> Range | None:
        """Read a date, a month or a weekday."""
        text = plain(self._text)
        for token in scan(text):
            if token.kind == "weekday":
                return self._weekday(weekday_of(token.text), token.start, token.end)
            if token.kind not in DATES or not _is_month(token.kind, token.text):
                continue
            readings = [reading for reading in days(token.kind, token.text) if len(reading) == 1]
            start = resolve(token.text, self._now, self._zone) if len(readings) == 1 else None
            if start is None:
                return None
            unit = "day" if readings[0][0].day else "month" if readings[0][0].month else "year"
            beside = self._beside(token.start, token.end)
            if beside & c.NEXT or (beside & _THIS and start.year != self._today.year):
                return None
            if unit == "month" and _ABOUT.search(self._folded[: token.start]):
                return None  # what was said of it, whenever it was
            return self._range(start, unit, token.start, token.end)
        return None

    def _weekday(self, weekday: int, begin: int, end: int) -> Range | None:
        beside = self._beside(begin, end)
        if beside & c.NEXT:
            return None
        if beside & _THIS:
            monday = self._around(self._today, "week")
            day = self._midnight(monday + timedelta(days=weekday))
            return self._range(day, "day", begin, end) if day <= self._today else None
        return self._range(self._start_of(f"last {_WEEKDAYS[weekday]}"), "day", begin, end)

    def _beside(self, begin: int, end: int) -> frozenset[str]:
        """Return the words before and after a place in the text."""
        before = [word[0] for word in self._words if word.end() <= begin]
        after = [word[0] for word in self._words if word.start() >= end]
        return frozenset((*before[-1:], *after[:1]))

    def _year(self) -> Range | None:
        found = _YEAR.search(self._folded)
        if found is None:
            return None
        start = self._today.replace(year=int(found[1]), month=1, day=1)
        return self._range(start, "year", *found.span(1))


def _is_month(kind: str, text: str) -> bool:
    """Say whether a month's name is meant as one: `may` and `march` only with a capital."""
    return kind != "month" or fold(text) not in w.WORDLIKE_MONTHS or text[:1].isupper()
