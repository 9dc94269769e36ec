"""Alembic's entry: runs on the connection that `app.db.schema` or a developer hands over."""

from alembic import context

from app.db.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
