"""What a database has, as it says itself: tables, columns, constraints, indexes. For tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config

import app
from app.db import Connection

MIGRATIONS = Path(app.__file__).parent / "migrations"
Shape = dict[str, Any]

_POSTGRES = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default,
               character_maximum_length
        FROM information_schema.columns WHERE table_schema = 'public'
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "sequences": """
        SELECT sequencename, data_type::text, increment_by FROM pg_sequences
        WHERE schemaname = 'public'
    """,
}


def config() -> Config:
    """Return Alembic's configuration of our migrations."""
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS))
    return made


def migrating(move: Callable[[Config, str], None], revision: str) -> Callable[[Connection], None]:
    def run(connection: Connection) -> None:
        chosen = config()
        chosen.attributes["connection"] = connection
        move(chosen, revision)

    return run


def tables(connection: Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def shape(connection: Connection) -> Shape:
    """Return all that a schema consists of; the order of columns says nothing."""
    if connection.dialect.name == "postgresql":
        return {
            kind: sorted(map(repr, map(tuple, connection.execute(sa.text(query)))))
            for kind, query in _POSTGRES.items()
        }
    rows = connection.execute(
        sa.text("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    )
    return {f"{type} {name}": sorted(_parts(sql)) for type, name, sql in rows}


def _parts(sql: str) -> list[str]:
    """Return a statement's columns, constraints and ending, in one spelling."""
    plain = re.sub(r"\s+", " ", sql.replace('"', "")).strip()
    start, _, rest = plain.partition("(")
    inside, _, end = rest.rpartition(")")
    parts = re.split(r",\s*(?![^()]*\))", inside)
    return [start.strip(), f"end:{end.strip()}", *(part.strip() for part in parts)]
