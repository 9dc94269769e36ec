"""Time zones by their IANA names. Touches: the time zone data of the system, or of `tzdata`."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_NAME = re.compile(
    r"(?!(?:posix|right|posixrules|localtime)\b)[A-Za-z][\w+-]{0,31}(?:/[\w+-]{1,31}){0,3}"
)


def zone_name(name: str) -> str:
    """Return the name of a time zone that exists. Raises `ValueError` for any other text."""
    zone(name)
    return name


def zone(name: str) -> ZoneInfo:
    """Return a time zone. Raises `ValueError` if there is none of that name."""
    try:
        if _NAME.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):  # OSError: it names a folder of zones
        pass
    raise ValueError(
        f"expected the IANA name of a time zone, such as Europe/Lisbon; got {name[:64]!r}"
    )


def zone_or_utc(name: str) -> ZoneInfo:
    """Return a time zone that was checked when it was stored; UTC if this machine lacks it."""
    try:
        return zone(name)
    except ValueError:
        return ZoneInfo("UTC")
