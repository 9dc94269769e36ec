from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import UnreadableTable
from ingest.table import Record, Table, open_table


def written(folder: Path, text: str) -> Path:
    path = folder / "a.csv"
    path.write_text(text, encoding="utf-8")
    return path


def records(table: Table) -> list[Record]:
    return [record for batch in table.batches() for record in batch]


def kinds(table: Table) -> list[tuple[int, str]]:
    return [(row.line, row.reason.split(":")[0]) for row in table.skipped]


ROWS = "Name,City,Seats\nAcme,Bonn,5\nBeta,Ulm,7\n"


@pytest.mark.parametrize(
    ("above", "header_row"),
    [
        ("", 1),
        ("Customers of 2026\n", 2),
        ("Customers of 2026,,\nAs of,2026-11-30\n\n", 4),
        ("# exported\n# by hand\n", 3),
        ("sep=,\n", 2),
        ("\n\n,,\n", 4),
        ("Report,Customers,\nPage,1,\n\n", 4),
    ],
)
def test_the_header_is_found_under_titles(tmp_path: Path, above: str, header_row: int) -> None:
    table = open_table(written(tmp_path, above + ROWS))
    assert (table.header_row, table.rows) == (header_row, 2)
    assert list(table.columns) == ["Name", "City", "Seats"]
    assert {kind for _, kind in kinds(table)} <= {"preamble"}
    assert table.skipped_total == sum(any(line.strip(",")) for line in above.splitlines())


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_title_lines_do_not_spoil_the_delimiter(tmp_path: Path, delimiter: str) -> None:
    rows = ROWS.replace(",", delimiter)
    table = open_table(written(tmp_path, f"Customers, all; of 2026\nNotes | none\n\n{rows}"))
    assert (table.delimiter, table.rows, table.header_row) == (delimiter, 2, 4)


def test_decimal_commas_do_not_pass_for_delimiters(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "Name;Betrag\nA;1,5\nB;2,5\nC;3,5\n"))
    assert (table.delimiter, records(table)[0]) == (";", {"Name": "A", "Betrag": "1.5"})


def test_a_delimiter_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, "a~b\n1~2\n")
    assert records(open_table(path, delimiter="~")) == [{"a": "1", "b": "2"}]
    with pytest.raises(UnreadableTable, match="say one character"):
        open_table(path, delimiter="::")


def test_a_sparse_table_has_its_header_too(tmp_path: Path) -> None:
    header = ",".join(f"c{at}" for at in range(20))
    table = open_table(written(tmp_path, header + "\n" + f"x{',' * 19}\n" * 3 + f"{',' * 19}y\n"))
    assert (table.header_row, table.rows, table.skipped) == (1, 4, ())


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("Total,,12\n", [(4, "summary")]),
        ("TOTAL:,,12\n", [(4, "summary")]),
        ("Summe,,12\n", [(4, "summary")]),
        (",Grand total,12\n", [(4, "summary")]),
        ('"Grand Totals (2 records)"\n', [(4, "summary")]),
        ("Total,,\n", [(4, "summary")]),
        ("Subtotal,,12\nGamma,Jena,1\n", [(4, "summary")]),
        ("\nAll numbers are estimates\n", [(5, "note")]),
        ("* without partners,,\n", [(4, "note")]),
        ("Source: own survey,,\n", [(4, "summary")]),
        ("Copyright 2026 Acme. All rights reserved.\n", [(4, "summary")]),
        ("(c) 2026 Acme, inc. All rights reserved.\n", [(4, "summary")]),
        ("Total,,12\nprinted on Monday\nAnn\n", [(4, "summary"), (5, "note"), (6, "note")]),
    ],
)
def test_totals_and_notes_at_the_end_are_listed(
    tmp_path: Path, tail: str, expected: list[tuple[int, str]]
) -> None:
    table = open_table(written(tmp_path, ROWS + tail))
    assert kinds(table) == expected
    assert [record["Name"] for record in records(table)][:2] == ["Acme", "Beta"]
    assert table.rows == len(records(table)) == 2 + ("Gamma" in tail)


