"""What users allow: memory, personal details, for how long. Touches: `consents`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import consents


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
