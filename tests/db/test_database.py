"""One suite over SQLite on disk, SQLite in memory and Postgres."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.db import Connection, Database, db_now, open_database
from app.db.tables import about_store
from app.errors import Misconfigured, StorageFull, StorageUnavailable

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite-disk", "sqlite-memory", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite-memory":
        return "sqlite:///:memory:"
    return _shared_url(request, tmp_path)


@pytest.fixture(params=["sqlite-disk", "postgres"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that several processes can open."""
    return _shared_url(request, tmp_path)


def _shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite-disk":
        return f"sqlite:///{tmp_path / 'app.db'}"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = await open_database(url)
    yield database
    await database.close()


def put(name: str, value: object = 1) -> Callable[[Connection], None]:
    def write(connection: Connection) -> None:
        connection.execute(sa.insert(about_store).values(name=name, value=value))

    return write


def get(name: str) -> Callable[[Connection], object]:
    wanted = sa.select(about_store.c.value).where(about_store.c.name == name)
    return lambda connection: connection.execute(wanted).scalar()


def names(connection: Connection) -> set[str]:
    return set(connection.execute(sa.select(about_store.c.name)).scalars())


async def test_what_is_written_can_be_read(database: Database) -> None:
    await database.write(put("stamp", {"model": "m", "dimension": 3}))
    assert await database.read(get("stamp")) == {"model": "m", "dimension": 3}


async def test_a_write_returns_what_its_function_returns(database: Database) -> None:
    assert await database.write(lambda _: 42) == 42


async def test_an_error_tells_nothing_of_what_was_to_be_written(database: Database) -> None:
    wrong = sa.text("INSERT INTO no_such_table VALUES (:said)")
    with pytest.raises(Exception, match="no_such_table") as failed:
        await database.write(lambda c: c.execute(wrong, {"said": "my secret"}))
    assert "my secret" not in str(failed.value)


async def test_a_failing_function_takes_back_its_own_writes_only(database: Database) -> None:
    def fail(connection: Connection) -> None:
        put("half")(connection)
        raise LookupError("changed my mind")

    before, failed, after = await asyncio.gather(
        database.write(put("before")),
        database.write(fail),
        database.write(put("after")),
        return_exceptions=True,
    )
    assert (before, after) == (None, None)
    assert isinstance(failed, LookupError)
    assert await database.read(names) == {"before", "after"}


async def test_a_broken_constraint_fails_its_own_caller_only(database: Database) -> None:
    await database.write(put("taken"))
    results = await asyncio.gather(
        database.write(put("one")),
        database.write(put("taken")),
        database.write(put("two")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), sa.exc.IntegrityError, type(None)]
    assert await database.read(names) == {"taken", "one", "two"}


async def test_a_read_that_failed_leaves_no_old_moment_to_the_next(database: Database) -> None:
    def fail(connection: Connection) -> None:
        connection.execute(sa.select(about_store.c.value)).first()
        raise ValueError("odd")

    for n in range(8):  # more than threads that read
        with pytest.raises(ValueError, match="odd"):
            await database.read(fail)
        await database.write(put(f"n{n}", n))
        assert await database.read(get(f"n{n}")) == n


async def test_who_holds_the_error_of_a_half_read_answer_holds_nothing_else(
    shared_url: str,
) -> None:
    def fail(connection: Connection) -> None:
        found = connection.execute(sa.select(about_store.c.name))
        assert found.fetchone() is not None
        raise ValueError("odd")

    database, other = await open_database(shared_url), await open_database(shared_url)
    try:
        for n in range(5):
            await database.write(put(f"n{n}"))
        calls = [database.write(fail), *(database.read(fail) for _ in range(4))]
        held = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in held] == [ValueError] * 5
        await other.write(put("meanwhile"))
        for _ in range(5):
            assert "meanwhile" in await database.read(names)
        await database.write(put("after"))
        await database.scrub()
    finally:
        await database.close()
        await other.close()


async def test_an_error_that_is_raised_again_is_told_again(database: Database) -> None:
    odd = ValueError("odd")

    def fail(connection: Connection) -> None:
        raise odd

    for call in (database.write, database.read, database.write):
        with pytest.raises(ValueError, match="odd"):
            await call(fail)
    await database.write(put("after"))
    assert await database.read(names) == {"after"}


async def test_64_writers_at_once_lose_nothing(database: Database) -> None:
    async def write_some(writer: int) -> None:
        for number in range(5):
            await database.write(put(f"{writer}-{number}"))

    await asyncio.gather(*(write_some(writer) for writer in range(64)))
    assert len(await database.read(names)) == 64 * 5


