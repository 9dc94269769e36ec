"""The log of privileged acts: who, what, when, how many; no content. Touches: `audit_log`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.db import Connection
from app.db.tables import audit_log
from app.telemetry import request_id


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. name: `key:ID`, `jwt:PSEUDONYM`, `setting` (API_KEY), `local`, `cli`, `monitor`."""

    tenant_id: str
    name: str
    role: str


def note(
    connection: Connection,
    actor: Actor,
    action: str,
    *,
    subject: str | None = None,
    counts: Mapping[str, int] | None = None,
    now: datetime,
) -> None:
    """Write down an act in the transaction that does it.

    action: `key.create`, `user.erase` and the like. subject: an id, of a user its pseudonym.
    """
    connection.execute(
        audit_log.insert().values(
            tenant_id=actor.tenant_id,
            at=now,
            actor=actor.name,
            role=actor.role,
            action=action,
            subject=subject,
            counts=None if counts is None else dict(counts),
            request_id=request_id.get(),
        )
    )
