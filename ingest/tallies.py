"""What is in one column of a table, counted cell by cell in bounded memory. Touches nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal

from ingest.columns import snake
from ingest.values import ColumnType, Money, money, number, spoken

# Different values of a column that are counted; of more, only that is said.
MAX_VALUES = 1_000
MAX_LISTED = 60
# A longer cell is prose, not a value to count.
MAX_VALUE_CHARS = 80

_FEW = 20
_CENT = Decimal("0.01")
# They number the rows, and say nothing of them.
_COUNTERS = frozenset(["index", "row", "row_number", "line", "nr", "no", "position", "rank"])
# What adds up to nothing that anyone asks for.
_NO_TOTAL = frozenset(
    [
        *[
            "lat",
            "lon",
            "lng",
            "latitude",
            "longitude",
            "index",
            "rank",
            "position",
            "order",
            "row",
        ],
        *["percent", "percentage", "pct", "probability", "rate", "ratio", "score", "rating"],
        *["age", "price", "temperature", "month", "day", "hour", "week", "quarter", "level"],
        *["average", "avg", "mean", "median", "min", "max", "grade", "alt", "altitude", "x", "y"],
        *["tz", "timezone", "prefix"],
    ]
)


@dataclass(slots=True)
class _Range:
    """Amounts of one currency, or the numbers of a column."""

    count: int
    total: Decimal
    lowest: Decimal
    highest: Decimal

    def add(self, value: Decimal) -> None:
        self.count += 1
        self.total += value
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)


@dataclass(slots=True)
class Tally:
    """What is in one column so far. `values` is None once there are too many, or they are prose."""

    header: str
    type: ColumnType
    filled: int = 0
    values: Counter[str] | None = field(default_factory=Counter)
    ranges: dict[str | None, _Range] = field(default_factory=dict)
    years: Counter[str] = field(default_factory=Counter)
    first: str = ""
    last: str = ""
    is_prose: bool = False

    def add(self, cell: str, currency: str | None) -> None:
        self.filled += 1
        if len(cell) > MAX_VALUE_CHARS:
            self.is_prose = True
            self.values = None
        if self.values is not None:
            self.values[cell] += 1
            if len(self.values) > MAX_VALUES:
                self.values = None
        if self.type == "text":
            return
        if self.type == "number" and (value := number(cell)) is not None:
            self._measure(value, None)
        elif self.type == "money" and (amount := money(cell, currency=currency)) is not None:
            self._measure(amount.amount, amount.currency)
        elif self.type == "date":
            self.years[cell[:4]] += 1
            self.first = min(self.first or cell, cell)
            self.last = max(self.last, cell)

    def different(self) -> str:
        """Return how many different values there are, in words."""
        if self.is_prose:
            return f"texts, {self.filled:,} in all"
        if self.values is None:
            return f"more than {MAX_VALUES:,} different values"
        return "one value" if len(self.values) == 1 else f"{len(self.values):,} different values"

    def facts(self, name: str, rows: int) -> list[str]:
        """Return what can be said of all values together; nothing where they tell too little."""
        if snake(self.header) in _COUNTERS:
            return []
        facts: list[str] = []
        for currency, found in sorted(self.ranges.items(), key=lambda pair: pair[0] or ""):
            of = f"{name} in {currency}" if currency else f"{name} without a currency"
            facts += self._amounts(name if len(self.ranges) == 1 else of, currency, found)
        if self.years and self.first < self.last:
            first, last = spoken(self.first, "date"), spoken(self.last, "date")
            facts.append(f"{name} lies between {first} and {last}")
        if not facts and not self.listed():
            return []
        if self.type not in ("number", "money", "date"):
            facts.append(f"{name} has {self.different()}")
        if empty := rows - self.filled:
            facts.append(f"{empty:,} {'has' if empty == 1 else 'have'} no {name}")
        return facts

    def listed(self) -> list[str]:
        """Return values with their counts, the most frequent first; none if that tells little."""
        counted = self.years if self.type == "date" else self.values
        if not counted or self.type == "money" or snake(self.header) in _COUNTERS:
            return []
        is_few = len(counted) <= _FEW
        if not is_few and (self.type == "number" or max(counted.values()) == 1):
            return []
        ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        held = "text" if self.type == "date" else self.type
        told = [f"{spoken(value, held)} ({count:,})" for value, count in ranked[:MAX_LISTED]]
        if len(ranked) > MAX_LISTED:
            told.append(f"{len(ranked) - MAX_LISTED:,} other values")
        return told

    def _measure(self, value: Decimal, currency: str | None) -> None:
        if currency in self.ranges:
            self.ranges[currency].add(value)
        else:
            self.ranges[currency] = _Range(1, value, value, value)

    def _amounts(self, name: str, currency: str | None, found: _Range) -> list[str]:
        def said(value: Decimal) -> str:
            return (
                str(Money(value, currency))
                if self.type == "money"
                else spoken(f"{value:f}", "number")
            )

        mean = (found.total / found.count).quantize(_CENT, ROUND_HALF_EVEN)
        words = snake(self.header).split("_")
        facts = []
        if _NO_TOTAL.isdisjoint(words):
            is_named_so = "total" in words
            total = f"{name} in all" if is_named_so else f"The total {name}"
            facts.append(f"{total} is {said(found.total)}")
        if found.lowest < found.highest:
            between = f"between {said(found.lowest)} and {said(found.highest)}"
            facts.append(f"{name} lies {between} and is {said(mean)} on average")
        return facts
