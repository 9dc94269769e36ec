from __future__ import annotations

import random
from pathlib import Path

import pytest

from ingest.document import Document
from ingest.errors import UnknownColumn, UnknownKind, UnreadableTable
from ingest.load import Load, documents_from_file

HEADER = "Customer Id,Company,Industry,Email"
ROWS = [f"{n:03},Company {n},Retail,office@c{n}.example" for n in range(250)]


def file_of(folder: Path, *lines: str, name: str = "customers.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def documents(load: Load) -> list[Document]:
    return [document for batch in load.batches() for document in batch]


def test_a_row_becomes_a_document_with_a_report(tmp_path: Path) -> None:
    load = documents_from_file(file_of(tmp_path, HEADER, "007,Acme,Mining,a@acme.example", "8"))
    (document,) = documents(load)
    assert document.text == (
        "Company Acme operates in the Mining industry. Customer Id: 007. Email: a@acme.example."
    )
    assert (document.source, document.doc_type) == ("customers.csv", "customer")
    assert document.metadata == {
        "customer_id": "007",
        "company": "Acme",
        "industry": "Mining",
        "email": "a@acme.example",
    }
    report = load.report()
    assert (report.rows, report.documents, report.duplicates) == (1, 1, 0)
    assert [(row.line, row.reason) for row in report.skipped] == [(3, "1 cell, the header has 4")]
    assert (report.key, report.kind, report.encoding, report.delimiter) == (
        "Customer Id",
        "customer",
        "utf-8",
        ",",
    )
    assert report.columns["Customer Id"] == "text"


def test_batches_are_bounded_and_progress_is_counted(tmp_path: Path) -> None:
    load = documents_from_file(file_of(tmp_path, HEADER, *ROWS))
    assert load.rows == 250
    assert [(len(batch), load.rows_read) for batch in load.batches()] == [
        (100, 100),
        (100, 200),
        (50, 250),
    ]


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("Customer Id,Company,Industry,Email", "Customer Id"),
        ("Seq,Company,Industry,Email", "Email"),
        ("Seq,Company,Industry,Contact", "Company"),
        ("Seq,Firm,Industry,Contact", None),
    ],
)
def test_ids_are_the_same_in_any_order_and_on_every_run(
    tmp_path: Path, header: str, key: str | None
) -> None:
    first = documents_from_file(file_of(tmp_path, header, *ROWS))
    before = {document.id: document.fingerprint() for document in documents(first)}
    shuffled = random.Random(5).sample(ROWS, len(ROWS))
    second = documents_from_file(file_of(tmp_path, header, *shuffled))
    assert {document.id: document.fingerprint() for document in documents(second)} == before
    assert len(before) == 250
    assert first.report().key == key


def test_a_changed_row_keeps_its_id_and_changes_its_fingerprint(tmp_path: Path) -> None:
    (old,) = documents(documents_from_file(file_of(tmp_path, HEADER, "7,Acme,Mining,a@a.example")))
    changed = file_of(tmp_path, HEADER, "1,New,Retail,n@n.example", "7,Acme Ltd,Mining,a@a.example")
    new = documents(documents_from_file(changed))[1]
    assert new.id == old.id
    assert new.fingerprint() != old.fingerprint()


def test_another_source_makes_other_ids(tmp_path: Path) -> None:
    path = file_of(tmp_path, HEADER, ROWS[0])
    (one,) = documents(documents_from_file(path))
    (two,) = documents(documents_from_file(path, source="crm"))
    assert (one.source, two.source) == ("customers.csv", "crm")
    assert one.id != two.id


def test_rows_that_say_the_same_collapse_and_are_counted(tmp_path: Path) -> None:
    for header in (HEADER, "A,B,C,D"):
        load = documents_from_file(file_of(tmp_path, header, ROWS[0], ROWS[1], ROWS[0], ROWS[0]))
        assert len(documents(load)) == 2
        assert (load.report().duplicates, load.rows_read) == (2, 4)


def test_one_company_in_two_different_rows_is_two_documents(tmp_path: Path) -> None:
    path = file_of(tmp_path, "Company,Industry", "Acme,Mining", "ACME,Retail", "Beta,Retail")
    load = documents_from_file(path)
    assert len({document.id for document in documents(load)}) == 3
    assert load.report().key is None


def test_a_declared_key_may_repeat_or_be_blank_without_a_row_being_lost(tmp_path: Path) -> None:
    lines = ["x,1", "x,2", "y,3", ",4", "y,3"]
    load = documents_from_file(file_of(tmp_path, "Account Ref,Note", *lines), key="account_ref")
    before = {document.id for document in documents(load)}
    assert len(before) == 4
    assert load.report().duplicates == 1
    assert load.report().warnings == (
        "rows without Account Ref, which are known by their content: 1",
        "values of Account Ref that stand in several different rows, each of which is a document"
        " of its own: 1",
    )
    turned = file_of(tmp_path, "Account Ref,Note", *reversed(lines))
    again = documents(documents_from_file(turned, key="Account Ref"))
    assert {document.id for document in again} == before


