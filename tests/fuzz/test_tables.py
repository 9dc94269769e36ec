"""Whatever bytes come as a table: documents, or an error that says why; never anything else."""

from __future__ import annotations

import io
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.errors import IngestError
from ingest.load import documents_from_file
from ingest.table import open_table
from tests.fuzz.watched import CUTS, cut_up, tried, watched
from tests.ingest.workbooks import Cell, Sheet, write_xlsx

FOLDER = Path(__file__).parents[3] / "shared" / "csv"
MOST_BYTES = 6_000  # of a real file: enough for its layout
PIECES = [
    *[b"id,name,amount,date\n", b"id;name\r\n", b"a\tb\n", b"1|2|3\n", b"1,Ada,3.5,2026-11-30\n"],
    *[b'"', b'""', b'"a,b"', b'"a\nb"', b",", b";", b"\t", b"|", b"\n", b"\r", b"\r\n", b" ", b"'"],
    *[b"\x00", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xe9", b"\x80"],
    *[b"1.234,56", b"1,234.56", b"$5", b"5 EUR", b"50%", b"03/04/2026", b"n/a", b"-", b"Total"],
    *[b"sep=;\n", b"1e400", b"9" * 400, b"x" * 3_000, b",,,,", b"TRUE", b"#REF!", b"\xe2\x80\x8b"],
    *["\u202e\u0661\u0662".encode(), "é,ü\n".encode("utf-16"), "日本,1\n".encode("cp932")],
]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=30), max_size=30).map(b"".join)
ENCODINGS = st.sampled_from(
    [
        *[None, None, None, "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "latin-1"],
        *["cp932", "utf-7", "ascii", "rot13", "base64", "idna", "punycode", "no-such", "", "\x00"],
    ]
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "encoding": ENCODINGS,
        "delimiter": st.sampled_from([",", ";", "\t", "|", "", '"', "ab", "\n", "x", "\x00", "é"]),
        "header": st.sampled_from([None, "none", 0, 1, 2, 3, 10_000, -1]),
        "dayfirst": st.booleans(),
        "currency": st.sampled_from(["EUR", "$", "", "euro", "\x00", "x" * 100]),
        "sheet": st.sampled_from(["", "People", "\x00"]),
        "strict": st.booleans(),
    },
)


def told_or_refused(data: bytes, options: dict[str, Any], name: str = "table.csv") -> None:
    """Read bytes to their end as a table, and as documents."""
    with tempfile.TemporaryDirectory() as folder, watched():
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            table = open_table(path, **options)
            rows = [row for batch in table.batches() for row in batch]
        except IngestError:
            pass
        else:
            assert len(rows) == table.rows
            assert all(set(row) == set(table.columns) for row in rows)
        options = {name: value for name, value in options.items() if name != "delimiter"}
        try:
            batches = documents_from_file(path, **options).batches()
            documents = [document for batch in batches for document in batch]
        except IngestError:
            pass
        else:
            for document in documents:
                document.text.encode()
                assert document.id


@tried(60)
@given(BYTES, OPTIONS)
@example(b'"' * 20_000, {})
@example(b'a,"' * 5_000, {})
@example(b"," * 30_000 + b"\n1", {})
@example(b"a\n" + b"x" * 300_000, {})
@example(b"\x00" * 5_000, {})
@example(b"a,b\n" + b"(" * 50_000 + b",1\n", {})
@example(b"d\n" + b"03/04/2026 " * 5_000, {})
@example(b"n\n" + b"1.234," * 20_000, {"delimiter": ";"})
@example(b"\xff\xfe" + b"a" * 1_001, {})
@example(b"a,b\n1,2\n", {"encoding": "rot13"})
@example(b"a-b,\n", {"encoding": "punycode"})
@example(b"a,b\n1,2\n", {"encoding": "utf-16"})
@example(b"a,b\n1,2\n", {"encoding": "utf-32"})
@example(b"a,b\n+2AA-,\\ud800\n", {"encoding": "utf-7"})
@example(b"a,b\n+2AA-,\\ud800\n", {"encoding": "unicode_escape"})
def test_any_bytes(data: bytes, options: dict[str, Any]) -> None:
    told_or_refused(data, options)


@cache
def real_files() -> list[bytes]:
    """The beginning of each real file; without the folder, none."""
    return [
        path.read_bytes()[:MOST_BYTES]
        for path in sorted(FOLDER.glob("*"))
        if path.suffix in (".csv", ".tsv")
    ]


@pytest.mark.skipif(
    not FOLDER.is_dir(), reason="THE REAL SAMPLE FILES ARE MISSING: no folder ../shared/csv"
)
@tried(50)
@given(st.integers(0, 1_000), CUTS, OPTIONS)
def test_real_files_with_faults(which: int, cuts: Any, options: dict[str, Any]) -> None:
    files = real_files()
    told_or_refused(cut_up(files[which % len(files)], cuts), options)


@cache
def workbook() -> bytes:
    rows: list[list[Cell]] = [
        ["id", "name", "born"],
        [1, "Ada", 36_526],
        [2, "Bo", 40_000.5],
        [3, None, True],
    ]
    with tempfile.TemporaryDirectory() as folder:
        return write_xlsx(Path(folder) / "people.xlsx", Sheet("People", rows)).read_bytes()


@tried(2)
@given(CUTS)
def test_workbooks_with_faults_in_their_archive(cuts: Any) -> None:
    told_or_refused(cut_up(workbook(), cuts), {}, "people.xlsx")


@tried(3)
@given(st.integers(0, 1_000), CUTS)
def test_workbooks_with_faults_in_their_parts(which: int, cuts: Any) -> None:
    with zipfile.ZipFile(io.BytesIO(workbook())) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    name = sorted(parts)[which % len(parts)]
    parts[name] = cut_up(parts[name], cuts)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for part, content in parts.items():
            made.writestr(part, content)
    told_or_refused(data.getvalue(), {}, "people.xlsx")
