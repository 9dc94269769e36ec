"""INSERT … ON CONFLICT, which SQLAlchemy has per database. Touches nothing.

A database's own dialect costs a tenth of a second to import, so only the one in use is.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection


def insert_new(
    connection: Connection, table: sa.Table, values: dict[str, Any], *, key: list[str]
) -> bool:
    """Insert a row unless one with the same `key` columns is there; says whether it did."""
    new = _insert(connection, table).values(**values).on_conflict_do_nothing(index_elements=key)
    return connection.execute(new.returning(table.c[key[0]])).first() is not None


def insert_all_new(
    connection: Connection, table: sa.Table, rows: list[dict[str, Any]], *, key: list[str]
) -> list[tuple[Any, ...]]:
    """Insert the rows whose `key` is not there yet; returns the keys of those that were new.

    All rows have the same columns, and no two of them the same key.
    """
    if not rows:
        return []
    new = _insert(connection, table).on_conflict_do_nothing(index_elements=key)
    returned = connection.execute(new.returning(*(table.c[name] for name in key)), rows)
    return [tuple(row) for row in returned]


def _insert(connection: Connection, table: sa.Table) -> Any:
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert

        return insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
