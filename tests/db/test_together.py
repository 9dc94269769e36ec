"""What one request reads at once from SQLite shares a thread; nothing else does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.db import Connection, Database, open_database
from app.db.tables import about_store
from app.db.together import reading_together
from app.errors import NotFound


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(f"sqlite:///{tmp_path / 'app.db'}")
    yield database
    await database.close()


class Gate:
    """A read that goes on once it is let through, and says when it has begun."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opens = threading.Event()

    def __call__(self, _: Connection) -> str:
        self.begun.set()
        assert self.opens.wait(30)
        return threading.current_thread().name


def where(_: Connection) -> str:
    return threading.current_thread().name


async def test_reads_of_one_request_share_a_thread_and_keep_their_order(
    database: Database,
) -> None:
    order: list[int] = []

    async def one(number: int) -> str:
        def read(connection: Connection) -> str:
            order.append(number)
            return where(connection)

        return await database.read(read)

    with reading_together():
        threads = await asyncio.gather(*map(one, range(5)))
    assert len(set(threads)) == 1
    assert order == [0, 1, 2, 3, 4]


async def test_a_slow_read_holds_up_no_other_request(database: Database) -> None:
    slow = Gate()
    with reading_together():
        first = asyncio.ensure_future(database.read(slow))
    await asyncio.to_thread(slow.begun.wait, 30)
    with reading_together():
        await database.read(where)
    assert not first.done()
    slow.opens.set()
    await first


async def test_what_waits_behind_a_slow_read_of_its_request_goes_to_another_thread(
    database: Database,
) -> None:
    slow = Gate()
    with reading_together():
        first = asyncio.ensure_future(database.read(slow))
        second = asyncio.ensure_future(database.read(where))
    other = await second
    assert not first.done()
    slow.opens.set()
    assert await first != other


async def test_what_was_read_before_a_slow_read_of_its_request_does_not_wait_for_it(
    database: Database,
) -> None:
    slow = Gate()
    with reading_together():
        first = asyncio.ensure_future(database.read(where))
        second = asyncio.ensure_future(database.read(slow))
    await first
    assert not second.done()
    slow.opens.set()
    await second


async def test_a_function_that_runs_out_of_an_iterator_holds_up_nobody_beside_it(
    database: Database,
) -> None:
    def run_out(_: Connection) -> str:
        return next(iter(()))

    for ask in (database.read, database.write):
        with reading_together():
            failed, done = await asyncio.gather(
                ask(run_out), ask(lambda _: "done"), return_exceptions=True
            )
        assert isinstance(failed, RuntimeError)
        assert done == "done"


async def test_a_read_that_fails_fails_alone(database: Database) -> None:
    def missing(_: Connection) -> str:
        raise NotFound("there is no such thing")

    def broken(connection: Connection) -> object:
        return connection.execute(sa.text("SELECT 1 FROM nowhere")).all()

    with reading_together():
        results = await asyncio.gather(
            database.read(missing),
            database.read(broken),
            database.read(lambda c: c.execute(sa.select(about_store.c.name)).all()),
            return_exceptions=True,
        )
    assert isinstance(results[0], NotFound)
    assert "no such table" in str(results[1])
    assert isinstance(results[2], list)


async def test_a_read_that_was_cancelled_is_not_begun(database: Database) -> None:
    read: list[str] = []
    with reading_together():
        gone = asyncio.ensure_future(database.read(lambda _: read.append("gone")))
        stays = asyncio.ensure_future(database.read(lambda _: read.append("stays")))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert read == ["stays"]


async def test_what_is_asked_before_the_end_is_answered(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'app.db'}")
    with reading_together():
        asked = asyncio.ensure_future(database.read(where))
    await asyncio.sleep(0)
    await database.close()
    assert (await asked).startswith("sqlite-read")
