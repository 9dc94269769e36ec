"""Public files as they are, with the results that were worked out for them."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import UndecodableText
from ingest.table import Record, Table, open_table
from ingest.values import spoken

FOLDER = Path(__file__).parents[3] / "shared" / "csv"
GROWTH_LIMIT_KB = 80_000
# In a process of its own, so that the high-water mark is this file's alone.
MEASURED = """
import resource, sys
from pathlib import Path
import pandas
from ingest.table import open_table
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = open_table(Path(sys.argv[1]))
yielded = sum(len(batch) for batch in table.batches())
growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(table.rows, yielded, growth)
"""

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="THE REAL SAMPLE FILES ARE MISSING: no folder ../shared/csv"
)


def _expected() -> dict[str, dict[str, Any]]:
    """Return what the folder says of its files, by base name."""
    if not FOLDER.is_dir():
        return {}
    everything = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    return {Path(name).name: wanted for name, wanted in everything.items()}


EXPECTED = _expected()
DATA = [
    path.name
    for path in sorted(FOLDER.glob("*"))
    if path.suffix in (".csv", ".tsv", ".txt", ".xlsx", ".xls")
]
NAMED = [name for name in DATA if name in EXPECTED]


@cache
def opened(name: str) -> Table:
    # Japanese can't be told from cp1252; all others must be found out.
    return open_table(FOLDER / name, encoding="cp932" if name == "D6_kokyaku_cp932.csv" else None)


def records(name: str) -> list[Record]:
    return [record for batch in opened(name).batches() for record in batch]


def rows_by_line(name: str) -> dict[int, int]:
    """Return the number of each row by its line: a quoted cell may go over several lines."""
    table = opened(name)
    numbers: dict[int, int] = {}
    with (FOLDER / name).open(encoding=table.encoding, newline="") as file:
        reader = csv.reader(file, delimiter=table.delimiter)
        line = 1
        for number, _ in enumerate(reader, start=1):
            numbers[line] = number
            line = reader.line_num + 1
    return numbers


def words(label: str) -> str:
    return re.sub(r"[\W_]+", "", label).casefold()


def sample(text: str, columns: list[str]) -> dict[str, str]:
    """Return the values of `Record: label is value; label is value.` by column.

    A value may hold a semicolon, so that a part which begins with no label goes on the one before.
    """
    labels = {words(column): column for column in columns}
    values: dict[str, str] = {}
    column = ""
    for part in text.removeprefix("Record: ").removesuffix(".").split("; "):
        label, separator, value = part.partition(" is ")
        if separator and words(label) in labels:
            column = labels[words(label)]
            values[column] = value
        else:
            values[column] += f"; {part}"
    return values


@pytest.mark.parametrize("name", NAMED)
def test_a_file_has_the_rows_and_columns_that_were_counted(name: str) -> None:
    table, want = opened(name), EXPECTED[name]
    assert table.rows == len(records(name)) == want["documents"]
    assert list(table.columns) == want["columns"]
    assert (table.encoding, table.delimiter) == (want["encoding"], want["delimiter"])


@pytest.mark.parametrize("name", NAMED)
def test_what_is_no_record_is_listed_with_its_place_and_kind(name: str) -> None:
    table, want = opened(name), EXPECTED[name]
    numbers = rows_by_line(name) if want["skipped"] else {}
    found = [[numbers[row.line], row.reason.split(":")[0]] for row in table.skipped]
    assert (found, table.skipped_total) == (want["skipped"], want["skipped_total"])


@pytest.mark.parametrize("name", NAMED)
def test_the_sample_row_says_every_value_of_the_expected_one(name: str) -> None:
    table, want = opened(name), EXPECTED[name]
    first = next(table.batches())[0]
    said = {header: spoken(first[header], kind) for header, kind in table.columns.items()}
    assert {header: value for header, value in said.items() if value} == sample(
        want["sample"], want["columns"]
    )


@pytest.mark.parametrize("name", sorted(set(DATA) - set(NAMED)))
def test_a_file_without_an_expectation_is_read(name: str) -> None:
    assert len(records(name)) == opened(name).rows


def test_the_folder_has_the_files_that_are_worth_a_test() -> None:
    assert len(NAMED) >= 12
    assert len(DATA) >= 28


def test_namibia_keeps_its_code_and_afghanistan_its_zeros() -> None:
    countries = {record["name"]: record for record in records("08_iso3166_all.csv")}
    assert countries["Namibia"]["alpha-2"] == "NA"
    assert countries["Afghanistan"]["country-code"] == "004"


def test_blank_charges_of_new_customers_are_missing() -> None:
    without = [r for r in records("02_telco_churn.csv") if not r["TotalCharges"]]
    assert len(without) == 11
    assert opened("02_telco_churn.csv").columns["TotalCharges"] == "number"


def test_leading_zeros_stay() -> None:
    values = [record["value"] for record in records("13_frictionless_leading-zeros.csv")]
    assert values == ["01", "002", "00003"]


def test_european_decimals_are_read_in_a_comma_file() -> None:
    assert records("10_csvkit_test_locale.csv") == [{"a": "1.7", "b": "200000000", "c": ""}]


def test_what_excel_cut_off_is_told() -> None:
    (warning,) = opened("D4_excel_mangled.csv").warnings
    assert "column 'Phone' holds 4.91512E+11" in warning
    third = records("D4_excel_mangled.csv")[2]
    assert (third["Contract Value"], third["Signed"], third["Country"]) == ("-1500.25", "", "")


def test_the_edge_files_of_csvkit_are_read() -> None:
    for name in ("utf16_big", "utf16_little", "utf8_bom", "latin1"):
        assert opened(f"10_csvkit_test_{name}.csv").rows == 2
    assert records("10_csvkit_null_byte.csv") == [{"a": "", "b": "2", "c": "3"}]
    assert "NUL" in opened("10_csvkit_null_byte.csv").warnings[0]
    assert records("10_csvkit_mac_newlines.csv")[1]["a"] == "Once upon\ra time"
    assert list(opened("10_csvkit_test_header_newline.csv").columns) == ["start end", "b", "c"]


def test_a_japanese_file_without_its_encoding_is_refused_with_the_way_out() -> None:
    with pytest.raises(UndecodableText, match=r"line 1: .*; name the file's encoding"):
        open_table(FOLDER / "D6_kokyaku_cp932.csv")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KB on Linux")
def test_a_hundred_thousand_rows_pass_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "customers.csv"
    make = [sys.executable, str(FOLDER / "make_customers_100k.py"), str(path)]
    subprocess.run(make, check=True)
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    rows, yielded, growth_kb = map(int, ran.stdout.split())
    assert rows == yielded == 100_000
    assert growth_kb < GROWTH_LIMIT_KB
