"""Reads of SQLite, in a few threads. Touches: one file.

To hand work to a thread and back takes longer than most reads take, and two threads that read at
once wait for one another: what one request asks for at once goes to one thread, which answers it
one by one, each in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import Engine

from app.db.answers import Answered, deliver, give
from app.db.sqlite_file import KeptConnection, let_go, ours
from app.db.together import reader

T = TypeVar("T")

READERS = 4
TICKS = 2  # of the event loop: tasks that go on at once may need one more to ask
SLOW_SECONDS = 0.005  # after so long, what is read is told, and other threads take what waits
_Read = tuple[Callable[[Connection], Any], "asyncio.Future[Any]"]


class _Batch(NamedTuple):
    """What is read together, in the order in which it was asked for; threads may share it.

    read: what nobody has been told yet.
    """

    loop: asyncio.AbstractEventLoop
    waiting: deque[_Read]
    read: deque[Answered]

    def take(self) -> Iterator[_Read]:
        """Yield what waits, and that somebody still waits for."""
        for read in _emptied(self.waiting):
            if not read[1].done():
                yield read

    def answers(self) -> list[Answered]:
        """Return what has been read, to be told."""
        return list(_emptied(self.read))


class SqliteReads:
    """Threads that read, each with a connection of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._gathering: dict[object, _Batch] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"sqlite-read-{n}", daemon=True)
            for n in range(READERS)
        ]
        for thread in self._threads:
            thread.start()

    def read(self, fn: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Have `fn` called in a thread; returns its result to come."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        who = reader()
        if who is None:
            self._queue.put(_Batch(loop, deque([(fn, answer)]), deque()))
        elif (batch := self._gathering.get(who)) is not None:
            batch.waiting.append((fn, answer))
        else:
            self._gathering[who] = _Batch(loop, deque([(fn, answer)]), deque())
            loop.call_soon(self._send, who, TICKS)
        return answer

    async def close(self) -> None:
        """End the threads; what was asked before is answered."""
        for who in list(self._gathering):
            self._send(who, 0)
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _send(self, who: object, ticks: int) -> None:
        batch = self._gathering.get(who)
        if batch is None:  # sent already: the database is closing
            return
        if ticks:
            batch.loop.call_soon(self._send, who, ticks - 1)
            return
        del self._gathering[who]
        self._queue.put(batch)
        if len(batch.waiting) > 1:
            batch.loop.call_later(SLOW_SECONDS, self._share, batch)

    def _share(self, batch: _Batch) -> None:
        """Tell what was read before one that takes long; other threads take what waits behind."""
        give(batch.answers())
        for _ in range(min(len(batch.waiting), READERS - 1)):
            self._queue.put(batch)

    def _work(self) -> None:
        kept = KeptConnection(self._engine)
        while (batch := self._queue.get()) is not None:
            self._answer(batch, kept)
        kept.close()

    def _answer(self, batch: _Batch, kept: KeptConnection) -> None:
        """Answer what waits: all of it at once, but for what comes behind a slow read."""
        current: list[asyncio.Future[Any]] = []
        told_at = time.monotonic()
        try:
            for fn, answer in batch.take():
                current = [answer]
                batch.read.append((answer, *_attempt(kept, fn)))
                if time.monotonic() - told_at > SLOW_SECONDS:
                    deliver(batch.answers())
                    told_at = time.monotonic()
        except BaseException as error:  # noqa: BLE001 — the callers get it; the thread lives on
            failure = ours(error)
            left = [*current, *[answer for _, answer in batch.take()]]
            batch.read.extend([(answer, None, failure) for answer in left])
        deliver(batch.answers())


def _emptied(queued: deque[T]) -> Iterator[T]:
    """Yield what is queued, each to one thread."""
    while queued:
        try:
            one = queued.popleft()
        except IndexError:  # another thread took the last one
            return
        yield one


def _attempt(
    kept: KeptConnection, fn: Callable[[Connection], Any]
) -> tuple[Any, BaseException | None]:
    """Run one caller's function in a transaction, which sees the database at one moment."""
    connection, raw = kept.connection()
    try:
        raw.execute("BEGIN")
        result = fn(connection)
        raw.rollback()
    except BaseException as error:  # noqa: BLE001 — the caller gets it
        let_go(error)
        kept.close()
        return None, ours(error)
    return result, None
