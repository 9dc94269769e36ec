"""Which terms the lexical index was built with. Touches: `about_store`, the jobs.

A store of before, or of other terms, is indexed anew in the background: a job for each tenant,
asked for in the transaction that notes it, so that nothing is left out if the service stops.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa

from app import jobs
from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.tables import about_store
from app.lexical.terms import VERSION

SUBJECT = "lexical"
Tenants = Callable[[Connection], Iterable[str]]

_THIS = about_store.c.name == "lexical"
_NOW = {"terms": VERSION}


async def index_anew_if_needed(
    database: Database, refills: Mapping[str, Tenants], now: datetime
) -> bool:
    """Have a store indexed whose terms are not today's; says whether it was not.

    refills: the kind of the job that indexes a tenant's things -> the tenants that have some.
    A job starts with an empty payload.
    """

    def ask(connection: Connection) -> bool:
        if not _write(connection):
            return False
        for kind, tenants in refills.items():
            for tenant_id in tenants(connection):
                key = uuid.uuid4().hex
                jobs.put(connection, tenant_id, kind, key, {}, subject=SUBJECT, now=now)
        return True

    if await database.read(_is_current):
        return False
    return await database.write(ask)


async def note_version(database: Database) -> None:
    """Note that everything is indexed with today's terms."""
    await database.write(_write)


def _is_current(connection: Connection) -> bool:
    value = connection.execute(sa.select(about_store.c.value).where(_THIS)).scalar()
    return bool(value == _NOW)


def _write(connection: Connection) -> bool:
    """Note today's terms; says whether others were noted, or none."""
    if insert_new(connection, about_store, {"name": "lexical", "value": _NOW}, key=["name"]):
        return True
    held = sa.select(about_store.c.value).where(_THIS).with_for_update()
    if connection.execute(held).scalar_one() == _NOW:
        return False
    connection.execute(about_store.update().where(_THIS).values(value=_NOW))
    return True
