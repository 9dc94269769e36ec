"""Webhook events, stored before they are acknowledged. Touches: `deliveries`, the jobs.

A row for each event and object that it touches; a repeated one is known by its dedupe key. Work on
an object is one job, however many of its events come within the time they are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.audit import Actor, note
from app.db import Connection, Database
from app.db.insert import insert_all_new, insert_new
from app.db.tables import deliveries
from app.erased import erased
from app.errors import Conflict, NotFound, StorageFull, StorageUnavailable
from app.knowledge.merge import change_from_json
from ingest.providers.base import Change, Event, ObjectKey, Provider

KIND = "deliveries"
FETCHED = "fetched"  # the type of what was asked for, and not sent
OF_ERASED = "names a user who was erased: its body was not kept"
RETRY_AFTER_SECONDS = 30.0
OBJECTS_AT_ONCE = 500
_UNIQUE = ["tenant_id", "provider", "dedupe_key", "part"]
_NOBODY = ObjectKey("", "", "")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a delivery's events: each is stored, or was known; some need nothing."""

    events: int
    stored: int
    duplicates: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """One row of the inbox. state: pending, done, skipped, failed; `body` of None is erased."""

    id: int
    provider: str
    type: str
    account: str
    object_type: str
    object_id: str
    body: Mapping[str, Any] | None
    state: str
    attempts: int
    last_error: str | None
    received_at: datetime
    processed_at: datetime | None


# Whom the body of a provider's event names.
Named = Callable[[str, Mapping[str, Any] | None], set[str]]


