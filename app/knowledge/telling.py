"""A record and the document that tells it, in step. Touches: `records`, references, documents.

Everything here runs within a caller's transaction. Whoever holds several locks took them in this
order: the record, then its document.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from app import jobs
from app.db import Connection
from app.db.insert import insert_all_new, insert_new
from app.db.tables import deliveries, record_references, records
from app.erased import erased
from app.knowledge import render
from app.knowledge.changes import KIND as SYNC
from app.knowledge.inbox import gather, subject
from app.knowledge.merge import State, buried, from_json, merge, to_json
from app.knowledge.rows import ready, remove, store
from app.redact import Redactor
from ingest.kinds import Kinds
from ingest.providers.base import Change, ObjectKey, ObjectType, Provider

LEFT_OUT = "its events left values out, which have to be fetched"
REFERRERS_AT_ONCE = 500
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_KEY = ["tenant_id", "provider", "account", "object_type", "object_id"]

Names = Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Where:
    """One record, and what finds it in each table."""

    tenant_id: str
    provider: str
    key: ObjectKey

    @property
    def subject(self) -> str:
        return subject(self.provider, self.key)

    def of(self, table: sa.Table) -> sa.ColumnElement[bool]:
        return sa.and_(*(table.c[name] == value for name, value in self.columns().items()))

    def columns(self) -> dict[str, str]:
        values = (self.tenant_id, self.provider, self.key.account, self.key.type, self.key.id)
        return dict(zip(_KEY, values, strict=True))

    def other(self, type: str, id: str) -> Where:
        return Where(self.tenant_id, self.provider, ObjectKey(self.key.account, type, id))


@dataclass(frozen=True, slots=True)
class Known:
    """A record as its locked row has it."""

    state: State
    name: str | None


class Teller:
    """Keeps records and their documents in step.

    fetchable: (tenant, provider) with access to the CRM. delay_seconds: how long the events of an
    object are gathered. named: says which users a record's fields name.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        fetchable: Collection[tuple[str, str]],
        *,
        named: Callable[[Mapping[str, Any]], set[str]],
        kinds: Kinds,
        dimension: int,
        redactor: Redactor,
        delay_seconds: float,
    ) -> None:
        self._named = named
        self._kinds = kinds
        self._providers = providers
        self._fetchable = fetchable
        self._dimension = dimension
        self._redactor = redactor
        self._delay_seconds = delay_seconds

    def lock(self, connection: Connection, where: Where, now: datetime) -> Known:
        """Return the record, empty if it is new, and keep it for this transaction."""
        one = sa.select(records.c.state, records.c.name).where(where.of(records)).with_for_update()
        while (row := connection.execute(one).first()) is None:
            insert_new(connection, records, _new_row(where, State(), now), key=_KEY)
        return Known(from_json(row.state), row.name)

    def write(
        self, connection: Connection, where: Where, known: Known, state: State, now: datetime
    ) -> bool:
        """Store a state and tell it; says whether others have to be told a new name.

        One that names a user who was erased is erased, too.
        """
        if erased(connection, where.tenant_id, self._named(state.fields())):
            state = _erased(where, state, now)
        about = self._about(where)
        fields = {} if state.is_deleted else state.fields()
        name = render.display_name(fields, about)
        if state != known.state:
            connection.execute(
                records.update()
                .where(where.of(records))
                .values(name=name, updated_at=now, **_columns(state))
            )
            _refer(connection, where, render.references(fields, about))
        self._tell(connection, where, fields, about, now)
        if state.is_erased:
            _erase_bodies(connection, where, now)
        return name != known.name

    def settle(
        self, where: Where, is_name_new: bool, now: datetime, connection: Connection
    ) -> None:
        """Make good what other transactions may have crossed: names that came meanwhile.

        Two that are written at the same time can't see each other, but one of their second looks,
        which is this, sees the other.
        """
        about = self._about(where)
        known = self.lock(connection, where, now)
        fields = {} if known.state.is_deleted else known.state.fields()
        others = render.references(fields, about)
        if others:
            self._tell(connection, where, fields, about, now)
            self._ask_for(connection, where, others, now)
        if is_name_new:
            self._tell_others(connection, where, now)

    def erase(self, connection: Connection, where: Where, now: datetime) -> None:
        """Leave nothing of a record; what comes of it later is not written down again."""
        known = self.lock(connection, where, now)
        if self.write(connection, where, known, _erased(where, known.state, now), now):
            self._tell_others(connection, where, now)
        jobs.cancel(connection, where.tenant_id, where.subject)

    def bury(
        self, connection: Connection, tenant_id: str, ids: Collection[str], now: datetime
    ) -> None:
        """Mark the records of some documents as deleted, those that are not yet."""
        listed = sorted(ids)
        for start in range(0, len(listed), REFERRERS_AT_ONCE):
            some = sa.select(records).where(
                records.c.tenant_id == tenant_id,
                records.c.document_id.in_(listed[start : start + REFERRERS_AT_ONCE]),
                records.c.deleted_at.is_(None),
            )
            for row in connection.execute(some.order_by(*_columns_of(records)).with_for_update()):
                where = Where(
                    tenant_id,
                    row.provider,
                    ObjectKey(row.account, row.object_type, row.object_id),
                )
                gone = _columns(buried(from_json(row.state), now))
                connection.execute(
                    records.update().where(where.of(records)).values(name=None, **gone)
                )
                _refer(connection, where, set())
                if row.name is not None:
                    self._tell_others(connection, where, now)

    def _tell(
        self,
        connection: Connection,
        where: Where,
        fields: Mapping[str, str],
        about: ObjectType,
        now: datetime,
    ) -> None:
        names = _names(connection, where, render.references(fields, about))
        document = render.document(where.provider, where.key, fields, about, names, self._kinds)
        touched: dict[str, int]
        if document is None:
            id = render.document_id(where.provider, where.key)
            touched = remove(connection, where.tenant_id, [id])
        else:
            it = ready(where.tenant_id, document, self._dimension, self._redactor)
            is_new = store(connection, where.tenant_id, it, now)
            touched = {document.id: it.chunk_count} if is_new else {}
        if touched:
            jobs.put(
                connection,
                where.tenant_id,
                SYNC,
                uuid.uuid4().hex,
                {"documents": touched},
                subject="documents",
                now=now,
            )

    def _ask_for(
        self, connection: Connection, where: Where, others: set[tuple[str, str]], now: datetime
    ) -> None:
        """Have the names fetched of owners and users that nothing was heard of yet."""
        if (where.tenant_id, where.provider) not in self._fetchable:
            return
        describe = self._providers[where.provider].describe
        for type, id in sorted(others):
            if describe(type).is_told:
                continue
            other = where.other(type, id)
            unknown = Change(other.key, "create", _LONG_AGO, is_thin=True)
            state = merge(State(), unknown, arrived=now)
            if insert_new(connection, records, _new_row(other, state, now), key=_KEY):
                gather(connection, where.tenant_id, where.provider, [other.key], now, 0.0)

    def _tell_others(self, connection: Connection, where: Where, now: datetime) -> None:
        """Have those told anew that point to this object."""
        to = record_references.c
        pointing = sa.select(to.account, to.object_type, to.object_id).where(
            to.tenant_id == where.tenant_id,
            to.provider == where.provider,
            to.account == where.key.account,
            to.target_type == where.key.type,
            to.target_id == where.key.id,
        )
        keys = [ObjectKey(*row) for row in connection.execute(pointing)]
        for start in range(0, len(keys), REFERRERS_AT_ONCE):
            some = keys[start : start + REFERRERS_AT_ONCE]
            gather(connection, where.tenant_id, where.provider, some, now, self._delay_seconds)

    def _about(self, where: Where) -> ObjectType:
        return self._providers[where.provider].describe(where.key.type)


