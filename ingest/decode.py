"""Which encoding and which delimiter a text file uses, measured over the file. Touches: the file.

Guessers lose here: they called French Latin-1 "mac_latin2", and csv.Sniffer failed on three of
ten real files. A byte order mark, then strict UTF-8, then cp1252, and counting columns got all.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from ingest.errors import UndecodableText, UnreadableTable

DELIMITERS = (",", "\t", ";", "|")

_BLOCK_BYTES = 1 << 20
_SAMPLE_RECORDS = 500
# Below this, a character stands in running text rather than between cells.
_EVEN_ENOUGH = 0.5
_MARKS = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# For domain names and source code: slow, with errors of their own, or with halves of characters.
_OF_NO_FILE = frozenset(
    {"punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}
)
_NOT_TEXT = (
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the file itself; run `git lfs pull` first",
    ),
    (b"\x1f\x8b", "a gzip archive, not text"),
    (b"%PDF", "a PDF, not text"),
)
_NOT_A_TABLE = (
    (b"<!doctype html", "an HTML page, not delimited text"),
    (b"<html", "an HTML page, not delimited text"),
    (b"<?xml", "an XML file, not delimited text"),
    *((start, "JSON, not delimited text") for start in (b'{"', b"[{", b"{\n", b"{\r\n", b"[\n")),
)
_UTF8_LETTER = re.compile(rb"\xc3[\x80-\x9f\xa1-\xbf]")
# Excel's own line above a table: `sep=;`.
_SAID = re.compile(r"\"?sep=(?P<delimiter>[,;|\t])\"?\s*", re.IGNORECASE)


def encoding_of(path: Path, given: str | None = None) -> str:
    """Return the encoding of a table; as `encoding_of_text`, but a web page is refused too."""
    _refuse(_head(path), _NOT_A_TABLE)
    return encoding_of_text(path, given)


def encoding_of_text(path: Path, given: str | None = None) -> str:
    """Return the encoding that decodes the whole file: the given one, or the one it must be.

    Raises UndecodableText, with the line of the first wrong byte, and UnreadableTable for a file
    that is empty, missing, or no text at all.
    """
    head = _head(path)
    _refuse(head, _NOT_TEXT)
    try:
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


def mixes_encodings(path: Path) -> bool:
    """Say if a file that is not UTF-8 has letters in UTF-8 all the same: `Ã¼` is no cp1252."""
    with path.open("rb") as file:
        return any(_UTF8_LETTER.search(line) for line in file)


def delimiter_of(path: Path, encoding: str) -> str:
    """Return the delimiter that cuts the first records into evenly many cells.

    Title lines above the table and notes below it may have fewer. A file of one column gets the
    comma.
    """
    with path.open(encoding=encoding, newline="") as file:
        said = _SAID.fullmatch(file.readline(64))
    if said is not None:
        return said["delimiter"]
    return max(DELIMITERS, key=lambda delimiter: _evenness(path, encoding, delimiter))


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise UnreadableTable(f"it can't be read: {error.strerror or 'I/O error'}") from error
    if not head:
        raise UnreadableTable("the file is empty")
    return head


def _refuse(head: bytes, marks: Iterable[tuple[bytes, str]]) -> None:
    for mark, what in marks:
        if head.lower().startswith(mark.lower()):
            raise UnreadableTable(f"this is {what}")


def _known(encoding: str) -> str:
    try:
        # Unlike codecs.lookup, this refuses codecs that make no text, such as base64.
        io.TextIOWrapper(io.BytesIO(), encoding=encoding).close()
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise UndecodableText(f"{encoding!r} is no text encoding that Python knows") from error
    if name in _OF_NO_FILE:
        raise UndecodableText(f"{encoding!r} is no encoding of text files")
    return name


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
            except UnicodeError as error:  # of the whole: UTF-16 that lacks its mark
                raise UndecodableText(f"this is not text in {encoding}: {error}") from error
            if not block:
                return None


def _evenness(path: Path, encoding: str, delimiter: str) -> tuple[float, float, int]:
    widths = list(islice(_widths(path, encoding, delimiter), _SAMPLE_RECORDS))
    counted = Counter(widths)
    # Counted by cells, since a short report may have more notes than rows.
    columns = max(counted, key=lambda width: (width * counted[width], width), default=1)
    if columns == 1:
        return (0.0, 0.0, 0)
    first = widths.index(columns)
    end = len(widths) - widths[::-1].index(columns)
    inside = counted[columns] / (end - first)
    if inside < _EVEN_ENOUGH:
        return (0.0, 0.0, 0)
    return (counted[columns] / len(widths), inside, columns)


def _widths(path: Path, encoding: str, delimiter: str) -> Iterator[int]:
    with path.open(encoding=encoding, newline="") as file:
        try:
            for record in csv.reader(file, delimiter=delimiter):
                if record:
                    yield len(record)
        except csv.Error:
            # A wrong delimiter tears quoted cells apart; what was read so far is the evidence.
            return
