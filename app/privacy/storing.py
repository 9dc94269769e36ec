"""Rows of an export into their tables, each as it was. Touches: every table that an export is made
of, the lexical index, the jobs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from app import jobs, quarantine
from app.db import Connection
from app.db.insert import insert_all_new
from app.db.tables import episodes, messages, sessions
from app.erased import erased
from app.errors import Conflict
from app.knowledge import inbox
from app.knowledge.changes import KIND as SYNC_DOCUMENTS
from app.knowledge.persons import Persons
from app.knowledge.rows import Ready, ready, with_words
from app.knowledge.words import write_words
from app.memory import lexicon
from app.memory.base import Fact
from app.memory.fact_sync import put_fact_sync
from app.privacy import holdings as h
from app.privacy.cells import Row
from app.privacy.holdings import Section
from app.privacy.looking import KINDS, look
from app.quarantine import Looked
from app.sessions.rows import put_sync
from ingest.document import Document
from ingest.providers.base import ObjectKey

# What the index has of it is still to come; whoever held a reply is gone.
_FRESH: Mapping[str, Row] = {
    "episodes": {"indexed_version": 0, "indexed_seq": 0},
    "facts": {"indexed_version": 0},
    "documents": {"indexed_version": 0},
}
_BY_ID = sa.select(
    messages.c.id, messages.c.tenant_id, messages.c.session_id, messages.c.seq
).where(messages.c.id.in_(sa.bindparam("ids", expanding=True)))
_OF_OTHERS = (
    sa.select(sessions.c.session_id)
    .where(
        sessions.c.tenant_id == sa.bindparam("tenant"),
        sessions.c.user_id != sa.bindparam("user"),
        sessions.c.session_id.in_(sa.bindparam("ids", expanding=True)),
    )
    .limit(1)
)
_HAVE_EPISODES = sa.select(episodes.c.session_id).where(
    episodes.c.tenant_id == sa.bindparam("tenant"),
    episodes.c.session_id.in_(sa.bindparam("ids", expanding=True)),
)


@dataclass(frozen=True, slots=True)
class ReadyRow:
    """A row with what it takes time to find out. looked: of a text that models will read."""

    row: Row
    document: Ready | None = None
    looked: Looked | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where an export goes."""

    tenant_id: str
    user_id: str
    dimension: int
    persons: Persons

    def ready(self, section: Section, rows: Sequence[Row]) -> list[ReadyRow]:
        """Do ahead of a transaction what takes time. Raises `InvalidRequest` for a document that
        the index can't hold."""
        if section is not h.DOCUMENTS:
            return [ReadyRow(row, looked=look(section, row, self.user_id)) for row in rows]
        names = {"document_id": "id"}
        fields = ("document_id", "text", "source", "doc_type", "metadata")
        made = (Document(**{names.get(name, name): row[name] for name in fields}) for row in rows)
        told = [with_words(ready(self.tenant_id, one, self.dimension), {}) for one in made]
        return [ReadyRow(row, it, it.looked) for row, it in zip(rows, told, strict=True)]


def missing(
    target: Target, section: Section, rows: Sequence[Row], connection: Connection
) -> list[Row]:
    """Return the rows that are not there. Raises `Conflict` for one that is there, and other."""
    new = []
    there = _there(target, section, rows, connection)
    for row in rows:
        key = tuple(row[name] for name in section.key)
        if key not in there:
            new.append(row)
        elif not _stands(target, section, row, there[key]):
            what = " ".join(map(str, key))[:200]
            raise Conflict(f"{section.name}: {what!r} is there already, and something else")
    if section is h.MESSAGES:
        _check_ids(target, rows, connection)
    elif section in (h.FACTS, h.SIGHTINGS, h.ENTITIES, h.BLOCKS):
        _check_sessions(target, section, rows, connection)
    return new


def store(
    connection: Connection,
    target: Target,
    section: Section,
    rows: Sequence[ReadyRow],
    now: datetime,
) -> int:
    """Insert rows with what follows from them; returns how many were left out.

    Those are of the business data, and name a user who was erased.
    """
    wanted = [it for it in rows if not _is_of_erased(connection, target, section, it.row)]
    full = [_full(target, section, it.row, it.document) for it in wanted]
    keys = _primary(section)
    insert_all_new(connection, section.table, full, key=keys)
    follow = _FOLLOW.get(section.name)
    if follow is not None and full:
        follow(connection, target, full, now)
    if section is h.DOCUMENTS:
        told = [it.document.words or () for it in wanted if it.document is not None]
        write_words(connection, target.tenant_id, told)
    if section.name in KINDS:
        looked = [it.looked for it in wanted if it.looked is not None]
        quarantine.note(connection, target.tenant_id, KINDS[section.name], looked, now)
    return len(rows) - len(wanted)


def _there(
    target: Target, section: Section, rows: Sequence[Row], connection: Connection
) -> dict[tuple[Any, ...], Any]:
    which: dict[str, Any] = {"tenant": target.tenant_id, "user": target.user_id}
    if section.key:
        keys = [tuple(row[name] for name in section.key) for row in rows]
        which["keys"] = keys if len(section.key) > 1 else [key for (key,) in keys]
    found = connection.execute(_lookup(section), which)
    return {tuple(getattr(row, name) for name in section.key): row for row in found}


