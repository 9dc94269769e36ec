"""The first schema.

The way back loses everything: about_store, api_keys, documents, episodes, index_rows,
index_vectors, jobs, messages and sessions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_table(
        "documents",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("doc_type", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("indexed_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "document_id"),
    )
    op.create_index("documents_of_source", "documents", ["tenant_id", "source"], unique=False)
    op.create_table(
        "episodes",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("covered_seq", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("indexed_version", sa.Integer(), nullable=False),
        sa.Column("dropped_sentences", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "session_id"),
    )
    op.create_index("episodes_of_user", "episodes", ["tenant_id", "user_id"], unique=False)
    op.create_index(
        "episodes_not_indexed",
        "episodes",
        ["tenant_id", "user_id"],
        unique=False,
        sqlite_where=sa.text("indexed_version < version"),
        postgresql_where=sa.text("indexed_version < version"),
    )
    op.create_table(
        "index_rows",
        sa.Column("seq", serial, autoincrement=True, nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("document_id", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("namespace", "id"),
        sqlite_autoincrement=True,
    )
    op.create_index("index_rows_document", "index_rows", ["namespace", "document_id"], unique=False)
    op.create_index("index_rows_news", "index_rows", ["namespace", "seq"], unique=False)
    op.create_index("index_rows_session", "index_rows", ["namespace", "session_id"], unique=False)
    op.create_index("index_rows_user", "index_rows", ["namespace", "user_id"], unique=False)
    op.create_table(
        "index_vectors",
        sa.Column("seq", serial, autoincrement=False, nullable=False),
        sa.Column("embedding", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", serial, autoincrement=True, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "kind", "key"),
        sqlite_autoincrement=True,
    )
    op.create_index("jobs_due", "jobs", ["state", "due_at"], unique=False)
    op.create_index("jobs_of_subject", "jobs", ["tenant_id", "subject"], unique=False)
    op.create_table(
        "messages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("memory", sa.Text(), nullable=False),
        sa.Column("client_message_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("receipt", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "session_id", "client_message_id"),
        sa.UniqueConstraint("tenant_id", "session_id", "seq"),
    )
    op.create_index("messages_pending", "messages", ["status", "lease_until"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("covered_seq", sa.Integer(), nullable=False),
        sa.Column("memory_revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_message_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "session_id"),
    )
    op.create_index("sessions_gone_quiet", "sessions", ["state", "last_message_at"], unique=False)
    op.create_index(
        "sessions_not_covered",
        "sessions",
        ["tenant_id", "user_id", "last_message_at"],
        unique=False,
        sqlite_where=sa.text("last_seq > covered_seq"),
        postgresql_where=sa.text("last_seq > covered_seq"),
    )
    op.create_index(
        "sessions_of_user", "sessions", ["tenant_id", "user_id", "last_message_at"], unique=False
    )
    op.create_table(
        "about_store",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    op.drop_table("about_store")
    op.drop_index("sessions_of_user", table_name="sessions")
    op.drop_index("sessions_not_covered", table_name="sessions")
    op.drop_index("sessions_gone_quiet", table_name="sessions")
    op.drop_table("sessions")
    op.drop_index("messages_pending", table_name="messages")
    op.drop_table("messages")
    op.drop_index("jobs_of_subject", table_name="jobs")
    op.drop_index("jobs_due", table_name="jobs")
    op.drop_table("jobs")
    op.drop_table("index_vectors")
    op.drop_index("index_rows_user", table_name="index_rows")
    op.drop_index("index_rows_session", table_name="index_rows")
    op.drop_index("index_rows_news", table_name="index_rows")
    op.drop_index("index_rows_document", table_name="index_rows")
    op.drop_table("index_rows")
    op.drop_index("episodes_not_indexed", table_name="episodes")
    op.drop_index("episodes_of_user", table_name="episodes")
    op.drop_table("episodes")
    op.drop_index("documents_of_source", table_name="documents")
    op.drop_table("documents")
    op.drop_table("api_keys")
