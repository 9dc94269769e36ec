"""The SQL tables: the system of record. Touches nothing.

Times are microseconds since the epoch (`Instant`): exact, sortable and the same on both databases.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

metadata = sa.MetaData()

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Return what an `Instant` is kept as."""
    return (moment - _EPOCH) // _MICROSECOND


class Instant(sa.types.TypeDecorator[datetime]):
    """An aware datetime, kept as a BIGINT of microseconds since the epoch."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else micros(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + timedelta(microseconds=int(value))


class db_now(GenericFunction[datetime]):
    """The database's own clock as an `Instant`: leases must not depend on a replica's clock."""

    type = Instant()
    inherit_cache = True


@compiles(db_now, "sqlite")
def _sqlite_now(element: Any, compiler: Any, **_: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"


@compiles(db_now, "postgresql")
def _postgres_now(element: Any, compiler: Any, **_: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"


def after(seconds: float) -> sa.ColumnElement[datetime]:
    """Return the database's time in `seconds` from now."""
    moved = db_now() + sa.literal(int(seconds * 1_000_000), sa.BigInteger)
    return sa.type_coerce(moved, Instant)


def after_given(name: str) -> sa.ColumnElement[datetime]:
    """Return the database's time in as many microseconds from now as the parameter `name` says."""
    return sa.type_coerce(db_now() + sa.bindparam(name, type_=sa.BigInteger), Instant)


def _json() -> sa.JSON:
    return sa.JSON(none_as_null=True)


_serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")

about_store = sa.Table(
    "about_store",  # what the store knows of itself: the embedding stamp
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", _json(), nullable=False),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.Column("prefix", sa.Text, nullable=False),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("revoked_at", Instant),
    sa.Column("name", sa.Text),  # what its owner calls it
    sa.Column("expires_at", Instant),
    sa.Column("last_used_at", Instant),  # to the minute
    sa.Column("document_filter", _json()),  # of every document that is read with it
    sa.Column("replaces", sa.Text),  # the id of the key that was rotated
)

consents = sa.Table(
    "consents",  # what a user allows; without a row, the settings say
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("memory_enabled", sa.Boolean, nullable=False),
    sa.Column("pii_storage_allowed", sa.Boolean, nullable=False),
    sa.Column("retention_days", sa.Float),  # none: as the settings say
    sa.Column("updated_at", Instant, nullable=False),
    sa.Index(
        "consents_with_retention",
        "tenant_id",
        "user_id",
        sqlite_where=sa.text("retention_days IS NOT NULL"),
        postgresql_where=sa.text("retention_days IS NOT NULL"),
    ),
)

erased_users = sa.Table(
    "erased_users",  # tombstones: whoever comes late finds that this user was erased
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("user_hash", sa.Text, primary_key=True),  # see app.erased: no name is kept
    sa.Column("erased_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),  # none: the erasure is under way
)

audit_log = sa.Table(
    "audit_log",  # privileged acts: who, what, when, how many; no content
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),  # key:ID, jwt:…, setting, local, cli
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text),  # an id; of a user, a pseudonym
    sa.Column("counts", _json()),
    sa.Column("request_id", sa.Text),
    sa.Index("audit_log_of_tenant", "tenant_id", "id"),
    sa.Index("audit_log_of_subject", "tenant_id", "subject", "id"),
    sqlite_autoincrement=True,
)

quarantine = sa.Table(
    "quarantine",  # stored texts that read like instructions, for review
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),  # document | episode | fact | block | item
    sa.Column("ref", sa.Text, primary_key=True),  # the id of what it is
    sa.Column("user_id", sa.Text),  # of a memory: whose it is
    sa.Column("fingerprint", sa.Text, nullable=False),  # of the text that was looked at
    sa.Column("flags", _json(), nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # flagged | released | blocked
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("decided_at", Instant),
    sa.Column("decided_by", sa.Text),
    sa.Index("quarantine_by_state", "tenant_id", "state", "created_at"),
    sa.Index("quarantine_of_user", "tenant_id", "user_id"),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # open | closed
    sa.Column("last_seq", sa.Integer, nullable=False),
    sa.Column("covered_seq", sa.Integer, nullable=False),  # the last message in the episode
    sa.Column("memory_revision", sa.Integer, nullable=False),  # moves with every memory write
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("last_message_at", Instant, nullable=False),
    sa.Column("closed_at", Instant),
    sa.Column("timezone", sa.Text),  # the user's, an IANA name; none: the setting's
    sa.Column("title", sa.Text),
    sa.Column("metadata", _json()),  # the caller's own
    # Of all messages together, by estimate.
    sa.Column("tokens", sa.BigInteger, nullable=False, server_default="0"),
    sa.Index("sessions_of_user", "tenant_id", "user_id", "last_message_at"),
    sa.Index("sessions_gone_quiet", "state", "last_message_at"),
)
sa.Index(
    "sessions_not_covered",  # few at any time, however many sessions a user has
    sessions.c.tenant_id,
    sessions.c.user_id,
    sessions.c.last_message_at,
    sqlite_where=sessions.c.last_seq > sessions.c.covered_seq,
    postgresql_where=sessions.c.last_seq > sessions.c.covered_seq,
)
sa.Index(
    "sessions_open",  # counted where a user may have so many of them
    sessions.c.tenant_id,
    sessions.c.user_id,
    sessions.c.last_message_at,
    sqlite_where=sessions.c.state == "open",
    postgresql_where=sessions.c.state == "open",
)

