"""The log of privileged acts: who, what, when, how many; no content. Touches: `audit_log`.

For who asks later "who deleted our handbook?" or "who read Ada's conversations?". Noted are

- what changes what all users share: documents stored, deleted, uploaded, deliveries replayed, keys,
  decisions on the quarantine, and from the command line the index and the thresholds;
- what is done to a person's things by another, an admin or a gateway: sessions, memories, facts and
  blocks deleted, memories evicted, conversations imported, consent, export, erasure;
- an admin's looks into them: a session, its receipts, memories, facts, or the list of everybody's
  sessions.

Not noted is what a user does to its own, and the everyday traffic of gateways: chats, searches,
single facts and items written, sessions read. An act is noted in the transaction that does it;
one of many transactions in the first of them, or before it. A look is noted before it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from app import telemetry
from app.db import Connection, Database
from app.db.tables import audit_log

_NOTE = audit_log.insert()


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, in which request.

    name: `key:ID`, `jwt:PSEUDONYM`, `setting` (API_KEY), `local`, `anonymous`, `cli`, `monitor`.
    """

    tenant_id: str
    name: str
    role: str
    # Taken here: a transaction may run in another thread, which knows of no request.
    request_id: str | None = field(default_factory=telemetry.request_id.get)


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
    act = {
        "tenant_id": actor.tenant_id,
        "at": now,
        "actor": actor.name,
        "role": actor.role,
        "action": action,
        "subject": subject,
        "counts": None if counts is None else dict(counts),
        "request_id": actor.request_id,
    }
    connection.execute(_NOTE, act)


@dataclass(frozen=True, slots=True)
class Act:
    """An act as it was noted; `subject` is an id, of a user its pseudonym."""

    id: int
    at: datetime
    actor: str
    role: str
    action: str
    subject: str | None
    counts: Mapping[str, int] | None
    request_id: str | None


class Audit:
    """Lists acts, and notes those that have no transaction of their own. Nothing is ever removed
    or changed: what was noted is kept for good."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def write(
        self,
        actor: Actor,
        action: str,
        *,
        subject: str | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Note an act. Raises `StorageUnavailable` and `StorageFull`: none goes by unnoted."""
        now = self._clock()
        await self._database.write(
            lambda c: note(c, actor, action, subject=subject, counts=counts, now=now)
        )

    async def list_acts(
        self,
        tenant_id: str,
        *,
        action: str | None = None,
        actor: str | None = None,
        subject: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[Act]:
        """Return a tenant's acts, the newest first, from before the id `before` on.

        since, until: of the time that they were noted; `until` itself is left out.
        """
        wanted = [_acts.tenant_id == tenant_id]
        same = {_acts.action: action, _acts.actor: actor, _acts.subject: subject}
        wanted += [column == value for column, value in same.items() if value is not None]
        if since is not None:
            wanted.append(_acts.at >= since)
        if until is not None:
            wanted.append(_acts.at < until)
        if before is not None:
            wanted.append(_acts.id < before)
        statement = _ACTS.where(*wanted).order_by(_acts.id.desc()).limit(limit)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [Act(*row) for row in rows]


_acts = audit_log.c
_ACTS = sa.select(*(_acts[name] for name in Act.__slots__))
