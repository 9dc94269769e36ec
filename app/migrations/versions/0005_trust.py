"""Keys that expire, consent, tombstones of erased users, the audit log, the quarantine.

The way back loses consents, erased_users (loads and webhooks that are replayed may then bring an
erased user back), audit_log and quarantine; name, expires_at, last_used_at, document_filter and
replaces of keys. It opens what these closed: end keys that expire or are bound to a filter before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name, type_ in (
        ("name", sa.Text()),
        ("expires_at", sa.BigInteger()),
        ("last_used_at", sa.BigInteger()),
        ("document_filter", sa.JSON(none_as_null=True)),
        ("replaces", sa.Text()),
    ):
        op.add_column("api_keys", sa.Column(name, type_, nullable=True))
    op.create_table(
        "consents",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("memory_enabled", sa.Boolean(), nullable=False),
        sa.Column("pii_storage_allowed", sa.Boolean(), nullable=False),
        sa.Column("retention_days", sa.Float(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "user_id"),
    )
    op.create_index(
        "consents_with_retention",
        "consents",
        ["tenant_id", "user_id"],
        sqlite_where=sa.text("retention_days IS NOT NULL"),
        postgresql_where=sa.text("retention_days IS NOT NULL"),
    )
    op.create_table(
        "erased_users",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("user_hash", sa.Text(), nullable=False),
        sa.Column("erased_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "user_hash"),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", _serial, autoincrement=True, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("counts", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_log_of_tenant", "audit_log", ["tenant_id", "id"])
    op.create_index("audit_log_of_subject", "audit_log", ["tenant_id", "subject", "id"])
    op.create_table(
        "quarantine",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("flags", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "kind", "ref"),
    )
    op.create_index("quarantine_by_state", "quarantine", ["tenant_id", "state", "created_at"])
    op.create_index("quarantine_of_user", "quarantine", ["tenant_id", "user_id"])


def downgrade() -> None:
    for table in ("quarantine", "audit_log", "erased_users", "consents"):
        op.drop_table(table)
    for column in ("replaces", "document_filter", "last_used_at", "expires_at", "name"):
        op.drop_column("api_keys", column)