async def test_a_writer_that_gave_up_harms_no_one(database: Database) -> None:
    waiting = [asyncio.create_task(database.write(put(f"given-up-{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await database.write(put("later"))
    assert await database.read(get("later")) == 1


async def test_the_databases_clock_is_close_to_ours(database: Database) -> None:
    theirs = await database.read(lambda c: c.execute(sa.select(db_now())).scalar_one())
    assert abs(theirs - datetime.now(UTC)) < timedelta(seconds=5)


async def test_another_database_object_sees_a_write_at_once(shared_url: str) -> None:
    first, second = await open_database(shared_url), await open_database(shared_url)
    for number in range(20):
        await first.write(put(f"n-{number}", number))
        assert await second.read(get(f"n-{number}")) == number
    await first.close()
    await second.close()


async def test_a_closed_database_says_so(url: str) -> None:
    database = await open_database(url)
    await database.close()
    for call in (database.read, database.write):
        with pytest.raises(StorageUnavailable):
            await call(names)
    await database.close()  # once more is fine


async def test_two_processes_that_write_at_once_lose_nothing(shared_url: str) -> None:
    await (await open_database(shared_url)).close()
    both = [_appending(shared_url, prefix, 300) for prefix in ("a", "b")]
    printed = [process.communicate(timeout=60)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [len(lines) for lines in printed] == [300, 300]
    database = await open_database(shared_url)
    assert await database.read(names) == {*printed[0], *printed[1]}
    await database.close()


async def test_kill_9_loses_no_acknowledged_write(shared_url: str) -> None:
    acknowledged: set[str] = set()
    for round_ in range(4):
        process = _appending(shared_url, f"round-{round_}", 1_000_000)
        assert process.stdout is not None
        acknowledged.add(process.stdout.readline().strip())
        await asyncio.sleep(random.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        # The last line may be cut, as a name that was never acknowledged would be.
        acknowledged.update(line.strip() for line in process.stdout if line.endswith("\n"))
        process.wait()
        process.stdout.close()
        database = await open_database(shared_url)
        assert acknowledged - await database.read(names) == set()
        await database.close()
    assert len(acknowledged) > 4


def _appending(url: str, prefix: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.db.appender", url, prefix, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_a_file_held_by_another_writer_is_unavailable_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.db"
    database = await open_database(f"sqlite:///{path}", timeout_seconds=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageUnavailable) as failure:
        await database.write(put("refused"))
    assert (failure.value.status, failure.value.code) == (503, "storage_unavailable")
    assert await database.read(names) == set()
    other.execute("ROLLBACK")
    other.close()
    await database.write(put("accepted"))
    assert await database.read(names) == {"accepted"}
    await database.close()


async def test_a_full_disk_stores_nothing_and_everything_stays_readable(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'app.db'}")
    await database.write(put("small"))
    await database.write(_allow_pages(sa.text("PRAGMA page_count")))
    with pytest.raises(StorageFull) as failure:
        await database.write(put("big", "x" * 1_000_000))
    assert (failure.value.status, failure.value.code) == (507, "storage_full")
    assert await database.read(names) == {"small"}
    await database.write(_allow_pages(sa.text("SELECT 1000000")))
    await database.write(put("big", "x" * 1_000_000))
    assert await database.read(names) == {"small", "big"}
    await database.close()


def _allow_pages(count: sa.TextClause) -> Callable[[Connection], None]:
    """Set SQLite's own limit, on the connection that writes; beyond it the disk counts as full."""

    def write(connection: Connection) -> None:
        pages = connection.execute(count).scalar_one()
        connection.execute(sa.text(f"PRAGMA max_page_count={pages}"))

    return write


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    path.write_bytes(b"these are not the bytes of a database " * 100)
    with pytest.raises(StorageUnavailable):
        await open_database(f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"these are not")


async def test_an_unreachable_server_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StorageUnavailable):
        await open_database(f"postgresql://postgres@127.0.0.1:{port}/postgres")


async def test_a_server_that_never_answers_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(StorageUnavailable):
            await open_database(
                f"postgresql://postgres@127.0.0.1:{port}/postgres", timeout_seconds=0.2
            )


async def test_a_server_without_the_database_is_unavailable(postgres_database: str) -> None:
    with pytest.raises(StorageUnavailable):
        await open_database(f"{postgres_database}_that_is_not_there")


async def test_a_lost_connection_is_replaced(postgres_database: str) -> None:
    database = await open_database(postgres_database)
    other = await open_database(postgres_database)
    kill = sa.text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await database.write(put("before"))
    await other.write(lambda connection: connection.execute(kill).all())
    await database.write(put("after"))
    assert await database.read(names) == {"before", "after"}
    await database.close()
    await other.close()


async def test_more_callers_than_connections_wait_and_are_told(postgres_database: str) -> None:
    database = await open_database(postgres_database, timeout_seconds=1.0)
    sleep = sa.text("SELECT pg_sleep(3)")
    results = await asyncio.gather(
        *(database.read(lambda c: c.execute(sleep).scalar()) for _ in range(24)),
        return_exceptions=True,
    )
    assert {type(result) for result in results} == {StorageUnavailable}
    await database.write(put("later"))
    await database.close()


@pytest.mark.parametrize("url", ["mysql://localhost/x", "no url at all", ""])
async def test_a_url_of_another_kind_is_a_mistake_in_the_settings(url: str) -> None:
    with pytest.raises(Misconfigured):
        await open_database(url)
