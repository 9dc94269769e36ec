"""An exported user, stored again. Touches: every table that an export is made of, the lexical
index, the jobs.

Nothing is stored before all of it was read and compared. Then it goes in by small transactions,
what others are made of first, so that one that is cut off can be repeated: what is there already,
and the same, is left as it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from app import audit
from app.audit import Actor
from app.db import Connection, Database
from app.db.locks import lock_user
from app.db.tables import sessions
from app.erased import erased, pseudonym
from app.errors import Conflict
from app.knowledge.persons import Persons
from app.memory.lexicon_refill import Refill
from app.privacy import holdings as h
from app.privacy.cells import Row
from app.privacy.checking import Checker
from app.privacy.holdings import Section
from app.privacy.reading import Exported, read
from app.privacy.storing import Target, missing, store
from app.sessions.rows import SESSION, as_session

AT_ONCE = 200  # rows of a transaction

# Episodes come last of the memory: the vectors that are made of them need all the rest. What was
# decided of texts comes before these, which are looked at when they are stored.
_ORDER: tuple[Section, ...] = (
    *(h.SESSIONS, h.MESSAGES, h.QUARANTINE, h.FACTS, h.SIGHTINGS, h.ENTITIES, h.BLOCKS, h.ITEMS),
    *(h.USAGE, h.EPISODES, h.DOCUMENTS, h.RECORDS, h.REFERENCES, h.DELIVERIES),
)
_THEIRS = sa.select(*SESSION).where(
    sessions.c.tenant_id == sa.bindparam("tenant"),
    sessions.c.user_id == sa.bindparam("user"),
    sessions.c.session_id.in_(sa.bindparam("ids", expanding=True)),
)


@dataclass(frozen=True, slots=True)
class Restored:
    """Rows by section. unchanged: were there already. left_out: name an erased user, or what the
    export does not hold."""

    restored: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


class Restoring:
    """Restores users from their exports. dimension: that of the index."""

    def __init__(
        self,
        database: Database,
        persons: Persons,
        words: Refill,
        *,
        dimension: int,
        wake: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._persons = persons
        self._words = words
        self._dimension = dimension
        self._wake = wake
        self._clock = clock

    async def restore(self, tenant_id: str, user_id: str, text: str, *, actor: Actor) -> Restored:
        """Store what an export holds, exactly, and leave the jobs that bring it to the index.

        Texts stay as they are: they were clean when they were stored. Raises, before anything is
        stored, `Malformed`, `InvalidRequest`, and `Conflict` for a user who was erased and for
        what is there already and something else.
        """
        target = Target(tenant_id, user_id, self._dimension, self._persons)
        await self._database.read(partial(_refuse_erased, target))
        found = await asyncio.to_thread(read, text, user_id)
        strays = await self._compare(found, target)
        restored = Restored()
        try:
            await self._store(found, target, strays, restored)
        except IntegrityError as error:
            raise Conflict("the export contradicts itself, or what others store now") from error
        await self._index(found, target)
        await self._database.write(partial(_note, actor, target, restored, self._clock()))
        self._wake()
        return restored

    async def _compare(self, found: Exported, target: Target) -> Collection[tuple[str, str]]:
        """Look at every row before any is stored; returns what the quarantine list names beside
        the user's."""
        checker = Checker(target.user_id)
        for section in _ORDER:
            rows = found.rows(section)
            number = 0
            while batch := await asyncio.to_thread(_next, rows):
                await asyncio.to_thread(checker.check, section, batch, number)
                await self._database.read(partial(missing, target, section, batch))
                number += len(batch)
        return checker.strays

    async def _store(
        self,
        found: Exported,
        target: Target,
        strays: Collection[tuple[str, str]],
        restored: Restored,
    ) -> None:
        if found.consent is not None:
            await self._put(target, h.CONSENT, [found.consent], restored)
        for section in _ORDER:
            rows = found.rows(section)
            while batch := await asyncio.to_thread(_next, rows):
                if section is h.QUARANTINE:
                    theirs = [row for row in batch if (row["kind"], row["ref"]) not in strays]
                    restored.left_out[section.name] += len(batch) - len(theirs)
                    batch = theirs
                await self._put(target, section, batch, restored)

    async def _put(
        self, target: Target, section: Section, batch: Sequence[Row], restored: Restored
    ) -> None:
        new = await self._database.read(partial(missing, target, section, batch))
        withheld = 0
        if new:
            ready = await asyncio.to_thread(target.ready, section, new)
            now = self._clock()

            def put(connection: Connection) -> int:
                lock_user(connection, target.tenant_id, target.user_id)
                _refuse_erased(target, connection)
                return store(connection, target, section, ready, now)

            withheld = await self._database.write(put)
        restored.restored[section.name] += len(new) - withheld
        restored.left_out[section.name] += withheld
        restored.unchanged[section.name] += len(batch) - len(new)

    async def _index(self, found: Exported, target: Target) -> None:
        """Index the words of what was said and of what was made of it; anew if it is repeated."""
        rows = found.rows(h.SESSIONS)
        while batch := await asyncio.to_thread(_next, rows):
            which = {
                "tenant": target.tenant_id,
                "user": target.user_id,
                "ids": [row["session_id"] for row in batch if row["covered_seq"]],
            }
            stored = await self._database.read(
                lambda c, which=which: c.execute(_THEIRS, which).all()  # type: ignore[misc]
            )
            for row in stored:
                await self._words.session(as_session(row))


def _next(rows: Iterator[Row]) -> list[Row]:
    return list(islice(rows, AT_ONCE))


def _refuse_erased(target: Target, connection: Connection) -> None:
    if erased(connection, target.tenant_id, [target.user_id]):
        raise Conflict(
            "the user was erased: what was erased does not come back until somebody says anew what "
            "the user allows (PUT /users/{user_id}/consent)",
            param="user_id",
        )


def _note(
    actor: Actor, target: Target, restored: Restored, now: datetime, connection: Connection
) -> None:
    subject = pseudonym(target.tenant_id, target.user_id)
    counts = {name: count for name, count in restored.restored.items() if count}
    audit.note(connection, actor, "user.restore", subject=subject, counts=counts, now=now)
