"""The file of a SQLite database: how it is opened, begun, scrubbed, and what its failures mean.

Touches: one file.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from traceback import walk_tb
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from app.errors import AppError, StorageFull, StorageUnavailable

CACHED_KIB = 16_000  # of pages a reader; a user's rows lie among those of many others
SCRUB_PATIENCE_MS = 2_000  # for those who still read what was there before; all writes wait
_MAY_GO_ON = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}


def engine(path: Path | None, busy_seconds: float, *, readers: int = 0) -> Engine:
    """Return an engine of one connection that writes, or of some that can only read.

    Its transactions begin with `BEGIN`, and not with SQLAlchemy: a listener of its events would
    cost each statement more than SQLite takes to answer it.
    """
    shared: dict[str, Any] = {
        "connect_args": {"timeout": busy_seconds, "check_same_thread": False},
        "hide_parameters": True,  # in errors, which are logged: they are what users said
    }
    if path is None:
        made = create_engine("sqlite://", poolclass=StaticPool, **shared)
    else:
        url = URL.create("sqlite", database=str(path))  # a path may hold a `?`
        size = max(readers, 1)
        made = create_engine(url, poolclass=QueuePool, pool_size=size, max_overflow=0, **shared)

    @event.listens_for(made, "connect")
    def _configure(raw: Any, _record: Any) -> None:
        raw.isolation_level = None  # we say BEGIN ourselves
        cursor = raw.cursor()
        if path is not None:
            cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA secure_delete=ON")
        if readers:
            cursor.execute("PRAGMA query_only=ON")
            cursor.execute(f"PRAGMA cache_size=-{CACHED_KIB}")
        cursor.close()

    return made


class KeptConnection:
    """The connection of one thread, kept until something fails; with it, the driver's own.

    SQLAlchemy takes all that is done with it for one transaction without end: to begin and to end
    one takes it longer than most statements take. The driver itself is told where each begins and
    ends.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: tuple[Connection, Any] | None = None

    def connection(self) -> tuple[Connection, Any]:
        if self._kept is None:
            connection = self._engine.connect()
            connection.begin()
            self._kept = connection, connection.connection.dbapi_connection
        return self._kept

    def close(self) -> None:
        """Let go of it; what is open in it is rolled back."""
        if self._kept is not None:
            connection, _ = self._kept
            self._kept = None
            connection.close()


def scrub(raw: Any) -> bool:
    """Rewrite the database of a connection; says whether its WAL could be emptied as well."""
    (patience,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute("VACUUM")
    raw.execute(f"PRAGMA busy_timeout={SCRUB_PATIENCE_MS}")
    try:
        is_busy, *_ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.execute(f"PRAGMA busy_timeout={patience}")
    return not is_busy


def let_go(error: BaseException) -> None:
    """Close the cursors that a function which failed had not read to the end.

    One that is open keeps its connection at its moment, and an error that somebody holds keeps it.
    """
    for frame, _ in walk_tb(error.__traceback__):
        if not frame.f_code.co_flags & _MAY_GO_ON:  # as who raised the same error before may
            with suppress(RuntimeError):  # it is being run
                frame.clear()


def ours(error: BaseException) -> BaseException:
    """Return the failure to hand to a caller: a known one keeps the driver's as its cause."""
    told = _known(error) if isinstance(error, DBAPIError | sqlite3.Error) else None
    if told is None:
        return error
    told.__cause__ = error
    return told


def _known(error: DBAPIError | sqlite3.Error) -> AppError | None:
    raw = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(raw, "sqlite_errorcode", 0)  # an extended one: its low byte is the kind
    kind = code & 0xFF
    if kind == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StorageFull("the disk is full: nothing was stored")
    if kind in _BUSY:
        return StorageUnavailable("another writer holds the database", retry_after=5)
    if kind in _UNWRITABLE:
        return StorageUnavailable("the database file can't be written")
    if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StorageUnavailable("the database file is damaged")
    return None
