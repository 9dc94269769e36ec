"""Loads into sinks: bounded, overlapping, broken off, run again, replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from ingest.document import Document
from ingest.errors import NothingToStore, NotStored
from ingest.load import Load, documents_from_file
from ingest.store import AT_ONCE, rehearse, store
from ingest.upload import Stored


class Shelf:
    """A sink in memory; it fails at the `fails_at`th put, if that is given.

    company: no put ends before so many have been in flight at once.
    """

    def __init__(self, fails_at: int | None = None, page: int = 7, company: int = 1) -> None:
        self.documents: dict[str, Document] = {}
        self.in_flight = 0
        self.most_in_flight = 0
        self.deleted: list[int] = []
        self._puts = 0
        self._fails_at = fails_at
        self._page = page
        self._company = company
        self._together = asyncio.Event()

    async def put(self, documents: Sequence[Document]) -> Stored:
        self._puts += 1
        number = self._puts
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.in_flight >= self._company:
            self._together.set()
        async with asyncio.timeout(30):
            await self._together.wait()
        await asyncio.sleep(0.01)
        self.in_flight -= 1
        if number == self._fails_at:
            raise NotStored("the disk is full")
        unchanged = sum(self.documents.get(it.id) == it for it in documents)
        self.documents |= {it.id: it for it in documents}
        return Stored(len(documents) - unchanged, unchanged)

    async def ids(self, source: str, after: str | None) -> Sequence[str]:
        found = sorted(it.id for it in self.documents.values() if it.source == source)
        return [id for id in found if after is None or id > after][: self._page]

    async def delete(self, ids: Sequence[str]) -> int:
        self.deleted.append(len(ids))
        return sum(self.documents.pop(id, None) is not None for id in ids)

    def texts(self) -> set[str]:
        return {it.text for it in self.documents.values() if it.doc_type != "table_summary"}


def load_of(folder: Path, rows: Collection[int], **options: bool) -> Load:
    path = folder / "rows.csv"
    path.write_text("".join(["id,name\n", *(f"{n},Name {n}\n" for n in rows)]))
    return documents_from_file(path, **options)  # type: ignore[arg-type]


async def test_a_load_is_stored_with_its_summary_a_few_batches_at_a_time(tmp_path: Path) -> None:
    shelf = Shelf(company=AT_ONCE)
    told: list[tuple[int, int]] = []
    load = load_of(tmp_path, range(1_000))
    stored = await store(
        load, shelf, on_progress=lambda rows, so_far: told.append((rows, so_far.stored))
    )
    assert stored == Stored(1_000, 0)
    assert shelf.texts() == {f"Id: {n}. Name: Name {n}." for n in range(1_000)}
    assert load.report().summary_id in shelf.documents
    assert shelf.most_in_flight == AT_ONCE
    assert sorted(told) == told
    assert told[-1] == (1_000, 1_000)


async def test_a_load_that_broke_off_is_completed_by_the_same_load(tmp_path: Path) -> None:
    shelf = Shelf(fails_at=4)
    counted = Stored(0, 0)

    def count(_: int, so_far: Stored) -> None:
        nonlocal counted
        counted = so_far

    with pytest.raises(NotStored, match="the disk is full"):
        await store(load_of(tmp_path, range(1_000)), shelf, on_progress=count)
    # What was in flight beside the one that failed ended, and is counted; nothing came after it.
    assert shelf.in_flight == 0
    assert len(shelf.documents) == counted.stored
    assert 300 <= counted.stored <= 600
    again = await store(load_of(tmp_path, range(1_000)), shelf)
    assert again == Stored(1_000 - counted.stored, counted.stored)
    assert len(shelf.texts()) == 1_000


async def test_an_unchanged_load_changes_nothing(tmp_path: Path) -> None:
    shelf = Shelf()
    await store(load_of(tmp_path, range(250)), shelf)
    before = dict(shelf.documents)
    assert await store(load_of(tmp_path, range(250)), shelf, mode="replace") == Stored(0, 250)
    assert shelf.documents == before


async def test_replace_removes_what_vanished_from_the_source_and_nothing_else(
    tmp_path: Path,
) -> None:
    shelf = Shelf()
    other = Document("zz", "Another source.", "other.csv")
    await shelf.put([other])
    await store(load_of(tmp_path, range(100)), shelf)
    assert (await store(load_of(tmp_path, range(90, 110)), shelf)).removed == 0
    assert len(shelf.texts()) == 111
    stored = await store(load_of(tmp_path, range(90, 110)), shelf, mode="replace")
    assert stored == Stored(0, 20, 90)
    assert shelf.texts() == {
        "Another source.",
        *(f"Id: {n}. Name: Name {n}." for n in range(90, 110)),
    }


async def test_replace_without_a_summary_takes_the_old_summary_away(tmp_path: Path) -> None:
    shelf = Shelf()
    await store(load_of(tmp_path, range(3)), shelf)
    load = load_of(tmp_path, range(3), with_summary=False)
    assert (await store(load, shelf, mode="replace")).removed == 1
    assert len(shelf.documents) == 3


async def test_a_load_that_fails_removes_nothing(tmp_path: Path) -> None:
    shelf = Shelf()
    await store(load_of(tmp_path, range(300)), shelf)
    failing = Shelf(fails_at=2)
    failing.documents = shelf.documents
    with pytest.raises(NotStored):
        await store(load_of(tmp_path, range(200, 500)), failing, mode="replace")
    assert failing.deleted == []
    assert {f"Id: {n}. Name: Name {n}." for n in range(300)} <= failing.texts()


async def test_an_empty_file_replaces_nothing(tmp_path: Path) -> None:
    shelf = Shelf()
    await store(load_of(tmp_path, range(3)), shelf)
    with pytest.raises(NothingToStore, match=r"replacing 'rows\.csv' by nothing is refused"):
        await store(load_of(tmp_path, []), shelf, mode="replace")
    assert len(shelf.texts()) == 3
    assert await store(load_of(tmp_path, []), shelf) == Stored(0, 0)


class Endless:
    """A load that never ends, and knows whether it is being read."""

    def __init__(self) -> None:
        self.source = "endless"
        self.rows_read = 0
        self.ids: Collection[str] = ()
        self.fails_at: int | None = None

    def batches(self) -> Iterator[list[Document]]:
        while self.rows_read != self.fails_at:
            self.rows_read += 1
            yield [Document(str(self.rows_read), "text", self.source)]
        raise NotStored("line 9 can't be read")

    def summary(self) -> Document | None:
        return None


async def test_a_cancelled_load_stops_reading() -> None:
    load, shelf = Endless(), Shelf()
    running = asyncio.create_task(store(load, shelf))
    while len(shelf.documents) < 5:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    read = load.rows_read
    await asyncio.sleep(0.05)
    assert load.rows_read == read
    assert read <= len(shelf.documents) + 2 * AT_ONCE


async def test_a_file_that_fails_to_be_read_is_told_and_what_came_before_is_stored() -> None:
    load, shelf = Endless(), Shelf()
    load.fails_at = 8
    with pytest.raises(NotStored, match="line 9"):
        await store(load, shelf)
    assert len(shelf.documents) == 8


async def test_a_rehearsal_counts_everything_and_stores_nothing(tmp_path: Path) -> None:
    load = load_of(tmp_path, range(250))
    samples = await rehearse(load)
    assert samples == tuple(f"Id: {n}. Name: Name {n}." for n in range(5))
    assert load.report().documents == 250
    assert load.report().summary_id is None
