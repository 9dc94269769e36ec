"""That memories were used, and what their user marked. Touches: `episodes`, `facts`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from app.consents import Consents
from app.db import Connection, Database
from app.db.locks import lock_user
from app.db.tables import episodes, facts
from app.errors import NotFound
from app.memory.base import Mark
from app.sessions.rows import of_session


def _use(table: sa.Table, id_column: str) -> sa.Update:
    """Return what notes one more use; the rows are locked in order, so nobody waits in a circle."""
    used = table.alias()
    ids = (
        sa.select(used.c[id_column])
        .where(
            used.c.tenant_id == sa.bindparam("tenant"),
            used.c[id_column].in_(sa.bindparam("ids", expanding=True)),
        )
        .order_by(used.c[id_column])
        .with_for_update()
    )
    at = sa.bindparam("at", type_=table.c.used_at.type)
    is_later = sa.or_(table.c.used_at.is_(None), table.c.used_at < at)
    return (
        table.update()
        .where(table.c.tenant_id == sa.bindparam("tenant"), table.c[id_column].in_(ids))
        .values(uses=table.c.uses + 1, used_at=sa.case((is_later, at), else_=table.c.used_at))
    )


# Built once: SQLAlchemy takes longer to build a statement than SQLite to answer it.
_USE_EPISODES = _use(episodes, "session_id")
_USE_FACTS = _use(facts, "fact_id")


_OWNERS = tuple(
    sa.select(table.c.user_id)
    .distinct()
    .where(
        table.c.tenant_id == sa.bindparam("tenant"),
        table.c[name].in_(sa.bindparam("ids", expanding=True)),
    )
    for table, name in ((episodes, "session_id"), (facts, "fact_id"))
)


class Use:
    """Notes what memory is good for; importance and eviction read it."""

    def __init__(self, database: Database, consents: Consents) -> None:
        self._database = database
        self._consents = consents

    async def record(
        self, tenant_id: str, session_ids: Sequence[str], fact_ids: Sequence[str], now: datetime
    ) -> None:
        """Note that episodes and facts stood in a prompt; unknown ids are fine."""
        used = [
            (statement, {"tenant": tenant_id, "ids": sorted(set(ids)), "at": now})
            for statement, ids in ((_USE_EPISODES, session_ids), (_USE_FACTS, fact_ids))
            if ids
        ]

        def note(connection: Connection) -> None:
            for user_id in _owners(connection, tenant_id, session_ids, fact_ids):
                lock_user(connection, tenant_id, user_id)  # first, as whoever writes facts does
            for statement, which in used:
                connection.execute(statement, which)

        if used:
            await self._database.write(note)

    async def mark(
        self, tenant_id: str, user_id: str | None, session_id: str, mark: Mark | None
    ) -> None:
        """Mark an episode, or take its mark away; `user_id` None: anybody's.

        Raises `NotFound` and `MemoryDisabled`.
        """
        here = of_session(episodes, tenant_id, session_id)

        def change(connection: Connection) -> int:
            owner = connection.execute(sa.select(episodes.c.user_id).where(here)).scalar()
            if owner is None or user_id not in (None, owner):
                return 0
            self._consents.require_memory(connection, tenant_id, owner)
            return connection.execute(episodes.update().where(here).values(mark=mark)).rowcount

        if not await self._database.write(change):
            raise NotFound("there is no such memory", param="memory_id")


def _owners(connection: Connection, tenant_id: str, *ids: Sequence[str]) -> list[str]:
    """Return whose memories these are; nobody's where one writes at a time as it is."""
    if connection.dialect.name != "postgresql":
        return []
    return sorted(
        {
            user_id
            for statement, some in zip(_OWNERS, ids, strict=True)
            for user_id in connection.execute(
                statement, {"tenant": tenant_id, "ids": list(some)}
            ).scalars()
        }
    )
