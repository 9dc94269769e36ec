"""What every room's tests may ask for."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from app.db import open_database
from tests.postgres import empty_tables, fresh_database, postgres_server
from tests.redis import OwnRedis, Persistence, emptied, own_redis, shared_redis

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
def _redis_of_the_run() -> Iterator[str]:
    if sys.platform == "win32" and not os.environ.get("TEST_REDIS_URL"):
        pytest.skip("there is no Redis wheel for Windows: set TEST_REDIS_URL")
    with shared_redis() as url:
        yield url


@pytest.fixture
def redis_url(_redis_of_the_run: str) -> Iterator[str]:
    """The URL of an empty database of Redis, with `appendonly yes` and `appendfsync always`.

    It is not to be killed, and holds no key afterwards.
    """
    yield _redis_of_the_run
    emptied(_redis_of_the_run)


@pytest.fixture
def new_redis() -> Iterator[Callable[[Persistence], OwnRedis]]:
    """Start servers of a test's own, which it may kill, freeze and start again on their files."""
    if os.environ.get("TEST_REDIS_URL"):
        pytest.skip("NOT TESTED: what happens when Redis dies, for TEST_REDIS_URL is another's")
    if sys.platform == "win32":
        pytest.skip("NOT TESTED: what happens when Redis dies, for Windows has no Redis wheel")
    with ExitStack() as servers:
        yield lambda persistence: servers.enter_context(own_redis(persistence))


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
    empty_tables(_migrated_postgres)
    return _migrated_postgres


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database of its own."""
    with fresh_database(postgres_url) as url:
        yield url
