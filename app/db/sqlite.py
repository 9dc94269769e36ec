"""SQLite: one writer thread with group commit, a few reader threads. Touches: one file.

Grouping makes a durable commit cheap: callers that come while one is being written share the
next fsync, and each is answered only after it. A lock file queues the processes fairly, where
SQLite's own waiting is a lottery, and keeps two connections from checkpointing at once.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from app.errors import AppError, Misconfigured, StorageFull, StorageUnavailable

T = TypeVar("T")
_Work = tuple[Callable[[Connection], Any], "Future[Any]"]

READERS = 4
CACHED_KIB = 16_000  # of pages a reader; a user's rows lie among those of many others
MAX_GROUP = 256
_SAVEPOINT = "of_one_caller"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}
SCRUB_PATIENCE_MS = 2_000  # for those who still read what was there before; all writes wait


class SqliteDatabase:
    """A `Database` on one file, or in memory (`path=None`), where one thread reads and writes."""

    dialect: Literal["sqlite"] = "sqlite"

    def __init__(self, path: Path | None, *, busy_seconds: float = 30.0) -> None:
        self._deadline = busy_seconds * 2 + 5
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._scrubs: queue.SimpleQueue[Future[bool]] = queue.SimpleQueue()
        self._closed = False
        self._lock_file: int | None = None
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._lock_file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Misconfigured(f"can't write to the database's folder {path}: {error}") from error
        self._engine = _engine(path, busy_seconds, begin="BEGIN IMMEDIATE", readers=1)
        self._readers: Engine | None = None
        self._pool: ThreadPoolExecutor | None = None
        if path is not None:
            self._readers = _engine(path, busy_seconds, begin="BEGIN", readers=READERS)
            self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-read")
        self._thread = threading.Thread(target=self._work, name="sqlite-write", daemon=True)
        self._thread.start()

    async def read(self, fn: Callable[[Connection], T]) -> T:
        if self._pool is None or self._readers is None or self._closed:
            return await self.write(fn)
        reading = self._pool.submit(_read, self._readers, fn)
        return await self._answer(reading, self._deadline)

    async def write(self, fn: Callable[[Connection], T]) -> T:
        return await self._write(fn, self._deadline)

    async def change_schema(self, fn: Callable[[Connection], T]) -> T:
        return await self._write(fn, None)

    async def _write(self, fn: Callable[[Connection], T], deadline: float | None) -> T:
        if self._closed:
            raise StorageUnavailable("the database is closed")
        future: Future[T] = Future()
        # In the caller's context, so that a job which it puts knows the trace that it belongs to.
        context = copy_context()
        self._queue.put((lambda connection: context.run(fn, connection), future))
        return await self._answer(future, deadline)

    async def scrub(self) -> bool:
        """Rewrite the file and empty the WAL.

        `secure_delete` overwrites what is deleted, but not the copies that cells leave behind when
        a page is split or balanced; a rewritten file has none.
        """
        future: Future[bool] = Future()
        self._scrubs.put(future)
        try:
            await self.write(lambda _: None)  # so that the writer looks
            return await asyncio.wrap_future(future)  # a large file takes longer than any write
        except BaseException:
            future.cancel()  # unless it is under way
            raise

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, self._deadline)
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)
        if self._readers is not None:
            self._readers.dispose()
        self._engine.dispose()
        if self._lock_file is not None:
            os.close(self._lock_file)

    async def _answer(self, future: Future[T], deadline: float | None) -> T:
        try:
            async with asyncio.timeout(deadline):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise StorageUnavailable(
                "the database did not answer in time", retry_after=5
            ) from error

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            self._commit_group(work)
            self._scrub_if_asked()

    def _scrub_if_asked(self) -> None:
        """Scrub once for all who ask, between two transactions."""
        asked: list[Future[bool]] = []
        while not self._scrubs.empty():
            future = self._scrubs.get()
            if future.set_running_or_notify_cancel():
                asked.append(future)
        if not asked:
            return
        try:
            with self._my_turn(), self._engine.connect() as connection:
                is_clean = _scrub(connection.connection.dbapi_connection)
        except BaseException as error:  # noqa: BLE001 — the callers get it; the thread lives on
            for future in asked:
                future.set_exception(_ours(error))
        else:
            for future in asked:
                future.set_result(is_clean)

    def _commit_group(self, first: _Work) -> None:
        """Run all that waits in one transaction; answer everyone once it is on disk."""
        settled: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with self._my_turn(), self._engine.connect() as connection, connection.begin():
                work: _Work | None = first
                while work is not None:
                    fn, future = work
                    if future.set_running_or_notify_cancel():
                        settled.append((future, None, None))
                        settled[-1] = (future, *_attempt(connection, fn))
                    work = self._waiting() if len(settled) < MAX_GROUP else None
        except BaseException as error:  # noqa: BLE001 — the callers get it; the thread lives on
            failure = _ours(error)
            waits = not settled and not first[1].done()
            if waits and first[1].set_running_or_notify_cancel():
                settled.append((first[1], None, None))
            settled = [(future, None, failure) for future, _, _ in settled]
        for future, result, problem in settled:
            if problem is None:
                future.set_result(result)
            else:
                future.set_exception(problem)

    def _waiting(self) -> _Work | None:
        try:
            work = self._queue.get_nowait()
        except queue.Empty:
            return None
        if work is None:  # closing: end this group, then the thread
            self._queue.put(None)
        return work

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if self._lock_file is None or os.name == "nt":
            yield
            return
        import fcntl

        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)


def _read(engine: Engine, fn: Callable[[Connection], T]) -> T:
    try:
        with engine.connect() as connection:
            return fn(connection)
    except (DBAPIError, sqlite3.Error) as error:
        known = _known(error)
        if known is None:
            raise
        raise known from error


def _attempt(
    connection: Connection, fn: Callable[[Connection], T]
) -> tuple[T | None, BaseException | None]:
    """Run one caller's function in a savepoint, so that its failure is its own.

    A failure that ended the whole transaction (a full disk, an I/O error) is raised instead.
    """
    _say(connection, f"SAVEPOINT {_SAVEPOINT}")
    try:
        result = fn(connection)
        _say(connection, f"RELEASE {_SAVEPOINT}")
    except BaseException as error:
        raw: Any = connection.connection.dbapi_connection
        if not raw.in_transaction:
            raise
        _say(connection, f"ROLLBACK TO {_SAVEPOINT}")
        _say(connection, f"RELEASE {_SAVEPOINT}")
        return None, _ours(error)
    return result, None


def _say(connection: Connection, what: str) -> None:
    """Say to the driver itself what frames statements: SQLAlchemy takes longer for it."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute(what)


