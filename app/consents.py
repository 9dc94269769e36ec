"""What users allow: memory, personal details, for how long.

Touches: `consents`, `erased_users`, the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.audit import Actor, note
from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.locks import lock_user
from app.db.tables import consents
from app.erased import lift, pseudonym
from app.errors import MemoryDisabled


@dataclass(frozen=True, slots=True)
class Consent:
    """updated_at: None where nobody has said anything, and the settings count.

    memory_enabled: without it, nothing is recalled, and nothing is written beyond the session.
    pii_storage_allowed: without it, e-mail, telephone and IP addresses are redacted.
    retention_days: what is older is forgotten; None: as the settings say.
    """

    memory_enabled: bool
    pii_storage_allowed: bool
    retention_days: float | None = None
    updated_at: datetime | None = None


_ONE = sa.and_(
    consents.c.tenant_id == sa.bindparam("tenant"), consents.c.user_id == sa.bindparam("user")
)
_GET = sa.select(
    consents.c.memory_enabled,
    consents.c.pii_storage_allowed,
    consents.c.retention_days,
    consents.c.updated_at,
).where(_ONE)
_SAID = tuple(Consent.__slots__)
_SET = consents.update().where(_ONE).values({name: sa.bindparam(f"new_{name}") for name in _SAID})


class Consents:
    """Reads and writes consent. default: of users who said nothing."""

    def __init__(
        self, database: Database, *, default: Consent, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._default = default
        self._clock = clock

    async def of(self, tenant_id: str, user_id: str) -> Consent:
        return await self._database.read(lambda c: self.within(c, tenant_id, user_id))

    def within(self, connection: Connection, tenant_id: str, user_id: str) -> Consent:
        """Return the consent as a transaction sees it."""
        row = connection.execute(_GET, {"tenant": tenant_id, "user": user_id}).first()
        return self._default if row is None else Consent(*row)

    async def put(self, tenant_id: str, user_id: str, said: Consent, actor: Actor) -> Consent:
        """Store what a user allows from now on, in place of what they said before.

        Whoever was erased is let in again by it. What is being written of the user's memory is
        stored before, or not at all.
        """
        new = replace(said, updated_at=self._clock())
        await self._database.write(lambda c: _put(c, tenant_id, user_id, new, actor))
        return new

    def require_memory(self, connection: Connection, tenant_id: str, user_id: str) -> None:
        """Raise `MemoryDisabled` unless the user's memory may be written to.

        Locks the user, so that it stays so until the transaction ends; a session is locked before.
        """
        lock_user(connection, tenant_id, user_id)
        if not self.within(connection, tenant_id, user_id).memory_enabled:
            raise MemoryDisabled(
                "the user does not allow that anything is remembered: memory_enabled is false in "
                "their consent, see GET /users/{user_id}/consent"
            )


def _put(connection: Connection, tenant_id: str, user_id: str, new: Consent, actor: Actor) -> None:
    if new.updated_at is None:
        raise AssertionError("a consent that is stored has a time")
    lock_user(connection, tenant_id, user_id)
    values = {name: getattr(new, name) for name in _SAID}
    row: dict[str, Any] = {"tenant_id": tenant_id, "user_id": user_id, **values}
    if not insert_new(connection, consents, row, key=["tenant_id", "user_id"]):
        which = {"tenant": tenant_id, "user": user_id}
        connection.execute(_SET, which | {f"new_{name}": value for name, value in values.items()})
    lift(connection, tenant_id, user_id)
    note(
        connection,
        actor,
        "consent.set",
        subject=pseudonym(tenant_id, user_id),
        counts={
            "memory_enabled": int(new.memory_enabled),
            "pii_storage_allowed": int(new.pii_storage_allowed),
            "has_retention": int(new.retention_days is not None),
        },
        now=new.updated_at,
    )
