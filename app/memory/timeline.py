"""What was said of one thing, in whatever order, as periods in time. Touches nothing.

A pure function of the sightings, so that an old chat that is imported late ends the same as one
that was read when it was new.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, zip_longest

from app.memory.base import SaidBy

# "I moved to Porto last week" wins over "I live in Lisbon", said a minute ago; "I lived in Berlin,
# in 2015" does not.
A_CHANGE = timedelta(days=62)


@dataclass(frozen=True, slots=True)
class Point:
    """One time that a value was said. `session_id` is "" for one that was told by itself."""

    fact_id: str
    value_key: str
    session_id: str
    seq: int
    quote: str
    said_by: SaidBy
    said_at: datetime
    value: str
    statement: str
    valid_from: datetime
    ends_at: datetime | None

    @property
    def at(self) -> datetime:
        """Since when it holds; what is said of something past may have no other date."""
        return self.valid_from if self.ends_at is None else min(self.valid_from, self.ends_at)

    @property
    def is_undated(self) -> bool:
        """It was said to hold, and not since when."""
        return self.ends_at is None and self.valid_from == self.said_at

    @property
    def is_backdated(self) -> bool:
        """It was said to hold since a time before it was said: a change of late, maybe."""
        return self.ends_at is None and self.valid_from < self.said_at

    @property
    def place(self) -> tuple[str, int]:
        return self.session_id, self.seq


@dataclass(frozen=True, slots=True)
class Period:
    """A value, for as long as nothing else was said. `valid_to`: None while it holds.

    is_superseded: it ended because the next period began.
    """

    points: tuple[Point, ...]
    valid_from: datetime
    ends_at: datetime | None
    valid_to: datetime | None
    is_superseded: bool

    @property
    def first_said(self) -> Point:
        return min(self.points, key=lambda point: (point.said_at, point.place))


def periods(points: Iterable[Point]) -> list[Period]:
    """Return the periods of values of which one holds at a time, in order.

    Sorted by since when they hold, then by when they were said; equal values in a row are one
    period, unless its end was told before the next.
    """
    runs: list[_Run] = []
    for at, point in sorted(_begun(list(points)), key=_order):
        if not runs or not runs[-1].goes_on_with(point):
            runs.append(_Run(at))
        runs[-1].add(point)
    starts = [run.begins for run in runs[1:]]
    return [run.until(start) for run, start in zip_longest(runs, starts)]


def _begun(every: Sequence[Point]) -> Iterator[tuple[datetime, Point]]:
    """Yield each point with when its value begins.

    What is undated is overtaken by changes that were told of no earlier, and begins no later than
    the first of them. Those are kept in order, for there may be very many values.
    """
    changes = sorted((p for p in every if p.is_backdated), key=lambda p: p.said_at)
    told: list[tuple[datetime, str]] = []
    for point in sorted(every, key=lambda p: p.said_at, reverse=True):
        while changes and changes[-1].said_at >= point.said_at:
            change = changes.pop()
            insort(told, (change.at, change.value_key))
        yield (_overtaken(point, told) if point.is_undated else point.at), point


def _overtaken(point: Point, told: Sequence[tuple[datetime, str]]) -> datetime:
    for at, value_key in islice(told, bisect_left(told, (point.at - A_CHANGE, "")), None):
        if at >= point.at:
            break
        if value_key != point.value_key:
            return at
    return point.at


def _order(begun: tuple[datetime, Point]) -> tuple[datetime, datetime, str, int, str]:
    at, point = begun
    return at, point.said_at, point.session_id, point.seq, point.value_key


class _Run:
    """Equal values in a row; the end that was told last is their end."""

    def __init__(self, begins: datetime) -> None:
        self.begins = begins
        self.points: list[Point] = []
        self._told: Point | None = None

    def goes_on_with(self, point: Point) -> bool:
        end = self._told.ends_at if self._told else None
        is_over = end is not None and end < point.at
        return self.points[0].value_key == point.value_key and not is_over

    def add(self, point: Point) -> None:
        self.points.append(point)
        if point.ends_at is not None and (
            self._told is None
            or (point.said_at, point.place) > (self._told.said_at, self._told.place)
        ):
            self._told = point

    def until(self, following: datetime | None) -> Period:
        ends_at = self._told.ends_at if self._told else None
        is_superseded = following is not None and (ends_at is None or following <= ends_at)
        valid_to = following if is_superseded else ends_at
        return Period(tuple(self.points), self.begins, ends_at, valid_to, is_superseded)
