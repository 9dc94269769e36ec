"""What SQL holds of a user, removed in steps that are short transactions each.

Touches: `sessions`, `messages`, the memory, the lexical index, `consents`, `quarantine`,
`api_keys`, `usage`, the jobs.

A step takes so much that no other writer waits for long, and says what it took; nothing: the next
step may begin. Locks are taken in the order of everybody: a session, its user, then rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from app.db import Connection, db_now
from app.db.insert import add_up
from app.db.locks import lock_user
from app.db.parts import in_parts
from app.db.tables import (
    Instant,
    api_keys,
    consents,
    entities,
    episodes,
    fact_sightings,
    facts,
    jobs,
    memory_blocks,
    messages,
    quarantine,
    sessions,
    store_items,
    usage,
)
from app.lexical.store import clear_some, scope_of, size
from app.memory.fact_push import fact_vector_id
from app.memory.lexicon import NOTED, SAID
from app.memory.vectors import ids_of
from app.sessions.rows import lock_session, of_session
from app.usage import NOBODY

MESSAGES_AT_ONCE = 2_000
SESSIONS_AT_ONCE = 20
ROWS_AT_ONCE = 500

# By their column `user_id`; whole rows go.
_OWN = (episodes, entities, memory_blocks, store_items, quarantine, consents)


@dataclass(slots=True)
class Taken:
    """What a step removed, by table. vectors: ids that the index may hold of it."""

    counts: dict[str, int] = field(default_factory=dict)
    sessions: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)

    def add(self, name: str, count: int) -> None:
        if count:
            self.counts[name] = self.counts.get(name, 0) + count


Step = Callable[[Connection, str, str], Taken]


def _conversations(connection: Connection, tenant_id: str, user_id: str) -> Taken:
    """Remove some sessions with all that was said; of a long one, some messages first."""
    taken = Taken()
    ids = sa.select(sessions.c.session_id).where(
        sessions.c.tenant_id == tenant_id, sessions.c.user_id == user_id
    )
    some = ids.order_by(sessions.c.session_id).limit(SESSIONS_AT_ONCE)
    for session_id in connection.execute(some).scalars().all():
        session = lock_session(connection, tenant_id, session_id)
        if session is None or session.user_id != user_id:
            continue
        left = MESSAGES_AT_ONCE - taken.counts.get("messages", 0)
        first = sa.select(messages.c.id).where(of_session(messages, tenant_id, session_id))
        gone = connection.execute(
            messages.delete().where(messages.c.id.in_(first.limit(left)))
        ).rowcount
        taken.add("messages", gone)
        if gone == left:
            return taken
        said = fact_sightings.delete().where(of_session(fact_sightings, tenant_id, session_id))
        taken.add("fact_sightings", connection.execute(said).rowcount)
        _cancel(connection, tenant_id, [f"session:{session_id}", f"memory:{session_id}"], taken)
        connection.execute(sessions.delete().where(of_session(sessions, tenant_id, session_id)))
        taken.add("sessions", 1)
        taken.sessions.append(session_id)
        taken.vectors += ids_of(session_id)
    return taken


def _facts(connection: Connection, tenant_id: str, user_id: str) -> Taken:
    taken = Taken()
    lock_user(connection, tenant_id, user_id)
    of_user = sa.select(facts.c.fact_id).where(
        facts.c.tenant_id == tenant_id, facts.c.user_id == user_id
    )
    ids = list(connection.execute(of_user.limit(ROWS_AT_ONCE)).scalars())
    for table in (fact_sightings, facts):
        here = sa.and_(table.c.tenant_id == tenant_id, table.c.fact_id.in_(ids))
        taken.add(table.name, connection.execute(table.delete().where(here)).rowcount)
    _cancel(connection, tenant_id, [f"fact:{fact_id}" for fact_id in ids], taken)
    taken.vectors += [fact_vector_id(fact_id) for fact_id in ids]
    return taken


def _words(kind: str) -> Step:
    def step(connection: Connection, tenant_id: str, user_id: str) -> Taken:
        taken = Taken()
        lock_user(connection, tenant_id, user_id)
        scope = scope_of(kind, tenant_id, user_id)
        for name, count in clear_some(connection, scope).items():
            taken.add(name, count)
        return taken

    return step


def _own(table: sa.Table) -> Step:
    key = list(table.primary_key.columns)

    def step(connection: Connection, tenant_id: str, user_id: str) -> Taken:
        taken = Taken()
        lock_user(connection, tenant_id, user_id)
        some = sa.select(*key).where(_of_user(table, tenant_id, user_id)).limit(ROWS_AT_ONCE)
        these = sa.tuple_(*key).in_(some) if len(key) > 1 else key[0].in_(some)
        taken.add(table.name, connection.execute(table.delete().where(these)).rowcount)
        return taken

    return step


def _keys(connection: Connection, tenant_id: str, user_id: str) -> Taken:
    """Revoke the user's keys for good, and leave no name in them.

    The rows stay: without any key that was ever made, a service lets in who is on its machine.
    """
    taken = Taken()
    nameless = {"user_id": None, "name": None, "document_filter": None}
    revoked = sa.func.coalesce(api_keys.c.revoked_at, db_now())
    gone = (
        api_keys.update()
        .where(_of_user(api_keys, tenant_id, user_id))
        .values(revoked_at=sa.type_coerce(revoked, Instant), **nameless)
    )
    taken.add("api_keys", connection.execute(gone).rowcount)
    return taken


def _costs(connection: Connection, tenant_id: str, user_id: str) -> Taken:
    """Add what the user's turns cost to what is nobody's, so that the sums stay."""
    taken = Taken()
    some = sa.select(usage).where(_of_user(usage, tenant_id, user_id)).limit(ROWS_AT_ONCE)
    rows = [dict(row) for row in connection.execute(some).mappings()]
    if not rows:
        return taken
    key = [column.name for column in usage.primary_key.columns]
    rows.sort(key=lambda row: [str(row[name]) for name in key])
    for row in rows:
        these = (usage.c[name] == row[name] for name in key)
        connection.execute(usage.delete().where(*these))
    nobodys = [{**row, "user_id": NOBODY} for row in rows]
    add_up(connection, usage, nobodys, key=key)
    taken.add("usage", len(rows))
    return taken


TABLES = (
    *("sessions", "messages", "facts", "fact_sightings", "lexical_items", "lexical_postings"),
    *("usage", "api_keys", "jobs"),
    *(table.name for table in _OWN),
)
STEPS: Sequence[Step] = (
    _keys,
    _conversations,
    _facts,
    *map(_own, _OWN),
    *map(_words, (SAID, NOTED)),
    _costs,
)


def remaining(connection: Connection, tenant_id: str, user_id: str) -> dict[str, int]:
    """Count anew what SQL holds of a user, by table; empty if that is nothing."""
    left: dict[str, int] = {}
    for table in (sessions, facts, *_OWN, usage, api_keys):
        counted = sa.select(sa.func.count()).where(_of_user(table, tenant_id, user_id))
        left[table.name] = int(connection.execute(counted).scalar_one())
    for kind in (SAID, NOTED):
        left["lexical_items"] = left.get("lexical_items", 0) + (
            size(connection, scope_of(kind, tenant_id, user_id)).items
        )
    return {name: count for name, count in left.items() if count}


def remaining_of(
    connection: Connection, tenant_id: str, sessions_gone: Sequence[str]
) -> dict[str, int]:
    """Count what is left of sessions that are gone, by table; empty if that is nothing."""
    left: dict[str, int] = {}
    for some in in_parts(sessions_gone):
        for table in (messages, episodes, fact_sightings, entities):
            counted = sa.select(sa.func.count()).where(
                table.c.tenant_id == tenant_id, table.c.session_id.in_(some)
            )
            left[table.name] = left.get(table.name, 0) + connection.execute(counted).scalar_one()
    return {name: count for name, count in left.items() if count}


def known(connection: Connection, tenant_id: str, user_id: str) -> tuple[set[str], set[str]]:
    """Return what a user has now: sessions and facts. What the index holds beside is stray."""
    return (
        set(_ids(connection, sessions.c.session_id, sessions, tenant_id, user_id)),
        set(_ids(connection, facts.c.fact_id, facts, tenant_id, user_id)),
    )


def _ids(
    connection: Connection, column: sa.Column[Any], table: sa.Table, tenant_id: str, user_id: str
) -> Sequence[str]:
    mine = sa.select(column).where(_of_user(table, tenant_id, user_id))
    return connection.execute(mine).scalars().all()


def _of_user(table: sa.Table, tenant_id: str, user_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.tenant_id == tenant_id, table.c.user_id == user_id)


def _cancel(connection: Connection, tenant_id: str, subjects: Sequence[str], taken: Taken) -> None:
    gone = jobs.delete().where(jobs.c.tenant_id == tenant_id, jobs.c.subject.in_(subjects))
    taken.add("jobs", connection.execute(gone).rowcount)


def merged(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return two counts by name, added up."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}
