"""What a row is known by, so that a second import finds it again. Touches nothing.

A row number is no identity: it shifts as soon as a row is put in above.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ingest.columns import snake
from ingest.errors import UnknownColumn

Record = Mapping[str, str]

_NUMBERS = frozenset(
    [
        *["uuid", "guid", "key", "issue_key", "sku", "account_number", "customer_number"],
        *["invoice_number", "order_number", "ticket_number", "kundennummer"],
    ]
)
_EMAILS = frozenset(["email", "e_mail", "email_address", "mail"])
_DOMAINS = frozenset(["domain", "website", "domain_name", "company_domain"])
_NAMES = frozenset(["name", "company", "company_name", "account_name", "firma", "organization"])


@dataclass(frozen=True, slots=True)
class Identity:
    """How the rows of one table are told apart.

    by: "key" (the cell of `column`), "name" (that cell in lower case), or "content" (all cells).
    `repeated` are hashes of keys that different rows share; there the content is part of the id, so
    that neither row hides the other and their order does not matter.
    """

    by: Literal["key", "name", "content"]
    column: str | None = None
    repeated: frozenset[int] = frozenset()

    def parts(self, record: Record) -> list[str]:
        """Return the strings that make the row's id, to be hashed with its source."""
        value = "" if self.column is None else _normalised(record[self.column], self.by)
        if not value:
            return ["content", _content(record)]
        if _hash(value) in self.repeated:
            return [self.by, value, _content(record)]
        return [self.by, value]


def choose_identity(
    records: Iterable[Record], columns: Sequence[str], key: str | None = None
) -> Identity:
    """Return the identity for a table, after one pass over its records.

    key: the column that identifies a row, by its header or its snake_case name; else the first of
    an id, e-mail, domain or name column that is filled in every row and that no two rows with
    different content share; else the content.
    Raises UnknownColumn for a key that is not in `columns`.
    """
    tallies = [_Tally(_declared(key, columns), "key")] if key is not None else _candidates(columns)
    for record in records:
        for tally in tallies:
            tally.add(record)
        if key is None:
            tallies = [tally for tally in tallies if tally.is_unique]
            if not tallies:
                break
    if not tallies:
        return Identity("content")
    best = tallies[0]
    return Identity(best.by, best.column, frozenset(best.repeated))


@dataclass(slots=True)
class _Tally:
    """The hashes of one column's values, each with the hash of the row that had it first."""

    column: str
    by: Literal["key", "name"]
    rows: dict[int, int] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)
    blanks: int = 0

    @property
    def is_unique(self) -> bool:
        return not self.repeated and not self.blanks

    def add(self, record: Record) -> None:
        value = _normalised(record[self.column], self.by)
        if not value:
            self.blanks += 1
            return
        row = _hash(_content(record))
        if self.rows.setdefault(_hash(value), row) != row:
            self.repeated.add(_hash(value))


def _declared(key: str, columns: Sequence[str]) -> str:
    if key in columns:
        return key
    for column in columns:
        if snake(column) == snake(key):
            return column
    raise UnknownColumn(f"there is no column {key!r}; the columns are: {', '.join(columns)}")


def _candidates(columns: Sequence[str]) -> list[_Tally]:
    ranked = sorted((rank, at) for at, name in enumerate(columns) if (rank := _rank(name)) < _NONE)
    return [_Tally(columns[at], "name" if rank == _NAME else "key") for rank, at in ranked]


_NAME, _NONE = 5, 6


def _rank(column: str) -> int:
    name = snake(column)
    if name == "id":
        return 0
    if name.endswith("_id"):
        return 1
    for rank, names in enumerate((_NUMBERS, _EMAILS, _DOMAINS, _NAMES), start=2):
        if name in names:
            return rank
    return _NONE


def _normalised(cell: str, by: str) -> str:
    cell = " ".join(cell.split())
    return cell.casefold() if by == "name" else cell


def _content(record: Record) -> str:
    return json.dumps(sorted((name, cell) for name, cell in record.items() if cell))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
