"""Brings a database to today's schema. Touches: the database."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import registry
from sqlalchemy.engine.mock import MockConnection

from app.db.base import Database
from app.db.tables import metadata
from app.errors import Misconfigured

HEAD = "0005"  # the newest revision; lets a start with nothing to do skip Alembic's import

TURN = 727201  # the advisory lock of Postgres that replicas take before they touch the schema

# As Alembic makes it.
_alembic_version = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


async def migrate(database: Database) -> None:
    """Create or upgrade the tables; replicas that start at once take turns."""
    if await database.read(_revision) == HEAD:
        return
    await database.change_schema(_create_or_upgrade)


def _revision(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(_alembic_version.name):
        return None
    found = connection.execute(sa.select(_alembic_version.c.version_num)).scalar()
    return None if found is None else str(found)


def _create_or_upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({TURN})"))
    inspector = sa.inspect(connection)  # anew: another replica may have had its turn before
    if not inspector.has_table(_alembic_version.name):
        _create(connection)
    else:
        _upgrade(connection)


def _create(connection: Connection) -> None:
    """Make what all migrations together make, in a quarter of their CPU time."""
    for statement in _statements(connection.dialect.name, connection.dialect.driver):
        connection.exec_driver_sql(statement)
    connection.execute(_alembic_version.insert().values(version_num=HEAD))


@lru_cache
def _statements(dialect_name: str, driver: str) -> tuple[str, ...]:
    """Return what makes all tables; to compile it takes as long as to run it."""
    dialect = registry.load(f"{dialect_name}.{driver}")()
    made: list[str] = []

    def note(statement: Any, *_: object, **__: object) -> None:
        made.append(str(statement.compile(dialect=dialect)))

    recorder = MockConnection(dialect, note)
    metadata.create_all(recorder, checkfirst=False)
    _alembic_version.create(recorder, checkfirst=False)
    return tuple(made)


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Misconfigured(
            f"the database has a schema that this version does not know: {error}"
        ) from error
