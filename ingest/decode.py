"""Which encoding and which delimiter a text file uses, measured over the file. Touches: the file.

Guessers lose here: they called French Latin-1 "mac_latin2", and csv.Sniffer failed on three of
ten real files. A byte order mark, then strict UTF-8, then cp1252, and counting columns got all.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ingest.errors import UndecodableText, UnreadableTable

DELIMITERS = (",", "\t", ";", "|")

_BLOCK_BYTES = 1 << 20
_SAMPLE_RECORDS = 500
_MARKS = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_TEXT = (
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the file itself; run `git lfs pull` first",
    ),
    (b"PK\x03\x04", "a workbook or ZIP archive, not delimited text"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook, not delimited text"),
    (b"\x1f\x8b", "a gzip archive, not delimited text"),
    (b"%PDF", "a PDF, not delimited text"),
)


def encoding_of(path: Path, given: str | None = None) -> str:
    """Return the encoding that decodes the whole file: the given one, or the one it must be.

    Raises UndecodableText, with the line of the first wrong byte, and UnreadableTable for a file
    that is empty, missing, or no text at all.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
        _refuse_what_is_not_text(head)
        if given is not None:
            return _checked(path, _known(given))
        marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
        if marked is not None:
            return _checked(path, marked)
        if _first_fault(path, "utf-8") is None:
            return "utf-8"
        return _checked(path, "cp1252")
    except OSError as error:
        raise UnreadableTable(f"it can't be read: {error.strerror or 'I/O error'}") from error


def delimiter_of(path: Path, encoding: str) -> str:
    """Return the delimiter that cuts the first records into most evenly many cells.

    A file of one column gets the comma.
    """
    return max(DELIMITERS, key=lambda delimiter: _evenness(path, encoding, delimiter))


def _refuse_what_is_not_text(head: bytes) -> None:
    if not head:
        raise UnreadableTable("the file is empty")
    for mark, what in _NOT_TEXT:
        if head.startswith(mark):
            raise UnreadableTable(f"this is {what}")


def _known(encoding: str) -> str:
    try:
        # Unlike codecs.lookup, this refuses codecs that make no text, such as base64.
        io.TextIOWrapper(io.BytesIO(), encoding=encoding).close()
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise UndecodableText(f"{encoding!r} is no text encoding that Python knows") from error


def _checked(path: Path, encoding: str) -> str:
    fault = _first_fault(path, encoding)
    if fault is None:
        return encoding
    line, byte = fault
    raise UndecodableText(
        f"byte 0x{byte:02x} is not text in {encoding}; name the file's encoding", line=line
    )


def _first_fault(path: Path, encoding: str) -> tuple[int, int] | None:
    """Return the line (from 1) and the value of the first byte that doesn't decode."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 1
    with path.open("rb") as file:
        while True:
            block = file.read(_BLOCK_BYTES)
            try:
                lines += decoder.decode(block, final=not block).count("\n")
            except UnicodeDecodeError as error:
                return lines + error.object.count(b"\n", 0, error.start), error.object[error.start]
            if not block:
                return None


def _evenness(path: Path, encoding: str, delimiter: str) -> tuple[bool, float, int]:
    widths = list(islice(_widths(path, encoding, delimiter), _SAMPLE_RECORDS))
    if not widths:
        return (False, 0.0, 0)
    columns, records = Counter(widths).most_common(1)[0]
    if columns == 1:
        return (False, 0.0, 0)
    return (widths[0] == columns, records / len(widths), columns)


def _widths(path: Path, encoding: str, delimiter: str) -> Iterator[int]:
    with path.open(encoding=encoding, newline="") as file:
        try:
            for record in csv.reader(file, delimiter=delimiter):
                if record:
                    yield len(record)
        except csv.Error:
            # A wrong delimiter tears quoted cells apart; what was read so far is the evidence.
            return
