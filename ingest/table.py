"""Delimited text -> records of text cells, with a report. Touches: the file. The home of pandas.

The `csv` module reads, because it is strict about quotes and knows the line of every row; pandas
types the columns. A file is surveyed whole before its first record leaves, so that a fault on the
last line is known before anything is stored; each pass holds one batch in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.columns import names_things, names_years, numbered
from ingest.decode import delimiter_of, encoding_of
from ingest.errors import UnreadableTable
from ingest.rows import Row, read_rows
from ingest.values import (
    DATE,
    MIDNIGHT,
    MISSING,
    MISSING_IF_TYPED,
    NUMBER,
    YEAR,
    ColumnType,
    is_missing,
)

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, str]

BATCH_RECORDS = 2_000
MAX_SKIPPED_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that was left out. `line` is where it starts in the file, from 1."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Table:
    """A surveyed file. `rows` counts the records that `batches` yields.

    `columns` are the header's names, made unique, with the type that all values of the column
    agree on. `skipped` lists the first MAX_SKIPPED_LISTED rows left out, of `skipped_total`.
    """

    path: Path
    encoding: str
    delimiter: str
    columns: Mapping[str, ColumnType]
    rows: int
    skipped: tuple[Skipped, ...]
    skipped_total: int
    warnings: tuple[str, ...]
    positions: tuple[int, ...]
    width: int

    def batches(self, size: int = BATCH_RECORDS) -> Iterator[list[Record]]:
        """Yield the records in the file's order, each with all columns; a missing value is ""."""
        records = self._records()
        while batch := list(islice(records, size)):
            yield batch

    def _records(self) -> Iterator[Record]:
        layout = list(zip(self.columns.items(), self.positions, strict=True))
        for row in islice(read_rows(self.path, self.encoding, self.delimiter), 1, None):
            cells = _fitted(row, self.width)
            if cells is not None:
                yield {
                    name: "" if is_missing(cells[at], column_type) else cells[at]
                    for (name, column_type), at in layout
                }


def open_table(path: Path, *, encoding: str | None = None) -> Table:
    """Survey a comma, tab, semicolon or pipe file: encoding, delimiter, columns, types, faults.

    encoding: only needed where the file is neither marked, nor UTF-8, nor cp1252.
    Raises UnreadableTable (with the line, where known) if the file can't be read to its end.
    """
    chosen = encoding_of(path, encoding)
    delimiter = delimiter_of(path, chosen)
    rows = read_rows(path, chosen, delimiter)
    header = next(rows, None)
    if header is None:
        raise UnreadableTable("the file holds nothing but blank lines")
    if header.had_nul:
        raise UnreadableTable(
            f"NUL characters in the header: this is not text in {chosen}; name the file's encoding",
            line=header.line,
        )
    survey = _Survey(header)
    survey.read(rows)
    warnings = survey.warnings()
    if encoding is None and chosen == "cp1252":
        warnings.insert(0, "not UTF-8, so read as cp1252; if letters look wrong, name the encoding")
    columns = survey.columns()
    return Table(
        path=path,
        encoding=chosen,
        delimiter=delimiter,
        columns={name: column_type for name, column_type, _ in columns},
        positions=tuple(at for _, _, at in columns),
        width=len(header.cells),
        rows=survey.rows,
        skipped=tuple(survey.skipped),
        skipped_total=survey.skipped_total,
        warnings=tuple(warnings),
    )


def _fitted(row: Row, width: int) -> list[str] | None:
    """Return the row's `width` cells, None if it has too few, or more that hold something."""
    if len(row.cells) < width or any(row.cells[width:]):
        return None
    return row.cells[:width]


class _Survey:
    """One pass over the rows below the header: what is in each column, and what does not fit."""

    def __init__(self, header: Row) -> None:
        self._headers = [" ".join(cell.split()) for cell in header.cells]
        self._columns = [_ColumnSurvey(name) for name in self._headers]
        self.rows = 0
        self.skipped: list[Skipped] = []
        self.skipped_total = 0
        self._nul_lines: list[int] = []

    def read(self, rows: Iterator[Row]) -> None:
        import pandas as pd

        fitting = filter(None, (self._checked(row) for row in rows))
        while batch := list(islice(fitting, BATCH_RECORDS)):
            self.rows += len(batch)
            for at, column in enumerate(self._columns):
                column.add(pd.Series([cells[at] for cells in batch], dtype=str))

    def columns(self) -> list[tuple[str, ColumnType, int]]:
        """Return name, type and position of each column; without header and values it is none."""
        kept = [
            (at, header or f"Column {at + 1}")
            for at, header in enumerate(self._headers)
            if header or self._columns[at].has_values
        ]
        names = numbered(name for _, name in kept)
        return [
            (name, self._columns[at].type(), at) for name, (at, _) in zip(names, kept, strict=True)
        ]

    def warnings(self) -> list[str]:
        found = [
            f"column {at + 1} has values but no header; it is called Column {at + 1}"
            for at, header in enumerate(self._headers)
            if not header and self._columns[at].has_values
        ]
        if self._nul_lines:
            found.append(
                f"NUL characters were removed from {len(self._nul_lines)} rows,"
                f" the first on line {self._nul_lines[0]}"
            )
        if not self.rows and self.skipped_total:
            found.append("no row has as many cells as the first line; is that line the header?")
        elif not self.rows:
            found.append("there are no rows below the header")
        return found

    def _checked(self, row: Row) -> list[str] | None:
        if row.had_nul:
            self._nul_lines.append(row.line)
        cells = _fitted(row, len(self._headers))
        if cells is None:
            self.skipped_total += 1
            if len(self.skipped) < MAX_SKIPPED_LISTED:
                found, expected = len(row.cells), len(self._headers)
                reason = f"{found} {'cell' if found == 1 else 'cells'}, the header has {expected}"
                self.skipped.append(Skipped(row.line, reason))
        return cells


class _ColumnSurvey:
    """The types that all values of one column so far agree on."""

    def __init__(self, header: str) -> None:
        self._header = header
        self._possible: set[ColumnType] = (
            set() if names_things(header) else {"number", "year", "date"}
        )
        self._samples: set[str] = set()
        self.has_values = False

    def add(self, cells: pd.Series[str]) -> None:
        if self.has_values and not self._possible:
            return
        cells = cells.drop_duplicates()
        self.has_values = self.has_values or not cells.isin(MISSING).all()
        values = cells[~cells.isin(MISSING | MISSING_IF_TYPED)]
        self._samples.update(islice(values, 3))
        self._possible = {kind for kind in self._possible if _all_are(kind, values)}

    def type(self) -> ColumnType:
        if not self._samples:
            return "text"
        if "number" in self._possible and names_years(self._header):
            return "year"
        # Three different values, since a lone 2000 may be an amount.
        if "year" in self._possible and len(self._samples) >= 3:
            return "year"
        if "number" in self._possible:
            return "number"
        return "date" if "date" in self._possible else "text"


def _all_are(kind: ColumnType, values: pd.Series[str]) -> bool:
    import pandas as pd

    if kind == "date":
        if not values.str.fullmatch(DATE + MIDNIGHT).all():
            return False
        days = pd.to_datetime(values.str.slice(0, 10), format="%Y-%m-%d", errors="coerce")
        return bool(days.notna().all())
    return bool(values.str.fullmatch(YEAR if kind == "year" else NUMBER).all())
