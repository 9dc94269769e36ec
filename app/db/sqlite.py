"""SQLite: one writer thread with group commit, a few reader threads. Touches: one file.

Grouping makes a durable commit cheap: callers that come while one is being written share the
next fsync, and each is answered only after it. A lock file queues the processes fairly, where
SQLite's own waiting is a lottery, and keeps two connections from checkpointing at once.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import Engine

from app.db.answers import Answered, deliver
from app.db.patience import Patience
from app.db.sqlite_file import KeptConnection, engine, let_go, ours, scrub
from app.db.sqlite_reads import READERS, SqliteReads
from app.errors import Misconfigured, StorageUnavailable

T = TypeVar("T")

MAX_GROUP = 256
_SAVEPOINT = "of_one_caller"


class _Work(NamedTuple):
    """What a caller wants written. context: the caller's."""

    fn: Callable[[Connection], Any]
    context: Context
    answer: asyncio.Future[Any]


class SqliteDatabase:
    """A `Database` on one file, or in memory (`path=None`), where one thread reads and writes."""

    dialect: Literal["sqlite"] = "sqlite"

    def __init__(self, path: Path | None, *, busy_seconds: float = 30.0) -> None:
        self._deadline = busy_seconds * 2 + 5
        self._patience = Patience(self._deadline)
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
        self._engine = engine(path, busy_seconds)
        self._kept = KeptConnection(self._engine)
        self._readers: Engine | None = None
        self._reads: SqliteReads | None = None
        if path is not None:
            self._readers = engine(path, busy_seconds, readers=READERS)
            self._reads = SqliteReads(self._readers)
        self._thread = threading.Thread(target=self._work, name="sqlite-write", daemon=True)
        self._thread.start()

    async def read(self, fn: Callable[[Connection], T]) -> T:
        if self._reads is None or self._closed:
            return await self.write(fn)
        return await self._patience.wait(self._reads.read(fn))

    async def write(self, fn: Callable[[Connection], T]) -> T:
        return await self._patience.wait(self._begin(fn))

    async def change_schema(self, fn: Callable[[Connection], T]) -> T:
        return await self._begin(fn)  # which may take as long as it takes

    def _begin(self, fn: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Have `fn` called by the writer; returns its result to come."""
        if self._closed:
            raise StorageUnavailable("the database is closed")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # In the caller's context, so that a job which it puts knows the trace that it belongs to.
        self._queue.put(_Work(fn, copy_context(), answer))
        return answer

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
        if self._reads is not None:
            await self._reads.close()
        if self._readers is not None:
            self._readers.dispose()
        self._engine.dispose()
        if self._lock_file is not None:
            os.close(self._lock_file)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            self._commit_group(work)
            self._scrub_if_asked()
        self._kept.close()

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
            with self._my_turn():
                _, raw = self._kept.connection()
                try:
                    is_clean = scrub(raw)
                except BaseException:
                    self._kept.close()  # while it is still our turn
                    raise
        except BaseException as error:  # noqa: BLE001 — the callers get it; the thread lives on
            for future in asked:
                future.set_exception(ours(error))
        else:
            for future in asked:
                future.set_result(is_clean)

    def _commit_group(self, first: _Work) -> None:
        """Run all that waits in one transaction; answer everyone once it is on disk."""
        settled: list[Answered] = []
        try:
            with self._my_turn():
                connection, raw = self._kept.connection()
                try:
                    raw.execute("BEGIN IMMEDIATE")
                    work: _Work | None = first
                    while work is not None:
                        if not work.answer.done():  # else nobody waits for it any more
                            settled.append((work.answer, None, None))
                            settled[-1] = (work.answer, *_attempt(connection, raw, work))
                        work = self._waiting() if len(settled) < MAX_GROUP else None
                    raw.commit()
                except BaseException:
                    self._kept.close()  # while it is still our turn
                    raise
        except BaseException as error:  # noqa: BLE001 — the callers get it; the thread lives on
            failure = ours(error)
            told = settled or [(first.answer, None, None)]
            settled = [(answer, None, failure) for answer, _, _ in told]
        deliver(settled)

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


def _attempt(connection: Connection, raw: Any, work: _Work) -> tuple[Any, BaseException | None]:
    """Run one caller's function in a savepoint, so that its failure is its own.

    A failure that ended the whole transaction (a full disk, an I/O error) is raised instead.
    """
    raw.execute(f"SAVEPOINT {_SAVEPOINT}")
    try:
        result = work.context.run(work.fn, connection)
        raw.execute(f"RELEASE {_SAVEPOINT}")
    except BaseException as error:
        let_go(error)
        if not raw.in_transaction:
            raise
        raw.execute(f"ROLLBACK TO {_SAVEPOINT}")
        raw.execute(f"RELEASE {_SAVEPOINT}")
        return None, ours(error)
    return result, None
