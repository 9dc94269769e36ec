"""Brings a database to today's schema. Touches: the database."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

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
    await database.write(_create_or_upgrade)


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
    metadata.create_all(connection, checkfirst=False)
    _alembic_version.create(connection, checkfirst=False)
    connection.execute(_alembic_version.insert().values(version_num=HEAD))


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
