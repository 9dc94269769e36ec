"""Delimited text -> rows of cells with their lines, strict about quotes. Touches: the file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import UnreadableTable

MAX_CELL_CHARS = 2_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """`line` is where the row starts in the file, from 1; `cells` have no outer white space."""

    line: int
    cells: list[str]
    had_nul: bool = False


def read_rows(path: Path, encoding: str, delimiter: str) -> Iterator[Row]:
    """Yield the rows that hold anything, in order; NUL characters are taken out of their cells.

    Raises UnreadableTable, with the line where the row starts, for a quote that is never closed:
    read leniently, it would swallow the rest of the file into one cell.
    """
    # The limit is one per process; it is only ever raised, to what a real description field needs.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                raw = next(reader, None)
            except csv.Error as error:
                raise UnreadableTable(_fault(str(error)), line=line) from error
            if raw is None:
                return
            cells = [cell.replace("\0", "").strip() for cell in raw]
            if any(cells):
                yield Row(line, cells, had_nul=any("\0" in cell for cell in raw))


def _fault(reason: str) -> str:
    if "unexpected end of data" in reason:
        return "a quote is opened in the row that starts here and never closed"
    if "field larger than" in reason:
        return f"a cell has over {MAX_CELL_CHARS:,} characters; is a quote not closed?"
    return f"the quotes of the row that starts here don't pair up ({reason})"
