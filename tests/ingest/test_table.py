from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import UndecodableText, UnreadableTable
from ingest.table import MAX_SKIPPED_LISTED, Record, Skipped, Table, open_table
from ingest.values import MISSING


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def records(table: Table) -> list[Record]:
    return [record for batch in table.batches() for record in batch]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
        ("cp1252", "cp1252"),
    ],
)
def test_an_encoding_is_found(tmp_path: Path, encoding: str, found: str) -> None:
    table = open_table(
        written(tmp_path / "a.csv", "Firma,Ort\nMüller & Söhne,Köln\n".encode(encoding))
    )
    assert records(table) == [{"Firma": "Müller & Söhne", "Ort": "Köln"}]
    assert table.encoding == found
    assert any("read as cp1252" in warning for warning in table.warnings) == (found == "cp1252")


def test_an_encoding_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "会社名,担当者\n株式会社アクメ,高橋 花子\n".encode("cp932"))
    table = open_table(path, encoding="Shift_JIS")
    assert records(table) == [{"会社名": "株式会社アクメ", "担当者": "高橋 花子"}]
    assert table.warnings == ()


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (b"a,b\n1,2\n3,\x81\n", None, "line 3: byte 0x81 is not text in cp1252"),
        (b"a,b\n1,\xe9\n", "utf-8", "line 2: byte 0xe9 is not text in utf-8"),
        (b"a,b\n", "klingon", "'klingon' is no text encoding"),
        (b"a,b\n", "base64", "'base64' is no text encoding"),
    ],
)
def test_wrong_bytes_are_refused(
    tmp_path: Path, content: bytes, encoding: str | None, message: str
) -> None:
    with pytest.raises(UndecodableText, match=message):
        open_table(written(tmp_path / "a.csv", content), encoding=encoding)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n \n,,\n", "nothing but blank lines"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "git lfs pull"),
        (b"PK\x03\x04rest", "workbook or ZIP"),
        (b"\x1f\x8brest", "gzip"),
        ("a,b\n1,2\n".encode("utf-16-le"), "NUL characters in the header"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableTable, match=message):
        open_table(written(tmp_path / "a.csv", content))


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTable, match="No such file"):
        open_table(tmp_path / "gone.csv")
    with pytest.raises(UnreadableTable, match="directory"):
        open_table(tmp_path)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    rows = [
        ["Name", "Betrag", "Notiz"],
        ["A", "1,5", "x; y"],
        ["B", "2,5", "a | b"],
        ["C", "3", ""],
    ]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    table = open_table(written(tmp_path / "a.csv", text.getvalue()))
    assert table.delimiter == delimiter
    assert [list(record.values()) for record in records(table)] == rows[1:]


def test_a_single_column_is_a_table(tmp_path: Path) -> None:
    assert records(open_table(written(tmp_path / "a.csv", "value\n01\n002\n00003"))) == [
        {"value": "01"},
        {"value": "002"},
        {"value": "00003"},
    ]


def test_ragged_rows_are_listed_by_line_and_the_others_read(tmp_path: Path) -> None:
    content = 'id,city\n1,"two\nlines"\n2\n\n3,a,b\n4,c,,\n'
    table = open_table(written(tmp_path / "a.csv", content))
    assert records(table) == [{"id": "1", "city": "two\nlines"}, {"id": "4", "city": "c"}]
    assert table.rows == 2
    assert table.skipped == (
        Skipped(4, "1 cell, the header has 2"),
        Skipped(6, "3 cells, the header has 2"),
    )


def test_the_list_of_skipped_rows_is_bounded_and_their_number_is_not(tmp_path: Path) -> None:
    content = "a,b\n" + "1,2\n" * (2 * MAX_SKIPPED_LISTED) + "x,y,z\n" * (MAX_SKIPPED_LISTED + 5)
    table = open_table(written(tmp_path / "a.csv", content))
    assert (len(table.skipped), table.skipped_total) == (MAX_SKIPPED_LISTED, MAX_SKIPPED_LISTED + 5)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('a,b\n1,2\n3,"open\n4,5\n', 3),
        ('a,b\n1,"x\ny"\n3,"open\n"4",5\n', 4),
        ('a,b\n"x"y,2\n', 2),
    ],
)
def test_an_unclosed_quote_is_an_error_with_its_line(
    tmp_path: Path, content: str, line: int
) -> None:
    with pytest.raises(UnreadableTable, match=f"line {line}: .*quote") as caught:
        open_table(written(tmp_path / "a.csv", content))
    assert caught.value.line == line


