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


async def open_database(
    url: str, *, timeout_seconds: float = 30.0, within: Path | None = None
) -> Database:
    """Open and migrate `sqlite:///path`, `sqlite:///:memory:` or `postgresql://…`.

    within: the folder that a file has to lie in; None: any.
    Raises `Misconfigured` for a URL of another kind, `StorageUnavailable` when nothing answers.
    """
    database = _connect(url, timeout_seconds, within)
    try:
        await migrate(database)
    except BaseException:
        await database.close()
        raise
    return database


def _connect(url: str, timeout_seconds: float, within: Path | None) -> Database:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # not kept as the cause: it may tell a part of a password
        raise Misconfigured("DATABASE_URL is not a URL such as sqlite:///data/app.db") from None
    backend = parsed.drivername.partition("+")[0]
    if backend == "sqlite":
        from app.db.sqlite import SqliteDatabase

        name = parsed.database or ":memory:"
        path = None if name == ":memory:" else _file(name, within)
        return SqliteDatabase(path, busy_seconds=timeout_seconds)
    if backend in ("postgresql", "postgres"):
        from app.db.postgres import PostgresDatabase

        return PostgresDatabase(parsed, timeout_seconds=timeout_seconds)
    raise Misconfigured(f"DATABASE_URL must begin with sqlite: or postgresql:, not {backend}:")


def _file(name: str, within: Path | None) -> Path:
    """Return the path of a database's file, with every link followed."""
    if name.startswith("file:"):
        raise Misconfigured(f"DATABASE_URL: sqlite:/// needs a path after it, not {name[:200]!r}")
    path = Path(name).resolve()
    folder = path.parent if within is None else within.resolve()
    if not path.is_relative_to(folder):
        raise Misconfigured(
            f"the database {path} lies outside of DATA_DIR, {folder}: set DATA_DIR to its folder, "
            "or DATABASE_URL to a file within DATA_DIR"
        )
    return path
