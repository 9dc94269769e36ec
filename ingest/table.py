"""Tables in files -> records of canonical text cells, with a report. Touches: the file.

The home of pandas. Readers give rows with their lines; layout says which of them are records, and
survey what the columns hold. A file is surveyed whole before its first record leaves, so that a
fault on the last line is known before anything is stored; each pass holds one batch in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from ingest.columns import numbered
from ingest.decode import delimiter_of, encoding_of, mixes_encodings
from ingest.errors import UnreadableTable
from ingest.layout import (
    SAMPLE_ROWS,
    Closing,
    Frame,
    find_frame,
    is_subtotal,
    looks_like_data,
    preamble,
    ragged,
    summary,
)
from ingest.layout import Skipped as Skipped
from ingest.rows import Row, Rows, TextRows
from ingest.survey import Column, ColumnSurvey, decide
from ingest.values import ColumnType, currency_mark
from ingest.workbook import SheetRows, workbook_kind

Record = dict[str, str]

MAX_SKIPPED_LISTED = 1_000
MAX_COLUMNS = 16_384

_STRICT_NAMED = 5


@dataclass(frozen=True, slots=True)
class Table:
    """A surveyed file. `rows` counts the records that `batches` yields.

    encoding: for a workbook its format: xlsx, xlsb, xls or ods. delimiter: "" for a workbook.
    sheet: the workbook's sheet that was read. header_row: the line of the header, None without one.
    columns: the header's names, made unique, with the type that all values of the column agree on.
    skipped: the first MAX_SKIPPED_LISTED rows left out, of `skipped_total`, by line.
    """

    path: Path
    encoding: str
    delimiter: str
    sheet: str | None
    header_row: int | None
    columns: Mapping[str, ColumnType]
    rows: int
    skipped: tuple[Skipped, ...]
    skipped_total: int
    warnings: tuple[str, ...]
    _source: Rows
    _frame: Frame
    _end: frozenset[int]
    _columns: tuple[Column, ...]

    @property
    def has_decimal_commas(self) -> bool:
        """Say if any column of numbers is written so: 1.200,50."""
        return any(it.style is not None and it.style.decimals == "comma" for it in self._columns)

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records in the file's order, each with all columns; a missing value is ""."""
        names = [column.name for column in self._columns]
        rows = self._rows()
        while batch := list(islice(rows, self._frame.batch_rows)):
            columns = [column.read(batch) for column in self._columns]
            yield [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]

    def _rows(self) -> Iterator[list[str]]:
        for row in self._source:
            if row.line < self._frame.start or row.line in self._end:
                continue
            cells = self._frame.fitted(row)
            if cells is not None and not is_subtotal(row, self._frame.width):
                yield cells


def open_table(
    path: Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    header: int | Literal["none"] | None = None,
    dayfirst: bool | None = None,
    currency: str | None = None,
    sheet: str | None = None,
    strict: bool = False,
) -> Table:
    """Survey a comma, tab, semicolon or pipe file or a workbook: layout, columns, types, faults.

    Blocking; holds one batch in memory.
    encoding: only needed where the file is neither marked, nor UTF-8, nor cp1252.
    delimiter: the character between cells; measured if not given.
    header: the line of the header row, "none" for a table without one (its columns are called
    Column 1, Column 2, …); found if not given.
    dayfirst: how dates are read whose column leaves it open, such as 03/04/2026.
    currency: a code or symbol, for columns of amounts where neither a cell, nor the header, nor a
    currency column names one.
    sheet: the name of a workbook's sheet; the first visible one that holds a table if not given.
    strict: refuse the file if any row would be left out.
    Raises UnreadableTable (with the line, where known) if the file can't be read to its end.
    """
    mark = None if currency is None else currency_mark(currency)
    if currency is not None and mark is None:
        raise UnreadableTable(f"{currency!r} is no currency; say a code such as EUR, or a symbol")
    source, format_name, delimiter, warnings = _opened(path, encoding, delimiter, sheet)
    rows = iter(source)
    sample = list(islice(rows, SAMPLE_ROWS))
    if not sample:
        raise UnreadableTable("the file holds nothing but blank lines")
    frame = find_frame(sample, header)
    if frame.width > MAX_COLUMNS:
        raise UnreadableTable(
            f"{frame.width:,} columns; at most {MAX_COLUMNS:,} are read, as many as Excel has"
        )
    top = frame.header
    if top is not None and top.had_nul:
        raise UnreadableTable(
            f"NUL characters in the header: this is not text in {format_name};"
            " name the file's encoding",
            line=top.line,
        )
    survey = _Survey(frame)
    survey.read(row for row in chain(sample, rows) if row.line >= frame.start)
    if strict and survey.skipped_total:
        raise UnreadableTable(_refusal(survey))
    columns, told = decide(
        survey.named_columns(),
        delimiter=delimiter,
        dayfirst=dayfirst,
        currency=mark,
        pointed=source.pointed if isinstance(source, SheetRows) else frozenset(),
    )
    return Table(
        path=path,
        encoding=format_name,
        delimiter=delimiter,
        sheet=source.sheet if isinstance(source, SheetRows) else None,
        header_row=None if top is None else top.line,
        columns={column.name: column.type for column in columns},
        rows=survey.rows,
        skipped=tuple(survey.skipped),
        skipped_total=survey.skipped_total,
        warnings=(*warnings, *survey.warnings(), *told),
        _source=source,
        _frame=frame,
        _end=frozenset(survey.end),
        _columns=tuple(columns),
    )


