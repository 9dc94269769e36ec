"""The lock of a user's memory, which transactions take in turn. Touches: the database's locks."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

from app.db.base import Connection


def lock_user(connection: Connection, tenant_id: str, user_id: str) -> None:
    """Keep others from changing the user's facts until the transaction ends.

    Whoever locks a session too does that before, and touches rows of memory after. SQLite has one
    writer at a time as it is.
    """
    if connection.dialect.name == "postgresql":
        name = hashlib.blake2b(f"{tenant_id}\x00{user_id}".encode(), digest_size=8).digest()
        number = sa.literal(int.from_bytes(name, signed=True), sa.BigInteger)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(number)))
