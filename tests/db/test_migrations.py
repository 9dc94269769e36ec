"""The migrations lead to the tables of the code, and back, on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.db import Connection, metadata, open_database
from app.db.schema import HEAD
from app.db.tables import about_store
from app.errors import Misconfigured
from tests.db.shape import config, migrating, tables


@pytest.fixture(params=["sqlite-disk", "sqlite-memory", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite-memory":
        return "sqlite:///:memory:"
    return _lasting_url(request, tmp_path)


@pytest.fixture(params=["sqlite-disk", "postgres"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that is still there when it is opened again."""
    return _lasting_url(request, tmp_path)


def _lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite-disk":
        return f"sqlite:///{tmp_path / 'app.db'}"
    return str(request.getfixturevalue("postgres_database"))


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, metadata))


async def test_an_empty_database_gets_exactly_the_tables_of_the_code(url: str) -> None:
    database = await open_database(url)
    assert await database.read(differences) == []
    assert set(metadata.tables) <= await database.read(tables)
    await database.close()


async def test_the_way_back_leaves_nothing_and_the_way_up_works_again(url: str) -> None:
    database = await open_database(url)
    await database.write(migrating(command.downgrade, "base"))
    assert await database.read(tables) <= {"alembic_version", "sqlite_sequence"}
    await database.write(migrating(command.upgrade, "head"))
    assert await database.read(differences) == []
    await database.close()


async def test_a_second_start_keeps_what_is_there(lasting_url: str) -> None:
    first = await open_database(lasting_url)
    await first.write(lambda c: c.execute(sa.insert(about_store).values(name="a", value=1)))
    await first.close()
    second = await open_database(lasting_url)
    kept = await second.read(lambda c: c.execute(sa.select(about_store.c.name)).scalars().all())
    assert kept == ["a"]
    await second.close()


async def test_replicas_that_start_at_once_migrate_once(lasting_url: str) -> None:
    replicas = await asyncio.gather(*(open_database(lasting_url) for _ in range(4)))
    for replica in replicas:
        assert await replica.read(differences) == []
        await replica.close()


async def test_a_schema_of_a_later_version_is_refused(lasting_url: str) -> None:
    database = await open_database(lasting_url)
    await database.write(
        lambda c: c.execute(sa.text("UPDATE alembic_version SET version_num='9999'"))
    )
    await database.close()
    with pytest.raises(Misconfigured, match="9999"):
        await open_database(lasting_url)


def test_the_start_knows_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(config()).get_current_head() == HEAD
