"""Webhooks: the inbox, records and what they refer to; uploads; a job's result.

The way back loses what webhooks sent (deliveries, records, record_references; their documents
stay), uploads that were not read yet, and the result of each of the jobs.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("result", sa.JSON(), nullable=True))
    op.create_table(
        "deliveries",
        sa.Column("id", serial, autoincrement=True, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("dedupe_key", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("object_type", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("processed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "provider", "dedupe_key", "part"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "deliveries_of_object",
        "deliveries",
        ["tenant_id", "provider", "account", "object_type", "object_id", "id"],
        unique=False,
    )
    op.create_index("deliveries_by_state", "deliveries", ["tenant_id", "state", "id"], unique=False)
    op.create_index(
        "deliveries_open",
        "deliveries",
        ["state"],
        unique=False,
        sqlite_where=sa.text("state IN ('pending', 'failed')"),
        postgresql_where=sa.text("state IN ('pending', 'failed')"),
    )
    op.create_table(
        "records",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("object_type", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("is_erased", sa.Boolean(), nullable=False),
        sa.Column("stale_since", sa.BigInteger(), nullable=True),
        sa.Column("stale_reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "provider", "account", "object_type", "object_id"),
    )
    op.create_index("records_of_document", "records", ["tenant_id", "document_id"], unique=False)
    op.create_index(
        "records_stale",
        "records",
        ["tenant_id", "provider"],
        unique=False,
        sqlite_where=sa.text("stale_since IS NOT NULL"),
        postgresql_where=sa.text("stale_since IS NOT NULL"),
    )
    op.create_table(
        "record_references",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("object_type", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=False),
        sa.Column("target_type", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "tenant_id",
            "provider",
            "account",
            "object_type",
            "object_id",
            "target_type",
            "target_id",
        ),
    )
    op.create_index(
        "record_references_to",
        "record_references",
        ["tenant_id", "provider", "account", "target_type", "target_id"],
        unique=False,
    )
    op.create_table(
        "uploads",
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("piece", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("upload_id", "piece"),
    )


def downgrade() -> None:
    op.drop_table("uploads")
    op.drop_index("record_references_to", table_name="record_references")
    op.drop_table("record_references")
    op.drop_index("records_stale", table_name="records")
    op.drop_index("records_of_document", table_name="records")
    op.drop_table("records")
    op.drop_index("deliveries_open", table_name="deliveries")
    op.drop_index("deliveries_by_state", table_name="deliveries")
    op.drop_index("deliveries_of_object", table_name="deliveries")
    op.drop_table("deliveries")
    op.drop_column("jobs", "result")
