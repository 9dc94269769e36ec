"""Public files as they are, with the counts that were measured on them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest.document import Document
from ingest.errors import UndecodableText
from ingest.load import Report, documents_from_file

FOLDER = Path(__file__).parents[3] / "shared" / "csv"
GROWTH_LIMIT_KB = 80_000
# In a process of its own, so that the high-water mark is this file's alone.
MEASURED_LOAD = """
import resource, sys
import pandas
from ingest.load import documents_from_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
load = documents_from_file(sys.argv[1])
written = sum(len(batch) for batch in load.batches())
report = load.report()
growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(report.rows, written, report.duplicates, repr(report.delimiter), growth)
"""

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="THE REAL SAMPLE FILES ARE MISSING: no folder ../shared/csv"
)


@cache
def loaded(name: str, encoding: str | None = None) -> tuple[list[Document], Report]:
    load = documents_from_file(FOLDER / name, encoding=encoding)
    documents = [document for batch in load.batches() for document in batch]
    return documents, load.report()


def expected(name: str) -> dict[str, Any]:
    everything = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = everything.get(name) or everything[f"derived/{name}"]
    return found


@pytest.mark.parametrize(
    "name",
    [
        "07_olist_sellers_dataset.csv",
        "08_iso3166_all.csv",
        "09_fy09_edu_recipients.csv",
        "11_shopify_product_template.csv",
        "D4_excel_mangled.csv",
        "D5_jira_duplicate_headers.csv",
        "D6_kokyaku_cp932.csv",
    ],
)
def test_a_file_gives_the_documents_and_columns_that_were_counted(name: str) -> None:
    want = expected(name)
    encoding = want["encoding"] if want["encoding"] == "cp932" else None
    documents, report = loaded(name, encoding)
    assert len(documents) == report.documents == want["documents"]
    assert report.skipped_total == want["skipped_total"]
    assert (report.encoding, report.delimiter) == (want["encoding"], want["delimiter"])
    assert list(report.columns) == want["columns"]
    assert len({document.id for document in documents}) == len(documents)
    assert not any(word in f" {d.text} " for d in documents for word in (" nan.", "  ", " ."))


def test_namibia_keeps_its_code_and_afghanistan_its_zeros() -> None:
    documents, _ = loaded("08_iso3166_all.csv")
    texts = {document.metadata["name"]: document.text for document in documents}
    assert "Alpha-2: NA. Alpha-3: NAM. Country-code: 516." in texts["Namibia"]
    assert "Country-code: 004." in texts["Afghanistan"]


def test_blank_charges_of_new_customers_are_left_out() -> None:
    documents, report = loaded("02_telco_churn.csv")
    assert len(documents) == report.documents == expected("02_telco_churn.csv")["documents"]
    without = [d for d in documents if "total_charges" not in d.metadata]
    assert len(without) == 11
    assert all("Total Charges" not in document.text for document in without)
    assert report.columns["TotalCharges"] == "number"
    assert report.key == "customerID"


def test_leading_zeros_stay() -> None:
    documents, _ = loaded("13_frictionless_leading-zeros.csv")
    assert [document.metadata["value"] for document in documents] == ["01", "002", "00003"]


def test_the_edge_files_of_csvkit_are_read() -> None:
    for name in ("utf16_big", "utf16_little", "utf8_bom", "latin1"):
        documents, _ = loaded(f"10_csvkit_test_{name}.csv")
        assert len(documents) == 2
    documents, report = loaded("10_csvkit_null_byte.csv")
    assert [document.text for document in documents] == ["B: 2. C: 3."]
    assert "NUL" in report.warnings[0]
    documents, _ = loaded("10_csvkit_mac_newlines.csv")
    assert documents[1].text == "A: Once upon / a time. B: 5. C: 6."
    documents, _ = loaded("10_csvkit_test_header_newline.csv")
    assert documents[0].metadata == {"start_end": "d", "b": "e", "c": "f"}


def test_a_japanese_file_without_its_encoding_is_refused_with_the_way_out() -> None:
    with pytest.raises(UndecodableText, match=r"line 1: .*; name the file's encoding"):
        documents_from_file(FOLDER / "D6_kokyaku_cp932.csv")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KB on Linux")
def test_a_hundred_thousand_rows_pass_in_bounded_memory() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED_LOAD, str(FOLDER / "15_osm_housenumbers.tsv")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    rows, written, duplicates, delimiter, growth_kb = ran.stdout.split()
    assert int(rows) == expected("15_osm_housenumbers.tsv")["documents"] == 105_013
    assert int(written) + int(duplicates) == int(rows)
    assert delimiter == r"'\t'"
    assert int(growth_kb) < GROWTH_LIMIT_KB
