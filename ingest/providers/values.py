"""What JSON and XML values say: cells, and times. Touches nothing."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS = re.compile(r"[0-9]{1,16}")
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?"
    r"\s?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_INLINE = re.compile(r"</?(?:a|b|em|font|i|s|span|strong|u)(?:\s[^<>]*)?>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_BOOLEANS = {"true": "Yes", "false": "No"}
# What stands for an object within a list, best first.
_NAMES = ("value", "name", "label", "title", "email")


def cell(value: Any) -> str:
    """Return a JSON value as a canonical cell; the members of a list are joined by commas.

    Senders of texts mean the same as those of JSON: "true" is `Yes`, "2026-10-15T00:00:00Z" the
    date. A time keeps the clock that it was written with.
    """
    match value:
        case bool():
            return "Yes" if value else "No"
        case int():
            return str(value)
        case float():
            return format(Decimal(repr(value)), "f") if math.isfinite(value) else ""
        case str():
            return _text(value.strip())
        case list():
            return ", ".join(filter(None, map(cell, value)))
        case dict():
            return next(filter(None, (cell(value.get(name)) for name in _NAMES)), _pairs(value))
        case _:
            return ""


def flat(record: Mapping[str, Any]) -> dict[str, str]:
    """Return all cells of a record by their names: `{"address": {"city": …}}` -> `address_city`."""
    cells: dict[str, str] = {}
    # From the outside in, so that a name that two paths share goes to the shorter one.
    for path, value in sorted(_leaves(record, ()), key=lambda leaf: len(leaf[0])):
        name = "_".join(path)
        if name.strip():
            cells[".".join(path) if name in cells else name] = cell(value)
    return cells


def ident(value: Any) -> str:
    """Return an id as text, "" for what is none."""
    if isinstance(value, float):
        return str(int(value)) if math.isfinite(value) and value.is_integer() else ""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    return str(value).strip()


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, or a lone one."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def milliseconds(value: Any) -> datetime | None:
    """Return the time that so many milliseconds after the epoch are, None for what is no time."""
    text = ident(value)
    return _after_epoch(int(text) * 1_000) if _DIGITS.fullmatch(text) else None


def moment(value: Any) -> datetime | None:
    """Return a time in UTC: ISO 8601, or seconds, milliseconds or microseconds since the epoch.

    None for what is no time, for small numbers, and for a mere date, which puts nothing in order.
    A time without a zone is taken as UTC.
    """
    if isinstance(value, float) and math.isfinite(value):
        value = int(value * 1_000_000) if abs(value) < 1e11 else int(value)
    text = ident(value)
    if _DIGITS.fullmatch(text):
        digits = len(text)
        unit = 1_000_000 if digits in (9, 10, 11) else 1_000 if digits in (12, 13, 14) else 1
        return _after_epoch(int(text) * unit) if digits >= 9 else None
    if not _INSTANT.fullmatch(text):
        return None
    try:
        found = datetime.fromisoformat(text.replace(" Z", "Z"))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def unmarked(markup: str) -> str:
    """Return the text of a field that its CRM keeps as HTML."""
    return " ".join(html.unescape(_TAG.sub(" ", _INLINE.sub("", markup))).split())


def day_or_minute(when: datetime) -> str:
    """Return a time as a canonical cell; midnight is a date."""
    return f"{when:%Y-%m-%d}" if (when.hour, when.minute) == (0, 0) else f"{when:%Y-%m-%d %H:%M}"


def _after_epoch(microseconds: int) -> datetime | None:
    try:
        return _EPOCH + microseconds * _MICROSECOND
    except OverflowError:
        return None


def _text(text: str) -> str:
    if "T" in text and (found := _INSTANT.fullmatch(text)):
        day, minute, second = found.groups()
        at_midnight = minute == "00:00" and second in (None, "00")
        return day if at_midnight else f"{day} {minute}"
    return _BOOLEANS.get(text, text)


def _pairs(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {text}" for name, one in value.items() if (text := cell(one)))


def _leaves(
    record: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value
