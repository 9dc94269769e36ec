"""Facts of users: read, told, corrected, deleted. Touches: `facts`, `fact_sightings`, the jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from app.audit import Actor, note
from app.consents import Consents
from app.db import Connection, Database
from app.db.tables import fact_sightings, facts
from app.erased import pseudonym
from app.memory.base import USER, Fact, FoundFact
from app.memory.fact_edits import Edit, edit, one, stated
from app.memory.fact_rows import own_names, take_told
from app.memory.fact_sync import Job
from app.memory.forgetting import forget_facts
from app.memory.keys import SEPARATOR, predicate_key, predicate_name, subject_key, subject_name
from app.sessions.rows import lock_session

MOST_HISTORY = 500  # periods of a fact, and times that it was said

RunNow = Callable[[str, str, str], Awaitable[BaseException | None]]

_fact, _said = facts.c, fact_sightings.c
_OF_USER = sa.and_(_fact.tenant_id == sa.bindparam("tenant"), _fact.user_id == sa.bindparam("user"))
_HOLDS = sa.and_(
    _fact.valid_from <= sa.bindparam("at", type_=_fact.valid_from.type),
    sa.or_(
        _fact.valid_to.is_(None),
        _fact.valid_to > sa.bindparam("at", type_=_fact.valid_to.type),
    ),
)
_LATEST = (_fact.last_seen_at.desc(), _fact.fact_id)
_KNOWN = (
    sa.select(facts)
    .where(_OF_USER, _HOLDS)
    .order_by(*_LATEST)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_HISTORY = (
    sa.select(facts)
    .where(_OF_USER, _fact.key == sa.bindparam("key"))
    .order_by(
        _fact.valid_from.desc(), _fact.learned_at.desc(), _fact.seq.desc(), _fact.fact_id.desc()
    )
    .limit(MOST_HISTORY + 1)
)
_SAID_IN = (
    sa.select(facts)
    .where(
        _fact.tenant_id == sa.bindparam("tenant"),
        _fact.fact_id.in_(
            sa.select(_said.fact_id).where(
                _said.tenant_id == sa.bindparam("tenant"),
                _said.session_id == sa.bindparam("session"),
            )
        ),
    )
    .order_by(_fact.learned_at, _fact.seq, _fact.fact_id)
)
_HISTORY_OF_VALUE = _HISTORY.where(_fact.value_key == sa.bindparam("value"))
_SIGHTINGS = (
    sa.select(
        _said.session_id,
        _said.seq,
        _said.quote,
        _said.said_by,
        _said.said_at,
        _said.statement,
    )
    .where(_said.tenant_id == sa.bindparam("tenant"), _said.fact_id == sa.bindparam("fact"))
    .order_by(_said.said_at.desc(), _said.session_id.desc(), _said.seq.desc())
    .limit(MOST_HISTORY + 1)
)


@dataclass(frozen=True, slots=True)
class Sighting:
    """One time that a fact was said; `session_id` is None for one that was told by itself."""

    session_id: str | None
    seq: int | None
    quote: str
    said_by: str
    said_at: datetime
    statement: str


@dataclass(frozen=True, slots=True)
class History:
    """A fact's periods with those of other values of its key, in order, and when it was said.

    is_cut: there is more than the latest ones that are shown.
    """

    facts: tuple[Fact, ...]
    sightings: tuple[Sighting, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """A fact as it is stored now. `is_indexed`: its vector is up to date as well."""

    fact: Fact
    is_indexed: bool


class Facts:
    """Reads and writes facts.

    run_now: does the job of a tenant, kind and key at once; None when it is done, else the failure.
    """

    def __init__(
        self,
        database: Database,
        consents: Consents,
        *,
        run_now: RunNow,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._consents = consents
        self._run_now = run_now
        self._clock = clock

    async def of_user(
        self,
        tenant_id: str,
        user_id: str,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        as_of: datetime | None = None,
        include_past: bool = False,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> list[Fact]:
        """Return a user's facts that hold, or held `as_of` a time; the last said first.

        include_past: those that no longer hold, too. after: the (last_seen_at, fact_id) of the
        last one of the page before.
        """

        def read(connection: Connection) -> list[Fact]:
            statement = sa.select(facts).where(
                _fact.tenant_id == tenant_id, _fact.user_id == user_id
            )
            is_user = subject is None
            if subject is not None:
                name = subject_name(subject, own_names(connection, tenant_id, user_id))
                is_user = name == USER
                statement = statement.where(
                    _fact.key.startswith(subject_key(name) + SEPARATOR, autoescape=True)
                )
            if predicate is not None:
                said = predicate_key(predicate_name(predicate, of_user=is_user))
                statement = statement.where(_fact.key.endswith(SEPARATOR + said, autoescape=True))
            if not include_past:
                statement = statement.where(_HOLDS)
            if after is not None:
                statement = statement.where(_comes_after(*after))
            which = {} if include_past else {"at": as_of or self._clock()}
            rows = connection.execute(statement.order_by(*_LATEST).limit(limit), which)
            return [Fact(*row) for row in rows]

        return await self._database.read(read)

    async def known(self, tenant_id: str, user_id: str, *, limit: int) -> list[Fact]:
        """Return what holds now, the last said first, for the prompt of a checkpoint."""
        which = {"tenant": tenant_id, "user": user_id, "at": self._clock(), "most": limit}
        return await self._database.read(lambda c: [Fact(*row) for row in c.execute(_KNOWN, which)])

    async def said_in(self, tenant_id: str, session_id: str) -> list[Fact]:
        """Return what was said in a session, in the order in which it was learned."""
        which = {"tenant": tenant_id, "session": session_id}
        return await self._database.read(
            lambda c: [Fact(*row) for row in c.execute(_SAID_IN, which)]
        )

    async def get(self, tenant_id: str, user_id: str | None, fact_id: str) -> Fact:
        """Return a fact of a user, or of anybody (`user_id` None). Raises `NotFound`."""
        return await self._database.read(lambda c: one(c, tenant_id, user_id, fact_id))

    async def history(self, tenant_id: str, user_id: str | None, fact_id: str) -> History:
        """Return how a fact came and went. Raises `NotFound`.

        Where several values may hold at once, only its own value's periods.
        """

        def read(connection: Connection) -> History:
            fact = one(connection, tenant_id, user_id, fact_id)
            which = {"tenant": tenant_id, "user": fact.user_id, "key": fact.key, "fact": fact_id}
            if fact.is_many:
                rows = connection.execute(_HISTORY_OF_VALUE, {**which, "value": fact.value_key})
            else:
                rows = connection.execute(_HISTORY, which)
            same = [Fact(*row) for row in rows]
            said = [
                Sighting(row[0] or None, row[1] if row[0] else None, *row[2:])
                for row in connection.execute(_SIGHTINGS, which)
            ]
            return History(
                tuple(same[:MOST_HISTORY][::-1]),
                tuple(said[:MOST_HISTORY][::-1]),
                max(len(same), len(said)) > MOST_HISTORY,
            )

        return await self._database.read(read)

    async def store(
        self, tenant_id: str, user_id: str, told: FoundFact, *, session_id: str | None = None
    ) -> Kept:
        """Store a fact; one that is known is seen again.

        session_id: the session whose message `told` quotes: it is forgotten with it. None: it
        belongs to none. Raises `NotFound` for a session that is gone, and `MemoryDisabled`.
        """
        if not told.statement:
            subject = subject_name(told.subject)
            predicate = predicate_name(told.predicate, of_user=subject == USER)
            told = replace(told, statement=stated(subject, predicate, told.value))
        now = self._clock()

        def take(connection: Connection) -> tuple[Fact, list[Job]]:
            if session_id is not None:  # before its user, as whoever writes an episode does
                lock_session(connection, tenant_id, session_id)
            self._consents.require_memory(connection, tenant_id, user_id)
            return take_told(connection, tenant_id, user_id, told, now, session_id)

        fact, left = await self._database.write(take)
        return Kept(fact, await self._bring(tenant_id, left))

    async def change(self, tenant_id: str, user_id: str | None, fact_id: str, wanted: Edit) -> Kept:
        """Correct a fact. Raises `NotFound`, `InvalidRequest` and `MemoryDisabled`."""
        now = self._clock()

        def correct(connection: Connection) -> tuple[Fact, list[Job]]:
            fact, left = edit(connection, tenant_id, user_id, fact_id, wanted, now)
            # Whose it is, and that nobody else is at it, is known only by now.
            self._consents.require_memory(connection, tenant_id, fact.user_id)
            return fact, left

        fact, left = await self._database.write(correct)
        return Kept(fact, await self._bring(tenant_id, left))

    async def delete(
        self, tenant_id: str, user_id: str | None, fact_id: str, *, actor: Actor | None = None
    ) -> bool:
        """Forget a fact; what it had superseded holds again. Raises `NotFound`.

        Says whether its vector is gone as well; else a job goes on trying.
        actor: who does it on its user's behalf, for the audit log.
        """
        now = self._clock()

        def remove(connection: Connection) -> tuple[Job, ...]:
            fact = one(connection, tenant_id, user_id, fact_id)
            gone = forget_facts(connection, tenant_id, [fact_id], now)
            if actor is not None:
                whose, counts = pseudonym(tenant_id, fact.user_id), {"facts": gone.facts}
                note(connection, actor, "fact.delete", subject=whose, counts=counts, now=now)
            return gone.jobs

        return await self._bring(tenant_id, await self._database.write(remove))

    async def _bring(self, tenant_id: str, left: Sequence[Job]) -> bool:
        """Have the jobs of a change done now; says whether all are."""
        failures = [await self._run_now(tenant_id, job.kind, job.key) for job in left]
        return not any(failures)


def _comes_after(moment: datetime, fact_id: str) -> sa.ColumnElement[bool]:
    return sa.or_(
        _fact.last_seen_at < moment,
        sa.and_(_fact.last_seen_at == moment, _fact.fact_id > fact_id),
    )
