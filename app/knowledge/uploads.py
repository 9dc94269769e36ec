"""Uploaded files that a job still has to read, in pieces. Touches: `uploads`, the disk.

They are kept in SQL, so that any replica can go on with a load that another one began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import jobs, uploads

PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """What a file is and what to make of it: the payload of its job.

    suffix: of its name, which tells readers of texts what it is. options: what the reader of tables
    is told, by the names of its arguments.
    """

    form: Literal["table", "text"]
    source: str
    suffix: str = ""
    mode: Literal["upsert", "replace"] = "upsert"
    options: Mapping[str, Any] = field(default_factory=dict)

    def payload(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Upload:
        return cls(**{each.name: payload[each.name] for each in fields(cls)})


async def keep(
    database: Database, tenant_id: str, upload_id: str, path: Path, now: datetime
) -> None:
    """Copy a file into the database, a piece in each transaction."""
    with path.open("rb") as file:
        number = 0
        while data := await asyncio.to_thread(file.read, PIECE_BYTES):
            row = {
                "upload_id": upload_id,
                "piece": number,
                "tenant_id": tenant_id,
                "data": data,
                "created_at": now,
            }
            await database.write(partial(_insert, row=row))
            number += 1


async def fetch(database: Database, upload_id: str, path: Path) -> None:
    """Write a kept file to a path; nothing is written of one that is gone."""
    with path.open("wb") as file:
        number = 0
        while (data := await database.read(_piece(upload_id, number))) is not None:
            await asyncio.to_thread(file.write, data)
            number += 1


def drop(connection: Connection, upload_id: str) -> None:
    connection.execute(uploads.delete().where(uploads.c.upload_id == upload_id))


def purge(before: datetime) -> Callable[[Connection], int]:
    """Drop the files that came before a time and that no job waits for."""
    needed = sa.select(jobs.c.key).where(jobs.c.state != "done")
    old = uploads.delete().where(uploads.c.created_at < before, uploads.c.upload_id.not_in(needed))
    return lambda connection: connection.execute(old).rowcount


def _insert(connection: Connection, row: dict[str, object]) -> None:
    connection.execute(uploads.insert(), row)


def _piece(upload_id: str, number: int) -> Callable[[Connection], bytes | None]:
    wanted = sa.select(uploads.c.data).where(
        uploads.c.upload_id == upload_id, uploads.c.piece == number
    )
    return lambda connection: connection.execute(wanted).scalar()