def _opened(
    path: Path, encoding: str | None, delimiter: str | None, sheet: str | None
) -> tuple[Rows, str, str, list[str]]:
    """Return the rows, the encoding or the workbook's format, the delimiter, and warnings."""
    try:
        kind = workbook_kind(path)
    except OSError as error:
        raise UnreadableTable(f"it can't be read: {error.strerror or 'I/O error'}") from error
    if kind is not None:
        source = SheetRows(path, sheet)
        names = ", ".join(map(repr, source.others))
        told = f"sheet {source.sheet!r} was read; the workbook has others: {names}"
        return source, kind, "", [told] if names and sheet is None else []
    if sheet is not None:
        raise UnreadableTable(f"a sheet {sheet!r} was asked for, but this is no workbook")
    chosen = encoding_of(path, encoding)
    if delimiter is None:
        delimiter = delimiter_of(path, chosen)
    elif len(delimiter) != 1 or delimiter in '\r\n"':
        raise UnreadableTable(f"{delimiter!r} can't stand between cells; say one character")
    warnings = []
    if encoding is None and chosen == "cp1252":
        warnings = ["not UTF-8, so read as cp1252; if letters look wrong, name the encoding"]
        if mixes_encodings(path):
            warnings = [
                "some letters are UTF-8 and some cp1252, as which all were read: save it anew"
            ]
    return TextRows(path, chosen, delimiter), chosen, delimiter, warnings


class _Survey:
    """One pass over the rows from the first record on: what is in each column, what is no record.

    `end` are the lines of the rows that close the table.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        titles = [""] * frame.width if frame.header is None else frame.header.cells
        self._headers = [" ".join(cell.split()) for cell in titles]
        self._columns = [ColumnSurvey(name) for name in self._headers]
        self.rows = 0
        self.skipped = [preamble(row) for row in frame.preamble]
        self.skipped_total = len(self.skipped)
        self.end: list[int] = []
        self._ragged = 0
        self._fitting = 0
        self._after_blank: list[int] = []
        self._nul_lines: list[int] = []

    def read(self, rows: Iterator[Row]) -> None:
        import pandas as pd

        records = self._records(rows)
        while batch := list(islice(records, self._frame.batch_rows)):
            self.rows += len(batch)
            frame = pd.DataFrame(batch, dtype=object)
            for at, column in enumerate(self._columns):
                column.add(frame[at].unique())

    def named_columns(self) -> list[tuple[str, int, ColumnSurvey]]:
        """Return name, place and survey of each column; without header and values it is none."""
        kept = [
            (at, header or f"Column {at + 1}")
            for at, header in enumerate(self._headers)
            if header or self._columns[at].has_values
        ]
        names = numbered(name for _, name in kept)
        return [(name, at, self._columns[at]) for name, (at, _) in zip(names, kept, strict=True)]

    def warnings(self) -> list[str]:
        found = []
        top = self._frame.header
        if top is not None:
            found += [
                f"column {at + 1} has values but no header; it is called Column {at + 1}"
                for at, header in enumerate(self._headers)
                if not header and self._columns[at].has_values
            ]
            if looks_like_data(top):
                found.append(
                    f"the header, line {top.line}, looks like a record;"
                    " if it is one, say that there is no header"
                )
        if self._nul_lines:
            found.append(
                f"NUL characters were removed from rows: {len(self._nul_lines)},"
                f" the first on line {self._nul_lines[0]}"
            )
        # Where every second line is blank, none of them parts two tables.
        if 0 < 2 * len(self._after_blank) < self.rows:
            found.append(
                f"there are blank lines between rows, the first before line {self._after_blank[0]};"
                " if another table begins there, save it as a file of its own"
            )
        if not self.rows and self._ragged:
            found.append("no row has as many cells as the header; is that line the header?")
        elif not self.rows:
            found.append("there are no rows below the header")
        return found

    def _records(self, rows: Iterator[Row]) -> Iterator[list[str]]:
        closing = Closing(self._frame)
        for row in rows:
            if row.had_nul:
                self._nul_lines.append(row.line)
            for known in closing.push(row):
                yield from self._fitted(known)
        for last in closing.rest():
            if isinstance(last, Row):
                yield from self._fitted(last)
            else:
                self.end.append(last.line)
                self._skip(last)

    def _fitted(self, row: Row) -> Iterator[list[str]]:
        if is_subtotal(row, self._frame.width):
            self._skip(summary(row))
            return
        cells = self._frame.fitted(row)
        if cells is not None:
            if row.after_blank and self._fitting:
                self._after_blank.append(row.line)
            self._fitting += 1
            yield cells
            return
        self._ragged += 1
        self._skip(ragged(row, self._frame.width))

    def _skip(self, skipped: Skipped) -> None:
        self.skipped_total += 1
        if len(self.skipped) < MAX_SKIPPED_LISTED:
            self.skipped.append(skipped)


def _refusal(survey: _Survey) -> str:
    named = [f"line {row.line}: {row.reason}" for row in survey.skipped[:_STRICT_NAMED]]
    if survey.skipped_total > _STRICT_NAMED:
        named.append(f"and {survey.skipped_total - _STRICT_NAMED} more")
    return f"strict, and {survey.skipped_total} rows are no records: {'; '.join(named)}"