@pytest.mark.parametrize(
    "row",
    [
        "Total Wine,Bonn,5",
        "Total,Paris,5",
        "Total Wine,,",
        "Sum of Us,,5",
        "Confidential,,",
        "Copyright Agency,,",
        "Note,,",
        "Gamma,,",
        "©,,",
    ],
)
def test_a_customer_with_a_telling_name_stays(tmp_path: Path, row: str) -> None:
    table = open_table(written(tmp_path, ROWS + row + "\n"))
    assert (table.rows, table.skipped) == (3, ())
    in_between = open_table(written(tmp_path, f"{ROWS}\n{row}\n\nDelta,Kiel,3\n"))
    assert (in_between.rows, in_between.skipped) == (4, ())


def test_a_total_among_the_records_stays_and_counts_as_one(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, ROWS + "Total,,12\nGamma,Jena,1\n"))
    assert (table.rows, table.skipped) == (4, ())


def test_where_nearly_empty_records_are_usual_the_last_ones_stay(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "Name,City,Seats\nAcme,,\nBeta,Ulm,7\n\nGamma,,\n"))
    assert (table.rows, table.skipped) == (3, ())


def test_a_long_end_of_nearly_empty_rows_is_records(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, ROWS + "\n" + "Gamma,,\n" * 500))
    assert table.rows == 502


def test_a_row_short_of_cells_under_blank_headers_only_is_whole(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "id,name,,\n1,Ann\n2,Bob,,\n3\n"))
    assert records(table) == [{"id": "1", "name": "Ann"}, {"id": "2", "name": "Bob"}]
    assert table.skipped[0].reason == "1 cell, the header has 4"


def test_a_header_with_a_blank_name_stays_above_a_blank_line(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, ",Name,City\na,Ann,Bonn\n\nb,Bob,Ulm\n"))
    assert (table.header_row, table.rows) == (1, 2)


def test_a_header_can_be_given_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "A,B\n1,2\n\nName,City\nAcme,Bonn\n")
    table = open_table(path, header=4)
    assert (table.header_row, records(table)) == (4, [{"Name": "Acme", "City": "Bonn"}])
    assert kinds(table) == [(1, "preamble"), (2, "preamble")]
    with pytest.raises(UnreadableTable, match="header was said to be on line 3, but no row"):
        open_table(path, header=3)


def test_a_table_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    text = "00123;Müller;03.06.2020 15:04\n00124;Lodz;04.06.2020 09:00\n00125;Blau;\n"
    guessed = open_table(written(tmp_path, text))
    assert "looks like a record" in guessed.warnings[0]
    table = open_table(written(tmp_path, "Kunden\n\n" + text), header="none")
    assert (table.header_row, table.rows, kinds(table)) == (None, 3, [(1, "preamble")])
    assert records(table)[0] == {
        "Column 1": "00123",
        "Column 2": "Müller",
        "Column 3": "2020-06-03 15:04",
    }
    assert table.warnings == ()


def test_years_make_good_headers(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "Region,2024,2025,2026\nNorth,1,2,3\n"))
    assert (list(table.columns)[1:], table.warnings) == (["2024", "2025", "2026"], ())


def test_strict_refuses_a_file_that_would_lose_rows(tmp_path: Path) -> None:
    assert open_table(written(tmp_path, ROWS), strict=True).rows == 2
    path = written(tmp_path, "Title\n" + ROWS + "x,y\n" * 9)
    message = "10 rows are no records: line 1: preamble: 'Title'.*; line 5: 2 cells.*; and 5 more"
    with pytest.raises(UnreadableTable, match=message):
        open_table(path, strict=True)


_WORD = st.sampled_from(
    ["", "", "", "x", "12", "Total", "Grand Totals", "Subtotal", "* note", "Note: y", "©", "a,b"]
)


@settings(deadline=None, max_examples=150)
@given(
    rows=st.lists(st.lists(_WORD, min_size=1, max_size=5), min_size=1, max_size=25),
    header=st.sampled_from([None, "none"]),
)
def test_no_row_is_lost_in_silence(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    header: None,
) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path = written(tmp_path_factory.mktemp("layout"), text.getvalue())
    holding = [row for row in rows if any(row)]
    if not holding:
        with pytest.raises(UnreadableTable, match="nothing but blank lines"):
            open_table(path, header=header)
        return
    table = open_table(path, header=header)
    headers = 0 if table.header_row is None else 1
    assert table.rows + table.skipped_total + headers == len(holding)
    assert len(records(table)) == table.rows
    lines = [row.line for row in table.skipped]
    assert lines == sorted(set(lines))
