"""What every room's tests may ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.postgres import fresh_database, postgres_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a Postgres server of this test run (of each worker, under pytest-xdist)."""
    if sys.platform == "win32" and not os.environ.get("TEST_POSTGRES_URL"):
        pytest.skip("there is no Postgres wheel for Windows: set TEST_POSTGRES_URL")
    with postgres_server() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database of its own."""
    with fresh_database(postgres_url) as url:
        yield url
