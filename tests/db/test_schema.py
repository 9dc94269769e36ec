"""An empty database gets its tables at once, and they are what the migrations make."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from sqlalchemy.ext.asyncio import create_async_engine

from app.db import Connection, open_database
from app.db.schema import TURN
from tests.db.shape import migrating, shape, tables
from tests.served import ROOT

OPENS = """
import asyncio, sys
from app.db import open_database

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    database = await open_database(sys.argv[1])
    await database.close()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    return str(request.getfixturevalue("postgres_database"))


async def test_the_tables_made_at_once_are_those_of_the_migrations(url: str) -> None:
    database = await open_database(url)
    at_once = await database.read(shape)
    await database.write(migrating(command.downgrade, "base"))
    assert await database.read(tables) <= {"alembic_version", "sqlite_sequence"}
    await database.write(migrating(command.upgrade, "head"))
    step_by_step = await database.read(shape)
    await database.close()
    assert at_once == step_by_step


async def test_a_change_of_the_schema_is_seen(url: str) -> None:
    database = await open_database(url)
    before = await database.read(shape)

    def change(connection: Connection) -> None:
        for statement in (
            "DROP INDEX facts_alone",
            "CREATE INDEX facts_alone ON facts (tenant_id, user_id, updated_at)",  # of all rows
            "ALTER TABLE usage ADD COLUMN remark TEXT",
        ):
            seen.append(shape(connection))
            connection.execute(sa.text(statement))

    seen: list[object] = []
    await database.write(change)
    seen.append(await database.read(shape))
    await database.close()
    assert seen[0] == before
    assert all(one != other for one, other in itertools.combinations(seen, 2))


def test_processes_that_start_at_once_make_one_schema(url: str) -> None:
    command_line = [sys.executable, "-c", OPENS, url]
    processes = [
        subprocess.Popen(
            command_line,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    ended = [process.communicate("go\n", timeout=60)[1] for process in processes]
    assert ended == [""] * 3
    assert [process.returncode for process in processes] == [0] * 3


async def test_a_replica_waits_while_another_makes_the_schema(postgres_database: str) -> None:
    """And longer than for any other answer: a migration has no deadline."""
    url = sa.make_url(postgres_database).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    async with engine.connect() as looking, engine.connect() as other:
        await other.execute(sa.text(f"SELECT pg_advisory_lock({TURN})"))
        replica = asyncio.create_task(open_database(postgres_database, timeout_seconds=2))
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not (await looking.execute(sa.text(waiting))).scalar():
            await asyncio.sleep(0.01)
            assert not replica.done()
        await looking.execute(sa.text("SELECT pg_sleep(2.2)"))
        assert not replica.done()
        assert await looking.run_sync(tables) == set()
        await other.execute(sa.text(f"SELECT pg_advisory_unlock({TURN})"))
        database = await replica
        assert "alembic_version" in await looking.run_sync(tables)
        await database.close()
    await engine.dispose()