class Inbox:
    """Puts events down, lists them, has them tried again."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[str, Provider],
        named: Named,
        *,
        coalesce_seconds: float,
        wake_in: Callable[[float], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._providers = providers
        self._named = named
        self._coalesce_seconds = coalesce_seconds
        self._wake_in = wake_in
        self._clock = clock

    async def put(
        self, tenant_id: str, provider: str, events: Sequence[Event], *, account: str = ""
    ) -> Receipt:
        """Store events with the jobs that work them off, in one transaction.

        What names an erased user is put down as skipped, without its body.
        account: whose they are, where the events don't say.
        """
        now = self._clock()
        named = [self._named(provider, event.body) for event in events]
        every = set().union(*named)

        def put(connection: Connection) -> list[Any]:
            gone = erased(connection, tenant_id, every).keys()
            rows = [
                row
                for event, users in zip(events, named, strict=True)
                for row in _rows(
                    tenant_id, provider, event, account, now, is_gone=bool(users & gone)
                )
            ]
            stored = _insert(connection, rows)
            keys = map(_object, stored)
            gather(connection, tenant_id, provider, keys, now, self._coalesce_seconds)
            return stored

        try:
            stored = await self._database.write(put)
        except (StorageUnavailable, StorageFull) as error:
            raise StorageUnavailable(
                "the inbox can't be written; nothing of the delivery is stored",
                retry_after=RETRY_AFTER_SECONDS,
            ) from error
        self._wake_in(self._coalesce_seconds)
        return Receipt(
            events=len(events),
            stored=len(stored),
            duplicates=sum(max(1, len(event.changes)) for event in events) - len(stored),
            skipped=sum(row["state"] == "skipped" for row in stored),
        )

    async def list_deliveries(
        self,
        tenant_id: str,
        *,
        state: str | None,
        provider: str | None,
        after: int | None,
        limit: int,
    ) -> list[Delivery]:
        """Return deliveries, the newest first, those with an id below `after`."""
        statement = sa.select(deliveries).where(deliveries.c.tenant_id == tenant_id)
        if state is not None:
            statement = statement.where(deliveries.c.state == state)
        if provider is not None:
            statement = statement.where(deliveries.c.provider == provider)
        if after is not None:
            statement = statement.where(deliveries.c.id < after)
        statement = statement.order_by(deliveries.c.id.desc()).limit(limit)
        rows = await self._database.read(lambda c: c.execute(statement).all())
        return [_shown(row) for row in rows]

    async def replay(
        self, tenant_id: str, delivery_id: int, *, actor: Actor | None = None
    ) -> Delivery:
        """Have a delivery worked on again, with what its provider's code says of it today.

        Raises `NotFound`, and `Conflict` where that can't change anything.
        """
        now = self._clock()
        here = sa.and_(deliveries.c.tenant_id == tenant_id, deliveries.c.id == delivery_id)

        def again(connection: Connection) -> Any:
            row = connection.execute(sa.select(deliveries).where(here).with_for_update()).first()
            if row is None:
                raise NotFound("there is no such delivery", param="id")
            if row.body is None:
                raise Conflict("the delivery's body was erased")
            changes = self.changes(row)
            if row.part >= len(changes):
                raise Conflict("the event says nothing that could be worked on")
            if row.state == "skipped":
                _add_parts(connection, row, changes)
            connection.execute(
                deliveries.update()
                .where(here)
                .values(
                    state="pending",
                    attempts=0,
                    last_error=None,
                    processed_at=None,
                    **_columns(changes[row.part].object, row.account),
                )
            )
            found = connection.execute(sa.select(deliveries).where(here)).one()
            keys = [_key(change.object, row.account) for change in changes]
            gather(connection, tenant_id, row.provider, keys, now, 0.0)
            if actor is not None:
                note(connection, actor, "webhook.replay", subject=str(delivery_id), now=now)
            return found

        row = await self._database.write(again)
        self._wake_in(0.0)
        return _shown(row)

    def changes(self, row: Any) -> tuple[Change, ...]:
        """Return what a row's event says, by the provider's code of today."""
        if is_fetched(row):
            return (change_from_json(row.body[FETCHED]),)
        return self._providers[row.provider].read(row.body)

    async def counts(self) -> dict[str, int]:
        """Return how many deliveries wait, and how many were put aside, of all tenants."""
        # Written out: SQLite takes a partial index only for what it sees in the statement.
        is_open: sa.BindParameter[str] = sa.bindparam(
            "open", ["pending", "failed"], expanding=True, literal_execute=True
        )
        statement = (
            sa.select(deliveries.c.state, sa.func.count().label("number"))
            .where(deliveries.c.state.in_(is_open))
            .group_by(deliveries.c.state)
        )
        found = await self._database.read(lambda c: c.execute(statement).all())
        return {"pending": 0, "failed": 0, **{row.state: row.number for row in found}}

    async def purge(self, *, older_than: timedelta) -> int:
        """Forget what was done or skipped long ago; what was put aside stays."""
        old = deliveries.delete().where(
            deliveries.c.state.in_(["done", "skipped"]),
            deliveries.c.received_at < self._clock() - older_than,
        )
        return await self._database.write(lambda c: c.execute(old).rowcount)


def is_fetched(row: Any) -> bool:
    """Say if a row holds what was asked for; a sender's event of that type has its type in it."""
    return bool(row.type == FETCHED and row.body.keys() == {FETCHED})


def gather(
    connection: Connection,
    tenant_id: str,
    provider: str,
    keys: Iterable[ObjectKey],
    now: datetime,
    delay_seconds: float,
) -> None:
    """Have one job waiting for each object; one that waits already will do."""
    subjects = {subject(provider, key): key for key in keys if key != _NOBODY}
    payloads = {
        name: {"provider": provider, "object": [key.account, key.type, key.id]}
        for name, key in subjects.items()
    }
    jobs.gather(connection, tenant_id, KIND, payloads, now=now, delay_seconds=delay_seconds)


def subject(provider: str, key: ObjectKey) -> str:
    """Return what the jobs about a record are found by."""
    return "record:" + ":".join((provider, key.account, key.type, key.id))


def _rows(
    tenant_id: str, provider: str, event: Event, account: str, now: datetime, *, is_gone: bool
) -> list[dict[str, Any]]:
    shared = {
        "tenant_id": tenant_id,
        "provider": provider,
        "dedupe_key": event.key,
        "type": event.type,
        "body": None if is_gone else dict(event.body),
        "attempts": 0,
        "received_at": now,
        "is_key_content": event.is_key_content,
    }
    if not event.changes:
        skipped = {"state": "skipped", "last_error": event.reason, "processed_at": now}
        return [{**shared, **skipped, "part": 0, **_columns(_NOBODY, account)}]
    waiting: dict[str, Any] = {"state": "pending", "last_error": None, "processed_at": None}
    if is_gone:
        waiting = {"state": "skipped", "last_error": OF_ERASED, "processed_at": now}
    return [
        {**shared, **waiting, "part": part, **_columns(change.object, account)}
        for part, change in enumerate(event.changes)
    ]


