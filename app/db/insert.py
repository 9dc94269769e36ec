"""INSERT … ON CONFLICT, which SQLAlchemy has per database. Touches nothing.

A database's own dialect costs a tenth of a second to import, so only the one in use is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection


def insert_new(
    connection: Connection, table: sa.Table, values: dict[str, Any], *, key: list[str]
) -> bool:
    """Insert a row unless one with the same `key` columns is there; says whether it did."""
    new = _new(connection.dialect.name, table, tuple(key))
    return connection.execute(new, values).first() is not None


@lru_cache(maxsize=64)
def _new(dialect: str, table: sa.Table, key: tuple[str, ...]) -> Any:
    new = insert_into(dialect, table).on_conflict_do_nothing(index_elements=list(key))
    return new.returning(table.c[key[0]])


def insert_all_new(
    connection: Connection, table: sa.Table, rows: list[dict[str, Any]], *, key: list[str]
) -> list[tuple[Any, ...]]:
    """Insert the rows whose `key` is not there yet; returns the keys of those that were new.

    All rows have the same columns, and no two of them the same key.
    """
    if not rows:
        return []
    new = insert_into(connection.dialect.name, table).on_conflict_do_nothing(index_elements=key)
    returned = connection.execute(new.returning(*(table.c[name] for name in key)), rows)
    return [tuple(row) for row in returned]


def add_up(
    connection: Connection, table: sa.Table, rows: list[dict[str, Any]], *, key: Sequence[str]
) -> None:
    """Insert rows of numbers, or add their numbers to the rows that have the same `key` columns.

    No two of the rows have the same key.
    """
    connection.execute(_adding_up(connection.dialect.name, table, tuple(key)), rows)


@lru_cache(maxsize=16)
def _adding_up(dialect: str, table: sa.Table, key: tuple[str, ...]) -> Any:
    new = insert_into(dialect, table)
    sums = {c.name: c + new.excluded[c.name] for c in table.c if c.name not in key}
    return new.on_conflict_do_update(index_elements=list(key), set_=sums)


def insert_into(dialect: str, table: sa.Table) -> Any:
    """Return an INSERT that can do nothing on conflict; for statements that are built once."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert

        return insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
