"""The rows of documents: read, written, locked. Touches: `documents`, the lexical index,
the quarantine list.

Whoever locks several rows does so by ascending id, so that no two can wait for each other; a row
of `jobs` is locked before them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import quarantine
from app.db import Connection
from app.db.insert import insert_all_new
from app.db.parts import in_parts
from app.db.tables import documents
from app.knowledge.chunked import count_chunks
from app.knowledge.words import Words, count_words, drop_words, write_words
from app.quarantine import Looked, State, look_at
from app.redact import Redactor
from ingest.document import Document

_these = sa.and_(
    documents.c.tenant_id == sa.bindparam("tenant"),
    documents.c.document_id.in_(sa.bindparam("ids", expanding=True)),
)
_this = sa.and_(
    documents.c.tenant_id == sa.bindparam("tenant"),
    documents.c.document_id == sa.bindparam("id"),
)
HEAD = (  # of a row: all but its text
    documents.c.document_id,
    documents.c.source,
    documents.c.doc_type,
    documents.c.metadata,
)
_BY_ID = sa.select(documents).where(_these)
_TOLD = sa.select(
    *HEAD,
    documents.c.text,
    documents.c.fingerprint,
    quarantine.is_withheld("document", documents.c.document_id).label("is_withheld"),
).where(_these)
_HEADS = sa.select(*HEAD).where(_these)
_SOURCES = sa.select(documents.c.document_id, documents.c.source).where(_these)
_COUNT_OF = sa.select(sa.func.count()).where(
    documents.c.tenant_id == sa.bindparam("tenant"), documents.c.source == sa.bindparam("of")
)
_FINGERPRINTS = sa.select(documents.c.document_id, documents.c.fingerprint).where(_these)
_LOCKED = (
    sa.select(
        documents.c.document_id,
        documents.c.fingerprint,
        documents.c.version,
        documents.c.indexed_version,
        documents.c.chunk_count,
    )
    .where(_these)
    .order_by(documents.c.document_id)
    .with_for_update()
)
# Postgres sorts as its language does, unless it is told to sort as Python does.
_LOCKED_IN_ORDER = _LOCKED.order_by(None).order_by(sa.collate(documents.c.document_id, "C"))
_CHANGE = documents.update().where(_this).values(version=documents.c.version + 1)
_RECOUNT = documents.update().where(_this)
_INDEXED = documents.update().where(_these).values(indexed_version=documents.c.version)
_REMOVE = (
    documents.delete().where(_these).returning(documents.c.document_id, documents.c.chunk_count)
)


@dataclass(frozen=True, slots=True)
class Ready:
    """A document that the index can hold, with what it takes time to find out.

    words, looked: None for one that is unchanged as far as is known.
    redacted: how many of each kind were taken out of it.
    """

    document: Document
    fingerprint: str
    chunk_count: int
    words: Words | None = None
    looked: Looked | None = None
    redacted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What of a document was brought to the index; `state` of None is that it is gone."""

    state: tuple[int, str] | None
    chunk_count: int


def ready(
    tenant_id: str, document: Document, dimension: int, redactor: Redactor | None = None
) -> Ready:
    """Clean and check a document before anything is stored. Raises `InvalidRequest`.

    redactor: None for what was stored before, and is to be what it was.
    """
    redacted: Mapping[str, int] = {}
    if redactor is not None:
        held, redacted = redactor.clean_part([document.text, dict(document.metadata)])
        if redacted:
            document = replace(document, text=held[0], metadata=held[1])
    chunk_count = count_chunks(tenant_id, document, dimension)
    return Ready(document, document.fingerprint(), chunk_count, redacted=redacted)


def with_words(it: Ready, known: Mapping[str, str]) -> Ready:
    """Read a document's words ahead of its transaction, unless its fingerprint is known."""
    if known.get(it.document.id) == it.fingerprint:
        return it
    return replace(it, words=count_words(it.document), looked=_look_at(it.document))


