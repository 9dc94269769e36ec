"""Every table, and what it holds of a person. Touches nothing.

An export, an erasure and a test walk this list, so that a new table can't be forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from app.db import tables as t

FORMAT = "conversational-rag.user/1"

# kept: it is exported and restored. business: so too, where it names the person.
# derived: it is made of what is kept. work: it is on its way, or done. other: see why.
Kind = Literal["kept", "business", "derived", "work", "other"]


@dataclass(frozen=True, slots=True)
class Holding:
    """What a table is to a person."""

    table: sa.Table
    kind: Kind
    why: str = ""


HOLDINGS: tuple[Holding, ...] = (
    Holding(t.consents, "kept"),
    Holding(t.sessions, "kept"),
    Holding(t.messages, "kept"),
    Holding(t.episodes, "kept"),
    Holding(t.facts, "kept"),
    Holding(t.fact_sightings, "kept"),
    Holding(t.entities, "kept"),
    Holding(t.memory_blocks, "kept"),
    Holding(t.store_items, "kept"),
    Holding(t.usage, "kept"),
    Holding(t.quarantine, "kept"),
    Holding(t.documents, "business"),
    Holding(t.records, "business"),
    Holding(t.record_references, "business"),
    Holding(t.deliveries, "business"),
    Holding(t.lexical_items, "derived", "words of messages, notes and documents"),
    Holding(t.lexical_postings, "derived", "words of messages, notes and documents"),
    Holding(t.index_rows, "derived", "vectors of memories and documents"),
    Holding(t.index_vectors, "derived", "vectors of memories and documents"),
    Holding(t.jobs, "work", "ids of what is to be done; their subjects are kept elsewhere"),
    Holding(t.uploads, "work", "files until they are read; then they are documents"),
    Holding(t.api_keys, "other", "access, not content: a secret can't be moved; see the keys"),
    Holding(t.erased_users, "other", "a hash: that somebody was erased"),
    Holding(t.audit_log, "other", "what operators did; users only by pseudonym"),
    Holding(t.about_store, "other", "what the store knows of itself"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of an export: the rows of a table, by the table's name.

    key: what tells a row from others of the user (or, of business data, of the tenant).
    order: how rows follow each other, the same in every database.
    left_out: columns that are not content: whose row it is, how far an index is, a lease.
    same: what must agree where a row is there already; None: all that does not move by itself.
    moves_by: a column that grows with each change: a row that is ahead stands as it is.
    moving: columns that change by use.
    """

    table: sa.Table
    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    same: tuple[str, ...] | None = None
    moves_by: str | None = None
    moving: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def columns(self) -> tuple[Any, ...]:
        never = self.left_out | {"tenant_id", "user_id"}
        return tuple(column for column in self.table.c if column.name not in never)

    @property
    def compared(self) -> tuple[str, ...]:
        if self.same is not None:
            return self.same
        return tuple(column.name for column in self.columns if column.name not in self.moving)


_USE = frozenset({"uses", "used_at", "mark"})

CONSENT = Section(t.consents, (), same=())
SESSIONS = Section(
    t.sessions, ("session_id",), order=("created_at", "session_id"), same=("created_at",)
)
MESSAGES = Section(t.messages, ("session_id", "seq"), left_out=frozenset({"holder", "lease_until"}))
EPISODES = Section(
    t.episodes,
    ("session_id",),
    order=("started_at", "session_id"),
    left_out=frozenset({"indexed_version", "indexed_seq"}),
    moves_by="version",
    moving=_USE,
)
FACTS = Section(
    t.facts,
    ("fact_id",),
    order=("key", "valid_from", "fact_id"),
    left_out=frozenset({"indexed_version"}),
    moves_by="version",
    moving=_USE,
)
SIGHTINGS = Section(
    t.fact_sightings,
    ("fact_id", "session_id", "seq"),
    order=("fact_id", "said_at", "session_id", "seq"),
)
ENTITIES = Section(
    t.entities, ("key", "session_id"), order=("key", "session_id"), moves_by="seen_at"
)
BLOCKS = Section(t.memory_blocks, ("label",), order=("label",), moves_by="version")
ITEMS = Section(
    t.store_items, ("namespace", "key"), order=("namespace", "key"), moves_by="updated_at"
)
USAGE = Section(
    t.usage,
    ("hour", "purpose", "model"),
    order=("hour", "purpose", "model"),
    moves_by="calls",
)
QUARANTINE = Section(t.quarantine, ("kind", "ref"), order=("kind", "ref"), same=())
DOCUMENTS = Section(
    t.documents,
    ("document_id",),
    left_out=frozenset({"fingerprint", "chunk_count", "indexed_version"}),
    moves_by="version",
)
RECORDS = Section(
    t.records, ("provider", "account", "object_type", "object_id"), moves_by="updated_at"
)
REFERENCES = Section(
    t.record_references,
    ("provider", "account", "object_type", "object_id", "target_type", "target_id"),
)
DELIVERIES = Section(
    t.deliveries,
    ("provider", "dedupe_key", "part"),
    left_out=frozenset({"id"}),
    same=("type", "account", "object_type", "object_id"),
)

# In the order of a document.
SECTIONS: tuple[Section, ...] = (
    *(CONSENT, SESSIONS, MESSAGES, EPISODES, FACTS, SIGHTINGS, ENTITIES, BLOCKS, ITEMS, USAGE),
    *(QUARANTINE, DOCUMENTS, RECORDS, REFERENCES, DELIVERIES),
)
