"""Tombstones: that a user was erased, and when; no name is kept. Touches: `erased_users`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection
from app.db.insert import insert_new
from app.db.locks import lock_user
from app.db.tables import erased_users
from app.errors import Conflict

_OF = sa.select(erased_users.c.user_hash, erased_users.c.erased_at).where(
    erased_users.c.tenant_id == sa.bindparam("tenant"),
    erased_users.c.user_hash.in_(sa.bindparam("hashes", expanding=True)),
)
_THIS = sa.and_(
    erased_users.c.tenant_id == sa.bindparam("tenant"),
    erased_users.c.user_hash == sa.bindparam("hash"),
)
_ONE = sa.select(erased_users.c.erased_at, erased_users.c.finished_at).where(_THIS)
_AGAIN = erased_users.update().where(_THIS).values(erased_at=sa.bindparam("at"), finished_at=None)
_FINISH = erased_users.update().where(_THIS).values(finished_at=sa.bindparam("at"))
_LIFT = erased_users.delete().where(_THIS)


def user_hash(tenant_id: str, user_id: str) -> str:
    """Return by what an erased user is known: SHA-256 of the tenant and the id, in hex."""
    return hashlib.sha256(f"{tenant_id}\0{user_id}".encode()).hexdigest()


def pseudonym(tenant_id: str, user_id: str) -> str:
    """Return how a user stands in the audit log."""
    return f"user:{user_hash(tenant_id, user_id)[:24]}"


def bury(connection: Connection, tenant_id: str, user_id: str, now: datetime) -> bool:
    """Set a tombstone: the user is being erased, until `finish` says that it is done.

    Says whether there was none; else the user was erased before, and not let in again.
    """
    lock_user(connection, tenant_id, user_id)
    which = _which(tenant_id, user_id)
    row = {"tenant_id": tenant_id, "user_hash": which["hash"], "erased_at": now}
    is_first = insert_new(connection, erased_users, row, key=["tenant_id", "user_hash"])
    if not is_first:
        connection.execute(_AGAIN, {**which, "at": now})
    return is_first


def finish(connection: Connection, tenant_id: str, user_id: str, now: datetime) -> None:
    """Say that all is gone: from now on, what the user begins is a new beginning."""
    connection.execute(_FINISH, {**_which(tenant_id, user_id), "at": now})


def refuse(connection: Connection, tenant_id: str, user_id: str, began: datetime) -> None:
    """Raise `Conflict` for what an erased user had begun before, and while the erasure runs.

    Locks the user, so that an erasure comes before the caller's transaction or after it.
    """
    lock_user(connection, tenant_id, user_id)
    if is_of_erased(connection, tenant_id, user_id, began):
        raise Conflict("the user is being erased, or was in the meantime: nothing is stored")


def is_of_erased(connection: Connection, tenant_id: str, user_id: str, began: datetime) -> bool:
    """Say if something was begun before its user was erased, or while that goes on."""
    row = connection.execute(_ONE, _which(tenant_id, user_id)).first()
    return row is not None and (row.finished_at is None or began <= row.erased_at)


def lift(connection: Connection, tenant_id: str, user_id: str) -> None:
    """Let a user in again who was erased. Raises `Conflict` while the erasure runs."""
    row = connection.execute(_ONE, _which(tenant_id, user_id)).first()
    if row is not None and row.finished_at is None:
        raise Conflict("the user is being erased: try again once that is done", retry_after=5)
    connection.execute(_LIFT, _which(tenant_id, user_id))


def erased(
    connection: Connection, tenant_id: str, user_ids: Collection[str]
) -> dict[str, datetime]:
    """Return those of some users that have a tombstone, with the time of it."""
    if not user_ids:
        return {}
    names = {user_hash(tenant_id, user_id): user_id for user_id in user_ids}
    rows = connection.execute(_OF, {"tenant": tenant_id, "hashes": list(names)})
    return {names[row.user_hash]: row.erased_at for row in rows}


def _which(tenant_id: str, user_id: str) -> dict[str, str]:
    return {"tenant": tenant_id, "hash": user_hash(tenant_id, user_id)}
