"""Small workbooks written by hand, since the product only reads them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from xml.sax.saxutils import escape

Cell = str | int | float | bool | date | None

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_DAY, _MOMENT = 1, 2
_EPOCH = datetime.fromisoformat("1899-12-30")
_ERRORS = ("#N/A", "#REF!", "#DIV/0!")


@dataclass(frozen=True)
class Sheet:
    name: str
    rows: Sequence[Sequence[Cell]]
    merged: Sequence[str] = ()
    is_hidden: bool = False


def write_xlsx(path: Path, *sheets: Sheet) -> Path:
    numbered = list(enumerate(sheets, start=1))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}"/></Types>',
        )
        archive.writestr("_rels/.rels", _relations(("r", "officeDocument", "xl/workbook.xml")))
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
            + "".join(
                f'<sheet name="{escape(sheet.name)}" sheetId="{at}" r:id="s{at}"'
                f' state="{"hidden" if sheet.is_hidden else "visible"}"/>'
                for at, sheet in numbered
            )
            + "</sheets></workbook>",
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            _relations(
                ("styles", "styles", "styles.xml"),
                *((f"s{at}", "worksheet", f"worksheets/sheet{at}.xml") for at, _ in numbered),
            ),
        )
        archive.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{_MAIN}"><cellXfs count="3"><xf numFmtId="0"/>'
            '<xf numFmtId="14"/><xf numFmtId="22"/></cellXfs></styleSheet>',
        )
        for at, sheet in numbered:
            archive.writestr(f"xl/worksheets/sheet{at}.xml", sheet_xml(sheet))
    return path


def sheet_xml(sheet: Sheet) -> str:
    rows = "".join(
        f'<row r="{line}">'
        + "".join(_cell(f"{chr(64 + at)}{line}", cell) for at, cell in enumerate(row, start=1))
        + "</row>"
        for line, row in enumerate(sheet.rows, start=1)
    )
    merged = "".join(f'<mergeCell ref="{cells}"/>' for cells in sheet.merged)
    ends = f"<mergeCells>{merged}</mergeCells>" if merged else ""
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData>{ends}</worksheet>'


def write_ods(path: Path, name: str, rows: Sequence[Sequence[str | float]]) -> Path:
    office = "urn:oasis:names:tc:opendocument:xmlns"
    cells = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p>'
            "</table:table-cell>"
            if isinstance(cell, str)
            else f'<table:table-cell office:value-type="float" office:value="{cell}"/>'
            for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml",
            f'<office:document-content xmlns:office="{office}:office:1.0"'
            f' xmlns:table="{office}:table:1.0" xmlns:text="{office}:text:1.0">'
            f'<office:body><office:spreadsheet><table:table table:name="{escape(name)}">'
            f"{cells}</table:table></office:spreadsheet></office:body></office:document-content>",
        )
        archive.writestr(
            "META-INF/manifest.xml",
            f'<manifest:manifest xmlns:manifest="{office}:manifest:1.0"/>',
        )
    return path


def _relations(*relations: tuple[str, str, str]) -> str:
    inside = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for name, kind, target in relations
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{inside}</Relationships>'


def _cell(place: str, cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return f'<c r="{place}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, str):
        if cell in _ERRORS:
            return f'<c r="{place}" t="e"><v>{cell}</v></c>'
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
    if isinstance(cell, date):
        moment = datetime.fromisoformat(cell.isoformat())
        serial = (moment - _EPOCH).total_seconds() / 86_400
        style = _MOMENT if isinstance(cell, datetime) else _DAY
        return f'<c r="{place}" s="{style}"><v>{serial!r}</v></c>'
    return f'<c r="{place}"><v>{cell!r}</v></c>'
