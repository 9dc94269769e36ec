"""Which embedding model filled the index, and which index that is. Touches: `store_facts`.

Vectors of two models do not compare, and an index that was never filled answers nothing: both
must be refused at start, with a way out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import documents, episodes, facts_of_store
from app.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class Stamp:
    """`index` tells one index from another: "embedded", or Pinecone's host or name."""

    model: str
    dimension: int
    index: str

    def __str__(self) -> str:
        return f"{self.model} ({self.dimension} dimensions) in {self.index}"


async def check_stamp(database: Database, wanted: Stamp, *, now: datetime) -> None:
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
    row = connection.execute(
        sa.select(facts_of_store.c.value).where(facts_of_store.c.name == "stamp")
    ).scalar()
    found = Stamp(**row) if row is not None else None
    if found == wanted:
        return wanted
    holds_something = (
        connection.execute(sa.select(documents.c.tenant_id).limit(1)).first()
        or connection.execute(sa.select(episodes.c.tenant_id).limit(1)).first()
    )
    if found is not None and holds_something:
        return found
    _write(connection, wanted)
    return wanted


def _write(connection: Connection, stamp: Stamp) -> None:
    connection.execute(facts_of_store.delete().where(facts_of_store.c.name == "stamp"))
    connection.execute(facts_of_store.insert().values(name="stamp", value=asdict(stamp)))
