"""Times that come in: with an offset, always, and kept in UTC. Touches nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

_LOST_PLUS = re.compile(r"(?<=\d) (?=\d\d:?\d\d$)")  # a `+` in a URL arrives as a space
YEARS = range(2, 9999)  # the first and the last one are over, or not begun, in another zone
EXAMPLE = "2026-03-04T09:00:00+01:00"


def _with_plus(given: object) -> object:
    if isinstance(given, str) and "T" in given.upper():
        return _LOST_PLUS.sub("+", given)
    return given


def _aware(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise ValueError(f"must carry an offset, as in {EXAMPLE}; {moment.isoformat()} has none")
    if moment.year not in YEARS:
        raise ValueError(f"must lie between the years {YEARS[0]} and {YEARS[-1]}")
    return moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_aware), Field(examples=[EXAMPLE])]
QueryMoment = Annotated[
    datetime, BeforeValidator(_with_plus), AfterValidator(_aware), Field(examples=[EXAMPLE])
]
