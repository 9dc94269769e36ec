"""One sheet of a workbook -> lines of JSON, as a process of its own. Touches: two files.

Run by ingest/workbook.py. The library loads a sheet whole, as a grid: two cells, one of them in the
last corner, make it ask for 512 GB, which no code can catch. Here it takes only this process down.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from python_calamine import (
    CalamineError,
    CalamineSheet,
    CalamineWorkbook,
    PasswordError,
    SheetTypeEnum,
    SheetVisibleEnum,
)

Cell = int | float | str | bool | time | date | datetime | timedelta

MAX_MEMORY_BYTES = 1 << 30
MAX_CELLS = 10_000_000


class Refused(Exception):
    """The workbook has no sheet that can be read; the message says why."""


def main(workbook: str, target: str, sheet: str) -> None:
    """Write the sheet's rows to `target`, one JSON list [row, cells…] a line, the row from 1.

    sheet: its name, or "" for the first visible one that holds a table.
    Prints {"sheet", "others", "pointed"} or {"error"} as JSON.
    """
    _limit_memory()
    try:
        told = _convert(workbook, target, sheet)
    except Refused as error:
        told = {"error": str(error)}
    except PasswordError:
        told = {"error": "the workbook is protected by a password"}
    except CalamineError as error:
        told = {"error": f"the workbook can't be read: {error}"}
    print(json.dumps(told))


def text_of(cell: Cell) -> str:
    """Return the cell as text: numbers without exponent, dates in ISO form."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, int):
        return str(cell)
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else f"{Decimal(repr(cell)):f}"
    if isinstance(cell, datetime):
        return cell.strftime("%Y-%m-%d %H:%M:%S").removesuffix(" 00:00:00").removesuffix(":00")
    if isinstance(cell, time):
        return cell.strftime("%H:%M:%S").removesuffix(":00")
    if isinstance(cell, timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
    return cell.isoformat()


def filled_down(
    rows: Iterator[list[Cell]], merged: list[tuple[tuple[int, int], tuple[int, int]]]
) -> Iterator[list[Cell]]:
    """Yield the rows with the value of cells that are merged over several rows in each of them.

    A row with nothing but such cells stays empty. Cells merged over columns keep their value in the
    first: that is how titles are set.
    """
    starts: dict[int, list[tuple[int, int]]] = {}
    for (top, left), (bottom, _) in merged:
        if bottom > top:
            starts.setdefault(top, []).append((left, bottom))
    open_until: dict[int, tuple[int, Cell]] = {}
    for at, row in enumerate(rows):
        holds_anything = any(cell != "" for cell in row)
        for left, (bottom, value) in list(open_until.items()):
            if at > bottom:
                del open_until[left]
            elif holds_anything and row[left] == "":
                row[left] = value
        for left, bottom in starts.get(at, []):
            if left < len(row):
                open_until[left] = (bottom, row[left])
        yield row


def _convert(path: str, target: str, name: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        workbook = CalamineWorkbook.from_filelike(file)
        sheet = _chosen(workbook, name)
        pointed: set[int] = set()
        start = sheet.start[1] if sheet.start is not None else 0
        merged = [
            ((top, left - start), (bottom, right - start))
            for (top, left), (bottom, right) in sheet.merged_cell_ranges or []
            if left >= start
        ]
        with open(target, "w", encoding="utf-8") as out:
            for line, row in enumerate(filled_down(sheet.iter_rows(), merged), start=1):
                for at, cell in enumerate(row):
                    if isinstance(cell, float) and not cell.is_integer():
                        pointed.add(at)
                out.write(json.dumps([line, *map(text_of, row)]) + "\n")
        others = [other for other in workbook.sheet_names if other != sheet.name]
    return {"sheet": sheet.name, "others": others, "pointed": sorted(pointed)}


def _chosen(workbook: CalamineWorkbook, name: str) -> CalamineSheet:
    if name:
        if name not in workbook.sheet_names:
            named = ", ".join(map(repr, workbook.sheet_names))
            raise Refused(f"there is no sheet {name!r}; the sheets are {named}")
        return _checked(workbook.get_sheet_by_name(name))
    fallback: CalamineSheet | None = None
    for about in workbook.sheets_metadata:
        if (about.typ, about.visible) != (SheetTypeEnum.WorkSheet, SheetVisibleEnum.Visible):
            continue
        sheet = _checked(workbook.get_sheet_by_name(about.name))
        if _holds_a_table(sheet):
            return sheet
        if fallback is None and sheet.height:
            fallback = sheet
    if fallback is None:
        raise Refused("the workbook holds no visible sheet with values")
    return fallback


def _checked(sheet: CalamineSheet) -> CalamineSheet:
    if sheet.height * sheet.width > MAX_CELLS:
        raise Refused(
            f"sheet {sheet.name!r} spans {sheet.height:,} rows and {sheet.width:,} columns;"
            f" at most {MAX_CELLS:,} cells are read, so save it as CSV"
        )
    return sheet


def _holds_a_table(sheet: CalamineSheet) -> bool:
    wide = 0
    for row in sheet.iter_rows():
        wide += sum(cell != "" for cell in row) > 1
        if wide > 1:
            return True
    return False


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        # Only Unix can; elsewhere a bomb ends in this process all the same, just later.
        return
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
