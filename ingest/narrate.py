"""One record -> sentences and metadata, by the template of its kind. Touches nothing.

Columns that the template speaks of make its sentences; every other one is told as `Label: value.`
A cell is data: it is quoted as it stands, with white space evened out and numbers in one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ingest.cells import LONG_CELL_CHARS, Read, reader
from ingest.columns import label, names_currencies, snake
from ingest.document import Scalar
from ingest.kinds import KINDS, RESERVED, Kinds, choose_template, template_of
from ingest.templates import COMMON_PARTS, Part, Pattern, Template, plain
from ingest.values import (
    ColumnType,
    currency_in,
    currency_of,
    is_missing,
    missing_in,
    type_of,
)

Record = Mapping[str, str]
Types = Mapping[str, ColumnType]

# Filters need short values, and a long cell is in the text; an index row takes 40 KB in all.
MAX_METADATA_CELL_CHARS = 500
MAX_METADATA_BYTES = 16_000

_MAX_BYTES_OF_CHAR = 4


def choose_kind(columns: Iterable[str], kinds: Kinds = KINDS) -> str:
    """Return the kind that the headers speak for; `generic` if none."""
    return choose_template(columns, kinds).kind


def narrate(record: Record, kind: str, types: Types | None = None, *, kinds: Kinds = KINDS) -> str:
    """Return the record as sentences, or "" if every cell is missing.

    types: what the columns hold, where a table knows; else each cell speaks for itself.
    Raises UnknownKind.
    """
    return _narrator(kind, record, types, kinds).tell(record)[0]


def metadata(
    record: Record, kind: str, types: Types | None = None, *, kinds: Kinds = KINDS
) -> dict[str, Scalar]:
    """Return the cells that have a value under snake_case names: numbers as numbers, ISO dates.

    Cells above MAX_METADATA_CELL_CHARS, and what would exceed MAX_METADATA_BYTES in all, are left
    out; the text has them. Raises UnknownKind.
    """
    return _narrator(kind, record, types, kinds).tell(record)[1]


class Narrator:
    """Tells the records that have these headers.

    types: what the columns hold; None where each cell speaks for itself. currency: of amounts for
    which neither cell, header nor a currency column says it. The template's own is assumed only of
    columns for which none of these can, and `assumed` names them with it.
    """

    def __init__(
        self,
        template: Template,
        headers: tuple[str, ...],
        types: Types | None = None,
        *,
        currency: str | None = None,
    ) -> None:
        self._template = template
        self._currency = currency
        self._currency_headers = [h for h in headers if names_currencies(h)]
        is_said = currency is not None or bool(self._currency_headers)
        assumed = None if is_said else template.currency
        self._columns = _plan(template, headers, types, assumed)
        self._starts = {it.name: it.start for it in self._columns}
        self._name_bytes = sum(len(f'"{it.name}":"",'.encode()) for it in self._columns)
        self.assumed = {
            it.header: it.currency
            for it in self._columns
            if it.holds == "money" and it.currency and currency_in(it.header) is None
        }

    @property
    def amounts(self) -> Mapping[str, str | None]:
        """Columns that the template knows for money: header -> its named or assumed currency."""
        return {it.header: it.currency for it in self._columns if it.holds == "money"}

    def currency_of(self, record: Record) -> str | None:
        """Return the currency of amounts that name none, in this record."""
        for header in self._currency_headers:
            cell = record[header].strip()
            if not is_missing(cell):
                return currency_of(cell)
        return self._currency

    def tell(self, record: Record) -> tuple[str, dict[str, Scalar]]:
        """Return the record's sentences and its metadata, both empty if every cell is missing."""
        said: dict[str, str] = {}
        short: list[str] = []
        long: list[str] = []
        values: dict[str, Scalar] = {}
        chars = 0
        currency = self.currency_of(record)
        for column in self._columns:
            text = record[column.header]
            read = column.read
            if read is None:
                text = text.strip()
                read = reader(column.holds, type_of(column.header, text))
            if text in column.missing:
                continue
            words, value = read(text, column.currency or currency)
            is_long = len(text) > LONG_CELL_CHARS
            if column.is_said:
                said[column.name] = words
            else:
                (long if is_long else short).append(_ended(column.start + words))
            if len(text) <= MAX_METADATA_CELL_CHARS:
                values[column.name] = value
                chars += len(text)
        if _MAX_BYTES_OF_CHAR * chars + self._name_bytes > MAX_METADATA_BYTES:
            values = _within_limits(values)
        told, told_long = self._sentences(said)
        return "\n\n".join(filter(None, [" ".join(told + short), *told_long, *long])), values

    def _sentences(self, said: dict[str, str]) -> tuple[list[str], list[str]]:
        """Return what is said of the parts that have a value, the long sentences apart."""
        patterns, unsaid = _chosen(self._template, tuple(said))
        short: list[str] = []
        long: list[str] = []
        for pattern in patterns:
            is_long = any(len(said[part]) > LONG_CELL_CHARS for part in pattern.parts)
            (long if is_long else short).append(_ended(pattern.say(said)))
        for name in unsaid:
            is_long = len(said[name]) > LONG_CELL_CHARS
            (long if is_long else short).append(_ended(self._starts[name] + said[name]))
        return short, long


