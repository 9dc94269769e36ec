"""Where a table begins and ends among titles, totals and footnotes. Touches nothing.

A line is taken for something else than a record only on evidence: it stands above the header, it
says `Total` beside nothing but numbers, or it is nearly empty, at the end, and after a blank line
or another such line. What is left out is always listed; the reasons say what for.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ingest.dates import iso_date
from ingest.errors import UnreadableTable
from ingest.rows import Row
from ingest.values import CURRENCY, number

SAMPLE_ROWS = 500
BATCH_ROWS = 2_000
BATCH_CELLS = 200_000
_WIDE_ENOUGH = 0.6
_FEW_NUMBERS = 0.2
_EXCERPT_CHARS = 40
# A line about the table says so at once; patterns must not go over a cell of megabytes.
_READ_CHARS = 300
_MAX_CLOSING_ROWS = 200

_SUBTOTAL = (
    r"(?:sub|grand|overall|report)[ -]?totals?|sub-?totale?s?|zwischensumme|gesamtsumme|sous-total"
    r"|total g[eé]n[eé]ral|gesamtergebnis|teilergebnis"
)
_TOTAL = (
    r"totals?(?:\s+(?:of|for)\s.*)?|sum|summe|gesamt|gesamtbetrag|insgesamt|somme|suma|totale|totaal|ergebnis"
    r"|count|average|avg|mean|median|anzahl|durchschnitt|mittelwert|records|rows"
)
# Behind the word: nothing, or what can't go on a name: `Total (3 records)`, `Total: 3`, `Total 3`.
_REST = r"(?:\s*[:(=#].*|\s+[0-9].*)?"
_SUBTOTAL_CELL = re.compile(rf"(?:{_SUBTOTAL}){_REST}", re.IGNORECASE)
_TOTAL_CELL = re.compile(rf"(?:{_SUBTOTAL}|{_TOTAL}){_REST}|[0-9]+ (?:records|rows)", re.IGNORECASE)
_CLOSING_CELL = re.compile(
    r"copyright\b.*[0-9]{4}|(?:©|\(c\))\s?[0-9]{4}"
    r"|all rights reserved|alle rechte vorbehalten|tous droits r[eé]serv[eé]s"
    r"|confidential (?:information|and|-)|strictly confidential|streng vertraulich"
    r"|^(?:notes?|source|quelle|hinweis|anmerkung|stand|as of|filters?)\s*:",
    re.IGNORECASE,
)
_NOTE_CELL = re.compile(
    r"[*†‡]+\s*\w|\[[0-9]+\]\s*\w|(?:page|seite) [0-9]+"
    r"|(?:generated|created|exported|printed|prepared) (?:by|on|at|from)\b",
    re.IGNORECASE,
)
_TOTAL_WORD = re.compile(r"\btotals?\b", re.IGNORECASE)
_ANY_CURRENCY = re.compile(CURRENCY)
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that was left out. `line` is where it starts in the file, from 1.

    reason: begins with preamble, summary or note; else it tells how many cells were found.
    """

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows from line `start` on are records, `width` cells each.

    header: None for a table without one. least: how many cells a row must have; the headers of
    those beyond are blank.
    """

    header: Row | None
    start: int
    width: int
    least: int
    preamble: tuple[Row, ...]

    @property
    def batch_rows(self) -> int:
        """How many rows may be held at once: fewer of a wide table."""
        return max(1, min(BATCH_ROWS, BATCH_CELLS // self.width))

    def fitted(self, row: Row) -> list[str] | None:
        """Return the row's `width` cells, None if it has too few, or more that hold something."""
        cells = row.cells
        if len(cells) == self.width:
            return cells
        if len(cells) < self.least or any(cells[self.width :]):
            return None
        return cells[: self.width] + [""] * (self.width - len(cells))


def find_frame(sample: Sequence[Row], header: int | str | None) -> Frame:
    """Return where the table begins, from its first rows.

    header: the line of the header row, "none" for a table without one, None to find it: it is the
    first row that is as full as the rows usually are.
    Raises UnreadableTable if there is no row at the line given.
    """
    if isinstance(header, int):
        at = next((at for at, row in enumerate(sample) if row.line == header), None)
        if at is None:
            raise UnreadableTable(
                f"the header was said to be on line {header}, but no row begins there within the"
                f" first {len(sample)} rows"
            )
    else:
        at = _first_of_table(sample)
    top = sample[at]
    above = tuple(sample[:at])
    if header == "none":
        width = Counter(len(row.cells) for row in sample[at:]).most_common(1)[0][0]
        return Frame(None, top.line, width, width, above)
    least = max(place for place, cell in enumerate(top.cells, start=1) if cell)
    return Frame(top, top.line + 1, len(top.cells), least, above)


def looks_like_data(header: Row) -> bool:
    """Say if over a fifth of the header's cells are numbers, dates or addresses, not names."""
    filled = [cell for cell in header.cells if cell]
    values = sum(
        (number(cell) is not None and not re.fullmatch("(?:19|20)[0-9]{2}", cell))
        or iso_date(cell, dayfirst=True) is not None
        or "@" in cell[1:]
        for cell in filled
    )
    return values > _FEW_NUMBERS * len(filled)