def test_duplicate_headers_are_numbered(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.csv", "id,name,id,id (2),id\n1,2,3,4,5\n"))
    assert list(table.columns) == ["id", "name", "id (3)", "id (2)", "id (4)"]
    assert list(records(table)[0].values()) == ["1", "2", "3", "4", "5"]


def test_a_blank_header_is_dropped_with_an_empty_column_and_named_with_a_full_one(
    tmp_path: Path,
) -> None:
    table = open_table(written(tmp_path / "a.csv", "id,,age,\n1,John,30,\n2,,26, \n"))
    assert list(table.columns) == ["id", "Column 2", "age"]
    assert records(table)[1] == {"id": "2", "Column 2": "", "age": "26"}
    assert table.warnings == ("column 2 has values but no header; it is called Column 2",)


def test_nul_characters_are_removed_and_told(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.csv", b"a,b\n1,2\n\x00,x\x00y\n"))
    assert records(table)[1] == {"a": "", "b": "xy"}
    assert table.warnings == ("NUL characters were removed from 1 rows, the first on line 3",)


def test_a_header_without_fitting_rows_is_told(tmp_path: Path) -> None:
    assert open_table(written(tmp_path / "a.csv", "a,b\n")).warnings == (
        "there are no rows below the header",
    )
    assert (
        "is that line the header"
        in (open_table(written(tmp_path / "b.csv", "# a comment\nid,name\n1,x\n")).warnings[0])
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_newline_ends_a_row(tmp_path: Path, newline: str) -> None:
    path = written(tmp_path / "a.csv", newline.join(["a,b", "1,2", '"x y",3', ""]))
    assert [list(record.values()) for record in records(open_table(path))] == [
        ["1", "2"],
        ["x y", "3"],
    ]


def test_a_very_long_cell_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", f"a,b\n{'x' * 300_000},2\n")
    assert len(records(open_table(path))[0]["a"]) == 300_000


@pytest.mark.parametrize(
    ("header", "cells", "column_type"),
    [
        ("Seats", ["1", "-2.50", "1,200", "NA", ""], "number"),
        ("Seats", ["1", "2", "many"], "text"),
        ("Value", ["01", "002"], "text"),
        ("Value", ["1", "12345678901234567"], "text"),
        ("Value", ["+1", "+2"], "text"),
        ("Value", ["1e5", "inf"], "text"),
        ("Value", ["1.200,50", "3,5"], "text"),
        ("Customer ID", ["1", "2"], "text"),
        ("Zip", ["90210", "10001"], "text"),
        ("Founded", ["1054", "1996"], "year"),
        ("Opened", ["1996", "2004", "2011"], "year"),
        ("Price", ["2000", "2000"], "number"),
        ("Signed", ["2026-10-15", "2026-10-16 00:00:00", "None"], "date"),
        ("Signed", ["2026-10-15", "2026-02-30"], "text"),
        ("Signed", ["10/15/2026"], "text"),
        ("Country", ["NA", "DE"], "text"),
        ("Nothing", ["", "NULL"], "text"),
    ],
)
def test_a_column_has_the_type_that_all_its_values_have(
    tmp_path: Path, header: str, cells: list[str], column_type: str
) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([[header, "other"], *([cell, "x"] for cell in cells)])
    assert open_table(written(tmp_path / "a.csv", text.getvalue())).columns[header] == column_type


def test_a_late_value_decides_the_type_too(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Seats,b\n" + "1,x\n" * 5_000 + "many,x\n")
    assert open_table(path).columns["Seats"] == "text"


def test_placeholders_are_missing_only_in_typed_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Delay,Country,Surname\n5,NA,Null\nNA,None,NULL\n")
    assert records(open_table(path)) == [
        {"Delay": "5", "Country": "NA", "Surname": "Null"},
        {"Delay": "", "Country": "None", "Surname": ""},
    ]


_CELL = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n"), max_size=8
).map(str.strip)


@settings(deadline=None, max_examples=50)
@given(
    rows=st.lists(st.lists(_CELL, min_size=3, max_size=3), max_size=20),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
)
def test_what_is_written_with_quotes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    # Enough plain rows to tell the delimiter by.
    writer.writerows([["A", "B", "C"], *[["x", "y", "z"]] * 30, *rows])
    path = written(tmp_path_factory.mktemp("table") / "a.csv", text.getvalue())
    table = open_table(path)
    wanted = [row for row in rows if any(row)]
    got = [list(record.values()) for record in records(table)][30:]
    assert got == [["" if cell in MISSING else cell for cell in row] for row in wanted]
    assert table.rows == 30 + len(wanted)


def test_a_quote_that_swallows_a_large_file_is_found_at_its_limit(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'a,b\n1,"open\n' + "x,y\n" * 600_000)
    with pytest.raises(UnreadableTable, match="line 2: a cell has over 2,000,000 characters"):
        open_table(path)
