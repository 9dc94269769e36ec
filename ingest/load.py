"""A file -> batches of documents, a summary and a report. Touches: the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from ingest.document import TABLE_SUMMARY, Document, stable_id
from ingest.identity import Identity, choose_identity
from ingest.kinds import KINDS, Kinds, choose_template, template_of
from ingest.layout import Skipped
from ingest.narrate import Narrator
from ingest.summary import Summary
from ingest.table import Table, open_table
from ingest.templates import Template
from ingest.values import ColumnType, currency_of

BATCH_DOCUMENTS = 100
# Long cells make a batch smaller: the service takes bodies of a few MB.
BATCH_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a file. `key` is the identifying column, None if rows are told by content.

    `rows` counts those that fit the header; `duplicates` those of them that said the same as an
    earlier one and became no document. `skipped` may list fewer rows than `skipped_total`.
    `header_row` is its line, from 1, None without one. `summary_id` is the id of the document that
    tells of the whole table, which `documents` does not count.
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
    header_row: int | None
    columns: Mapping[str, ColumnType]
    key: str | None
    warnings: tuple[str, ...]
    summary_id: str | None


class Load:
    """The documents of one surveyed file; `batches` goes through them once, `report` tells of it.

    `rows` is the number of records to come, `rows_read` how many of them have become documents or
    duplicates so far, `ids` those of the documents that came out.
    """

    def __init__(
        self,
        table: Table,
        identity: Identity,
        template: Template,
        *,
        source: str,
        currency: str | None = None,
        with_summary: bool = True,
    ) -> None:
        self._table = table
        self._identity = identity
        self._narrator = Narrator(template, tuple(table.columns), table.columns, currency=currency)
        self._kind = template.kind
        self._summary = (
            Summary(source, template.plural, table.columns, self._narrator.amounts)
            if with_summary
            else None
        )
        self._summary_id: str | None = None
        self._ids: set[str] = set()
        self._documents = 0
        self._duplicates = 0
        self._without_key = 0
        self._without_values = 0
        self.source = source
        self.rows = table.rows
        self.rows_read = 0

    @property
    def ids(self) -> Collection[str]:
        return self._ids

    def batches(self, size: int = BATCH_DOCUMENTS) -> Iterator[list[Document]]:
        """Yield lists of at most `size` documents with distinct ids, in the file's order."""
        batch: list[Document] = []
        chars = 0
        for document in self._fresh():
            if batch and chars + len(document.text) > BATCH_CHARS:
                yield batch
                batch, chars = [], 0
            batch.append(document)
            chars += len(document.text)
            if len(batch) == size:
                yield batch
                batch, chars = [], 0
        if batch:
            yield batch

    def summary(self) -> Document | None:
        """Return the document that tells of the whole table, once `batches` has ended."""
        if self._summary is None or not self._summary.rows:
            return None
        self._summary_id = stable_id(self.source, "summary")
        self._ids.add(self._summary_id)
        return Document(
            id=self._summary_id,
            text=self._summary.text(),
            source=self.source,
            doc_type=TABLE_SUMMARY,
            metadata={"kind": self._kind, "rows": self._summary.rows},
        )

    def report(self) -> Report:
        """Return the report; its counts are whole once `batches` has ended."""
        return Report(
            source=self.source,
            kind=self._kind,
            rows=self.rows,
            documents=self._documents,
            duplicates=self._duplicates,
            skipped=self._table.skipped,
            skipped_total=self._table.skipped_total,
            encoding=self._table.encoding,
            delimiter=self._table.delimiter,
            header_row=self._table.header_row,
            columns=self._table.columns,
            key=self._identity.column,
            warnings=(*self._table.warnings, *self._warnings()),
            summary_id=self._summary_id,
        )

    def _warnings(self) -> list[str]:
        warnings = [
            f"column {header!r} names no currency; {currency} is assumed, as in all of the kind"
            f" {self._kind}: say another with currency"
            for header, currency in self._narrator.assumed.items()
            if self._table.columns[header] == "number"
        ]
        if self._without_key:
            warnings.append(
                f"rows without {self._identity.column}, which are known by their content:"
                f" {self._without_key}"
            )
        if self._without_values:
            warnings.append(
                f"rows without values, which became no documents: {self._without_values}"
            )
        if self._identity.repeated:
            warnings.append(
                f"values of {self._identity.column} that stand in several different rows, each of"
                f" which is a document of its own: {len(self._identity.repeated)}"
            )
        return warnings

    def _fresh(self) -> Iterator[Document]:
        key = self._identity.column
        for record in chain.from_iterable(self._table.batches()):
            self.rows_read += 1
            text, metadata = self._narrator.tell(record)
            if not text:
                self._without_values += 1
                continue
            if key is not None and not record[key]:
                self._without_key += 1
            id = stable_id(self.source, *self._identity.parts(record))
            is_repeated = id in self._ids
            # Equal rows without a key may be two sales of one day; with a key they are one thing.
            if self._summary is not None and not (is_repeated and key is not None):
                self._summary.add(record, self._narrator.currency_of(record))
            if is_repeated:
                self._duplicates += 1
                continue
            self._ids.add(id)
            self._documents += 1
            yield Document(id, text, self.source, self._kind, metadata)


def documents_from_file(
    path: Path | str,
    *,
    kind: str | None = None,
    kinds: Kinds = KINDS,
    key: str | None = None,
    source: str | None = None,
    encoding: str | None = None,
    header: int | Literal["none"] | None = None,
    dayfirst: bool | None = None,
    currency: str | None = None,
    sheet: str | None = None,
    strict: bool = False,
    with_summary: bool = True,
) -> Load:
    """Survey a table's file and return its documents, one a row, ready to be read in batches.

    kind: the template, one of `kinds`; chosen from the headers if not given.
    key: the column that identifies a row.
    source: what the ids and a later replacement go by; the file's name if not given.
    currency: a code such as EUR, of amounts that don't say theirs.
    encoding, header, dayfirst, sheet, strict: as `open_table` has them.
    Raises IngestError before the first document if the file or an option can't be used. Blocking.
    """
    path = Path(path)
    template = None if kind is None else template_of(kind, kinds)
    table = open_table(
        path,
        encoding=encoding,
        header=header,
        dayfirst=dayfirst,
        strict=strict,
        sheet=sheet,
        currency=currency,
    )
    columns = list(table.columns)
    template = template or choose_template(columns, kinds)
    if table.has_decimal_commas:
        # Where numbers are written so, the kind's own currency is no safe assumption.
        template = replace(template, currency=None)
    identity = choose_identity(
        lambda: chain.from_iterable(table.batches()), columns, key, usual=template.keys
    )
    return Load(
        table,
        identity,
        template,
        source=source or path.name,
        currency=None if currency is None else currency_of(currency),
        with_summary=with_summary,
    )
