"""Delimited text -> rows of cells with their lines, strict about quotes. Touches: the file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ingest.errors import UnreadableTable

MAX_CELL_CHARS = 2_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """`line` is where the row starts in the file, from 1; `cells` have no outer white space."""

    line: int
    cells: list[str]
    had_nul: bool = False
    after_blank: bool = False


class Rows(Protocol):
    """The rows of a file that hold anything, in order; each iteration reads them anew."""

    def __iter__(self) -> Iterator[Row]: ...


@dataclass(frozen=True, slots=True)
class TextRows:
    """The rows of delimited text; NUL characters are taken out of their cells.

    Iterating raises UnreadableTable, with the line where the row starts, for a quote that is never
    closed: read leniently, it would swallow the rest of the file into one cell.
    """

    path: Path
    encoding: str
    delimiter: str

    def __iter__(self) -> Iterator[Row]:
        # The limit is one per process; it is only ever raised, to what a real description needs.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
        with self.path.open(encoding=self.encoding, newline="") as file:
            reader = csv.reader(file, delimiter=self.delimiter, strict=True)
            after_blank = False
            while True:
                line = reader.line_num + 1
                try:
                    raw = next(reader, None)
                except csv.Error as error:
                    raise UnreadableTable(_fault(str(error)), line=line) from error
                if raw is None:
                    return
                had_nul = "\0" in "".join(raw)
                cells = [
                    cell.replace("\0", "").strip() if had_nul else cell.strip() for cell in raw
                ]
                holds_anything = any(cells)
                if holds_anything:
                    yield Row(line, cells, had_nul, after_blank)
                after_blank = not holds_anything


def _fault(reason: str) -> str:
    if "unexpected end of data" in reason:
        return "a quote is opened in the row that starts here and never closed"
    if "field larger than" in reason:
        return f"a cell has over {MAX_CELL_CHARS:,} characters; is a quote not closed?"
    return f"the quotes of the row that starts here don't pair up ({reason})"
