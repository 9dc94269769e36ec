"""What every room's tests may ask for."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, settings

from app.db import metadata, open_database
from tests.postgres import execute, fresh_database, postgres_server
from tests.redis import RedisServer, redis_server

# How long an example takes, the machine says.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a Postgres server of this test run (of each worker, under pytest-xdist)."""
    if sys.platform == "win32" and not os.environ.get("TEST_POSTGRES_URL"):
        pytest.skip("there is no Postgres wheel for Windows: set TEST_POSTGRES_URL")
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis server of this test run, which a test may kill and start again.

    Without one, its tests are skipped; they fail where REQUIRE_REDIS says that it has to be there.
    """
    if shutil.which("redis-server") is None:
        if os.environ.get("REQUIRE_REDIS"):
            pytest.fail("REQUIRE_REDIS is set, but there is no redis-server on PATH")
        pytest.skip("NOT TESTED: rate limits through Redis, for there is no redis-server on PATH")
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def _migrated_postgres(postgres_url: str) -> Iterator[str]:
    with fresh_database(postgres_url) as url:
        with ThreadPoolExecutor(1) as thread:  # the test that asks first may have a loop
            thread.submit(asyncio.run, _migrate(url)).result()
        yield url


async def _migrate(url: str) -> None:
    await (await open_database(url)).close()


@pytest.fixture
def postgres_state(_migrated_postgres: str) -> str:
    """The URL of a database with today's schema and nothing in it; cheaper than one of its own."""
    tables = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
    execute(_migrated_postgres, f"TRUNCATE {tables} RESTART IDENTITY")
    return _migrated_postgres


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database of its own."""
    with fresh_database(postgres_url) as url:
        yield url