def _erased(where: Where, state: State, now: datetime) -> State:
    return merge(state, Change(where.key, "erase", now), arrived=now)


def _names(connection: Connection, where: Where, others: set[tuple[str, str]]) -> Names:
    """Return what the objects are called that a record points to, as far as it is known."""
    if not others:
        return {}
    named = sa.select(records.c.object_type, records.c.object_id, records.c.name).where(
        records.c.tenant_id == where.tenant_id,
        records.c.provider == where.provider,
        records.c.account == where.key.account,
        records.c.object_id.in_(sorted({id for _, id in others})),
        records.c.object_type.in_(sorted({type for type, _ in others})),
        records.c.name.is_not(None),
    )
    found = {(row.object_type, row.object_id): row.name for row in connection.execute(named)}
    return {other: found[other] for other in others if other in found}


def _refer(connection: Connection, where: Where, others: set[tuple[str, str]]) -> None:
    """Note which objects a record points to, so that a new name of theirs reaches it."""
    to = record_references
    here = where.of(to)
    kept = sa.select(to.c.target_type, to.c.target_id).where(here)
    known = {(row.target_type, row.target_id) for row in connection.execute(kept)}
    for type, id in known - others:
        connection.execute(to.delete().where(here, to.c.target_type == type, to.c.target_id == id))
    new = [{**where.columns(), "target_type": type, "target_id": id} for type, id in others - known]
    insert_all_new(connection, to, new, key=[*_KEY, "target_type", "target_id"])


def _erase_bodies(connection: Connection, where: Where, now: datetime) -> None:
    """Empty the object's deliveries; what is still to come of it says nothing any more."""
    connection.execute(
        deliveries.update()
        .where(where.of(deliveries))
        .values(body=None, state="done", processed_at=now)
    )


def _new_row(where: Where, state: State, now: datetime) -> dict[str, Any]:
    return {
        **where.columns(),
        "document_id": render.document_id(where.provider, where.key),
        "name": None,
        "created_at": now,
        "updated_at": now,
        **_columns(state),
    }


def _columns(state: State) -> dict[str, Any]:
    return {
        "state": to_json(state),
        "deleted_at": state.deleted_at,
        "is_erased": state.is_erased,
        "stale_since": state.stale_since,
        "stale_reason": LEFT_OUT if state.is_stale else None,
    }


def _columns_of(table: sa.Table) -> list[sa.Column[Any]]:
    return [table.c[name] for name in _KEY]
