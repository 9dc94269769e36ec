from __future__ import annotations

import gc
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest

from ingest import workbook
from ingest.errors import UnreadableTable
from ingest.sheets import filled_down, text_of
from ingest.table import Record, Table, open_table
from ingest.workbook import SheetRows
from tests.ingest.workbooks import Sheet, sheet_xml, write_ods, write_xlsx

MORNING = datetime.fromisoformat("2026-10-15T09:15")
DEALS = Sheet(
    "Deals",
    [
        ["Deal", "Value", "Share", "Signed", "Seen", "Won", "Phone"],
        ["A", 120000.0, 1200.5, date(2026, 10, 15), MORNING, True, 491512],
        ["B", 7, 0.25, date(2026, 11, 1), datetime.fromisoformat("2026-11-01"), False, "#N/A"],
        ["C", None, "#DIV/0!", None, None, None, "030 1234"],
    ],
)


def records(table: Table) -> list[Record]:
    return [record for batch in table.batches() for record in batch]


def test_cells_of_a_workbook_become_what_they_are(tmp_path: Path) -> None:
    table = open_table(write_xlsx(tmp_path / "a.xlsx", DEALS))
    assert (table.encoding, table.delimiter, table.sheet) == ("xlsx", "", "Deals")
    assert dict(table.columns) == {
        "Deal": "text",
        "Value": "number",
        "Share": "number",
        "Signed": "date",
        "Seen": "date",
        "Won": "boolean",
        "Phone": "text",
    }
    assert [list(record.values()) for record in records(table)] == [
        ["A", "120000", "1200.5", "2026-10-15", "2026-10-15 09:15", "Yes", "491512"],
        ["B", "7", "0.25", "2026-11-01", "2026-11-01", "No", ""],
        ["C", "", "", "", "", "", "030 1234"],
    ]
    assert table.warnings == ()


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (1e22, "10000000000000000000000"),
        (1.5e-7, "0.00000015"),
        (-0.1, "-0.1"),
        (5.551199999999998, "5.551199999999998"),
        (True, "TRUE"),
        (MORNING.replace(second=5), "2026-10-15 09:15:05"),
        (MORNING.time(), "09:15"),
        (timedelta(hours=36), "36:00"),
        (timedelta(minutes=5, seconds=7), "0:05:07"),
        (date(2026, 1, 2), "2026-01-02"),
        ("=1+1", "=1+1"),
    ],
)
def test_a_cell_has_one_text(cell: float | str | date | time | timedelta, text: str) -> None:
    assert text_of(cell) == text


def test_the_content_counts_not_the_name(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "export.csv", DEALS)
    assert open_table(path).rows == 3
    text = tmp_path / "export.xlsx"
    text.write_text("a,b\n1,2\n")
    assert open_table(text).delimiter == ","


def test_three_decimals_of_number_cells_are_decimals(tmp_path: Path) -> None:
    sheet = Sheet("S", [["Name", "Weight", "Note"], ["A", 1.234, "1.234"], ["B", 5.678, "5.678"]])
    table = open_table(write_xlsx(tmp_path / "a.xlsx", sheet))
    assert (table.columns["Weight"], table.columns["Note"]) == ("number", "text")
    assert records(table)[0]["Weight"] == "1.234"


def test_the_first_visible_sheet_with_a_table_is_read_and_the_others_are_named(
    tmp_path: Path,
) -> None:
    about = Sheet("Read me", [["How to use"], ["this workbook"]])
    hidden = Sheet("Lists", [["a", "b"], ["1", "2"]], is_hidden=True)
    path = write_xlsx(tmp_path / "a.xlsx", about, hidden, DEALS, Sheet("Pivot", [["x", "y"]]))
    table = open_table(path)
    assert table.sheet == "Deals"
    assert "others: 'Read me', 'Lists', 'Pivot'" in table.warnings[0]
    chosen = open_table(path, sheet="Lists")
    assert (records(chosen), chosen.warnings) == ([{"a": "1", "b": "2"}], ())
    with pytest.raises(UnreadableTable, match="no sheet 'Leads'; the sheets are 'Read me'"):
        open_table(path, sheet="Leads")


