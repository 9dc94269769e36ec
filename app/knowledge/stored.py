"""A document as it is shown, and what the audit log says of some. Touches: `audit_log`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.audit import Actor, note
from app.db import Connection
from app.index.base import Metadata


@dataclass(frozen=True, slots=True)
class Stored:
    """What `put` did: `stored` were new or changed, `unchanged` cost nothing.

    left_out: ids of those that name a user who was erased.
    redacted: how many of each kind were taken out of texts and metadata.
    """

    ids: tuple[str, ...]
    stored: int
    unchanged: int
    left_out: tuple[str, ...] = ()
    redacted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as SQL holds it. `is_current`: the index holds this version."""

    id: str
    text: str
    source: str
    doc_type: str
    metadata: Metadata
    is_current: bool
    created_at: datetime
    updated_at: datetime


def shown(row: Any) -> StoredDocument:
    return StoredDocument(
        id=row.document_id,
        text=row.text,
        source=row.source,
        doc_type=row.doc_type,
        metadata=row.metadata,
        is_current=row.indexed_version == row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def note_documents(
    connection: Connection,
    actor: Actor,
    action: str,
    sources: Mapping[str, str | None],
    *,
    now: datetime,
) -> None:
    """Note an act on some documents: on the one, else on the source of all, if they share it.

    sources: by document id.
    """
    shared = set(sources.values())
    subject = (
        next(iter(sources)) if len(sources) == 1 else shared.pop() if len(shared) == 1 else None
    )
    counts = {"documents": len(sources)}
    note(connection, actor, action, subject=subject, counts=counts, now=now)
