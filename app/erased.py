"""Tombstones: that a user was erased, and when; no name is kept. Touches: `erased_users`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import erased_users

_OF = sa.select(erased_users.c.user_hash, erased_users.c.erased_at).where(
    erased_users.c.tenant_id == sa.bindparam("tenant"),
    erased_users.c.user_hash.in_(sa.bindparam("hashes", expanding=True)),
)


def user_hash(tenant_id: str, user_id: str) -> str:
    """Return by what an erased user is known: SHA-256 of the tenant and the id, in hex."""
    return hashlib.sha256(f"{tenant_id}\0{user_id}".encode()).hexdigest()


def pseudonym(tenant_id: str, user_id: str) -> str:
    """Return how a user stands in the audit log."""
    return f"user:{user_hash(tenant_id, user_id)[:24]}"


def erased(
    connection: Connection, tenant_id: str, user_ids: Collection[str]
) -> dict[str, datetime]:
    """Return those of some users that have a tombstone, with the time of it."""
    if not user_ids:
        return {}
    names = {user_hash(tenant_id, user_id): user_id for user_id in user_ids}
    rows = connection.execute(_OF, {"tenant": tenant_id, "hashes": list(names)})
    return {names[row.user_hash]: row.erased_at for row in rows}
