"""Facts, entities, the lexical index; speakers, time zones, marks and use.

The lexical index is filled by jobs after the start. The way back loses facts, fact_sightings and
entities; lexical_items and lexical_postings; each message's speaker; each session's timezone;
mark, uses, used_at, refused_facts and indexed_seq of episodes. Vectors of facts stay in the index
until `python -m app reindex`.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("sessions", sa.Column("timezone", sa.Text(), nullable=True))
    op.add_column("messages", sa.Column("speaker", sa.Text(), nullable=True))
    for name in ("refused_facts", "indexed_seq", "uses"):
        op.add_column("episodes", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.add_column("episodes", sa.Column("mark", sa.Text(), nullable=True))
    op.add_column("episodes", sa.Column("used_at", sa.BigInteger(), nullable=True))
    op.create_table(
        "facts",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("fact_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value_key", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("predicate", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("is_many", sa.Boolean(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("said_by", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("quote", sa.Text(), nullable=True),
        sa.Column("learned_at", sa.BigInteger(), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=True),
        sa.Column("valid_to", sa.BigInteger(), nullable=True),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("sightings", sa.Integer(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=True),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("uses", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("indexed_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "fact_id"),
    )
    op.create_index(
        "facts_of_user", "facts", ["tenant_id", "user_id", "key", "valid_from"], unique=False
    )
    op.create_index("facts_latest", "facts", ["tenant_id", "user_id", "last_seen_at"], unique=False)
    op.create_index("facts_of_value", "facts", ["tenant_id", "user_id", "value_key"], unique=False)
    op.create_index("facts_of_session", "facts", ["tenant_id", "session_id"], unique=False)
    op.create_index(
        "facts_of_profile",
        "facts",
        ["tenant_id", "user_id", "kind", "sightings", "last_seen_at", "valid_to"],
        unique=False,
        sqlite_where=sa.text("subject = 'user'"),
        postgresql_where=sa.text("subject = 'user'"),
    )
    op.create_index(
        "facts_alone",
        "facts",
        ["tenant_id", "user_id", "updated_at"],
        unique=False,
        sqlite_where=sa.text("number IS NULL"),
        postgresql_where=sa.text("number IS NULL"),
    )
    op.create_index(
        "facts_marked",
        "facts",
        ["tenant_id", "user_id"],
        unique=False,
        sqlite_where=sa.text("mark IS NOT NULL"),
        postgresql_where=sa.text("mark IS NOT NULL"),
    )
    op.create_table(
        "fact_sightings",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("fact_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("quote", sa.Text(), nullable=False),
        sa.Column("said_by", sa.Text(), nullable=False),
        sa.Column("said_at", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "fact_id", "session_id", "seq"),
    )
    op.create_index(
        "fact_sightings_of_session", "fact_sightings", ["tenant_id", "session_id"], unique=False
    )
    op.create_table(
        "entities",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("aliases", sa.JSON(), nullable=False),
        sa.Column("attributes", sa.JSON(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "user_id", "key", "session_id"),
    )
    op.create_index("entities_of_session", "entities", ["tenant_id", "session_id"], unique=False)
    op.create_table(
        "lexical_items",
        sa.Column("id", serial, autoincrement=True, nullable=False),
        sa.Column("scope", sa.BigInteger(), nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("units", sa.Text(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("scope", "ref", "part"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "lexical_items_by_size", "lexical_items", ["scope", "id", "length"], unique=False
    )
    op.create_table(
        "lexical_postings",
        sa.Column("scope", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("item", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("places", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "term", "item"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for table in ("lexical_postings", "lexical_items", "entities", "fact_sightings", "facts"):
        op.drop_table(table)
    # So that the way up, once more, has the lexical index filled again.
    op.execute("DELETE FROM about_store WHERE name = 'lexical'")
    for name in ("used_at", "mark", "uses", "indexed_seq", "refused_facts"):
        op.drop_column("episodes", name)
    op.drop_column("messages", "speaker")
    op.drop_column("sessions", "timezone")
