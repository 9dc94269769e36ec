"""How much a tenant's store has forgotten by itself so far. Touches: `about_store`."""

from __future__ import annotations

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.tables import about_store

NAMES = ("evicted_episodes", "evicted_facts", "removed_messages")


def add(connection: Connection, tenant_id: str, **more: int) -> None:
    """Count what the caller's transaction forgets; its last step, for the row is a busy one."""
    name = _name(tenant_id)
    insert_new(connection, about_store, {"name": name, "value": {}}, key=["name"])
    here = about_store.c.name == name
    known = connection.execute(sa.select(about_store.c.value).where(here).with_for_update())
    counts = dict(known.scalar_one())
    for key, count in more.items():
        counts[key] = counts.get(key, 0) + count
    connection.execute(about_store.update().where(here).values(value=counts))


async def read(database: Database, tenant_id: str) -> dict[str, int]:
    """Return the counts of a tenant."""
    wanted = sa.select(about_store.c.value).where(about_store.c.name == _name(tenant_id))
    counts = await database.read(lambda c: c.execute(wanted).scalar()) or {}
    return {name: int(counts.get(name, 0)) for name in NAMES}


def _name(tenant_id: str) -> str:
    return f"forgotten:{tenant_id}"
