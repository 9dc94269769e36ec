"""The SQL database: its tables and the one way to read and write. Touches: SQLite or Postgres.

`open_database(url)` gives a `Database`; `read(fn)` and `write(fn)` run a plain function of a
SQLAlchemy Core connection, written once for both databases.
"""

from app.db.base import Connection, Database
from app.db.engine import open_database
from app.db.tables import db_now, metadata

__all__ = ["Connection", "Database", "db_now", "metadata", "open_database"]