def test_a_row_without_values_becomes_no_document(tmp_path: Path) -> None:
    load = documents_from_file(file_of(tmp_path, "A,B", "NULL,NULL", "1,2"))
    assert [document.text for document in documents(load)] == ["A: 1. B: 2."]
    assert load.report().warnings == ("rows without values, which became no documents: 1",)


def test_an_unknown_key_or_kind_is_refused_before_the_first_document(tmp_path: Path) -> None:
    path = file_of(tmp_path, HEADER, *ROWS)
    with pytest.raises(UnknownColumn, match="no column 'Nr'; the columns are: Customer Id, Comp"):
        documents_from_file(path, key="Nr")
    with pytest.raises(UnknownKind, match="no kind 'poem'"):
        documents_from_file(path, kind="poem")


def test_a_deal_is_known_by_its_own_id_not_by_its_companys(tmp_path: Path) -> None:
    header = "Company ID,Deal ID,Deal Name,Deal Stage"
    first = documents_from_file(file_of(tmp_path, header, "c1,d1,A,Won", "c2,d2,B,Won"))
    second = documents_from_file(file_of(tmp_path, header, "c1,d1,A,Won", "c1,d3,C,Lost"))
    assert (first.report().key, second.report().key) == ("Deal ID", "Deal ID")
    assert documents(first)[0].id == documents(second)[0].id


@pytest.mark.parametrize("spelled", ["120", "120.0", "120.00"])
def test_a_workbooks_spelling_of_a_whole_number_is_the_same_id(
    tmp_path: Path, spelled: str
) -> None:
    (plain,) = documents(documents_from_file(file_of(tmp_path, "Id,Name", "120,Acme")))
    (other,) = documents(documents_from_file(file_of(tmp_path, "Id,Name", f"{spelled},Acme")))
    assert other.id == plain.id


def test_a_batch_of_long_texts_is_smaller(tmp_path: Path) -> None:
    rows = [f'{n},"{"word " * 80_000}"' for n in range(5)]
    load = documents_from_file(file_of(tmp_path, "Id,Notes", *rows))
    assert [len(batch) for batch in load.batches()] == [2, 2, 1]


def test_options_reach_the_table(tmp_path: Path) -> None:
    path = file_of(tmp_path, "Acme,03/04/2026,1200.50", "Globex,05/06/2026,7.00")
    load = documents_from_file(
        path, header="none", dayfirst=True, currency="EUR", kind="generic", with_summary=False
    )
    assert documents(load)[0].text.startswith("Column 1: Acme. Column 2: 2026-04-03. Column 3: ")
    assert (load.report().header_row, load.summary(), load.report().summary_id) == (None,) * 3
    titled = file_of(tmp_path, "List of 2026", "", "Name,City", "Acme,Rome")
    assert documents_from_file(titled, header=3).report().header_row == 3
    with pytest.raises(UnreadableTable):
        documents_from_file(titled, strict=True)
    with pytest.raises(UnreadableTable, match="'doubloons' is no currency"):
        documents_from_file(path, currency="doubloons")


def test_a_given_kind_wins_over_the_headers(tmp_path: Path) -> None:
    load = documents_from_file(file_of(tmp_path, "Name,City", "Acme,Austin"), kind="customer")
    assert [document.text for document in documents(load)] == ["The company is Acme. City: Austin."]


@pytest.mark.parametrize(
    ("header", "value", "said", "is_told"),
    [
        ("Contract Value", "120000", "is $120,000.", True),
        ("Contract Value (EUR)", "120000", "is €120,000.", False),
        ("Contract Value", "£120000", "is £120,000.", False),
        ("Contract Value", '"120.000,50"', "is 120,000.50.", False),
        ("Contract Value", "", "The company is A.", False),
    ],
)
def test_a_currency_that_only_the_kind_says_is_told(
    tmp_path: Path, header: str, value: str, said: str, is_told: bool
) -> None:
    load = documents_from_file(
        file_of(tmp_path, f"Company,{header}", f"A,{value}"), kind="customer"
    )
    assert said in documents(load)[0].text
    assert any("USD is assumed" in warning for warning in load.report().warnings) == is_told


def test_a_kinds_currency_is_not_assumed_beside_amounts_that_name_one(tmp_path: Path) -> None:
    path = file_of(tmp_path, "Company,Contract Value", "A,€5", "B,6")
    load = documents_from_file(path, kind="customer")
    assert [document.text for document in documents(load)] == [
        "The company is A. The account contract value is €5.",
        "The company is B. The account contract value is 6.",
    ]
    assert load.report().warnings == ()