@lru_cache(maxsize=64)
def _lookup(section: Section) -> sa.Select[Any]:
    table = section.table
    where = [table.c.tenant_id == sa.bindparam("tenant")]
    if "user_id" in table.primary_key.columns:
        where.append(table.c.user_id == sa.bindparam("user"))
    key = [table.c[name] for name in section.key]
    keys: sa.BindParameter[Any] = sa.bindparam("keys", expanding=True)
    if key:
        where.append(key[0].in_(keys) if len(key) == 1 else sa.tuple_(*key).in_(keys))
    return sa.select(table).where(*where)


def _stands(target: Target, section: Section, row: Row, there: Any) -> bool:
    """Say if what is there is the same, or has moved on since."""
    if section is h.QUARANTINE:
        return True
    if "user_id" in section.table.c and there.user_id != target.user_id:
        return False
    if section.moves_by and getattr(there, section.moves_by) > row[section.moves_by]:
        return True
    return all(getattr(there, name) == row[name] for name in section.compared)


def _check_ids(target: Target, rows: Sequence[Row], connection: Connection) -> None:
    places = {row["id"]: (target.tenant_id, row["session_id"], row["seq"]) for row in rows}
    for there in connection.execute(_BY_ID, {"ids": list(places)}):
        if tuple(there)[1:] != places[there.id]:
            raise Conflict(f"messages: the id {there.id[:100]!r} is another message's already")


def _check_sessions(
    target: Target, section: Section, rows: Sequence[Row], connection: Connection
) -> None:
    """Raise `Conflict` where a session is named that is another user's."""
    ids = sorted({row["session_id"] for row in rows if row["session_id"]})
    which = {"tenant": target.tenant_id, "user": target.user_id, "ids": ids}
    other = connection.execute(_OF_OTHERS, which).scalar()
    if other is not None:
        raise Conflict(f"{section.name}: the session {other[:200]!r} is another user's")


def _full(target: Target, section: Section, row: Row, it: Ready | None) -> Row:
    full = {"tenant_id": target.tenant_id, **row, **_FRESH.get(section.name, {})}
    if "user_id" in section.table.c:
        is_shared = section is h.QUARANTINE and row["kind"] == "document"
        full["user_id"] = None if is_shared else target.user_id
    if it is not None:
        full |= {"fingerprint": it.fingerprint, "chunk_count": it.chunk_count}
    return full


def _primary(section: Section) -> list[str]:
    if section is h.DELIVERIES:  # its number is given anew
        return ["tenant_id", *section.key]
    return [column.name for column in section.table.primary_key.columns]


def _is_of_erased(connection: Connection, target: Target, section: Section, row: Row) -> bool:
    if section is h.DOCUMENTS:
        named = target.persons.named(row["metadata"])
    elif section is h.RECORDS:
        named = target.persons.named_in_state(row["state"])
    elif section is h.DELIVERIES:
        named = target.persons.named_in_body(row["provider"], row["body"])
    else:
        return False
    return bool(erased(connection, target.tenant_id, named))


def _episodes(connection: Connection, target: Target, rows: Sequence[Row], now: datetime) -> None:
    _sync(connection, target, [row["session_id"] for row in rows], now)


def _sync(connection: Connection, target: Target, ids: Collection[str], now: datetime) -> None:
    for session_id in ids:
        put_sync(connection, target.tenant_id, session_id, now=now, delay_seconds=0)


def _facts(connection: Connection, target: Target, rows: Sequence[Row], now: datetime) -> None:
    """See to the vectors of facts that stand alone, and of sessions whose episode is there."""
    alone = [Fact(**row) for row in rows if row["number"] is None]
    lexicon.index_facts(connection, alone)
    put_fact_sync(connection, target.tenant_id, [fact.fact_id for fact in alone], now, 0)
    ids = {row["session_id"] for row in rows if row["number"] is not None} - {None}
    which = {"tenant": target.tenant_id, "ids": sorted(ids)}
    _sync(connection, target, connection.execute(_HAVE_EPISODES, which).scalars().all(), now)


def _documents(connection: Connection, target: Target, rows: Sequence[Row], now: datetime) -> None:
    jobs.put(
        connection,
        target.tenant_id,
        SYNC_DOCUMENTS,
        uuid.uuid4().hex,
        {"documents": {row["document_id"]: row["chunk_count"] for row in rows}},
        subject="documents",
        now=now,
    )


def _deliveries(connection: Connection, target: Target, rows: Sequence[Row], now: datetime) -> None:
    """Have those worked off that were still waiting."""
    waiting: dict[str, list[ObjectKey]] = {}
    for row in rows:
        if row["state"] == "pending":
            key = ObjectKey(row["account"], row["object_type"], row["object_id"])
            waiting.setdefault(row["provider"], []).append(key)
    for provider, keys in waiting.items():
        inbox.gather(connection, target.tenant_id, provider, keys, now, 0)


_Follow = Callable[[Connection, Target, Sequence[Row], datetime], None]
_FOLLOW: Mapping[str, _Follow] = {
    "episodes": _episodes,
    "facts": _facts,
    "documents": _documents,
    "deliveries": _deliveries,
}
