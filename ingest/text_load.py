"""A text file as a load: its passages in batches, to be stored like a table. Touches: the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ingest.decode import encoding_of
from ingest.document import Document
from ingest.errors import UnreadableTable
from ingest.texts import is_text_file, read_text_file

BATCH_PASSAGES = 100
_LINES_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class TextReport:
    """What became of a text file: `documents` are its passages."""

    source: str
    documents: int
    warnings: tuple[str, ...]


class TextLoad:
    """The passages of one text file. Store it with mode "replace": a text that shrank must not
    leave old passages behind.

    encoding: of a text or HTML file, where it can't be told from its bytes.
    Raises IngestError. Blocking; a PDF may take minutes.
    """

    def __init__(
        self, path: Path | str, *, source: str | None = None, encoding: str | None = None
    ) -> None:
        path = Path(path)
        self.source = source or path.name
        read = read_text_file(path, source=self.source, encoding=encoding)
        self._documents = read.documents
        self._warnings = read.warnings
        self.rows = len(read.documents)
        self.rows_read = 0
        self.ids: Collection[str] = {document.id for document in read.documents}

    def batches(self) -> Iterator[list[Document]]:
        for start in range(0, self.rows, BATCH_PASSAGES):
            batch = self._documents[start : start + BATCH_PASSAGES]
            self.rows_read += len(batch)
            yield batch

    def summary(self) -> Document | None:
        """Return None: only tables are counted."""
        return None

    def report(self) -> TextReport:
        return TextReport(self.source, self.rows, self._warnings)


def is_prose(path: Path) -> bool:
    """Say if a file is a text, not a table: spreadsheets save tab-separated tables as `.txt`."""
    return is_text_file(path) and not (path.suffix.lower() == ".txt" and _is_tabbed(path))


def _is_tabbed(path: Path) -> bool:
    try:
        with path.open(encoding=encoding_of(path)) as file:
            lines = [line for line in islice(file, _LINES_LOOKED_AT) if line.strip()]
    except UnreadableTable:
        return False
    tabs = {line.count("\t") for line in lines}
    return len(lines) > 1 and len(tabs) == 1 and tabs != {0}
