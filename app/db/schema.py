"""Brings a database to today's schema. Touches: the database."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from app.db.base import Database
from app.errors import Misconfigured

HEAD = "0005"  # the newest revision; lets a start with nothing to do skip Alembic's import


async def migrate(database: Database) -> None:
    """Create or upgrade the tables; replicas that start at once take turns."""
    if await database.read(_revision) == HEAD:
        return
    await database.write(_upgrade)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(727201)"))
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Misconfigured(
            f"the database has a schema that this version does not know: {error}"
        ) from error
