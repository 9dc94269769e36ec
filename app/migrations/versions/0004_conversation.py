"""Titles and sizes of sessions, steps of agents, core memory blocks, items of stores, usage.

The way back loses memory_blocks, store_items and usage; title, metadata and tokens of sessions;
steps of messages. An item's fact stays, as a fact that was stored by itself.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("title", sa.Text(), nullable=True))
    op.add_column("sessions", sa.Column("metadata", sa.JSON(none_as_null=True), nullable=True))
    op.add_column(
        "sessions", sa.Column("tokens", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.create_index(
        "sessions_open",
        "sessions",
        ["tenant_id", "user_id", "last_message_at"],
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.add_column("messages", sa.Column("steps", sa.JSON(none_as_null=True), nullable=True))
    op.drop_index("index_rows_user", "index_rows")
    op.create_index("index_rows_user", "index_rows", ["namespace", "user_id", "session_id"])
    op.drop_index("messages_pending", "messages")
    op.create_index(
        "messages_pending",
        "messages",
        ["tenant_id", "session_id", "seq"],
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_table(
        "memory_blocks",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("written_by", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "user_id", "label"),
    )
    op.create_table(
        "store_items",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("fact_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "user_id", "namespace", "key"),
    )
    op.create_table(
        "usage",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("estimated_calls", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_calls", sa.BigInteger(), nullable=False),
        sa.Column("cost_nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "hour", "user_id", "purpose", "model"),
    )


def downgrade() -> None:
    for table in ("usage", "store_items", "memory_blocks"):
        op.drop_table(table)
    op.drop_index("index_rows_user", "index_rows")
    op.create_index("index_rows_user", "index_rows", ["namespace", "user_id"])
    op.drop_index("messages_pending", "messages")
    op.create_index("messages_pending", "messages", ["status", "lease_until"])
    op.drop_column("messages", "steps")
    op.drop_index("sessions_open", "sessions")
    for column in ("tokens", "metadata", "title"):
        op.drop_column("sessions", column)