def is_subtotal(row: Row, width: int) -> bool:
    """Say if the row can only be a subtotal, wherever it stands: `Subtotal` and numbers."""
    return _says(_SUBTOTAL_CELL, row, width)


def preamble(row: Row) -> Skipped:
    return Skipped(row.line, f"preamble: {_excerpt(row)} stands above the table")


def summary(row: Row) -> Skipped:
    return Skipped(row.line, f"summary: {_excerpt(row)} is about the table as a whole")


def note(row: Row) -> Skipped:
    return Skipped(row.line, f"note: {_excerpt(row)} stands below the table")


def ragged(row: Row, width: int) -> Skipped:
    found = len(row.cells)
    cells = f"{found} {'cell' if found == 1 else 'cells'}"
    return Skipped(row.line, f"{cells}, the header has {width}")


class Closing:
    """The rows at the end so far that may be totals and notes; later rows can make records of them.

    `push` takes each row below the header and returns those that are now known not to close the
    table; `rest` tells about the last ones.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._width = frame.width
        self._waiting: deque[Row] = deque()
        self._has_sparse_records = False

    def push(self, row: Row) -> list[Row]:
        if self._width > 1 and self._may_close(row):
            self._waiting.append(row)
            return [self._release()] if len(self._waiting) > _MAX_CLOSING_ROWS else []
        if not self._waiting:
            return [row]
        released = [self._release() for _ in range(len(self._waiting))]
        return [*released, row]

    def rest(self) -> Iterator[Row | Skipped]:
        """Yield the waiting rows that are none of the end's, and what the others are, in order."""
        has_begun = False
        for row in self._waiting:
            if self._is_summary(row, has_begun=has_begun):
                has_begun = True
                yield summary(row)
            elif self._is_note(row, has_begun=has_begun):
                has_begun = True
                yield note(row)
            else:
                yield row

    def _release(self) -> Row:
        row = self._waiting.popleft()
        is_record = self._frame.fitted(row) is not None and not is_subtotal(row, self._width)
        if _filled(row) == 1 and is_record:
            self._has_sparse_records = True
        return row

    def _is_total(self, row: Row) -> bool:
        return _says(_TOTAL_CELL, row, self._width)

    def _may_close(self, row: Row) -> bool:
        if _filled(row) == 1 or self._is_total(row):
            return True
        # Commas in an unquoted note make cells of it.
        return self._frame.fitted(row) is None and (
            _CLOSING_CELL.search(_first(row)) is not None
            or _NOTE_CELL.match(_first(row)) is not None
        )

    def _is_summary(self, row: Row, *, has_begun: bool) -> bool:
        first = _first(row)
        if self._is_total(row) or _CLOSING_CELL.search(first) is not None:
            return True
        return has_begun and _filled(row) == 1 and _TOTAL_WORD.search(first) is not None

    def _is_note(self, row: Row, *, has_begun: bool) -> bool:
        if _NOTE_CELL.match(_first(row)):
            return True
        if self._width < 3 or not (has_begun or row.after_blank):
            return False
        return self._frame.fitted(row) is None or not self._has_sparse_records


def _says(word: re.Pattern[str], row: Row, width: int) -> bool:
    """Say if the row's first value is the word, and all others are amounts."""
    if width == 1 or word.fullmatch(row.cells[0][:_READ_CHARS] or _first(row)) is None:
        return False
    return all(map(_is_amount, islice(filter(None, row.cells), 1, None)))


def _is_amount(cell: str) -> bool:
    rest = _ANY_CURRENCY.sub("", cell)
    return any(map(str.isdigit, rest)) and _LETTER.search(rest) is None


def _first_of_table(sample: Sequence[Row]) -> int:
    usual = _usual(sample)
    at = next(at for at, row in enumerate(sample) if _filled(row) >= _WIDE_ENOUGH * usual)
    if _filled(sample[at]) < usual:
        # A block of `Label; value` lines may be nearly as wide as the table below its blank line.
        below = ((later, row) for later, row in enumerate(sample) if later > at)
        later, full = next(((later, row) for later, row in below if _filled(row) >= usual))
        if full.after_blank and not looks_like_data(full):
            return later
    return at


def _usual(sample: Sequence[Row]) -> int:
    """Return how many cells a row usually fills: the median, in which each cell counts.

    Rows count by their cells since a short report may have more titles and notes than records.
    """
    counts = sorted(map(_filled, sample))
    half = sum(counts) / 2
    seen = 0
    for count in counts:
        seen += count
        if seen >= half:
            break
    return count


def _filled(row: Row) -> int:
    return len(row.cells) - row.cells.count("")


def _first(row: Row) -> str:
    return next(filter(None, row.cells))[:_READ_CHARS]


def _excerpt(row: Row) -> str:
    text = " ".join(_first(row).split())
    return repr(text if len(text) <= _EXCERPT_CHARS else f"{text[:_EXCERPT_CHARS].rstrip()}…")
