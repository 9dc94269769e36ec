"""What all values of a table's columns agree on: types, and how to read them. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ingest.columns import currency_column, names_dates, names_money, names_things, names_years
from ingest.dates import DateEvidence, iso_date
from ingest.numbers import Decimals, NumberEvidence, Style, signed
from ingest.values import (
    MISSING,
    MISSING_IF_TYPED,
    ColumnType,
    currency_of,
    currency_of_header,
    missing_in,
    truth,
    truths_in,
)

_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_EXCEL_SCIENCE = re.compile(r"[0-9](?:[.,][0-9]+)?E\+[0-9]{2}")
_PLACEHOLDERS = MISSING | MISSING_IF_TYPED
# Three different values, since a lone 2000 may be an amount.
_YEARS_AT_LEAST = 3


@dataclass(frozen=True)
class Column:
    """One column as it will be read. `at` is its place in the row, from 0.

    currency: of amounts that name none themselves. currency_at: the place of the currency column.
    """

    name: str
    type: ColumnType
    at: int
    style: Style | None = None
    dayfirst: bool = True
    currency: str | None = None
    currency_at: int | None = None

    def read(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return the column's cells of these rows in canonical form, "" for a missing one."""
        missing = missing_in(self.type)
        cells = [row[self.at] for row in rows]
        if self.type == "text":
            return ["" if cell in missing else cell for cell in cells]
        said = self._canonical()
        values = ["" if cell in missing else said(cell) or cell for cell in cells]
        if self.type != "money":
            return values
        return [
            self._with_currency(value, row) if value else ""
            for value, row in zip(values, rows, strict=True)
        ]

    def _canonical(self) -> Callable[[str], str | None]:
        if self.style is not None:
            return self.style.plain
        if self.type == "boolean":
            return truth
        return lambda cell: iso_date(cell, dayfirst=self.dayfirst)

    def _with_currency(self, value: str, row: Sequence[str]) -> str:
        digits = value.removeprefix("-")
        if not (digits[0] + digits[-1]).isdecimal():
            return value
        named = currency_of(row[self.currency_at]) if self.currency_at is not None else None
        return signed("-" if digits != value else "", digits, named or self.currency)


class ColumnSurvey:
    """What the values of one column so far can be."""

    def __init__(self, header: str) -> None:
        self.header = header
        self.has_values = False
        self.science: str | None = None
        self.numbers = NumberEvidence()
        self.dates = DateEvidence()
        self._is_named_text = names_things(header)
        self._words: set[str] = set()
        self._may_be_truths = True
        self._may_be_years = True
        self._samples: set[str] = set()

    def add(self, cells: Iterable[str]) -> None:
        """Take in different cells of the column, missing ones among them."""
        cells = list(cells)
        self.has_values = self.has_values or not MISSING.issuperset(cells)
        if self.science is None and "E+" in "\n".join(cells):
            self.science = next(filter(_EXCEL_SCIENCE.fullmatch, cells), None)
        if not self.may_be_typed:
            return
        if self._may_be_truths:
            self._words.update(cell.casefold() for cell in cells if cell not in MISSING)
            self._may_be_truths = truths_in(frozenset(self._words))
        values = [cell for cell in cells if cell not in _PLACEHOLDERS]
        if len(self._samples) < _YEARS_AT_LEAST:
            self._samples.update(values[:_YEARS_AT_LEAST])
        self._may_be_years = self._may_be_years and all(map(_YEAR.fullmatch, values))
        if self.numbers.styles:
            self.numbers.add(values)
        if self.dates.fits_either:
            self.dates.add(values)

    @property
    def may_be_typed(self) -> bool:
        return not self._is_named_text and bool(
            self._may_be_truths or self.numbers.styles or self.dates.fits_either
        )

    @property
    def has_samples(self) -> bool:
        return bool(self._samples) and not self._is_named_text

    @property
    def are_truths(self) -> bool:
        return self._may_be_truths and bool(self._words) and not self._is_named_text

    @property
    def are_days(self) -> bool:
        """Say if these digits are days, such as 20260131: all can be, and the header says so."""
        return self.dates.are_dates and names_dates(self.header)

    def number_type(self) -> ColumnType:
        if names_years(self.header) and not self.numbers.has_currency:
            return "year"
        if self._may_be_years and len(self._samples) >= _YEARS_AT_LEAST:
            return "year"
        return "money" if self.numbers.has_currency else "number"


def decide(
    columns: Sequence[tuple[str, int, ColumnSurvey]],
    *,
    delimiter: str,
    dayfirst: bool | None,
    currency: str | None,
    pointed: frozenset[int] = frozenset(),
) -> tuple[list[Column], list[str]]:
    """Return the columns, from name, place and survey of each, and what the caller should know.

    pointed: places of columns with number cells of a workbook, whose decimal mark is the point.
    """
    surveys = [survey for _, _, survey in columns]
    proven: set[Decimals] = {
        mark
        for _, at, survey in columns
        # How a workbook keeps its numbers says nothing about those that it holds as text.
        if at not in pointed and survey.has_samples
        if (mark := survey.numbers.decided) is not None
    }
    others = proven.pop() if len(proven) == 1 else None
    places = {survey.header: at for _, at, survey in reversed(columns)}
    read: list[Column] = []
    warnings: list[str] = []
    for name, at, survey in columns:
        column = Column(name, "text", at)
        if survey.are_truths:
            column = Column(name, "boolean", at)
        elif survey.has_samples and survey.numbers.styles and not survey.are_days:
            style = survey.numbers.style("point" if at in pointed else others, delimiter)
            if style is not None:
                column = _number_column(name, at, survey, style, currency, places)
            elif survey.numbers.is_open:
                warnings.append(
                    f"column {name!r} stays text: its values are numbers with a decimal point or"
                    " with a decimal comma, and nothing in the file tells which"
                )
        elif survey.has_samples and survey.dates.are_dates:
            first = survey.dates.dayfirst(dayfirst, [other.dates for other in surveys])
            if first is not None:
                column = Column(name, "date", at, dayfirst=first)
            else:
                warnings.append(
                    f"column {name!r} stays text: each of its dates fits day/month and month/day;"
                    " say which with dayfirst"
                )
        elif survey.has_samples and survey.dates.are_mixed:
            warnings.append(
                f"column {name!r} stays text: some of its dates have the day first, and some the"
                " month"
            )
        if survey.science is not None and column.type == "text":
            warnings.append(
                f"column {name!r} holds {survey.science}: a spreadsheet has cut its digits, and"
                " they can't be restored; export the column as text"
            )
        read.append(column)
    return read, warnings


def _number_column(
    name: str,
    at: int,
    survey: ColumnSurvey,
    style: Style,
    currency: str | None,
    places: Mapping[str, int],
) -> Column:
    kind = survey.number_type()
    if kind == "year":
        return Column(name, kind, at, style)
    named = currency_of_header(survey.header)
    takes_others = named is None and names_money(survey.header)
    said_in = currency_column(survey.header, places) if takes_others else None
    column = Column(
        name,
        "money",
        at,
        style,
        currency=currency if takes_others else named,
        currency_at=None if said_in is None else places[said_in],
    )
    has_currency = column.currency is not None or column.currency_at is not None
    return column if kind == "money" or has_currency else Column(name, kind, at, style)
