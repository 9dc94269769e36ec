"""One user and all that is held about them, as one JSON document. Touches: every table.

It is read and written page by page: neither a transaction nor a conversation is held meanwhile. A
reply that is still being written stands as interrupted, which it would be if the service stopped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import sqlalchemy as sa

from app import audit
from app.audit import Actor
from app.chat.withholding import receipt_for
from app.db import Connection, Database
from app.db.parts import in_parts
from app.db.tables import facts, messages, quarantine, sessions
from app.erased import erased, pseudonym
from app.errors import NotFound
from app.index.base import Filter
from app.knowledge.persons import Persons, Place
from app.knowledge.search import DocumentSearch
from app.knowledge.within import passing, test_of
from app.privacy import holdings as h
from app.privacy.holdings import FORMAT, Section
from app.privacy.lines import lines
from app.privacy.whole import Whole

PAGE = 200
NAMES = tuple(section.name for section in h.SECTIONS[1:])

_tenant: sa.BindParameter[str] = sa.bindparam("tenant")
_user: sa.BindParameter[str] = sa.bindparam("user")
_ids: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
_most = sa.bindparam("most", type_=sa.Integer)

_MESSAGES = (
    sa.select(*h.MESSAGES.columns)
    .where(
        messages.c.tenant_id == _tenant,
        messages.c.session_id == sa.bindparam("session"),
        messages.c.seq > sa.bindparam("after"),
        messages.c.seq <= sa.bindparam("last"),
    )
    .order_by(messages.c.seq)
    .limit(_most)
)
_IS_THERE = sa.select(sessions.c.session_id).where(
    sessions.c.tenant_id == _tenant,
    sessions.c.session_id == sa.bindparam("session"),
    sessions.c.user_id == _user,
)
_CONSENT = sa.select(*h.CONSENT.columns).where(
    h.CONSENT.table.c.tenant_id == _tenant, h.CONSENT.table.c.user_id == _user
)
_FLAGGED = (
    sa.select(*h.QUARANTINE.columns)
    .where(
        quarantine.c.tenant_id == _tenant,
        quarantine.c.kind == "document",
        quarantine.c.ref.in_(_ids),
    )
    .order_by(quarantine.c.ref)
)
_DOCUMENTS = sa.select(*h.DOCUMENTS.columns).where(
    h.DOCUMENTS.table.c.tenant_id == _tenant, h.DOCUMENTS.table.c.document_id.in_(_ids)
)
_DELIVERIES = sa.select(*h.DELIVERIES.columns, h.DELIVERIES.table.c.id).where(
    h.DELIVERIES.table.c.tenant_id == _tenant, h.DELIVERIES.table.c.id.in_(_ids)
)


def _at_places(section: Section) -> sa.Select[Any]:
    place = sa.tuple_(*(section.table.c[name] for name in h.RECORDS.key))
    return sa.select(*section.columns).where(
        section.table.c.tenant_id == _tenant, place.in_(sa.bindparam("places", expanding=True))
    )


_RECORDS, _REFERENCES = _at_places(h.RECORDS), _at_places(h.REFERENCES)


@dataclass(frozen=True, slots=True)
class _Whose:
    """A user, and what of the business data is about them and passes the caller's filter."""

    tenant_id: str
    user_id: str
    within: Filter | None
    was_erased: datetime | None
    documents: Sequence[str]
    records: Sequence[Place]
    deliveries: Sequence[int]

    def params(self, **more: Any) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "user": self.user_id, "most": PAGE, **more}


