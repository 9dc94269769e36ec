"""A file -> batches of documents and a report. Touches: the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from ingest.document import Document, stable_id
from ingest.identity import Identity, choose_identity
from ingest.narrate import choose_kind, metadata, narrate
from ingest.table import Skipped, Table, open_table
from ingest.templates import template_of
from ingest.values import ColumnType

BATCH_DOCUMENTS = 100


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a file. `key` is the identifying column, None if rows are told by content.

    `rows` counts those that fit the header; `duplicates` those of them that said the same as an
    earlier one and became no document. `skipped` may list fewer rows than `skipped_total`.
    """

    source: str
    kind: str
    rows: int
    documents: int
    duplicates: int
    skipped: tuple[Skipped, ...]
    skipped_total: int
    encoding: str
    delimiter: str
    columns: Mapping[str, ColumnType]
    key: str | None
    warnings: tuple[str, ...]


class Load:
    """The documents of one surveyed file; `batches` goes through them once, `report` tells of it.

    `rows` is the number of records to come, `rows_read` how many of them have become documents or
    duplicates so far.
    """

    def __init__(self, table: Table, identity: Identity, *, kind: str, source: str) -> None:
        self._table = table
        self._identity = identity
        self._kind = kind
        self._source = source
        self._documents = 0
        self._duplicates = 0
        self._without_key = 0
        self._without_values = 0
        self.rows = table.rows
        self.rows_read = 0

    def batches(self, size: int = BATCH_DOCUMENTS) -> Iterator[list[Document]]:
        """Yield lists of at most `size` documents with distinct ids, in the file's order."""
        documents = self._fresh()
        while batch := list(islice(documents, size)):
            yield batch

    def report(self) -> Report:
        """Return the report; its counts are whole once `batches` has ended."""
        warnings = list(self._table.warnings)
        if self._without_key:
            warnings.append(
                f"{self._without_key} rows have no {self._identity.column};"
                " they are identified by their content"
            )
        if self._without_values:
            warnings.append(f"{self._without_values} rows hold no values and became no documents")
        if self._identity.repeated:
            warnings.append(
                f"{len(self._identity.repeated)} values of {self._identity.column} stand in"
                " several different rows; each row is a document of its own"
            )
        return Report(
            source=self._source,
            kind=self._kind,
            rows=self.rows,
            documents=self._documents,
            duplicates=self._duplicates,
            skipped=self._table.skipped,
            skipped_total=self._table.skipped_total,
            encoding=self._table.encoding,
            delimiter=self._table.delimiter,
            columns=self._table.columns,
            key=self._identity.column,
            warnings=tuple(warnings),
        )

    def _fresh(self) -> Iterator[Document]:
        types = self._table.columns
        seen: set[bytes] = set()
        for record in chain.from_iterable(self._table.batches()):
            self.rows_read += 1
            text = narrate(record, self._kind, types)
            if not text:
                self._without_values += 1
                continue
            if self._identity.column is not None and not record[self._identity.column]:
                self._without_key += 1
            identifier = stable_id(self._source, *self._identity.parts(record))
            if bytes.fromhex(identifier) in seen:
                self._duplicates += 1
                continue
            seen.add(bytes.fromhex(identifier))
            self._documents += 1
            yield Document(
                id=identifier,
                text=text,
                source=self._source,
                doc_type=self._kind,
                metadata=metadata(record, self._kind, types),
            )


def documents_from_file(
    path: Path | str,
    *,
    kind: str | None = None,
    key: str | None = None,
    source: str | None = None,
    encoding: str | None = None,
) -> Load:
    """Survey a delimited file and return its documents, one a row, ready to be read in batches.

    kind: the template; chosen from the headers if not given. key: the column that identifies a row.
    source: what the ids and a later replacement go by; the file's name if not given.
    Raises IngestError before the first document if the file, kind or key can't be used. Blocking.
    """
    path = Path(path)
    if kind is not None:
        template_of(kind)
    table = open_table(path, encoding=encoding)
    columns = list(table.columns)
    identity = choose_identity(chain.from_iterable(table.batches()), columns, key)
    return Load(table, identity, kind=kind or choose_kind(columns), source=source or path.name)
