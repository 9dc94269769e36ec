"""What Postgres refuses comes out as our own errors."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from app.db import Connection, Database, open_database
from app.db.tables import about_store
from app.errors import InvalidRequest, StorageUnavailable


@pytest.fixture
async def database(postgres_state: str) -> AsyncIterator[Database]:
    database = await open_database(postgres_state)
    yield database
    await database.close()


class Unlucky:
    """A write that the server ends as a deadlock for some times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, connection: Connection) -> str:
        connection.execute(sa.insert(about_store).values(name="stamp", value=1))
        self.left -= 1
        if self.left >= 0:
            connection.execute(sa.text("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$"))
        return "stored"


def count(connection: Connection) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(about_store)).scalar_one()


async def test_a_write_that_loses_a_deadlock_is_tried_again(database: Database) -> None:
    assert await database.write(Unlucky(2)) == "stored"
    assert await database.read(count) == 1


async def test_a_write_that_loses_every_time_is_told_to_come_later(database: Database) -> None:
    with pytest.raises(StorageUnavailable) as told:
        await database.write(Unlucky(100))
    assert told.value.retry_after == 5
    assert await database.read(count) == 0


async def test_a_key_beyond_what_an_index_holds_is_the_request_s_fault(database: Database) -> None:
    chance = random.Random(1)
    name = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(3_000))
    with pytest.raises(InvalidRequest):
        await database.write(lambda c: c.execute(sa.insert(about_store).values(name=name, value=1)))