def test_cells_merged_over_rows_count_for_each_of_them(tmp_path: Path) -> None:
    sheet = Sheet(
        "S",
        [
            [None, "All contacts of 2026"],
            [None, "Company", "Contact", "City"],
            [None, "Acme", "Ann", "Bonn"],
            [None, None, "Bob", "Ulm"],
            [None, None, None],
            [None, "Beta", "Cy", "Jena"],
        ],
        merged=["B1:D1", "B3:B5"],
    )
    table = open_table(write_xlsx(tmp_path / "a.xlsx", sheet))
    assert [record["Company"] for record in records(table)] == ["Acme", "Acme", "Beta"]
    assert [(row.line, row.reason.split(":")[0]) for row in table.skipped] == [(1, "preamble")]
    assert table.header_row == 2


def test_a_merged_area_outside_the_cells_is_harmless() -> None:
    rows = filled_down(iter([["a"], ["b"]]), [((0, 5), (9, 5)), ((1, 0), (1_000_000, 3))])
    assert list(rows) == [["a"], ["b"]]


def test_totals_below_a_sheet_are_left_out_by_row_number(tmp_path: Path) -> None:
    sheet = Sheet("S", [["Deal", "Value", "Stage"], ["A", 5, "Won"], [], [None, None, None]])
    total = Sheet("S", [*sheet.rows, ["Total", 5, None]])
    table = open_table(write_xlsx(tmp_path / "a.xlsx", total))
    assert table.rows == 1
    assert [(row.line, row.reason.split(":")[0]) for row in table.skipped] == [(5, "summary")]


def test_an_open_document_sheet_is_read(tmp_path: Path) -> None:
    path = write_ods(tmp_path / "a.ods", "Blatt", [["Firma", "Sitze"], ["Müller", 12.0]])
    table = open_table(path)
    assert (table.encoding, table.sheet) == ("ods", "Blatt")
    assert records(table) == [{"Firma": "Müller", "Sitze": "12"}]


def test_a_grid_too_large_for_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    write_xlsx(path, DEALS)
    far = sheet_xml(Sheet("S", [["a"]])).replace(
        "</sheetData>", '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    )
    _replace(path, "xl/worksheets/sheet1.xml", far)
    with pytest.raises(UnreadableTable, match="too large to be loaded"):
        open_table(path)


def test_a_wide_and_long_sheet_is_refused_with_its_size(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", DEALS)
    far = sheet_xml(Sheet("S", [["a"]])).replace(
        "</sheetData>", '<row r="1000000"><c r="K1000000"><v>1</v></c></row></sheetData>'
    )
    _replace(path, "xl/worksheets/sheet1.xml", far)
    with pytest.raises(UnreadableTable, match="spans 1,000,000 rows and 11 columns"):
        open_table(path)


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", DEALS)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/zeros", bytes(workbook.MAX_UNPACKED_BYTES))
    with pytest.raises(UnreadableTable, match="unpacks to 300,0"):
        open_table(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [({"letter.txt": "Dear"}, "no workbook"), ({"xl/workbook.xml": "<"}, "can't be read")],
)
def test_an_archive_without_a_sound_workbook_is_refused(
    tmp_path: Path, members: dict[str, str], message: str
) -> None:
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    with pytest.raises(UnreadableTable, match=message):
        open_table(path)


def test_an_old_workbook_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xls"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(UnreadableTable, match="can't be read"):
        open_table(path)


def test_an_empty_workbook_and_a_sheet_of_a_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTable, match="no visible sheet with values"):
        open_table(write_xlsx(tmp_path / "a.xlsx", Sheet("S", [])))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UnreadableTable, match="this is no workbook"):
        open_table(tmp_path / "a.csv", sheet="S")


def test_the_copy_of_a_sheet_ends_with_its_rows(tmp_path: Path) -> None:
    rows = SheetRows(write_xlsx(tmp_path / "a.xlsx", DEALS), None)
    copy = rows.copy
    assert len(list(rows)) == len(list(rows)) == 4
    assert copy.exists()
    del rows
    gc.collect()
    assert not copy.exists()


def _replace(path: Path, name: str, text: str) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in (members | {name: text.encode()}).items():
            archive.writestr(member, content)
