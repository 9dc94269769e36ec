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
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert

        statement: Any = insert(table)
    else:
        from sqlalchemy.dialects import postgresql

        statement = postgresql.insert(table)
    new = statement.values(**values).on_conflict_do_nothing(index_elements=key)
    return connection.execute(new.returning(table.c[key[0]])).first() is not None