messages = sa.Table(
    "messages",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("role", sa.Text, nullable=False),  # user | assistant
    sa.Column("content", sa.Text, nullable=False),
    # user: complete. assistant: pending | complete | interrupted | failed
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("memory", sa.Text, nullable=False),  # on | read | off, as the turn asked for
    sa.Column("client_message_id", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("receipt", _json()),
    sa.Column("error", _json()),
    sa.Column("holder", sa.Text),  # pending: the run that answers, and until when it may
    sa.Column("lease_until", Instant),
    sa.Column("speaker", sa.Text),  # a person's name, in an imported conversation
    sa.Column("steps", _json()),  # an agent's reply: its tool calls with their results
    sa.UniqueConstraint("tenant_id", "session_id", "seq"),
    sa.UniqueConstraint("tenant_id", "session_id", "client_message_id"),
)
sa.Index(
    "messages_pending",  # few at any time, however long a session is
    messages.c.tenant_id,
    messages.c.session_id,
    messages.c.seq,
    sqlite_where=messages.c.status == "pending",
    postgresql_where=messages.c.status == "pending",
)

episodes = sa.Table(
    "episodes",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("covered_seq", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("indexed_version", sa.Integer, nullable=False),
    sa.Column("dropped_sentences", sa.Integer, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("ended_at", Instant, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("refused_facts", sa.Integer, nullable=False, server_default="0"),
    # Exchanges up to this message are in the index; they never change.
    sa.Column("indexed_seq", sa.Integer, nullable=False, server_default="0"),
    sa.Column("mark", sa.Text),  # critical | pinned
    sa.Column("used_at", Instant),  # last put into a prompt
    sa.Column("uses", sa.Integer, nullable=False, server_default="0"),
    sa.Index("episodes_of_user", "tenant_id", "user_id"),
)
sa.Index(
    "episodes_not_indexed",
    episodes.c.tenant_id,
    episodes.c.user_id,
    sqlite_where=episodes.c.indexed_version < episodes.c.version,
    postgresql_where=episodes.c.indexed_version < episodes.c.version,
)

facts = sa.Table(
    "facts",  # statements about a user; `valid_to` follows from the other facts of the same key
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("fact_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),  # subject and predicate, normalised
    sa.Column("value_key", sa.Text, nullable=False),  # the value, normalised
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("predicate", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("statement", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # fact | preference | action | recommendation
    sa.Column("is_many", sa.Boolean, nullable=False),  # several values may hold at once
    sa.Column("confidence", sa.Float, nullable=False),
    sa.Column("said_by", sa.Text, nullable=False),  # user | assistant | tool
    sa.Column("session_id", sa.Text),  # none: it was stored by itself
    sa.Column("number", sa.Integer),  # within its session: which vector is its own
    sa.Column("seq", sa.Integer),  # the message, and what it says word for word
    sa.Column("quote", sa.Text),
    sa.Column("learned_at", Instant, nullable=False),
    sa.Column("valid_from", Instant, nullable=False),
    sa.Column("ends_at", Instant),  # an end that was told
    sa.Column("valid_to", Instant),  # none: it holds
    sa.Column("superseded_by", sa.Text),
    sa.Column("sightings", sa.Integer, nullable=False),
    sa.Column("last_seen_at", Instant, nullable=False),
    sa.Column("mark", sa.Text),  # critical | pinned
    sa.Column("used_at", Instant),  # last put into a prompt
    sa.Column("uses", sa.Integer, nullable=False, server_default="0"),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("indexed_version", sa.Integer, nullable=False),  # of one stored by itself
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Index("facts_of_user", "tenant_id", "user_id", "key", "valid_from"),
    sa.Index("facts_latest", "tenant_id", "user_id", "last_seen_at"),
    sa.Index("facts_of_value", "tenant_id", "user_id", "value_key"),
    sa.Index("facts_of_session", "tenant_id", "session_id"),
)
sa.Index(
    "facts_of_profile",  # in the order in which a profile wants them
    facts.c.tenant_id,
    facts.c.user_id,
    facts.c.kind,
    facts.c.sightings,
    facts.c.last_seen_at,
    facts.c.valid_to,
    sqlite_where=facts.c.subject == "user",
    postgresql_where=facts.c.subject == "user",
)
sa.Index(
    "facts_alone",  # the vectors of the latest may not be there yet
    facts.c.tenant_id,
    facts.c.user_id,
    facts.c.updated_at,
    sqlite_where=facts.c.number.is_(None),
    postgresql_where=facts.c.number.is_(None),
)
sa.Index(
    "facts_marked",
    facts.c.tenant_id,
    facts.c.user_id,
    sqlite_where=facts.c.mark.is_not(None),
    postgresql_where=facts.c.mark.is_not(None),
)

fact_sightings = sa.Table(
    "fact_sightings",  # where a fact was said; a fact that was said nowhere any more goes
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("fact_id", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Text, primary_key=True),  # "": it was told by itself
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("quote", sa.Text, nullable=False),
    sa.Column("said_by", sa.Text, nullable=False),
    sa.Column("said_at", Instant, nullable=False),
    # What it says of the fact by itself, for whatever else was said may be forgotten.
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("statement", sa.Text, nullable=False),
    sa.Column("valid_from", Instant, nullable=False),
    sa.Column("ends_at", Instant),
    sa.Index("fact_sightings_of_session", "tenant_id", "session_id"),
)

entities = sa.Table(
    "entities",  # what one session said of a person, place or thing; merged when read
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),  # the name, normalised
    sa.Column("session_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("aliases", _json(), nullable=False),
    sa.Column("attributes", _json(), nullable=False),
    sa.Column("seen_at", Instant, nullable=False),
    sa.Index("entities_of_session", "tenant_id", "session_id"),
)

memory_blocks = sa.Table(
    "memory_blocks",  # core memory: bounded texts that stand in every prompt of their user
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),  # human | persona
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("written_by", sa.Text, nullable=False),  # user | assistant
    sa.Column("session_id", sa.Text),  # where an assistant wrote it, and for which message
    sa.Column("seq", sa.Integer),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
)

store_items = sa.Table(
    "store_items",  # JSON under a namespace and a key: the memory of agents that run elsewhere
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, primary_key=True),  # its parts as a JSON list
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", _json(), nullable=False),
    sa.Column("fact_id", sa.Text),  # the fact by which it is found
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
)

usage = sa.Table(
    "usage",  # calls of models, added up by the hour
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("hour", Instant, primary_key=True, autoincrement=False),
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column(
        "purpose", sa.Text, primary_key=True
    ),  # chat | understand | checkpoint | agent | aside
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("calls", sa.BigInteger, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    sa.Column("estimated_calls", sa.BigInteger, nullable=False),  # those without a count of tokens
    sa.Column("unpriced_calls", sa.BigInteger, nullable=False),
    sa.Column("cost_nanos", sa.BigInteger, nullable=False),  # billionths of a US dollar
)

# The lexical index: words of documents and memories, in the transaction that writes these. A scope
# is a number for "the documents of a tenant" or "the memory of a user"; a ref is a document or a
# session; a unit of it is a chunk or a message.
lexical_items = sa.Table(
    "lexical_items",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("scope", sa.BigInteger, nullable=False),
    sa.Column("ref", sa.Text, nullable=False),
    sa.Column("part", sa.Integer, nullable=False),
    sa.Column("units", sa.Text, nullable=False),  # "number:length …", lengths in terms
    sa.Column("length", sa.Integer, nullable=False),
    sa.Column("terms", sa.Text, nullable=False),  # each once: its postings
    sa.UniqueConstraint("scope", "ref", "part"),
    sa.Index("lexical_items_by_size", "scope", "id", "length"),
    sqlite_autoincrement=True,
)

lexical_postings = sa.Table(
    "lexical_postings",
    metadata,
    sa.Column("scope", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("term", sa.Text, primary_key=True),
    sa.Column("item", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("places", sa.Text, nullable=False),  # "number:times …"
    sqlite_with_rowid=False,
)

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("document_id", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("doc_type", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("metadata", _json(), nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("chunk_count", sa.Integer, nullable=False),  # vectors that the index may hold
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("indexed_version", sa.Integer, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Index("documents_of_source", "tenant_id", "source"),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column(
        "subject", sa.Text, nullable=False
    ),  # what it is about, to cancel it with its subject
    sa.Column("payload", _json(), nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # due | running | done
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("fence", sa.Integer, nullable=False),
    sa.Column("due_at", Instant, nullable=False),
    sa.Column("lease_until", Instant),
    sa.Column("last_error", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    sa.Column("result", _json()),  # how far a load is, and its report in the end
    sa.UniqueConstraint("tenant_id", "kind", "key"),
    sa.Index("jobs_due", "state", "due_at"),
    sa.Index("jobs_of_subject", "tenant_id", "subject"),
    sqlite_autoincrement=True,
)

deliveries = sa.Table(
    "deliveries",  # the inbox: a row for each webhook event and object that it touches
    metadata,
    sa.Column("id", _serial, primary_key=True, autoincrement=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("dedupe_key", sa.Text, nullable=False),
    sa.Column("part", sa.Integer, nullable=False),  # which of the objects that the event touches
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("object_type", sa.Text, nullable=False),
    sa.Column("object_id", sa.Text, nullable=False),
    sa.Column("body", _json()),  # none: erased
    sa.Column("state", sa.Text, nullable=False),  # pending | done | skipped | failed
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("last_error", sa.Text),
    sa.Column("received_at", Instant, nullable=False),
    sa.Column("processed_at", Instant),
    sa.UniqueConstraint("tenant_id", "provider", "dedupe_key", "part"),
    sa.Index(
        "deliveries_of_object",
        "tenant_id",
        "provider",
        "account",
        "object_type",
        "object_id",
        "id",
    ),
    sa.Index("deliveries_by_state", "tenant_id", "state", "id"),
    sqlite_autoincrement=True,
)

sa.Index(
    "deliveries_open",  # few at any time, however many were handled
    deliveries.c.state,
    sqlite_where=deliveries.c.state.in_(["pending", "failed"]),
    postgresql_where=deliveries.c.state.in_(["pending", "failed"]),
)

records = sa.Table(
    "records",  # CRM objects: each field with the time it was true
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("object_type", sa.Text, primary_key=True),
    sa.Column("object_id", sa.Text, primary_key=True),
    sa.Column("document_id", sa.Text, nullable=False),
    sa.Column("state", _json(), nullable=False),
    sa.Column("name", sa.Text),  # what others call it; none: unknown or deleted
    sa.Column("deleted_at", Instant),
    sa.Column("is_erased", sa.Boolean, nullable=False),
    sa.Column("stale_since", Instant),  # values are missing, and have to be fetched
    sa.Column("stale_reason", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Index("records_of_document", "tenant_id", "document_id"),
)
sa.Index(
    "records_stale",
    records.c.tenant_id,
    records.c.provider,
    sqlite_where=records.c.stale_since.is_not(None),
    postgresql_where=records.c.stale_since.is_not(None),
)

record_references = sa.Table(
    "record_references",  # who has to be told anew when a name changes
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("object_type", sa.Text, primary_key=True),
    sa.Column("object_id", sa.Text, primary_key=True),
    sa.Column("target_type", sa.Text, primary_key=True),
    sa.Column("target_id", sa.Text, primary_key=True),
    sa.Index(
        "record_references_to",
        "tenant_id",
        "provider",
        "account",
        "target_type",
        "target_id",
    ),
)

uploads = sa.Table(
    "uploads",  # files that a job is still reading, in pieces
    metadata,
    sa.Column("upload_id", sa.Text, primary_key=True),
    sa.Column("piece", sa.Integer, primary_key=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
)

# The embedded index. Rows and vectors are apart, so that a look through the metadata does not
# read the vectors; `seq` only grows, so that a reader catches up by `seq > last seen`.
index_rows = sa.Table(
    "index_rows",
    metadata,
    sa.Column("seq", _serial, primary_key=True, autoincrement=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text),
    sa.Column("session_id", sa.Text),
    sa.Column("document_id", sa.Text),
    sa.Column("metadata", sa.Text, nullable=False),  # JSON
    sa.UniqueConstraint("namespace", "id"),
    sa.Index("index_rows_news", "namespace", "seq"),
    sa.Index("index_rows_user", "namespace", "user_id", "session_id"),
    sa.Index("index_rows_session", "namespace", "session_id"),
    sa.Index("index_rows_document", "namespace", "document_id"),
    sqlite_autoincrement=True,
)

index_vectors = sa.Table(
    "index_vectors",
    metadata,
    sa.Column("seq", _serial, primary_key=True, autoincrement=False),
    sa.Column("embedding", sa.LargeBinary, nullable=False),  # float32, little endian
)
