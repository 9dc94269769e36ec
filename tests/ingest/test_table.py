from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import UndecodableText, UnreadableTable
from ingest.table import MAX_COLUMNS, MAX_SKIPPED_LISTED, Record, Skipped, Table, open_table
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
        (b"PK\x03\x04rest", "workbook or ZIP archive that is broken"),
        (b"<!DOCTYPE html>\n<p>Not found</p>", "an HTML page"),
        (b"<?xml version='1.0'?>\n<a/>", "an XML file"),
        (b"\x1f\x8brest", "gzip"),
        (b'{"a": 1, "b": [1, 2]}\n', "JSON"),
        (b'[{"a": 1}]\n', "JSON"),
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
        ["Name", "Note", "Notiz"],
        ["A", "1,5 gut", "x; y"],
        ["B", "2,5 gut", "a | b"],
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


def test_a_wide_table_is_read_in_small_batches(tmp_path: Path) -> None:
    columns = 4_000
    rows = [",".join(["x"] * columns), *[",".join(["1"] * columns)] * 60]
    table = open_table(written(tmp_path / "a.csv", "\n".join(rows)))
    assert len(set(table.columns)) == columns
    assert [len(batch) for batch in table.batches()] == [50, 10]


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
    assert table.warnings == ("NUL characters were removed from rows: 1, the first on line 3",)


