"""The document that tells of a whole table."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.document import TABLE_SUMMARY, Document, stable_id
from ingest.load import documents_from_file
from ingest.summary import MAX_COLUMNS, Summary
from ingest.tallies import MAX_LISTED, MAX_VALUES
from ingest.values import ColumnType

CUSTOMERS = """Customer Id,Company,Industry,Country,Contract Value,Renewal Date,Active
1,Acme,Mining,Germany,120000,2026-10-15,yes
2,Globex,Retail,Germany,8400.50,2027-01-01,no
3,Initech,Retail,France,,2026-02-01,yes
"""


def summary_of(folder: Path, text: str, name: str = "crm.csv", **options: str) -> Document:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    load = documents_from_file(path, kind=options.get("kind"), currency=options.get("currency"))
    assert sum(len(batch) for batch in load.batches()) == load.report().documents
    document = load.summary()
    assert document is not None
    return document


def test_it_answers_how_many_which_and_in_total(tmp_path: Path) -> None:
    document = summary_of(tmp_path, CUSTOMERS)
    assert document.text.split("\n\n") == [
        "Table crm.csv has 3 customers. Each row is one of them: there are 3 customers in all."
        " Columns: Customer Id, Company, Industry, Country, Contract Value, Renewal Date, Active.",
        "Of the 3 customers in crm.csv, counted by Customer Id: 1 (1), 2 (1), 3 (1)."
        " Customer Id has 3 different values.",
        "Of the 3 customers in crm.csv, counted by Company: Acme (1), Globex (1), Initech (1)."
        " Company has 3 different values.",
        "Of the 3 customers in crm.csv, counted by Industry: Retail (2), Mining (1)."
        " Industry has 2 different values.",
        "Of the 3 customers in crm.csv, counted by Country: Germany (2), France (1)."
        " Country has 2 different values.",
        "Of the 3 customers in crm.csv, the total Contract Value is $128,400.50. Contract Value"
        " lies between $8,400.50 and $120,000 and is $64,200.25 on average."
        " 1 has no Contract Value.",
        "Of the 3 customers in crm.csv, counted by the year of Renewal Date: 2026 (2), 2027 (1)."
        " Renewal Date lies between 2026-02-01 and 2027-01-01.",
        "Of the 3 customers in crm.csv, counted by Active: Yes (2), No (1)."
        " Active has 2 different values.",
    ]
    assert (document.id, document.source, document.doc_type) == (
        stable_id("crm.csv", "summary"),
        "crm.csv",
        "table_summary",
    )
    assert document.metadata == {"kind": "customer", "rows": 3}


def test_the_same_rows_in_another_order_give_the_same_document(tmp_path: Path) -> None:
    chosen = random.Random(3)
    rows = [
        f"{n},{chosen.choice('abc')},{chosen.randint(0, 3000)},{chosen.random()}"
        for n in range(3_000)
    ]
    first = summary_of(tmp_path, "\n".join(["id,letter,many,share", *rows]))
    chosen.shuffle(rows)
    second = summary_of(tmp_path, "\n".join(["id,letter,many,share", *rows]))
    assert first.fingerprint() == second.fingerprint()


def test_currencies_are_not_added_up(tmp_path: Path) -> None:
    rows = ["a,Won,$100", "b,Won,€50", "c,Lost,$20"]
    text = summary_of(tmp_path, "\n".join(["Deal Name,Deal Stage,Amount", *rows])).text
    assert "crm.csv has 3 deals." in text
    assert "the total Amount in EUR is €50. The total Amount in USD is $120." in text


def test_the_total_of_some_amounts_is_not_told_as_that_of_all(tmp_path: Path) -> None:
    text = summary_of(tmp_path, "Deal Name,Stage,Amount\na,Won,$100\nb,Won,50\n").text
    assert "the total Amount without a currency is 50. The total Amount in USD is $100." in text


def test_a_given_currency_is_that_of_the_total(tmp_path: Path) -> None:
    assert "the total Contract Value is €128,400.50." in (
        summary_of(tmp_path, CUSTOMERS, currency="EUR").text
    )


def test_a_repeated_row_with_a_key_is_one_thing_and_without_a_key_two(tmp_path: Path) -> None:
    keyed = summary_of(tmp_path, "id,city\n1,Rome\n1,Rome\n2,Oslo\n")
    assert "counted by City: Oslo (1), Rome (1)." in keyed.text
    sales = summary_of(tmp_path, "city,amount\nRome,5\nRome,5\nOslo,1\n")
    assert "counted by City: Rome (2), Oslo (1)." in sales.text
    assert "The total Amount is 11." in sales.text


@pytest.mark.parametrize(
    ("header", "cells", "column_type", "told"),
    [
        ("lat", ["1.5", "2.5"], "number", "Lat lies between 1.5 and 2.5 and is 2 on average."),
        ("Total", ["1", "2"], "number", "Total in all is 3. Total lies between 1 and 2"),
        (
            "Index",
            ["1", "2"],
            "number",
            "columns that are not counted: Index (2 different values).",
        ),
        ("Notes", ["x" * 81], "text", "columns that are not counted: Notes (texts, 1 in all)."),
        (
            "Ref",
            [f"r{n}" for n in range(MAX_VALUES + 1)],
            "text",
            "Ref (more than 1,000 different values)",
        ),
        ("Ref", [f"r{n}" for n in range(30)], "text", "Ref (30 different values)"),
        ("Founded", ["1990", "2001"], "year", "counted by Founded: 1990 (1), 2001 (1)."),
    ],
)
def test_what_is_told_of_a_column(
    header: str, cells: list[str], column_type: ColumnType, told: str
) -> None:
    summary = Summary("t.csv", "rows", {header: column_type})
    for cell in cells:
        summary.add({header: cell})
    assert told in summary.text()
    assert "the total" not in summary.text().lower()


def test_of_many_values_the_most_frequent_are_listed() -> None:
    summary = Summary("t.csv", "rows", {"Tag": "text"})
    for n in range(100):
        for _ in range(n + 1):
            summary.add({"Tag": f"a rather long tag {n:02}"})
    text = summary.text()
    assert text.index("tag 99 (100)") < text.index("tag 98 (99)") < text.index("continued")
    assert f"tag {100 - MAX_LISTED} (" in text
    assert f"tag {99 - MAX_LISTED} (" not in text
    assert "40 other values." in text
    assert "Of the 5,050 rows in t.csv, counted by Tag, continued: " in text


def test_a_table_without_rows_has_no_summary(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("a,b\n")
    load = documents_from_file(path)
    assert list(load.batches()) == []
    assert load.summary() is None


def test_a_wide_table_stays_bounded() -> None:
    types: dict[str, ColumnType] = {f"column number {n}": "text" for n in range(2_000)}
    summary = Summary("t.csv", "rows", types)
    summary.add(dict.fromkeys(types, "x"))
    assert summary.text().count("counted by Column") == MAX_COLUMNS
    assert "1,900 more, not counted here." in summary.text()


_CELLS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=90)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(_CELLS, _CELLS), min_size=1, max_size=80), st.text(max_size=200))
def test_every_paragraph_is_a_chunk_of_its_own(rows: list[tuple[str, str]], name: str) -> None:
    summary = Summary(name, "rows", {"A": "text", "B" * 200: "text"})
    for a, b in rows:
        summary.add({"A": a, "B" * 200: b})
    document = Document("1", summary.text(), "t.csv", TABLE_SUMMARY)
    assert document.passages() == document.text.split("\n\n")