def _engine(path: Path | None, busy_seconds: float, *, begin: str, readers: int) -> Engine:
    shared: dict[str, Any] = {
        "connect_args": {"timeout": busy_seconds, "check_same_thread": False},
        "hide_parameters": True,  # in errors, which are logged: they are what users said
    }
    if path is None:
        engine = create_engine("sqlite://", poolclass=StaticPool, **shared)
    else:
        url = URL.create("sqlite", database=str(path))  # a path may hold a `?`
        engine = create_engine(
            url, poolclass=QueuePool, pool_size=readers, max_overflow=0, **shared
        )

    @event.listens_for(engine, "connect")
    def _configure(raw: Any, _record: Any) -> None:
        raw.isolation_level = None  # we say BEGIN ourselves
        cursor = raw.cursor()
        if path is not None:
            cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA secure_delete=ON")
        if begin == "BEGIN":
            cursor.execute("PRAGMA query_only=ON")
            cursor.execute(f"PRAGMA cache_size=-{CACHED_KIB}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        _say(connection, begin)

    return engine


def _scrub(raw: Any) -> bool:
    """Rewrite the database of a connection; says whether its WAL could be emptied as well."""
    (patience,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute("VACUUM")
    raw.execute(f"PRAGMA busy_timeout={SCRUB_PATIENCE_MS}")
    try:
        is_busy, *_ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.execute(f"PRAGMA busy_timeout={patience}")
    return not is_busy


def _ours(error: BaseException) -> BaseException:
    """Return the failure to hand to a caller: a known one keeps the driver's as its cause."""
    known = _known(error) if isinstance(error, DBAPIError | sqlite3.Error) else None
    if known is None:
        return error
    known.__cause__ = error
    return known


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