def fingerprints(tenant_id: str, ids: Collection[str]) -> Callable[[Connection], dict[str, str]]:
    """Read the fingerprints of the documents that exist, by id."""
    return lambda connection: {
        row.document_id: row.fingerprint
        for part in in_parts(sorted(ids))
        for row in connection.execute(_FINGERPRINTS, {"tenant": tenant_id, "ids": part})
    }


def rows_by_id(tenant_id: str, ids: Collection[str]) -> Callable[[Connection], dict[str, Any]]:
    """Read the documents that exist, by id; at most some hundred at once."""
    wanted = {"tenant": tenant_id, "ids": list(ids)}
    return lambda connection: {
        row.document_id: row for row in connection.execute(_BY_ID, wanted).all()
    }


def told_by_id(
    connection: Connection, tenant_id: str, ids: Collection[str], withholds: Sequence[State]
) -> dict[str, Any]:
    """Read what a search tells of the documents that exist, by id, and whether it withholds them.

    At most some hundred at once. withholds: the states in the quarantine list that are.
    """
    wanted = {"tenant": tenant_id, "ids": list(ids), "withheld": list(withholds)}
    return {row.document_id: row for row in connection.execute(_TOLD, wanted).all()}


def ids_of(
    connection: Connection,
    tenant_id: str,
    source: str,
    *,
    after: str | None = None,
    limit: int | None = None,
) -> list[str]:
    """Return the ids of a source's documents, ascending, after the id `after`."""
    wanted = sa.select(documents.c.document_id).where(
        documents.c.tenant_id == tenant_id, documents.c.source == source
    )
    if after is not None:
        wanted = wanted.where(documents.c.document_id > after)
    wanted = wanted.order_by(documents.c.document_id).limit(limit)
    return list(connection.execute(wanted).scalars())


def count_of(connection: Connection, tenant_id: str, source: str) -> int:
    """Return how many documents a source has."""
    which = {"tenant": tenant_id, "of": source}
    return int(connection.execute(_COUNT_OF, which).scalar_one())


def sources_of(connection: Connection, tenant_id: str, ids: Collection[str]) -> dict[str, str]:
    """Return the sources of the documents that exist, by id."""
    return {
        row.document_id: row.source
        for part in in_parts(sorted(ids))
        for row in connection.execute(_SOURCES, {"tenant": tenant_id, "ids": part})
    }


def heads(
    connection: Connection, tenant_id: str, ids: Collection[str], *, locked: bool
) -> list[Any]:
    """Return the documents that exist without their texts, each locked where that is asked for."""
    if locked:
        _lock(connection, tenant_id, ids)
    return [
        row
        for part in in_parts(sorted(ids))
        for row in connection.execute(_HEADS, {"tenant": tenant_id, "ids": part})
    ]


def store(connection: Connection, tenant_id: str, it: Ready, now: datetime) -> bool:
    """Write one row if it is new, changed or not in the index yet; says whether there is work."""
    return bool(store_all(connection, tenant_id, [it], now))


def store_all(
    connection: Connection,
    tenant_id: str,
    batch: Sequence[Ready],
    now: datetime,
    *,
    before_change: Callable[[Connection, Collection[str]], None] | None = None,
) -> list[Ready]:
    """Write the rows that are new, changed or not in the index yet, and return those.

    before_change: told of the ids of rows that are locked and about to become something else.
    First what is missing is added, then every row is locked and compared: a transaction that waits
    for another's new row holds no lock that the other may want.
    """
    left = {it.document.id: it for it in batch}
    work: list[Ready] = []
    told: list[Ready] = []
    while left:  # once, unless a row goes after it was found, and before it is locked
        missing = left.keys() - sources_of(connection, tenant_id, left).keys()
        added = [_new(tenant_id, left[i], now) for i in sorted(missing)]
        insert_all_new(connection, documents, added, key=["tenant_id", "document_id"])
        changed = []
        for row in _lock(connection, tenant_id, left):
            it = left.pop(row.document_id)
            if row.fingerprint != it.fingerprint:
                most = max(it.chunk_count, row.chunk_count)
                held = {"chunk_count": most, **_content(it, now)}
                changed.append({"tenant": tenant_id, "id": row.document_id, **held})
                told.append(it)
                work.append(it)
            elif row.indexed_version < row.version:
                if row.document_id in missing:
                    told.append(it)
                work.append(it)
        if changed:
            if before_change is not None:
                before_change(connection, [row["id"] for row in changed])
            connection.execute(_CHANGE, changed)
    words = [count_words(it.document) if it.words is None else it.words for it in told]
    write_words(connection, tenant_id, words)
    looked = [_look_at(it.document) if it.looked is None else it.looked for it in told]
    quarantine.note(connection, tenant_id, "document", looked, now)
    return work