def test_a_header_without_fitting_rows_is_told(tmp_path: Path) -> None:
    assert open_table(written(tmp_path / "a.csv", "a,b\n")).warnings == (
        "there are no rows below the header",
    )
    assert (
        "is that line the header"
        in (open_table(written(tmp_path / "b.csv", "id,name\n1,x,y\n")).warnings[0])
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_newline_ends_a_row(tmp_path: Path, newline: str) -> None:
    path = written(tmp_path / "a.csv", newline.join(["a,b", "1,2", '"x y",3', ""]))
    assert [list(record.values()) for record in records(open_table(path))] == [
        ["1", "2"],
        ["x y", "3"],
    ]


def test_a_table_of_more_columns_than_excel_has_is_refused(tmp_path: Path) -> None:
    most = ",".join(f"c{n}" for n in range(MAX_COLUMNS))
    path = written(tmp_path / "a.csv", f"{most},one more\n")
    with pytest.raises(UnreadableTable, match="16,385 columns; at most 16,384"):
        open_table(path)


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
        ("Value", ["1.200,50", "3,5"], "number"),
        ("Value", ["1.200,50", "1,200.50"], "text"),
        ("Value", ["1.200,50 €", "0,99 €"], "money"),
        ("Customer ID", ["1", "2"], "text"),
        ("Zip", ["90210", "10001"], "text"),
        ("Founded", ["1054", "1996"], "year"),
        ("Opened", ["1996", "2004", "2011"], "year"),
        ("Price", ["2000", "2000"], "number"),
        ("Signed", ["2026-10-15", "2026-10-16 00:00:00", "None"], "date"),
        ("Signed", ["2026-10-15", "2026-02-30"], "text"),
        ("Signed", ["10/15/2026"], "date"),
        ("Signed", ["10/15/2026", "15/10/2026"], "text"),
        ("Active", ["Ja", "nein", ""], "boolean"),
        ("Active", ["Yes", "Nein"], "text"),
        ("Active", ["Yes", "NA"], "text"),
        ("Active", ["1", "0"], "number"),
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


def test_amounts_are_canonical_whatever_their_style(tmp_path: Path) -> None:
    content = "Firma;Umsatz;Rabatt\nA;1.200,50 €;1.200\nB;-3.450,00 €;950\nC;k. A.;-\n"
    table = open_table(written(tmp_path / "a.csv", content.replace("k. A.", "NA")))
    assert dict(table.columns) == {"Firma": "text", "Umsatz": "money", "Rabatt": "number"}
    assert [list(record.values())[1:] for record in records(table)] == [
        ["€1200.50", "1200"],
        ["-€3450.00", "950"],
        ["", ""],
    ]


def test_a_column_that_may_be_read_in_two_ways_stays_text_with_a_warning(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.csv", "Name\tWeight\nA\t1.200\nB\t3.400\n"))
    assert table.columns["Weight"] == "text"
    assert records(table)[0]["Weight"] == "1.200"
    assert "column 'Weight' stays text" in table.warnings[0]


@pytest.mark.parametrize(
    ("content", "currency", "amounts"),
    [
        ("Deal,Value (EUR)\nA,5\nB,-7.5\n", None, ["5 EUR", "-7.5 EUR"]),
        ("Deal,Revenue in €\nA,5\n", "USD", ["5 EUR"]),
        ("Deal,Amount,Currency\nA,5,USD\nB,6,€\nC,7,\n", None, ["5 USD", "6 EUR", "7"]),
        ("Deal,Amount,Currency\nA,5,CZK\nB,6,\n", "EUR", ["5 CZK", "6 EUR"]),
        ("Deal,Contract value\nA,5\n", "EUR", ["5 EUR"]),
        ("Deal,Contract value\nA,5\n", "€", ["€5"]),
        ("Deal,Contract value\nA,5\n", "eur", ["5 EUR"]),
        ("Deal,Contract value\nA,5\n", "in EUR", ["5 EUR"]),
        ("Deal,Amount\nA,$5\nB,6\nC,£7\n", None, ["$5", "6", "£7"]),
        ("Deal,Amount\nA,$5\nB,6\n", "EUR", ["$5", "6 EUR"]),
        ("Deal,Amount\nA,5\n", None, ["5"]),
        ("Deal,Seats\nA,5\n", "EUR", ["5"]),
        ("Deal,New EUR customers\nA,5\n", None, ["5"]),
        ("Deal,Total employees\nA,5\n", "EUR", ["5"]),
        (
            "Deal,Amount,Currency\nA,5,eur\nB,6,US Dollar\nC,7,Ducats\n",
            None,
            ["5 EUR", "6 USD", "7"],
        ),
        ("Deal,Gross,Currency\nA,5,EUR\n", None, ["5 EUR"]),
        ("Deal,Gross weight,Currency\nA,5,EUR\n", None, ["5"]),
        ("Deal,Amount,Amount Currency\nA,5,USD\nB,6,GBP\n", "EUR", ["5 USD", "6 GBP"]),
        ("Deal,Deal - Value,Deal - Currency of Value\nA,5,USD\n", None, ["5 USD"]),
        ("Deal,Amount,Fee Currency,Fee\nA,5,USD,1\n", None, ["5"]),
        ("Deal,Amount,Currency,Amount Currency\nA,5,USD,CHF\n", None, ["5 CHF"]),
        ("Deal,Amount in company currency,Currency\nA,5,USD\n", None, ["5"]),
        ("Deal,Amount,Currency rate\nA,5,1.5\n", None, ["5"]),
        ("Deal,Revenue growth,Currency\nA,5,USD\n", None, ["5"]),
        ("Deal,Cost center,Currency\nA,5,USD\n", "EUR", ["5"]),
        ("Deal,Profit in %,Currency\nA,5,USD\n", None, ["5"]),
    ],
)
def test_a_currency_is_named_by_cell_header_column_or_caller_never_guessed(
    tmp_path: Path, content: str, currency: str | None, amounts: list[str]
) -> None:
    table = open_table(written(tmp_path / "a.csv", content), currency=currency)
    assert [list(record.values())[1] for record in records(table)] == amounts


def test_a_currency_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTable, match="'euros' is no currency"):
        open_table(written(tmp_path / "a.csv", "a,b\n1,2\n"), currency="euros")


def test_ambiguous_days_stay_text_until_someone_tells_the_order(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Deal,Signed,Ends\nA,3/4/2026,1/2/27\nB,,2/3/27\n")
    table = open_table(path)
    assert [table.columns[name] for name in ("Signed", "Ends")] == ["text", "text"]
    assert "column 'Signed'" in table.warnings[0]
    assert "dayfirst" in table.warnings[0]
    assert records(table)[0]["Signed"] == "3/4/2026"
    for dayfirst, day in ((True, "2026-04-03"), (False, "2026-03-04")):
        told = open_table(path, dayfirst=dayfirst)
        assert (told.columns["Signed"], records(told)[0]["Signed"]) == ("date", day)
        assert told.warnings == ()


def test_days_in_both_orders_in_one_column_stay_text_with_a_warning(tmp_path: Path) -> None:
    content = "Event,Start\nA,31/01/2026\nB,01/31/2026\n"
    table = open_table(written(tmp_path / "a.csv", content), dayfirst=True)
    assert [record["Start"] for record in records(table)] == ["31/01/2026", "01/31/2026"]
    assert table.warnings == (
        "column 'Start' stays text: some of its dates have the day first, and some the month",
    )


def test_eight_digits_are_a_day_only_under_a_header_that_says_so(tmp_path: Path) -> None:
    content = "Invoice Date,Rechnungsdatum,Seats\n20260131,20260201,20260131\n,20260203,20269999\n"
    table = open_table(written(tmp_path / "a.csv", content))
    assert dict(table.columns) == {
        "Invoice Date": "date",
        "Rechnungsdatum": "date",
        "Seats": "number",
    }
    assert list(records(table)[0].values()) == ["2026-01-31", "2026-02-01", "20260131"]


def test_a_zero_date_is_missing(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.csv", "Id,At\n1,0000-00-00\n2,2024-01-25\n"))
    assert [record["At"] for record in records(table)] == ["", "2024-01-25"]


@pytest.mark.parametrize("header", ["Country", "Billing country", "Land", "Language"])
def test_norway_and_slovenia_are_no_answers(tmp_path: Path, header: str) -> None:
    table = open_table(written(tmp_path / "a.csv", f"Name,{header}\nA,NO\nB,SI\nC,NO\n"))
    assert [record[header] for record in records(table)] == ["NO", "SI", "NO"]


@pytest.mark.parametrize("header", ["Cell", "Rufnummer", "Celular", "Work cell"])
def test_a_phone_number_by_any_name_has_no_separators(tmp_path: Path, header: str) -> None:
    table = open_table(written(tmp_path / "a.csv", f"Name,{header},Cell count\nA,4155550100,7\n"))
    assert dict(table.columns) == {"Name": "text", header: "text", "Cell count": "number"}


def test_a_second_table_below_a_blank_line_is_told(tmp_path: Path) -> None:
    content = "Region,Q1\nNorth,1\nSouth,3\n\nManager,Phone\nAnn,0123\n"
    table = open_table(written(tmp_path / "a.csv", content))
    assert [warning for warning in table.warnings if "blank lines" in warning] == [
        "there are blank lines between rows, the first before line 5; if another table begins"
        " there, save it as a file of its own"
    ]


def test_blank_lines_everywhere_are_not_told(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.csv", "a,b\n\n1,2\n\n3,4\n\n5,6\n"))
    assert (table.rows, table.warnings) == (3, ())


def test_a_file_of_two_encodings_is_told(tmp_path: Path) -> None:
    content = "name,city\nMüller,Köln\n".encode() + "Bäcker,Zürich\n".encode("cp1252")
    table = open_table(written(tmp_path / "a.csv", content))
    assert table.warnings == (
        "some letters are UTF-8 and some cp1252, as which all were read: save it anew",
    )


def test_another_column_of_the_file_may_tell_the_order(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Deal,Signed,Ends\nA,3/4/2026,1/31/2027\n")
    assert records(open_table(path))[0]["Signed"] == "2026-03-04"


def test_digits_that_a_spreadsheet_cut_are_told(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.csv", "Name,Phone\nA,4.91512E+11\nB,030 1\n"))
    assert records(table)[0]["Phone"] == "4.91512E+11"
    assert "column 'Phone' holds 4.91512E+11" in table.warnings[0]


def test_truths_are_said_in_one_way(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Firma,Aktiv,Won\nA,Ja,TRUE\nB,nein,false\nC,NULL,true\n")
    assert [list(record.values())[1:] for record in records(open_table(path))] == [
        ["Yes", "Yes"],
        ["No", "No"],
        ["", "Yes"],
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
    # Plain rows tell the delimiter, keep the columns text, and leave nothing to close the table.
    plain = ["x", "y", "z"]
    writer.writerows([["A", "B", "C"], *[plain] * 30, *rows, plain])
    path = written(tmp_path_factory.mktemp("table") / "a.csv", text.getvalue())
    table = open_table(path)
    wanted = [row for row in rows if any(row)]
    got = [list(record.values()) for record in records(table)][30:-1]
    assert got == [["" if cell in MISSING else cell for cell in row] for row in wanted]
    assert table.rows == 31 + len(wanted)


def test_a_quote_that_swallows_a_large_file_is_found_at_its_limit(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'a,b\n1,"open\n' + "x,y\n" * 600_000)
    with pytest.raises(UnreadableTable, match="line 2: a cell has over 2,000,000 characters"):
        open_table(path)
