"""What a row is known by, so that a second import finds it again. Touches nothing.

A row number is no identity: it shifts as soon as a row is put in above.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ingest.columns import snake
from ingest.errors import UnknownColumn

Record = Mapping[str, str]
By = Literal["key", "name", "content"]

_WHOLE = re.compile(r"-?[0-9]+\.0+")
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
    `repeated` are keys that different rows share; there the content is part of the id, so that
    neither row hides the other and their order does not matter.
    """

    by: By
    column: str | None = None
    repeated: frozenset[str] = frozenset()

    def parts(self, record: Record) -> list[str]:
        """Return the strings that make the row's id, to be hashed with its source."""
        value = "" if self.column is None else _normalised(record[self.column], self.by)
        if not value:
            return ["content", _content(record)]
        if value in self.repeated:
            return [self.by, value, _content(record)]
        return [self.by, value]


def choose_identity(
    records: Callable[[], Iterable[Record]],
    columns: Sequence[str],
    key: str | None = None,
    *,
    usual: Sequence[str] = (),
) -> Identity:
    """Return the identity for a table, after a pass over its records for each column tried.

    key: the column that identifies a row, by its header or its snake_case name; else the first of
    an id, e-mail, domain or name column that is filled in every row and that no two rows with
    different content share; else the content. usual: snake_case names of an id that this kind of
    record has, which other ids stand behind: a deal is not known by its company's.
    Raises UnknownColumn for a key that is not in `columns`.
    """
    if key is not None:
        column = _declared(key, columns)
        return Identity("key", column, _repeated(records(), column))
    for column, by in _candidates(columns, usual):
        if _is_unique(records(), column, by):
            return Identity(by, column)
    return Identity("content")


def _repeated(records: Iterable[Record], column: str) -> frozenset[str]:
    """Return the values of a column that rows with different content share."""
    rows: dict[str, int] = {}
    repeated: set[str] = set()
    for record in records:
        value = _normalised(record[column], "key")
        row = _row_hash(record)
        if value and rows.setdefault(value, row) != row:
            repeated.add(value)
    return frozenset(repeated)


def _is_unique(records: Iterable[Record], column: str, by: By) -> bool:
    rows: dict[str, int] = {}
    for record in records:
        value = _normalised(record[column], by)
        row = _row_hash(record)
        if not value or rows.setdefault(value, row) != row:
            return False
    return True


def _row_hash(record: Record) -> int:
    # Only compared within this run, so the fast hash will do.
    return hash(tuple(record.values()))


def _declared(key: str, columns: Sequence[str]) -> str:
    if key in columns:
        return key
    for column in columns:
        if snake(column) == snake(key):
            return column
    raise UnknownColumn(f"there is no column {key!r}; the columns are: {', '.join(columns)}")


def _candidates(columns: Sequence[str], usual: Sequence[str]) -> list[tuple[str, By]]:
    ranked = [(rank, at) for at, name in enumerate(columns) if (rank := _rank(name, usual)) < _NONE]
    return [(columns[at], "name" if rank == _NAME else "key") for rank, at in sorted(ranked)]


_NAME, _NONE = 6, 7


def _rank(column: str, usual: Sequence[str]) -> int:
    name = snake(column)
    if name == "id" or name.startswith("record_id"):
        return 0
    if name in usual:
        return 1
    if name.endswith("_id"):
        return 2
    for rank, names in enumerate((_NUMBERS, _EMAILS, _DOMAINS, _NAMES), start=3):
        if name in names:
            return rank
    return _NONE


def _normalised(cell: str, by: By) -> str:
    """Return the cell as one of equal ones: workbooks write the id 120 as 120.0 as well."""
    cell = " ".join(cell.split())
    if by == "name":
        return cell.casefold()
    return cell.partition(".")[0] if cell.endswith("0") and _WHOLE.fullmatch(cell) else cell


def _content(record: Record) -> str:
    filled = [(name, _normalised(cell, "key")) for name, cell in record.items() if cell]
    return json.dumps(sorted(filled))
