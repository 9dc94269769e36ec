"""A session's vectors, from the stored rows to the index. Touches: the embedder, the index,
`episodes`; reads `facts` and `messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import episodes
from app.index.base import Index, namespace
from app.jobs import Postpone
from app.llm.base import Embedder
from app.memory.ending import Ending
from app.memory.vectors import Held, held, ids_of, settled, vectors_of

PAGE = 500
PUSHES = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """What a session's vectors are made of, read in the transaction that stored it."""

    memory: Held | None


class Pusher:
    """Makes the index agree with SQL, a session at a time.

    exchanges: whether each exchange of a conversation has a vector of its own.
    """

    def __init__(
        self, database: Database, index: Index, embedder: Embedder, *, exchanges: bool
    ) -> None:
        self._database = database
        self._index = index
        self._embedder = embedder
        self._exchanges = exchanges

    async def refill(self, tenant_id: str) -> int:
        """Empty a tenant's memory namespace and fill it from SQL; returns how many there are."""
        await self._index.clear(namespace("memory", tenant_id))
        here = episodes.c.tenant_id == tenant_id
        lost = episodes.update().where(here).values(indexed_version=0, indexed_seq=0)
        await self._database.write(lambda c: c.execute(lost))
        filled = 0
        last = ""
        while ids := await self._database.read(partial(_page, tenant_id, last)):
            for session_id in ids:
                await self.push(tenant_id, session_id, again=True)
            filled, last = filled + len(ids), ids[-1]
        return filled

    def reading(
        self, tenant_id: str, session_id: str, *, again: bool
    ) -> Callable[[Connection], Held | None]:
        """Return what reads the rows that a session's vectors are made of."""
        return partial(
            held,
            tenant_id=tenant_id,
            session_id=session_id,
            exchanges=self._exchanges,
            again=again,
        )

    async def push(
        self,
        tenant_id: str,
        session_id: str,
        *,
        again: bool = False,
        ending: Ending | None = None,
        stored: Stored | None = None,
    ) -> None:
        """Make the index agree with the stored rows, also if these move meanwhile.

        again: also what counts as indexed: a push that was cut off, ours or another worker's, may
        have landed over a newer one.
        ending: what is done in the transaction that notes it. stored: the rows, if just read.
        """
        where = namespace("memory", tenant_id)
        for _ in range(PUSHES):
            read = self.reading(tenant_id, session_id, again=again)
            memory = await self._database.read(read) if stored is None else stored.memory
            stored = None
            if memory is not None and not again and _is_indexed(memory):
                if ending is not None:
                    await self._database.write(partial(ending.done_if, lambda _: True))
                return
            if memory is None:
                await self._index.delete(where, ids_of(session_id))
            else:
                vectors = await vectors_of(memory, self._embedder)
                await self._index.upsert(where, vectors)
                if surplus := memory.surplus:
                    await self._index.delete(where, surplus)
            noted = partial(settled, read, memory)
            if ending is not None:
                noted = partial(ending.done_if, noted)
            if await self._database.write(noted):
                return
            again = True
        raise Postpone("the episode keeps changing")


def _is_indexed(memory: Held) -> bool:
    return memory.episode.indexed_version == memory.episode.version


def _page(tenant_id: str, last: str, connection: Connection) -> Sequence[str]:
    return (
        connection.execute(
            sa.select(episodes.c.session_id)
            .where(episodes.c.tenant_id == tenant_id, episodes.c.session_id > last)
            .order_by(episodes.c.session_id)
            .limit(PAGE)
        )
        .scalars()
        .all()
    )