class Exports:
    """Exports users. A user of whom nothing is held has an export with nothing in it."""

    def __init__(
        self,
        database: Database,
        persons: Persons,
        documents: DocumentSearch,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._persons = persons
        self._documents = documents
        self._clock = clock

    async def begin(
        self, tenant_id: str, user_id: str, *, actor: Actor, within: Filter | None
    ) -> AsyncIterator[str]:
        """Return the pieces of the document; what can fail with a status fails here.

        within: documents that don't pass it are left out, also of receipts, with the records that
        they tell; and so are all deliveries, which no filter can look into.
        Later, pieces raise where something went away meanwhile: the document is incomplete then.
        """
        whose = await self._database.read(partial(self._find, tenant_id, user_id, within))
        now = self._clock()
        await self._database.write(lambda c: _note(c, actor, whose, now))
        return self._pieces(whose)

    def _find(
        self, tenant_id: str, user_id: str, within: Filter | None, connection: Connection
    ) -> _Whose:
        about = (connection, tenant_id, user_id)
        records = self._persons.records_of(*about)
        documents = self._persons.documents_of(*about, records)
        deliveries: Sequence[int] = []
        if within is None:
            deliveries = self._persons.deliveries_of(*about, records, with_others=False)
        else:
            test = test_of(tenant_id, within)
            documents = sorted(passing(connection, tenant_id, documents, test, locked=False))
        places = [
            place
            for place, document_id in records.items()
            if within is None or document_id in documents
        ]
        was_erased = erased(connection, tenant_id, [user_id]).get(user_id)
        return _Whose(tenant_id, user_id, within, was_erased, documents, sorted(places), deliveries)

    async def _pieces(self, whose: _Whose) -> AsyncIterator[str]:
        head = json.dumps({"format": FORMAT, "user_id": whose.user_id}, ensure_ascii=False)
        consent = await self._database.read(lambda c: c.execute(_CONSENT, whose.params()).all())
        allowed = lines(h.CONSENT, consent)[0] if consent else "null"
        yield f'{head[:-1]},\n"consent": {allowed}'
        whole = Whole()
        for section in h.SECTIONS[1:]:
            yield f',\n"{section.name}": ['
            between = "\n"
            async for page in self._pages(section, whose, whole.last_seqs):
                rows = whole.take(section, page)
                receipts = await self._receipts(section, rows, whose)
                if rows:
                    told = await asyncio.to_thread(lines, section, rows, receipts)
                    yield between + ",\n".join(told)
                    between = ",\n"
            yield "]"
        await self._database.read(partial(_check_not_erased, whose))
        yield "}\n"

    async def _receipts(
        self, section: Section, page: Sequence[Any], whose: _Whose
    ) -> Mapping[str, Any]:
        """Return the receipts of messages as the caller may see them, by id; all if not there."""
        if section is not h.MESSAGES or whose.within is None:
            return {}
        documents, tenant_id = self._documents, whose.tenant_id
        return {
            row.id: await receipt_for(documents, tenant_id, row.receipt, whose.within)
            for row in page
            if row.receipt is not None
        }

    async def _pages(
        self, section: Section, whose: _Whose, last_seqs: Mapping[str, int]
    ) -> AsyncIterator[Sequence[Any]]:
        if section is h.MESSAGES:
            for session_id, last_seq in last_seqs.items():
                async for page in self._said(whose, session_id, last_seq):
                    yield page
        elif section in (h.DOCUMENTS, h.DELIVERIES, h.RECORDS, h.REFERENCES):
            async for page in self._business(section, whose):
                yield page
        else:
            async for page in self._of_user(section, whose):
                yield page
        if section is h.QUARANTINE:
            for some in in_parts(whose.documents, PAGE):
                yield await self._read(_FLAGGED, whose, ids=some)

    async def _of_user(self, section: Section, whose: _Whose) -> AsyncIterator[Sequence[Any]]:
        first, next_ = _statements(section, self._database.dialect)
        page = await self._read(first, whose)
        yield page
        while len(page) == PAGE:
            after = {f"after_{name}": getattr(page[-1], name) for name in section.order}
            page = await self._read(next_, whose, **after)
            yield page

    async def _said(
        self, whose: _Whose, session_id: str, last_seq: int
    ) -> AsyncIterator[Sequence[Any]]:
        seq = 0
        while seq < last_seq:
            which = whose.params(session=session_id, after=seq, last=last_seq)
            page, is_there = await self._database.read(partial(_read_said, which))
            if not is_there:
                raise NotFound("a session was deleted meanwhile", param="session_id")
            yield page
            if len(page) < PAGE:
                return
            seq = page[-1].seq

    async def _business(self, section: Section, whose: _Whose) -> AsyncIterator[Sequence[Any]]:
        if section is h.DOCUMENTS:
            for ids in in_parts(whose.documents, PAGE):
                rows = await self._read(_DOCUMENTS, whose, ids=ids)
                yield sorted(rows, key=lambda row: str(row.document_id))
        elif section is h.DELIVERIES:
            for numbers in in_parts(whose.deliveries, PAGE):
                rows = await self._read(_DELIVERIES, whose, ids=numbers)
                yield sorted(rows, key=lambda row: int(row.id))
        else:
            statement = _RECORDS if section is h.RECORDS else _REFERENCES
            for places in in_parts(whose.records, PAGE):
                rows = await self._read(statement, whose, places=places)
                yield sorted(rows, key=lambda row: [getattr(row, name) for name in section.key])

    async def _read(self, statement: sa.Select[Any], whose: _Whose, **more: Any) -> Sequence[Any]:
        which = whose.params(**more)
        return await self._database.read(lambda c: c.execute(statement, which).all())


@lru_cache(maxsize=64)
def _statements(section: Section, dialect: str) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Return what reads the first page of a user's rows, and the ones after it."""
    of_user = section.table
    statement = sa.select(*section.columns)
    if section is h.SIGHTINGS:
        of_user = facts
        same = [facts.c[name] == section.table.c[name] for name in ("tenant_id", "fact_id")]
        statement = statement.join(facts, sa.and_(*same))
    statement = statement.where(of_user.c.tenant_id == _tenant, of_user.c.user_id == _user)
    columns = [section.table.c[name] for name in section.order]
    # Postgres sorts as its language does, unless it is told to sort as SQLite and Python do.
    by = [
        sa.collate(column, "C")
        if dialect == "postgresql" and isinstance(column.type, sa.Text)
        else column
        for column in columns
    ]
    after = [sa.bindparam(f"after_{column.name}", type_=column.type) for column in columns]
    first = statement.order_by(*by).limit(_most)
    return first, first.where(sa.tuple_(*by) > sa.tuple_(*after))


def _read_said(which: dict[str, Any], connection: Connection) -> tuple[Sequence[Any], bool]:
    page = connection.execute(_MESSAGES, which).all()
    return page, connection.execute(_IS_THERE, which).first() is not None


def _check_not_erased(whose: _Whose, connection: Connection) -> None:
    now = erased(connection, whose.tenant_id, [whose.user_id]).get(whose.user_id)
    if now != whose.was_erased:
        raise NotFound("the user was erased meanwhile", param="user_id")


def _note(connection: Connection, actor: Actor, whose: _Whose, now: datetime) -> None:
    counts = {
        section.name: connection.execute(
            sa.select(sa.func.count()).where(
                section.table.c.tenant_id == whose.tenant_id,
                section.table.c.user_id == whose.user_id,
            )
        ).scalar_one()
        for section in (h.SESSIONS, h.EPISODES, h.FACTS)
    }
    counts |= {"documents": len(whose.documents), "records": len(whose.records)}
    subject = pseudonym(whose.tenant_id, whose.user_id)
    audit.note(connection, actor, "user.export", subject=subject, counts=counts, now=now)