@dataclass(frozen=True, slots=True)
class _Column:
    """One column's plan. `name` is its own in metadata, `start` what it is told after.

    holds: what its part holds. missing: the cells that stand for no value. read: what makes words
    and a value of its cells; None where each cell has to be looked at.
    """

    header: str
    name: str
    start: str
    is_said: bool
    holds: ColumnType
    missing: frozenset[str]
    read: Read | None
    currency: str | None


def _narrator(kind: str, record: Record, types: Types | None, kinds: Kinds) -> Narrator:
    template = template_of(kind, kinds)
    if types is None:
        return _lone_narrator(template, tuple(record))
    return Narrator(template, tuple(record), types)


@lru_cache(maxsize=256)
def _lone_narrator(template: Template, headers: tuple[str, ...]) -> Narrator:
    return Narrator(template, headers)


def _plan(
    template: Template, headers: tuple[str, ...], types: Types | None, assumed: str | None
) -> tuple[_Column, ...]:
    """Give each column its part and a metadata name of its own.

    assumed: the currency of amounts; not of a column of which some cells name one.
    """
    parts: dict[str, Part] = {}
    for part in template.parts:
        _assign(part, part.headers + part.loose, headers, parts)
    own = {part.name for part in template.parts}
    for part in COMMON_PARTS:
        if part.name not in own:
            _assign(part, part.headers, headers, parts)
    taken = {part.name for part in parts.values()} | RESERVED
    counts: dict[str, int] = {}
    columns = []
    for header in headers:
        found = parts.get(header)
        name = found.name if found else _free(snake(header) or "column", taken, counts)
        taken.add(name)
        holds = found.holds if found else "text"
        held = None if types is None else types[header]
        columns.append(
            _Column(
                header=header,
                name=name,
                start=f"{label(header)}: ",
                is_said=name in own,
                holds=holds,
                missing=missing_in(holds if held in (None, "text") else held),
                read=None if held is None else reader(holds, held),
                currency=currency_in(header)
                or (assumed if holds == "money" and held != "money" else None),
            )
        )
    return tuple(columns)


def _assign(
    part: Part, names: tuple[str, ...], headers: tuple[str, ...], parts: dict[str, Part]
) -> None:
    for name in names:
        for header in headers:
            if header not in parts and plain(header) == name:
                parts[header] = part
                return


def _free(name: str, taken: set[str], counts: dict[str, int]) -> str:
    """Return the name, or one with a number behind it; `counts` has the last number of each."""
    if name in RESERVED:
        name = f"record_{name}"
    free, count = name, counts.get(name, 1)
    while free in taken:
        count += 1
        free = f"{name}_{count}"
    counts[name] = count
    return free


@lru_cache(maxsize=1_024)
def _chosen(
    template: Template, parts: tuple[str, ...]
) -> tuple[tuple[Pattern, ...], tuple[str, ...]]:
    """Return the patterns to say where these parts have a value, and the parts that they leave."""
    patterns = tuple(
        pattern
        for group in template.sentences
        for pattern in [next((it for it in group if set(it.parts) <= set(parts)), None)]
        if pattern is not None
    )
    told = {part for pattern in patterns for part in pattern.parts}
    return patterns, tuple(part for part in parts if part not in told)


def _within_limits(values: dict[str, Scalar]) -> dict[str, Scalar]:
    """Return the values that fit into MAX_METADATA_BYTES, the first ones before the others."""
    kept: dict[str, Scalar] = {}
    room = MAX_METADATA_BYTES
    for name, value in values.items():
        size = len(f'"{name}":"{value}",'.encode())
        if size <= room:
            kept[name] = value
            room -= size
    return kept


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "。")) else f"{sentence}."
