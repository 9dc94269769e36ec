"""One record -> sentences and metadata, by the template of its kind. Touches nothing.

Columns that the template speaks of make its sentences; every other one is told as `Label: value.`
A cell is data: it is quoted as it stands, with white space evened out and numbers in one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ingest.columns import label, snake
from ingest.document import Scalar
from ingest.templates import COMMON_PARTS, TEMPLATES, Part, Template, template_of
from ingest.values import (
    ColumnType,
    as_scalar,
    currency_in,
    currency_of,
    is_missing,
    money,
    spoken,
    stored,
    type_of,
    without_currency,
)

Record = Mapping[str, str]
Types = Mapping[str, ColumnType]

# What the index keeps under these names is the service's own.
RESERVED = frozenset(["tenant_id", "text", "doc_type", "source"])
# Filters need short values, and a long cell is in the text; an index row takes 40 KB in all.
MAX_METADATA_CELL_CHARS = 500
MAX_METADATA_BYTES = 16_000

_CURRENCY_HEADERS = frozenset(["currency", "currency_code", "currency_iso_code", "iso_currency"])


def choose_kind(columns: Iterable[str]) -> str:
    """Return the first kind whose template fits these headers; `generic` fits any."""
    names = {_plain(column) for column in columns}

    def fits(template: Template) -> bool:
        sure = frozenset(part.name for part in template.parts if names & set(part.headers))
        loose = frozenset(part.name for part in template.parts if names & set(part.loose))
        return template.fits(sure, loose)

    return next(kind for kind, template in TEMPLATES.items() if fits(template))


def narrate(record: Record, kind: str, types: Types | None = None) -> str:
    """Return the record as sentences, or "" if every cell is missing.

    types: what the columns hold, where a table knows; else each cell speaks for itself.
    Raises UnknownKind.
    """
    template = template_of(kind)
    currency = _currency(record, template)
    said: dict[str, str] = {}
    others: list[str] = []
    for cell in _cells(record, template, types):
        if cell.part is not None and cell.part in template.parts:
            said[cell.part.name] = _said(cell, cell.part, currency)
        else:
            others.append(f"{label(cell.header)}: {spoken(cell.text, cell.type)}")
    return " ".join(map(_ended, [*template.sentences(said), *others]))


def metadata(record: Record, kind: str, types: Types | None = None) -> dict[str, Scalar]:
    """Return the cells that have a value under snake_case names: numbers as numbers, ISO dates.

    Cells above MAX_METADATA_CELL_CHARS, and what would exceed MAX_METADATA_BYTES in all, are left
    out; the text has them. Raises UnknownKind.
    """
    template = template_of(kind)
    values: dict[str, Scalar] = {}
    room = MAX_METADATA_BYTES
    for cell in _cells(record, template, types):
        value = _kept(cell)
        size = len(f'"{cell.name}":"{value}",'.encode())
        if len(cell.text) <= MAX_METADATA_CELL_CHARS and size <= room:
            values[cell.name] = value
            room -= size
    return values


@dataclass(frozen=True, slots=True)
class _Column:
    """`name` is the column's in metadata; `part` what it is in any template, if it is one."""

    header: str
    name: str
    part: Part | None


class _Cell(NamedTuple):
    header: str
    name: str
    part: Part | None
    text: str
    type: ColumnType


def _cells(record: Record, template: Template, types: Types | None) -> Iterator[_Cell]:
    """Yield the cells that have a value."""
    for column in _plan(template.kind, tuple(record)):
        text = record[column.header].strip()
        column_type = type_of(column.header, text) if types is None else types[column.header]
        holds = column.part.holds if column.part and column_type == "text" else column_type
        if not is_missing(text, holds):
            yield _Cell(column.header, column.name, column.part, text, column_type)


@lru_cache(maxsize=256)
def _plan(kind: str, headers: tuple[str, ...]) -> tuple[_Column, ...]:
    """Give each column its part and a metadata name of its own; the same for a whole table."""
    template = template_of(kind)
    parts: dict[str, Part] = {}
    for part in template.parts:
        _assign(part, part.headers + part.loose, headers, parts)
    for part in COMMON_PARTS:
        if part not in template.parts:
            _assign(part, part.headers, headers, parts)
    taken = {part.name for part in parts.values()} | RESERVED
    columns = []
    for header in headers:
        if header in parts:
            columns.append(_Column(header, parts[header].name, parts[header]))
            continue
        name = _free(snake(header) or "column", taken)
        taken.add(name)
        columns.append(_Column(header, name, None))
    return tuple(columns)


def _assign(
    part: Part, names: tuple[str, ...], headers: tuple[str, ...], parts: dict[str, Part]
) -> None:
    for name in names:
        for header in headers:
            if header not in parts and _plain(header) == name:
                parts[header] = part
                return


def _free(name: str, taken: set[str]) -> str:
    if name in RESERVED:
        name = f"record_{name}"
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}_{count}"
    return free


@lru_cache(maxsize=4_096)
def _plain(header: str) -> str:
    return snake(without_currency(header))


def _currency(record: Record, template: Template) -> str | None:
    """Return the currency that a column of the record names, else the template's."""
    for header, cell in record.items():
        if snake(header) in _CURRENCY_HEADERS and not is_missing(cell.strip()):
            return currency_of(cell.strip())
    return template.currency


def _said(cell: _Cell, part: Part, currency: str | None) -> str:
    if part.is_money:
        amount = money(cell.text, currency=currency_in(cell.header) or currency)
        return spoken(cell.text, "text") if amount is None else str(amount)
    # A number for a date is a spreadsheet's serial day: no amount, so no separators.
    return spoken(cell.text, "year" if (part.holds, cell.type) == ("date", "number") else cell.type)


def _kept(cell: _Cell) -> Scalar:
    if cell.part is not None and cell.part.is_money:
        amount = money(cell.text, currency=None)
        return spoken(cell.text, "text") if amount is None else as_scalar(amount.amount)
    return stored(cell.text, cell.type)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "。")) else f"{sentence}."
