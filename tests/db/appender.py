"""A process that appends facts and says which it may rely on: `appender.py URL PREFIX COUNT`."""

from __future__ import annotations

import asyncio
import sys

import sqlalchemy as sa

from app.db import Connection, Database, open_database
from app.db.tables import about_store

WRITERS = 8


async def append(url: str, prefix: str, count: int) -> None:
    """Write `count` rows from several tasks; print the name of each once it is acknowledged."""
    database = await open_database(url)
    await asyncio.gather(
        *(_some(database, prefix, range(first, count, WRITERS)) for first in range(WRITERS))
    )
    await database.close()


async def _some(database: Database, prefix: str, numbers: range) -> None:
    for number in numbers:
        name = f"{prefix}-{number}"

        def insert(connection: Connection, name: str = name) -> None:
            connection.execute(sa.insert(about_store).values(name=name, value=name))

        await database.write(insert)
        print(name, flush=True)


if __name__ == "__main__":
    asyncio.run(append(sys.argv[1], sys.argv[2], int(sys.argv[3])))
