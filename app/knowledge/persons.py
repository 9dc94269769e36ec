"""What of the business data is about a user: it names their id in a field that is set to mean so.

Touches: `documents`, `records`, `deliveries` (reads).

The database finds what has the id anywhere, and the field is looked at here: whether it stands
there as a text, as a number or within a list, and however the field's name is spelled.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from app.db import Connection
from app.db.parts import in_parts
from app.db.tables import deliveries, documents, records
from app.knowledge.inbox import FETCHED
from ingest.columns import snake
from ingest.providers.base import Provider

AT_ONCE = 200

Place = tuple[str, str, str, str]  # of a record: provider, account, type, id

_tenant: sa.BindParameter[str] = sa.bindparam("tenant")
_mark: sa.BindParameter[str] = sa.bindparam("mark")
_most = sa.bindparam("most", type_=sa.Integer)


def _has_mark(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    # Upper and lower case may count for the same here: what is found is looked at again.
    return sa.cast(column, sa.Text).like(_mark, escape="/")


_PLACE = (records.c.provider, records.c.account, records.c.object_type, records.c.object_id)
_AT = tuple(sa.bindparam(f"at_{column.name}", type_=sa.Text) for column in _PLACE)
_RECORDS = (
    sa.select(*_PLACE, records.c.document_id, records.c.state)
    .where(
        records.c.tenant_id == _tenant,
        sa.tuple_(*_PLACE) > sa.tuple_(*_AT),
        _has_mark(records.c.state),
    )
    .order_by(*_PLACE)
    .limit(_most)
)
_DOCUMENTS = (
    sa.select(documents.c.document_id, documents.c.metadata)
    .where(
        documents.c.tenant_id == _tenant,
        documents.c.document_id > sa.bindparam("after", type_=sa.Text),
        _has_mark(documents.c.metadata),
    )
    .order_by(documents.c.document_id)
    .limit(_most)
)
_ARE_THERE = sa.select(documents.c.document_id).where(
    documents.c.tenant_id == _tenant,
    documents.c.document_id.in_(sa.bindparam("ids", expanding=True)),
)
_DELIVERIES = (
    sa.select(deliveries.c.id, deliveries.c.provider, deliveries.c.body)
    .where(
        deliveries.c.tenant_id == _tenant,
        deliveries.c.id > sa.bindparam("after", type_=sa.BigInteger),
        _has_mark(deliveries.c.body),
    )
    .order_by(deliveries.c.id)
    .limit(_most)
)
_OF_PLACE = sa.select(deliveries.c.id, deliveries.c.provider, deliveries.c.body).where(
    deliveries.c.tenant_id == _tenant,
    *(deliveries.c[column.name] == at for column, at in zip(_PLACE, _AT, strict=True)),
)


class Persons:
    """Finds what names a user. fields: those that hold ids of users, in documents and records."""

    def __init__(self, fields: Iterable[str], providers: Mapping[str, Provider]) -> None:
        self._fields = frozenset(map(snake, fields))
        self._providers = providers

    def named(self, metadata: Mapping[str, Any]) -> set[str]:
        """Return the ids of the users that a document's metadata, or a record's fields, name."""
        return {
            user
            for name, value in metadata.items()
            if snake(name) in self._fields
            for user in _ids(value)
        }

    def named_in_state(self, state: Mapping[str, Any]) -> set[str]:
        """Return the ids of the users that a record names, as its row holds its state."""
        return self.named({name: text for name, (_, _, text) in state.get("said", {}).items()})

    def named_in_body(self, provider: str, body: Mapping[str, Any] | None) -> set[str]:
        """Return the ids of the users that a webhook's event names: as its provider reads it,
        or in a field anywhere within."""
        if body is None:
            return set()
        found = {user for part in _objects(body) for user in self.named(part)}
        for change in self._changes(provider, body):
            found |= self.named(change)
        return found

    def records_of(self, connection: Connection, tenant_id: str, user_id: str) -> dict[Place, str]:
        """Return the records about a user, in order, each with the id of its document."""
        found: dict[Place, str] = {}
        if not self._fields:
            return found
        at: Sequence[str] = ("", "", "", "")
        while True:
            last = {f"at_{column.name}": part for column, part in zip(_PLACE, at, strict=True)}
            rows = connection.execute(_RECORDS, _wanted(tenant_id, user_id, last)).all()
            for row in rows:
                if user_id in self.named_in_state(row.state):
                    found[(row.provider, row.account, row.object_type, row.object_id)] = (
                        row.document_id
                    )
            if len(rows) < AT_ONCE:
                return found
            at = rows[-1][:4]

    def documents_of(
        self, connection: Connection, tenant_id: str, user_id: str, records: Mapping[Place, str]
    ) -> list[str]:
        """Return the ids of the documents about a user, with those of their `records`, ascending.

        records: as `records_of` returns them.
        """
        found: set[str] = set()
        after = ""
        while self._fields:
            which = _wanted(tenant_id, user_id, {"after": after})
            rows = connection.execute(_DOCUMENTS, which).all()
            found.update(row.document_id for row in rows if user_id in self.named(row.metadata))
            if len(rows) < AT_ONCE:
                break
            after = rows[-1].document_id
        for some in in_parts(sorted(set(records.values()))):
            there = connection.execute(_ARE_THERE, {"tenant": tenant_id, "ids": some})
            found.update(there.scalars())
        return sorted(found)

    def deliveries_of(
        self,
        connection: Connection,
        tenant_id: str,
        user_id: str,
        records: Collection[Place],
        *,
        with_others: bool = True,
    ) -> list[int]:
        """Return the ids of the inbox rows that name a user, and of all of their `records`.

        with_others: also of events that name somebody else instead, whose record it was then.
        """
        found: set[int] = set()
        after = 0
        while self._fields:
            which = _wanted(tenant_id, user_id, {"after": after})
            rows = connection.execute(_DELIVERIES, which).all()
            found.update(
                row.id for row in rows if user_id in self.named_in_body(row.provider, row.body)
            )
            if len(rows) < AT_ONCE:
                break
            after = rows[-1].id
        for place in records:
            at = {f"at_{column.name}": part for column, part in zip(_PLACE, place, strict=True)}
            for row in connection.execute(_OF_PLACE, {"tenant": tenant_id, **at}):
                named = self.named_in_body(row.provider, row.body) if not with_others else None
                if not named or user_id in named:
                    found.add(row.id)
        return sorted(found)

    def _changes(self, provider: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
        """Yield the fields that an event's body says of each object, if it can be read."""
        if provider not in self._providers or body.keys() == {FETCHED}:
            return  # what was fetched has its fields by name
        try:
            changes = self._providers[provider].read(body)
        except Exception:  # noqa: BLE001 — its row is put aside; it was looked through
            return
        yield from (change.fields for change in changes)


def _wanted(tenant_id: str, user_id: str, more: Mapping[str, Any]) -> dict[str, Any]:
    as_stored = json.dumps(user_id)[1:-1]  # as it stands within JSON, in both databases
    for char in "/%_":
        as_stored = as_stored.replace(char, f"/{char}")
    return {"tenant": tenant_id, "mark": f"%{as_stored}%", "most": AT_ONCE, **more}


def _ids(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str | int | float) and not isinstance(one, bool):
            yield str(one)


def _objects(body: Any) -> Iterator[Mapping[str, Any]]:
    left = [body]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            yield part
            left += part.values()
        elif isinstance(part, list):
            left += part