def settle(connection: Connection, tenant_id: str, pushed: Mapping[str, Pushed]) -> list[str]:
    """Note what the index holds now; returns the documents that moved since they were read."""
    found = {row.document_id: row for row in _lock(connection, tenant_id, pushed)}
    states = {i: (row.version, row.fingerprint) for i, row in found.items()}
    same = [i for i, it in pushed.items() if it.state is not None and states.get(i) == it.state]
    for part in in_parts(sorted(same)):
        connection.execute(_INDEXED, {"tenant": tenant_id, "ids": part})
    recounted = [
        {"tenant": tenant_id, "id": i, "chunk_count": pushed[i].chunk_count}
        for i in same
        if found[i].chunk_count != pushed[i].chunk_count
    ]
    if recounted:
        connection.execute(_RECOUNT, recounted)
    return [i for i, it in pushed.items() if states.get(i) != it.state]


def remove(connection: Connection, tenant_id: str, ids: Collection[str]) -> dict[str, int]:
    """Delete rows; returns id -> chunks that the index may hold, of those that were there."""
    _lock(connection, tenant_id, ids)
    drop_words(connection, tenant_id, ids)
    quarantine.drop(connection, tenant_id, "document", ids)
    return {
        row.document_id: row.chunk_count
        for part in in_parts(sorted(ids))
        for row in connection.execute(_REMOVE, {"tenant": tenant_id, "ids": part})
    }


def index_words(
    connection: Connection, tenant_id: str, counted: Mapping[str, tuple[str, Words]]
) -> None:
    """Index documents that are still what they were when their words were counted.

    counted: by id, with the fingerprint. Whoever changed one since has indexed it.
    """
    now = {row.document_id: row.fingerprint for row in _lock(connection, tenant_id, counted)}
    write_words(
        connection,
        tenant_id,
        [words for i, (fingerprint, words) in counted.items() if now.get(i) == fingerprint],
    )


def _look_at(document: Document) -> Looked:
    return look_at(document.id, f"{document.source}\n{document.text}")  # a prompt names both


def _lock(connection: Connection, tenant_id: str, ids: Collection[str]) -> list[Any]:
    """Return the state of the rows that are there, locked in order."""
    statement = _LOCKED_IN_ORDER if connection.dialect.name == "postgresql" else _LOCKED
    return [
        row
        for part in in_parts(sorted(ids))
        for row in connection.execute(statement, {"tenant": tenant_id, "ids": part})
    ]


def _new(tenant_id: str, it: Ready, now: datetime) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "document_id": it.document.id,
        # Counted before the push, so that one that is cut off leaves nothing that nobody knows of.
        "chunk_count": it.chunk_count,
        "version": 1,
        "indexed_version": 0,
        "created_at": now,
        **_content(it, now),
    }


def _content(it: Ready, now: datetime) -> dict[str, Any]:
    return {
        "source": it.document.source,
        "doc_type": it.document.doc_type,
        "text": it.document.text,
        "metadata": dict(it.document.metadata),
        "fingerprint": it.fingerprint,
        "updated_at": now,
    }