def _insert(connection: Connection, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Insert the rows that are new; returns them."""
    plain: dict[tuple[str, int], dict[str, Any]] = {}
    by_content: list[dict[str, Any]] = []
    for row in rows:
        if row.pop("is_key_content"):
            by_content.append(row)
        else:
            plain.setdefault((row["dedupe_key"], row["part"]), row)
    stored = _insert_distinct(connection, plain)
    while by_content:  # once, unless an object comes twice
        turn = {_object(row): row for row in reversed(by_content)}
        by_content = [row for row in by_content if row is not turn[_object(row)]]
        numbered = _after_newest(connection, turn)
        stored += _insert_distinct(connection, numbered)
    return stored


def _insert_distinct(
    connection: Connection, rows: Mapping[tuple[str, int], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Insert the rows that are new, by their key and part; returns them."""
    new = insert_all_new(connection, deliveries, list(rows.values()), key=_UNIQUE)
    return [rows[dedupe_key, part] for _, _, dedupe_key, part in new]


def _after_newest(
    connection: Connection, rows: Mapping[ObjectKey, dict[str, Any]]
) -> dict[tuple[str, int], dict[str, Any]]:
    """Give rows known by their content alone keys of their own, but not what repeats the newest.

    A record that goes back to what it was before sends the same content again, and is news.
    """
    numbered = {}
    newest = _newest(connection, rows)
    for key, row in rows.items():
        id, dedupe_key = newest.get(key, (0, ""))
        if not dedupe_key.startswith(f"{row['dedupe_key']}@"):
            own = f"{row['dedupe_key']}@{id}"
            numbered[own, row["part"]] = {**row, "dedupe_key": own}
    return numbered


def _newest(
    connection: Connection, rows: Mapping[ObjectKey, Mapping[str, Any]]
) -> dict[ObjectKey, tuple[int, str]]:
    """Return id and dedupe key of the newest delivery about each object."""
    found: dict[ObjectKey, tuple[int, str]] = {}
    it = deliveries.c
    for (account, type), keys in groupby(sorted(rows), lambda key: (key.account, key.type)):
        some = next(iter(rows.values()))
        ids = [key.id for key in keys]
        here = (
            it.tenant_id == some["tenant_id"],
            it.provider == some["provider"],
            it.account == account,
            it.object_type == type,
        )
        for start in range(0, len(ids), OBJECTS_AT_ONCE):
            about = it.object_id.in_(ids[start : start + OBJECTS_AT_ONCE])
            last = sa.select(sa.func.max(it.id)).where(*here, about).group_by(it.object_id)
            for row in connection.execute(
                sa.select(it.object_id, it.id, it.dedupe_key).where(it.id.in_(last))
            ):
                found[ObjectKey(account, type, row.object_id)] = (row.id, row.dedupe_key)
    return found


def _add_parts(connection: Connection, row: Any, changes: Sequence[Change]) -> None:
    """Add the rows of an event that was skipped whole when it came."""
    for part, change in enumerate(changes):
        new = {
            **{name: getattr(row, name) for name in ("tenant_id", "provider", "dedupe_key")},
            **{name: getattr(row, name) for name in ("type", "body", "received_at")},
            "attempts": 0,
            "state": "pending",
            "part": part,
            **_columns(change.object, row.account),
        }
        insert_new(connection, deliveries, new, key=_UNIQUE)


def _key(key: ObjectKey, account: str) -> ObjectKey:
    return key if key.account else ObjectKey(account, key.type, key.id)


def _columns(key: ObjectKey, account: str) -> dict[str, str]:
    key = _key(key, account)
    return {"account": key.account, "object_type": key.type, "object_id": key.id}


def _object(row: Mapping[str, Any]) -> ObjectKey:
    if row["state"] == "skipped":
        return _NOBODY
    return ObjectKey(row["account"], row["object_type"], row["object_id"])


def _shown(row: Any) -> Delivery:
    names = Delivery.__dataclass_fields__
    return Delivery(**{name: getattr(row, name) for name in names})
