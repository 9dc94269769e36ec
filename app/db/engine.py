"""A database URL to an open `Database` with today's schema. Touches: the database.

The two engines are imported only when they are asked for.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from app.db.base import Database
from app.db.schema import migrate
from app.errors import Misconfigured


async def open_database(url: str, *, timeout_seconds: float = 30.0) -> Database:
    """Open and migrate `sqlite:///path`, `sqlite:///:memory:` or `postgresql://…`.

    Raises `Misconfigured` for a URL of another kind, `StorageUnavailable` when nothing answers.
    """
    database = _connect(url, timeout_seconds)
    try:
        await migrate(database)
    except BaseException:
        await database.close()
        raise
    return database


def _connect(url: str, timeout_seconds: float) -> Database:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise Misconfigured("DATABASE_URL is not a URL such as sqlite:///data/app.db") from error
    backend = parsed.drivername.partition("+")[0]
    if backend == "sqlite":
        from app.db.sqlite import SqliteDatabase

        name = parsed.database or ":memory:"
        path = None if name == ":memory:" else Path(name)
        return SqliteDatabase(path, busy_seconds=timeout_seconds)
    if backend in ("postgresql", "postgres"):
        from app.db.postgres import PostgresDatabase

        return PostgresDatabase(parsed, timeout_seconds=timeout_seconds)
    raise Misconfigured(f"DATABASE_URL must begin with sqlite: or postgresql:, not {backend}:")
