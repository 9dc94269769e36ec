"""How a column writes its dates, and which days they are. Touches nothing.

A date with dots has the day first, one that begins with four digits the year; month names speak for
themselves. `03/04/2026` and `03-04-2026` are told by their column: one value above 12 decides. Two
digits are the years 1969 to 2068, and always stand last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

_TIME = (
    r"(?:(?:[T,]|,?\s+)\s*(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?|\s*Uhr)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_YEAR_FIRST = re.compile(
    r"(?P<year>[0-9]{4})(?P<sep>[-/.])(?P<month>[0-9]{1,2})(?P=sep)(?P<day>[0-9]{1,2})" + _TIME
)
_YEAR_LAST = re.compile(
    r"(?P<one>[0-9]{1,2})(?P<sep>[-/.])(?P<two>[0-9]{1,2})(?P=sep)(?P<year>[0-9]{4}|[0-9]{2})"
    + _TIME
)
# Years of this century and the last, so that few other numbers of eight digits are days.
_COMPACT = re.compile(r"(?P<year>(?:19|20)[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})" + _TIME)
_DAY_NAMED_MONTH = re.compile(
    r"(?P<day>[0-9]{1,2})(?:\.|st|nd|rd|th)?[\s/-]*(?P<name>[^\W\d_]{3,9})\.?[\s/,-]*"
    r"(?P<year>[0-9]{4}|[0-9]{2})" + _TIME
)
_NAMED_MONTH_DAY = re.compile(
    r"(?P<name>[^\W\d_]{3,9})\.?\s+(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>[0-9]{4})"
    + _TIME
)
_PIVOT = 69
_MAX_CHARS = 40
_MONTHS = {
    name: month
    for month, names in enumerate(
        [
            ["jan", "january", "januar", "jänner", "jän"],
            ["feb", "february", "februar"],
            ["mar", "march", "märz", "maerz", "mär", "mrz"],
            ["apr", "april"],
            ["may", "mai"],
            ["jun", "june", "juni"],
            ["jul", "july", "juli"],
            ["aug", "august"],
            ["sep", "sept", "september"],
            ["oct", "october", "okt", "oktober"],
            ["nov", "november"],
            ["dec", "december", "dez", "dezember"],
        ],
        start=1,
    )
    for name in names
}


@lru_cache(maxsize=16_384)
def iso_date(cell: str, *, dayfirst: bool) -> str | None:
    """Return the cell as `2026-10-15`, or `2026-10-15 09:15` where it has a time, else None.

    Midnight is no time; seconds are said where there are some, a zone where the cell has one.
    """
    if len(cell) > _MAX_CHARS:
        return None
    found = _YEAR_FIRST.fullmatch(cell) or _COMPACT.fullmatch(cell)
    if found is not None:
        return _iso(found, found["month"], found["day"])
    found = _YEAR_LAST.fullmatch(cell)
    if found is not None:
        day, month = found["one"], found["two"]
        if found["sep"] == ".":
            # 1.2.30 is rather a version than a day.
            is_short = len(found["year"]) == 2 and len(day + month) < 4
            return None if is_short else _iso(found, month, day)
        return _iso(found, month, day) if dayfirst else _iso(found, day, month)
    found = _DAY_NAMED_MONTH.fullmatch(cell) or _NAMED_MONTH_DAY.fullmatch(cell)
    if found is not None and (named := _MONTHS.get(found["name"].lower())) is not None:
        return _iso(found, str(named), found["day"])
    return None


def _iso(found: re.Match[str], month: str, day: str) -> str | None:
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 2000 if year < _PIVOT else 1900
    try:
        said = date(year, int(month), int(day)).isoformat()
    except ValueError:
        return None
    if found["hour"] is None:
        return said
    time = _time(found)
    return None if time is None else f"{said} {time}" if time else said


def _time(found: re.Match[str]) -> str | None:
    """Return the time of day, "" for midnight, None for none that exists."""
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if found["half"] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"] in "pP" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    zone = found["zone"] or ""
    if zone in ("UTC", "GMT", "+00:00", "+0000"):
        zone = "Z"
    elif zone not in ("", "Z"):
        zone = f"{zone[:3]}:{zone[-2:]}"
    if hour == minute == second == 0 and zone in ("", "Z"):
        return ""
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "") + zone


@dataclass
class DateEvidence:
    """Whether all values of one column so far are dates with the day first, or the month first."""

    fits_day_first: bool = True
    fits_month_first: bool = True
    fits_either: bool = True
    separators: set[str] = field(default_factory=set)

    def add(self, values: Iterable[str]) -> None:
        """Take in different values that are not missing."""
        values = list(values)
        self.fits_either = self.fits_either and all(
            iso_date(value, dayfirst=True) or iso_date(value, dayfirst=False) for value in values
        )
        self.fits_day_first = self.fits_day_first and _are_dates(values, dayfirst=True)
        self.fits_month_first = self.fits_month_first and _are_dates(values, dayfirst=False)
        if self.are_dates:
            for value in values:
                found = _YEAR_LAST.fullmatch(value)
                if found is not None and found["sep"] != ".":
                    self.separators.add(found["sep"])

    @property
    def are_dates(self) -> bool:
        return self.fits_day_first or self.fits_month_first

    @property
    def are_mixed(self) -> bool:
        """Say if each value is a date, but some have the day first and some the month."""
        return self.fits_either and not self.are_dates

    @property
    def is_open(self) -> bool:
        """Say if the values are dates in both orders."""
        return bool(self.separators) and self.fits_day_first and self.fits_month_first

    @property
    def decided(self) -> bool | None:
        """True for the day first, False for the month, None where the values leave it open."""
        if not self.separators or self.fits_day_first == self.fits_month_first:
            return None
        return self.fits_day_first

    def dayfirst(self, given: bool | None, others: Iterable[DateEvidence]) -> bool | None:
        """Return the column's order, None if nothing tells it.

        given: the caller's word, which counts where the values leave it open. others: columns of
        the same file; those with the same separator decide if they agree.
        """
        if not self.is_open:
            return self.fits_day_first
        if given is not None:
            return given
        orders = {
            other.decided
            for other in others
            if other.decided is not None and other.separators & self.separators
        }
        return orders.pop() if len(orders) == 1 else None


def _are_dates(values: list[str], *, dayfirst: bool) -> bool:
    return all(iso_date(value, dayfirst=dayfirst) is not None for value in values)
