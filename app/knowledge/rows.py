"""The rows of documents: read, written, locked. Touches: `documents`.

Whoever locks several rows does so by ascending id, so that no two can wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.db import Connection
from app.db.insert import insert_new
from app.db.tables import documents
from ingest.document import Document

_BY_ID = sa.select(documents).where(
    documents.c.tenant_id == sa.bindparam("tenant"),
    documents.c.document_id.in_(sa.bindparam("ids", expanding=True)),
)


@dataclass(frozen=True, slots=True)
class Ready:
    """A document that the index can hold, with what it takes time to find out."""

    document: Document
    fingerprint: str
    chunk_count: int


def rows_by_id(tenant_id: str, ids: Collection[str]) -> Callable[[Connection], dict[str, Any]]:
    """Read the documents that exist, by id; at most some hundred at once."""
    wanted = {"tenant": tenant_id, "ids": list(ids)}
    return lambda connection: {
        row.document_id: row for row in connection.execute(_BY_ID, wanted).all()
    }


def store(connection: Connection, tenant_id: str, it: Ready, now: datetime) -> bool:
    """Write one row if it is new, changed or not in the index yet; says whether there is work."""
    document = it.document
    here = sa.and_(documents.c.tenant_id == tenant_id, documents.c.document_id == document.id)
    content = {
        "source": document.source,
        "doc_type": document.doc_type,
        "text": document.text,
        "metadata": dict(document.metadata),
        "fingerprint": it.fingerprint,
        "updated_at": now,
    }
    new = {
        "tenant_id": tenant_id,
        "document_id": document.id,
        # Counted before the push, so that one that is cut off leaves nothing that nobody knows of.
        "chunk_count": it.chunk_count,
        "version": 1,
        "indexed_version": 0,
        "created_at": now,
        **content,
    }
    locked = (
        sa.select(
            documents.c.fingerprint,
            documents.c.version,
            documents.c.indexed_version,
            documents.c.chunk_count,
        )
        .where(here)
        .with_for_update()
    )
    while (known := connection.execute(locked).first()) is None:
        if insert_new(connection, documents, new, key=["tenant_id", "document_id"]):
            return True
    if known.fingerprint == it.fingerprint:
        return bool(known.indexed_version < known.version)
    chunk_count = max(it.chunk_count, known.chunk_count)
    changed = documents.update().where(here)
    connection.execute(
        changed.values(version=known.version + 1, chunk_count=chunk_count, **content)
    )
    return True


def lock(connection: Connection, which: sa.ColumnElement[bool]) -> None:
    """Lock rows in the order of Python's strings, whatever language Postgres sorts in."""
    if connection.dialect.name == "postgresql":
        order = sa.collate(documents.c.document_id, "C")
        connection.execute(
            sa.select(documents.c.version).where(which).order_by(order).with_for_update()
        )
