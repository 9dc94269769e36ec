"""Which embedding model filled the index, and which index that is. Touches: `about_store`.

Vectors of two models do not compare, and an index that was never filled answers nothing: both
must be refused at start, with a way out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.insert import insert_new
from app.db.tables import about_store, documents, episodes
from app.errors import Misconfigured

_THIS = about_store.c.name == "stamp"


@dataclass(frozen=True, slots=True)
class Stamp:
    """`index` tells one index from another: "embedded", or Pinecone's host or name."""

    model: str
    dimension: int
    index: str

    def __str__(self) -> str:
        return f"{self.model} ({self.dimension} dimensions) in {self.index}"


async def check_stamp(database: Database, wanted: Stamp) -> None:
    """Stamp a store that holds nothing yet; raise `Misconfigured` if another stamp is on it."""
    found = await database.write(lambda c: _check(c, wanted))
    if found != wanted:
        raise Misconfigured(
            f"the index was filled with {found}, and the settings ask for {wanted}. "
            "Go back to the old settings, or run `python -m app reindex` to fill it anew."
        )


async def set_stamp(database: Database, stamp: Stamp) -> None:
    """Note what the index is filled with from now on."""
    await database.write(lambda c: _write(c, stamp))


def _check(connection: Connection, wanted: Stamp) -> Stamp:
    """Return the stamp that is on the store now; replicas that open it at once take turns."""
    if _write_first(connection, wanted):
        return wanted
    row = connection.execute(
        sa.select(about_store.c.value).where(_THIS).with_for_update()
    ).scalar_one()
    found = Stamp(**row)
    holds_something = (
        connection.execute(sa.select(documents.c.tenant_id).limit(1)).first()
        or connection.execute(sa.select(episodes.c.tenant_id).limit(1)).first()
    )
    if found == wanted or holds_something:
        return found
    _write(connection, wanted)
    return wanted


def _write(connection: Connection, stamp: Stamp) -> None:
    if not _write_first(connection, stamp):
        connection.execute(about_store.update().where(_THIS).values(value=asdict(stamp)))


def _write_first(connection: Connection, stamp: Stamp) -> bool:
    row = {"name": "stamp", "value": asdict(stamp)}
    return insert_new(connection, about_store, row, key=["name"])
