"""The databases that the suites of the state run on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.db import Database, open_database

DATABASES = ["sqlite-memory", "sqlite-disk", "postgres"]


def database_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of an empty database of a kind."""
    if kind == "postgres":
        return str(request.getfixturevalue("postgres_state"))
    return "sqlite:///:memory:" if kind == "sqlite-memory" else f"sqlite:///{folder / 'state.db'}"


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database with today's schema, of each kind in turn."""
    opened = await open_database(database_url(request.param, request, tmp_path))
    yield opened
    await opened.close()
