"""What the source of a summary holds: its words, numbers, dates and times. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date

from app.memory import vocabulary as w
from app.memory.figures import (
    Day,
    Token,
    canonical,
    count,
    days,
    enumerated,
    minutes,
    plain,
    scan,
    values,
)
from app.text.words import fold

MAX_DATE_WORDS = 3  # a source with a date and hardly a word tells the day of a conversation

DATES = frozenset({"iso", "dmy", "east", "day", "month", "pair"})
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th|[日号號])", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_NO_DIGITS = re.compile(r"\D")
_RUN = re.compile(r"\d[\d ()./-]{5,}\d")  # a telephone number, maybe
_SCHEME = re.compile(r"^(?:https?://)?(?:www\.)?")
_JOINERS = re.compile(r"[-_/#\s]")
_HUMPS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FIRST_STEMMED, _LAST_STEMMED = "\u0370", "\u052f"  # Greek and Cyrillic


class Source:
    """All that a summary may state. Words are folded; numbers are canonical decimals."""

    def __init__(self, texts: Sequence[str], base: Source | None = None) -> None:
        """base: a source that this one holds too, and that has been read already."""
        self.words: set[str] = set()
        self.numbers: set[str] = set()
        self.codes: set[str] = set()  # addresses, identifiers, dates as written
        self.days: set[Day] = set()  # dates and what is left when a part is not mentioned
        self.dates: set[date] = set()
        self.anchors: set[date] = set()  # dates from which `tomorrow` counts
        self.ordinals: set[int] = set()  # the 15th
        self.minutes: set[int] = set()
        self.weekdays: set[int] = set()
        self.shifts: set[int] = set()
        self.digits = ""  # of long runs such as telephone numbers
        self._told: set[date] = set()  # the days that stand alone
        self.stems: set[str] = set()
        if base is not None:
            self._start_from(base)
        taken: set[str] = set()  # words
        for text in map(plain, texts):
            words, before = 0, ""
            others: list[Token] = []
            for token in scan(text):
                if token.kind == "word":
                    words += 1
                    if token.text not in taken:
                        taken.add(token.text)
                        self._take_word(token.text)
                else:
                    others.append(token)
                    self._take(token, before)
                before = token.text
            if words <= MAX_DATE_WORDS:
                self._told.update(day for token in others for day in whole_days(token))
            for run in _RUN.findall(text):
                self.digits += "," + _NO_DIGITS.sub("", run)
        self.anchors = self._told or self.dates
        self.stems |= {
            _stem(word) if _FIRST_STEMMED <= word[:1] <= _LAST_STEMMED else word
            for word in self.words - (base.words if base else set())
        }

    def _start_from(self, base: Source) -> None:
        for name in _SETS:
            getattr(self, name).update(getattr(base, name))
        self.digits = base.digits

    def _take_word(self, text: str) -> None:
        folded = fold(text)
        self.words.add(folded)
        if not (text.isascii() and text.isalpha() and text[1:].islower()):
            self.words.update(_parts(text))
        if number := w.FOREIGN_NUMBERS.get(folded):
            self.numbers.add(str(number))
        if (shift := w.SHIFTS.get(folded)) is not None:
            self.shifts.add(shift)

    def _take(self, token: Token, before: str) -> None:
        """Take what is not a word; `before` is the token before it."""
        kind, text = token.kind, token.text
        self.words.add(fold(text))
        self.words.update(_parts(text))
        if kind in DATES:
            self._take_date(kind, text, fold(before))
            self.dates.update(whole_days(token))
        if kind in {"number", "dmy"}:
            self.numbers |= values(text.rstrip(". "))
            self.ordinals.update(int(n) for n in _ORDINAL.findall(text))
        if kind in {"pair", "code", "url", "clock"} or (kind == "number" and _is_row(text)):
            self.numbers.update(canonical(n) for n in _DIGITS.findall(text))
        if kind == "clock":
            self.minutes |= minutes(text)
        elif kind == "weekday":
            self.weekdays.add(weekday_of(text))
        elif kind == "counted":
            self.numbers.update(str(n) for n in [count(text), *enumerated(text)])
        elif kind != "number" or not values(text):
            self.codes.add(squeeze(text))

    def _take_date(self, kind: str, text: str, before: str) -> None:
        if kind == "month" and text in w.WORDLIKE_MONTHS and before not in _BEFORE_MONTH:
            return
        for day in [day for reading in days(kind, text) for day in reading]:
            self.days |= {day} if kind == "pair" else day.parts()

    def has_day(self, day: Day) -> bool:
        """Whether one date of the source agrees, or one and a word like `tomorrow` lead to it."""
        if day in self.days:
            return True
        # A year that the source does not tell is that of the conversation, or the nearest.
        loose = day._replace(year=0) in self.days and not any(
            known.year and known[1:] == day[1:] for known in self.days
        )
        if day.month and not day.day:
            return loose and any(day.year == anchor.year for anchor in self.anchors)
        for anchor in self.anchors if day.month else ():
            for year in [day.year] if day.year else range(anchor.year - 1, anchor.year + 2):
                there = day._replace(year=year).whole()
                gap = (there - anchor).days if there else 999
                if (
                    (loose and abs(gap) <= 183)
                    or (day.day in self.ordinals and abs(gap) <= 31)
                    or gap in self.shifts
                    or (there and there.weekday() in self.weekdays and abs(gap) <= 7)
                ):
                    return True
        return False

    def has_weekday(self, weekday: int, near: Sequence[date]) -> bool:
        known = {day.weekday() for day in [*self.dates, *near]}
        shifted = {(day.weekday() + shift) % 7 for day in self.anchors for shift in self.shifts}
        return weekday in self.weekdays | known | shifted

    def has_number(self, text: str) -> bool:
        figures = [canonical(n) for n in _DIGITS.findall(text)]
        ordinal = _ORDINAL.fullmatch(text)
        run = "".join(re.findall(r"\d", text))
        return bool(
            values(text) & self.numbers
            or (_is_row(text) and self.numbers.issuperset(figures))
            or (not values(text) and squeeze(text) in self.codes)
            or (len(text) == 4 and text.isdigit() and Day(int(text), 0, 0) in self.days)
            or (ordinal and any(day.day == int(ordinal[1]) for day in self.days))
            or (len(run) >= 7 and run in self.digits)
        )

    def has_code(self, text: str) -> bool:
        """An identifier occurs as it is, or else all its numbers and capitalised parts do."""
        version = re.fullmatch(r"v(\d[\d.]*)", text, re.IGNORECASE)
        if squeeze(text) in self.codes or (version and self.has_number(version[1])):
            return True
        parts = _LETTERS.findall(text)
        capitals = {fold(part) for part in parts if has_capital(part)} - w.NOT_NAMES
        return (
            min(map(len, parts)) > 1  # a letter occurs everywhere
            and self.words.issuperset(capitals)
            and self.numbers.issuperset(canonical(n) for n in _DIGITS.findall(text))
        )

    def has_word(self, word: str) -> bool:
        """Whether a word occurs; save for acronyms also its singular, plural, or another case."""
        folded = fold(word)
        forms = {folded, folded + "s"}
        if not word.isupper():
            forms |= {folded.removesuffix("s"), folded.removesuffix("es")}
        return not self.words.isdisjoint(forms) or _stem(folded) in self.stems


_SETS = (  # all that a base passes on
    *("words", "numbers", "codes", "days", "dates", "ordinals", "minutes"),
    *("weekdays", "shifts", "stems", "_told"),
)
_BEFORE_MONTH = frozenset({"in", "next", "last", "by", "until", "since", "early", "late", "mid"})


def whole_days(token: Token) -> Iterator[date]:
    """Yield the dates that a token may mean, where it tells day, month and year."""
    if token.kind in DATES:
        found = (day.whole() for reading in days(token.kind, token.text) for day in reading)
        yield from (day for day in found if day)


def _is_row(text: str) -> bool:
    """Whether a number with spaces may be several: `12 120`, but not `120 000`."""
    return re.search(r"\d [1-9]", text) is not None and " 0" not in text


def squeeze(text: str) -> str:
    """Return an address or identifier without what may vary in its spelling."""
    text = _SCHEME.sub("", fold(text)).rstrip(".,;:!?)*/")
    return text if "@" in text or "." in text else _JOINERS.sub("", text)


def _parts(text: str) -> Iterator[str]:
    for word in _LETTERS.findall(text):
        yield fold(word)
        yield from humps(word)


def humps(word: str) -> list[str]:
    """Return the folded parts of a CamelCase name, unless one is too short to mean anything."""
    parts = _HUMPS.findall(word) if word.isascii() else []
    return [part.lower() for part in parts] if min(map(len, parts), default=0) > 2 else []


def _stem(word: str) -> str:
    """Return a folded Cyrillic or Greek word without its endings; other words as they are."""
    if not _FIRST_STEMMED <= word[:1] <= _LAST_STEMMED or len(word) > 40:
        return word
    bare = re.match(r"(.{3,}?)(?:[аеиоуыюяь]|[аеиоыя][мх]|[ое][вг]|[αειουης])*$", word)
    return bare[1] if bare else word


def has_capital(word: str) -> bool:
    return any(map(str.isupper, word))


def weekday_of(text: str) -> int:
    name = fold(text)
    return w.WEEKDAYS.get(name, w.WEEKDAYS.get(name.removesuffix("s"), -1))
