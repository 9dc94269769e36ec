"""When something was true, from words: "yesterday", "two weeks ago", "since 2019". Touches nothing.

Words count from the time of the message, on the calendar of the user's zone: "yesterday" at 23:30
is another day in Chicago than in Tokyo. What says no more than a day begins at its local midnight.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from app.memory import calendar_words as c
from app.memory import vocabulary as w
from app.memory.figures import days, plain, scan
from app.memory.source import DATES, weekday_of
from app.text.words import MONTHS, fold

MOST_CHARS = 300
YEARS = range(1900, 2200)

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\s?(Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.I,
)
_WORDS = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_FIGURE = re.compile(r"\d{1,4}")
_YEAR = re.compile(r"(?<![\d.,/-])(?:19|20|21)\d\d(?![\d/-]|[.,]\d)")
_MONTH_ONLY = re.compile(r"(\d{4})-(\d\d)(?!\d|-)")


@dataclass(frozen=True, slots=True)
class Validity:
    """Since when a statement holds, and until when, if that was said."""

    begins: datetime
    ends: datetime | None


def validity(
    when: str, quote: str, said_at: datetime, zone: tzinfo, *, is_action: bool = False
) -> Validity:
    """Return when what a message says holds.

    when: what the model took for the time; "" for none, then a plain relative word of the quote
    counts. A time to come is the beginning only of what begins then ("I'm moving next month"): a
    plan or an appointment is true from the moment that it is told.
    """
    end = c.UNTIL.search(fold(when))
    if end is not None:
        words = fold(when)[end.end() :]
        day = resolve(words, said_at, zone, is_ahead=True)
        return Validity(said_at, _end_of(day, words, zone) if day and day > said_at else None)
    starts = c.STARTS.search(fold(f"{when} {quote}")) is not None
    found = resolve(when, said_at, zone, is_ahead=is_action or starts) if when else None
    found = found or _relative(quote, said_at, zone)
    if found is None or (found > said_at and (is_action or not starts)):
        return Validity(said_at, None)
    return Validity(found, None)


def resolve(
    words: str, said_at: datetime, zone: tzinfo, *, is_ahead: bool = False
) -> datetime | None:
    """Return the time that words tell; None if they tell none that we can read.

    is_ahead: a weekday, month or day without a year is the next one, not the last.
    """
    text = unicodedata.normalize("NFKC", words[:MOST_CHARS]).strip()
    try:
        found = (
            _exact(text, zone)
            or _relative(text, said_at, zone, may_stand_alone=True)
            or _written(text, said_at, zone, is_ahead)
        )
    except (ValueError, OverflowError):  # the 31st of June, a thousand years from now
        return None
    return found if found is not None and found.year in YEARS else None


def _exact(text: str, zone: tzinfo) -> datetime | None:
    found = _ISO.search(text)
    if found is None:
        return None
    day, clock, offset = found.groups()
    if clock is None:
        return _midnight(date.fromisoformat(day), zone)
    moment = datetime.fromisoformat(f"{day}T{clock}{(offset or '').upper()}")
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _relative(
    text: str, said_at: datetime, zone: tzinfo, *, may_stand_alone: bool = False
) -> datetime | None:
    """Read words that count from the message's own day.

    may_stand_alone: the text is nothing but a time, so that an ambiguous word is one, too.
    """
    text = plain(text[:MOST_CHARS])
    today = said_at.astimezone(zone).date()
    said = _Said(_WORDS.findall(fold(text)), today, may_stand_alone)
    try:
        if (ago := said.span()) is not None:
            number, unit = ago
            if unit in c.CLOCK_UNITS:
                return said_at.astimezone(UTC) + number * c.CLOCK_UNITS[unit]
            return _midnight(_moved(today, number, unit), zone)
        day = said.shifted() or said.directed() or _in_signs(text, today) or said.since_year()
    except (ValueError, OverflowError):
        return None
    return None if day is None else _at_clock(text, day, zone)


class _Said:
    """The folded words of a text, and what they tell relative to a day."""

    def __init__(self, words: Sequence[str], today: date, may_stand_alone: bool) -> None:
        self._words = [word for word in words if word != "que"]  # `la semana que viene`
        self._today = today
        self._may_stand_alone = may_stand_alone

    def span(self) -> tuple[int, str] | None:
        """Return a number of units from now: `two weeks ago` is (-2, week)."""
        for at, word in enumerate(self._words):
            unit = c.UNITS.get(word)
            number, first = self._number_before(at) if unit and unit != "weekend" else (None, at)
            if unit is None or number is None:
                continue
            before, after = self._words[max(0, first - 3) : first], self._words[at + 1 : at + 3]
            if c.AGO_AFTER.intersection(after[:1]) or c.is_ago(before):
                return -number, unit
            if c.AHEAD_BEFORE.intersection(before[-1:]) or after == ["from", "now"]:
                return number, unit
            if self._may_stand_alone and c.FOR.intersection(before[-1:]):
                return -number, unit  # `for five years`: since then
        return None

    def _number_before(self, at: int) -> tuple[int | None, int]:
        at -= 1
        while at > 0 and self._words[at] in c.BETWEEN:
            at -= 1
        word = self._words[at] if at >= 0 else ""
        if _FIGURE.fullmatch(word):
            return int(word), at
        number = w.NUMBER_WORDS.get(word) or w.FOREIGN_NUMBERS.get(word) or c.ARTICLES.get(word)
        if word in c.PAIRS and at > 0 and self._words[at - 1] in c.ARTICLES:
            at -= 1
        return (int(number), at) if number else (None, at)

    def shifted(self) -> date | None:
        """Return the day of `yesterday`, `the day before yesterday`, `last night`."""
        line = c.NO_TIMES.sub(" ", f" {' '.join(self._words)} ")
        for phrase, shift in c.PHRASES:
            if f" {phrase} " in line:
                return self._today + timedelta(days=shift)
        if (self._may_stand_alone or c.IS_FRENCH.search(line)) and " hier " in line:
            return self._today - timedelta(days=1)
        shifts = (w.SHIFTS.get(word, c.SHIFTS.get(word)) for word in line.split())
        return next((self._today + timedelta(days=n) for n in shifts if n is not None), None)

    def directed(self) -> date | None:
        """Return the day of `last Friday`, `next month`, `Friday last week`."""
        weekday: int | None = None
        way: int | None = None
        for at, word in enumerate(self._words):
            near = {*self._words[max(0, at - 1) : at], *self._words[at + 1 : at + 2]}
            if word in w.WEEKDAYS:
                weekday = w.WEEKDAYS[word]
                way = _way(near) if _way(near) is not None else way
            elif word in c.SHORT_WEEKDAYS and (step := _way(near)) is not None:
                weekday, way = c.SHORT_WEEKDAYS[word], step
        for at, word in enumerate(self._words):
            unit = c.UNITS.get(word)
            near = {*self._words[max(0, at - 1) : at], *self._words[at + 1 : at + 2]}
            step = -2 if self._words[at + 1 : at + 3] == ["before", "last"] else _way(near)
            if step is None or unit not in c.CALENDAR_UNITS:
                continue
            if unit == "week" and weekday is not None:
                return _start(self._today, step, "week") + timedelta(days=weekday)
            return _start(self._today, step, unit)
        return None if weekday is None or way is None else _weekday(self._today, weekday, way)

    def since_year(self) -> date | None:
        for before, word in zip(self._words, self._words[1:], strict=False):
            if before in c.SINCE and _YEAR.fullmatch(word):
                return date(int(word), 1, 1)
        return None


def _way(near: set[str]) -> int | None:
    """Return -1 for `last`, 0 for `this`, 1 for `next`."""
    for words, step in ((c.LAST, -1), (c.NEXT, 1), (c.THIS, 0)):
        if not words.isdisjoint(near):
            return step
    return None


def _in_signs(text: str, today: date) -> date | None:
    """Read Japanese, Chinese and Korean, which are written without spaces or nearly so."""
    if (found := c.SIGN_SPAN.search(text)) is not None:
        number, unit, way = found.groups()
        step = (1 if number == "一" else int(number)) * (-1 if way in c.SIGNS_AGO else 1)
        return _moved(today, step, c.SIGN_UNITS[unit])
    if (found := c.SIGN_SHIFT.search(text)) is not None:
        return today + timedelta(days=c.SIGN_SHIFTS[found[0]])
    if (found := c.SIGN_PERIOD.search(text)) is not None:
        step, unit = c.SIGN_PERIODS[found[1]]
        start = _start(today, step, unit)
        day = c.SIGN_DAYS.get(found[2] or found[3] or "")
        return start + timedelta(days=day) if unit == "week" and day is not None else start
    return None


def _written(text: str, said_at: datetime, zone: tzinfo, is_ahead: bool) -> datetime | None:
    """Read a date, a month, a year or a weekday."""
    today = said_at.astimezone(zone).date()
    if (month := _MONTH_ONLY.search(text)) is not None:
        return _midnight(date(int(month[1]), int(month[2]), 1), zone)
    is_next = is_ahead or not c.NEXT.isdisjoint(_WORDS.findall(fold(text)))
    for token in scan(plain(text)):
        if token.kind == "weekday":
            day = _weekday(today, weekday_of(token.text), 1 if is_next else -1)
            return _at_clock(text, day, zone)
        if token.kind not in DATES:
            continue
        readings = {reading[0] for reading in days(token.kind, token.text)}
        if len(readings) != 1:
            return None  # 10/11/2026 may be either
        year, number, day_of_month = readings.pop()
        if year:
            return _at_clock(text, date(year, number or 1, day_of_month or 1), zone)
        return _at_clock(text, _nearest(today, number, day_of_month or 1, is_next), zone)
    found = _YEAR.search(text)
    return None if found is None else _midnight(date(int(found[0]), 1, 1), zone)


def _nearest(today: date, month: int, day: int, is_ahead: bool) -> date:
    steps = (0, 1, 2, 3, 4) if is_ahead else (0, -1, -2, -3, -4)  # the 29th of February
    for step in steps:
        try:
            there = date(today.year + step, month, day)
        except ValueError:
            continue
        if (there >= today) if is_ahead else (there <= today):
            return there
    raise ValueError("there is no such day")


def _weekday(today: date, weekday: int, way: int) -> date:
    ahead = (weekday - today.weekday()) % 7
    if way == 0:  # `this Friday` may be today
        return today + timedelta(days=ahead)
    return today + timedelta(days=(ahead or 7) if way > 0 else ahead - 7)


def _start(today: date, step: int, unit: str) -> date:
    """Return the first day of this week, month or year, or of one `step` away."""
    if unit == "week":
        return today + timedelta(days=7 * step - today.weekday())
    if unit == "weekend":  # the last one is over, the next one is to come
        ahead = (5 - today.weekday()) % 7
        return today + timedelta(days=ahead + (7 * step if step < 0 else 0))
    return _moved(today.replace(day=1, month=1 if unit == "year" else today.month), step, unit)


def _moved(day: date, number: int, unit: str) -> date:
    if unit in ("day", "week"):
        return day + timedelta(days=number * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 + number * (12 if unit == "year" else 1)
    first = date(months // 12, months % 12 + 1, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return first.replace(day=min(day.day, last.day))


def _at_clock(text: str, day: date, zone: tzinfo) -> datetime:
    """Return the day at the time that the text names; without one, at its beginning."""
    found = c.CLOCK.search(fold(text))
    if found is not None:
        hour, minute, half = int(found[1] or found[4]), int(found[2] or 0), found[3] or found[5]
        hour = hour % 12 + (12 if half == "p" else 0) if half else hour
        if hour < 24 and minute < 60:
            return datetime.combine(day, time(hour, minute), zone)
    return _midnight(day, zone)


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone)


def _end_of(moment: datetime, words: str, zone: tzinfo) -> datetime:
    """Return the moment, or the end of the day, month or year that it begins."""
    local = moment.astimezone(zone)
    if local.time() != time():
        return moment
    numbers = re.findall(r"\d+", words)
    if local.day == 1 and all(len(number) == 4 for number in numbers):
        if any(word in MONTHS for word in re.findall(r"[^\W\d_]+", words)):
            return _midnight(date(local.year + local.month // 12, local.month % 12 + 1, 1), zone)
        if numbers:
            return _midnight(date(local.year + 1, 1, 1), zone)
    return _midnight(local.date() + timedelta(days=1), zone)
