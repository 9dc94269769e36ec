"""A session or some facts, forgotten whole. Touches: `episodes`, `facts`, `fact_sightings`,
`entities`, the lexical index, the jobs.

Plain functions of a connection: whoever evicts, deletes or is asked to forget calls them in the
transaction of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from app import quarantine
from app.db import Connection
from app.db.locks import lock_user
from app.db.parts import in_parts
from app.db.tables import entities, episodes, fact_sightings, facts
from app.memory import lexicon
from app.memory.base import Fact
from app.memory.blocks import lose_origin
from app.memory.fact_groups import Groups, group_of
from app.memory.fact_sync import Job, publish
from app.memory.fact_writes import Changes, note, write_facts
from app.memory.retiming import retime
from app.sessions.rows import of_session

_BY_ID = sa.select(facts).where(
    facts.c.tenant_id == sa.bindparam("tenant"),
    facts.c.fact_id.in_(sa.bindparam("ids", expanding=True)),
)
_SAID_IN = (
    sa.select(fact_sightings.c.fact_id)
    .where(
        fact_sightings.c.tenant_id == sa.bindparam("tenant"),
        fact_sightings.c.session_id == sa.bindparam("session"),
    )
    .distinct()
)
_OF_FACTS = sa.and_(
    fact_sightings.c.tenant_id == sa.bindparam("tenant"),
    fact_sightings.c.fact_id.in_(sa.bindparam("ids", expanding=True)),
)
_SAY_THEM = sa.select(fact_sightings.c.session_id).where(_OF_FACTS).distinct()
_DROP_SIGHTINGS = fact_sightings.delete().where(_OF_FACTS)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How much went. `moved`: facts that stay, for they were said elsewhere too, or are kept.

    `jobs` bring the vectors of other sessions, and of facts that stand alone, up to date.
    """

    episodes: int = 0
    facts: int = 0
    moved: int = 0
    entities: int = 0
    jobs: tuple[Job, ...] = ()

    @property
    def is_anything(self) -> bool:
        return bool(self.episodes or self.facts or self.moved or self.entities)


def forget_session(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    session_id: str,
    now: datetime,
    *,
    keep_facts: bool = False,
    by_caller: bool = True,
) -> Forgotten:
    """Forget what a session left behind: its episode, what was said in it, its words.

    A fact that was said nowhere else goes; another moves to where it was said next. keep_facts:
    its facts stay as they are, and stand alone from then on; they still go with the session.
    The caller leaves the job that removes the session's own vectors (`put_sync`); by_caller: it
    has the other ones done, too.
    """
    lock_user(connection, tenant_id, user_id)
    which = {"tenant": tenant_id, "session": session_id}
    said = _load(connection, tenant_id, list(connection.execute(_SAID_IN, which).scalars()))
    at_home = [fact for fact in said if fact.session_id == session_id]
    tables = [episodes, entities] if keep_facts else [episodes, entities, fact_sightings]
    counts = [
        connection.execute(table.delete().where(of_session(table, tenant_id, session_id))).rowcount
        for table in tables
    ]
    quarantine.drop(connection, tenant_id, "episode", [session_id])
    if keep_facts:
        changes = _let_stand_alone(connection, at_home, now)
    else:
        changes = _retime_all(connection, tenant_id, user_id, said, now)
    lexicon.drop(connection, tenant_id, user_id, session_id)
    left = publish(
        connection, tenant_id, user_id, changes, now, leave_out=session_id, by_caller=by_caller
    )
    return Forgotten(
        episodes=counts[0],
        facts=changes.gone,
        moved=len(at_home) - changes.gone,
        entities=counts[1],
        jobs=tuple(left),
    )


def forget_deleted(
    connection: Connection, tenant_id: str, user_id: str, session_id: str, now: datetime
) -> None:
    """Forget a session that is being deleted; workers see to the vectors of others.

    Blocks stay, for their user sees them and may have said the rest of them elsewhere.
    """
    forget_session(connection, tenant_id, user_id, session_id, now, by_caller=False)
    lose_origin(connection, tenant_id, user_id, session_id)


def forget_facts(
    connection: Connection, tenant_id: str, fact_ids: Collection[str], now: datetime
) -> Forgotten:
    """Forget facts, wherever they were said; what one had superseded holds again."""
    of_users: defaultdict[str, list[str]] = defaultdict(list)
    for fact in _load(connection, tenant_id, fact_ids):
        of_users[fact.user_id].append(fact.fact_id)
    gone, left = 0, []
    for user_id, ids in sorted(of_users.items()):
        lock_user(connection, tenant_id, user_id)
        told = _load(connection, tenant_id, ids)  # again: they may have moved until now
        say_them: set[str] = set()
        for some in in_parts(ids):
            which = {"tenant": tenant_id, "ids": some}
            say_them |= set(connection.execute(_SAY_THEM, which).scalars())
            connection.execute(_DROP_SIGHTINGS, which)
        changes = _retime_all(connection, tenant_id, user_id, told, now)
        changes.noted |= say_them - {""}
        left += publish(connection, tenant_id, user_id, changes, now)
        gone += len(told)
    return Forgotten(facts=gone, jobs=tuple(left))


def _load(connection: Connection, tenant_id: str, ids: Collection[str]) -> list[Fact]:
    return [
        Fact(*row)
        for some in in_parts(ids)
        for row in connection.execute(_BY_ID, {"tenant": tenant_id, "ids": some})
    ]


def _let_stand_alone(connection: Connection, at_home: Sequence[Fact], now: datetime) -> Changes:
    """Take facts out of their session's notes and vectors: its episode is gone."""
    changes = Changes()
    alone = []
    for fact in at_home:
        if fact.number is not None:
            alone.append(replace(fact, number=None, version=fact.version + 1, updated_at=now))
            note(changes, fact, alone[-1])
    if alone:
        write_facts(connection, alone)
    return changes


def _retime_all(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    concerned: Iterable[Fact],
    now: datetime,
) -> Changes:
    changes = Changes()
    groups = Groups()
    for fact in concerned:
        groups.concern(group_of(fact), fact.valid_from)
    retime(connection, tenant_id, user_id, groups, now, changes)
    return changes
