"""Excel and OpenDocument workbooks -> rows of text cells. Touches: the file, a temporary copy."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest import sheets
from ingest.errors import UnreadableTable
from ingest.rows import Row

MAX_UNPACKED_BYTES = 300_000_000
MAX_SECONDS = 120

_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
_ZIP = b"PK\x03\x04"
_MEMBERS = {"xl/workbook.xml": "xlsx", "xl/workbook.bin": "xlsb", "content.xml": "ods"}


def workbook_kind(path: Path) -> str | None:
    """Return `xlsx`, `xlsb`, `ods` or `xls` by the file's content, None if it is no workbook.

    Raises UnreadableTable for a ZIP archive that holds none, or that unpacks to too much.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if head == _OLD_EXCEL:
        return "xls"
    if head != _ZIP:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member.file_size for member in archive.infolist()}
    except zipfile.BadZipFile as error:
        raise UnreadableTable("this is a workbook or ZIP archive that is broken") from error
    kind = next((kind for name, kind in _MEMBERS.items() if name in members), None)
    if kind is None:
        raise UnreadableTable("this is a ZIP archive and no workbook; unpack it first")
    if (size := sum(members.values())) > MAX_UNPACKED_BYTES:
        raise UnreadableTable(
            f"the workbook unpacks to {size:,} bytes; at most {MAX_UNPACKED_BYTES:,} are read,"
            " so save the sheet as CSV"
        )
    return kind


class SheetRows:
    """The rows of one sheet, copied as text to a temporary file that lives as long as this object.

    `line` of a row is its number in the sheet. `pointed` are the places of columns with number
    cells that have a fraction: their decimal mark is the point, whatever the sheet displays.
    """

    def __init__(self, path: Path, sheet: str | None) -> None:
        """Copy the sheet: the one named, or the first visible one that holds a table.

        Raises UnreadableTable if there is none, if it is too large, or if the file is broken.
        """
        with tempfile.NamedTemporaryFile(suffix=".jsonl", delete=False) as file:
            self.copy = Path(file.name)
        weakref.finalize(self, self.copy.unlink, missing_ok=True)
        told = _converted(path, self.copy, sheet or "")
        self.sheet: str = told["sheet"]
        self.others: tuple[str, ...] = tuple(told["others"])
        self.pointed: frozenset[int] = frozenset(told["pointed"])

    def __iter__(self) -> Iterator[Row]:
        with self.copy.open(encoding="utf-8") as file:
            after_blank = False
            for text in file:
                line, *raw = json.loads(text)
                cells = [cell.replace("\0", "").strip() for cell in raw]
                if any(cells):
                    yield Row(line, cells, any("\0" in cell for cell in raw), after_blank)
                after_blank = not any(cells)


def _converted(path: Path, target: Path, sheet: str) -> dict[str, Any]:
    # -P: the folder of ingest must not stand in for the standard library's modules.
    command = [sys.executable, "-P", sheets.__file__, str(path.resolve()), str(target), sheet]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=MAX_SECONDS)  # noqa: S603 - our own script
    except subprocess.TimeoutExpired as error:
        raise UnreadableTable(
            f"the workbook was not read within {MAX_SECONDS} seconds; save the sheet as CSV"
        ) from error
    if ran.returncode != 0:
        raise UnreadableTable(
            "the workbook is broken, or its sheet is too large to be loaded; save it as CSV"
        )
    told: dict[str, Any] = json.loads(ran.stdout)
    if "error" in told:
        raise UnreadableTable(told["error"])
    return told
