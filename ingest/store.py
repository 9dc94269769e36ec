"""A load -> a sink: read, told and stored at once; what vanished is removed. Touches: the sink.

The command line and the service's own jobs store through here. Nothing has to be remembered between
two runs: a document that is there unchanged costs no embedding, so a load that broke off is run
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, Protocol

from ingest.document import Document
from ingest.errors import NothingToStore
from ingest.upload import Sink, Stored

Mode = Literal["upsert", "replace"]

# Puts in flight: one is embedded while another is written and a third is on its way.
AT_ONCE = 3
SAMPLES = 5

Progress = Callable[[int, Stored], None]


class Batches(Protocol):
    """What can be stored: the documents of one source, read once, in batches."""

    @property
    def source(self) -> str: ...

    @property
    def rows_read(self) -> int: ...

    @property
    def ids(self) -> Collection[str]:
        """The ids of all that came out of `batches` and `summary`."""
        ...

    def batches(self) -> Iterator[list[Document]]: ...

    def summary(self) -> Document | None:
        """Return what is told of the whole, once `batches` has ended."""
        ...


async def store(
    load: Batches,
    sink: Sink,
    *,
    mode: Mode = "upsert",
    at_once: int = AT_ONCE,
    on_progress: Progress | None = None,
) -> Stored:
    """Store a whole load, `at_once` batches at a time; return what became of its documents.

    mode: "replace" removes the documents of the same source that are not in the load any more,
    once all of it is stored. The summary is stored too, but not counted; not if the sink left
    something out.
    on_progress: called after every batch with the rows read and what is stored so far.
    Raises what the load or the sink raised first, after the batches in flight have ended; what was
    stored stays stored. Raises NothingToStore for a "replace" by an empty load.
    """
    total = Stored(0, 0)
    feed = _Feed(load.batches())

    async def carry() -> None:
        nonlocal total
        try:
            while batch := await feed.take():
                stored = await sink.put(batch)
                total = total + stored
                if on_progress is not None:
                    on_progress(load.rows_read, total)
        finally:
            feed.close()

    ended = await asyncio.gather(*(carry() for _ in range(at_once)), return_exceptions=True)
    for failure in ended:
        if failure is not None:
            raise failure
    if mode == "replace" and not load.ids:
        raise NothingToStore(
            f"there are no rows, and replacing {load.source!r} by nothing is refused;"
            " delete the source if that is meant"
        )
    # It counts every row's values, of rows that were left out, too.
    summary = None if total.left_out else await asyncio.to_thread(load.summary)
    if summary is not None:
        await sink.put([summary])
    if mode == "replace":
        total = total + Stored(0, 0, await _remove_vanished(load.source, load.ids, sink))
    if on_progress is not None:
        on_progress(load.rows_read, total)
    return total


async def rehearse(load: Batches, *, on_progress: Progress | None = None) -> tuple[str, ...]:
    """Read a whole load without storing it; return the first SAMPLES texts."""
    feed = _Feed(load.batches())
    samples: list[str] = []
    try:
        while batch := await feed.take():
            samples += [document.text for document in batch[: SAMPLES - len(samples)]]
            if on_progress is not None:
                on_progress(load.rows_read, Stored(0, 0))
    finally:
        feed.close()
    return tuple(samples)


async def _remove_vanished(source: str, kept: Collection[str], sink: Sink) -> int:
    removed, last = 0, None
    while page := await sink.ids(source, last):
        gone = [id for id in page if id not in kept]
        removed += await sink.delete(gone) if gone else 0
        last = page[-1]
    return removed


class _Feed:
    """Batches for several takers: made in a thread, one at a time, until one taker ends."""

    def __init__(self, batches: Iterator[Sequence[Document]]) -> None:
        self._batches = batches
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def take(self) -> Sequence[Document]:
        """Return the next batch, an empty one at the end."""
        async with self._turn:
            if self._is_closed:
                return ()
            making = asyncio.ensure_future(asyncio.to_thread(next, self._batches, ()))
            try:
                return await asyncio.shield(making)
            except asyncio.CancelledError:
                # A thread can't be stopped; leaving it alone with the open file would be worse.
                await asyncio.wait([making])
                raise

    def close(self) -> None:
        self._is_closed = True
