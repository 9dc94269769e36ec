"""What of a user is older than they let it be kept, and how it goes.

Touches: `sessions`, `messages`, `episodes`, `facts`, `store_items`, `memory_blocks`, the lexical
index, the quarantine list, the jobs; reads `consents`.

Plain functions of a connection, each for a transaction of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import quarantine
from app.db import Connection
from app.db.locks import lock_user
from app.db.tables import (
    consents,
    episodes,
    facts,
    memory_blocks,
    messages,
    micros,
    sessions,
    store_items,
)
from app.memory import tally
from app.memory.episodes import take_off_the_record
from app.memory.fact_sync import Job
from app.memory.forgetting import forget_deleted, forget_facts, forget_session
from app.memory.item_ops import Put
from app.memory.item_rows import write
from app.memory.recall_rows import Whose
from app.memory.retention import FIRST_LEFT, remove_messages
from app.quarantine import block_ref
from app.sessions.changes import delete
from app.sessions.rows import lock_session, of_session

DAY_MICROS = 86_400_000_000.0

Cut = sa.ColumnElement[int]  # the time before which something is old, in microseconds


@dataclass(frozen=True, slots=True)
class Expired:
    """What went. memories: conversations, facts, items and blocks. jobs: of the vectors."""

    memories: int = 0
    messages: int = 0
    sessions: int = 0
    jobs: tuple[Job, ...] = ()

    def __add__(self, other: Expired) -> Expired:
        return Expired(
            self.memories + other.memories,
            self.messages + other.messages,
            self.sessions + other.sessions,
            self.jobs + other.jobs,
        )

    @property
    def things(self) -> int:
        return self.memories + self.messages + self.sessions


def _is_old(at: sa.Column[datetime], cut: Cut) -> sa.ColumnElement[bool]:
    return sa.type_coerce(at, sa.BigInteger) < cut


def _is_due(cut: Cut) -> sa.ColumnElement[bool]:
    """Return the condition that something of a session is old, and may go."""
    has_old_message = _there_is(
        messages,
        messages.c.seq == FIRST_LEFT,
        messages.c.seq < sessions.c.covered_seq,
        _is_old(messages.c.created_at, cut),
    )
    has_old_episode = _there_is(episodes, _is_old(episodes.c.ended_at, cut))
    is_over = sa.and_(sessions.c.state == "closed", _is_old(sessions.c.last_message_at, cut))
    is_covered = sessions.c.covered_seq == sessions.c.last_seq
    return sa.or_(
        has_old_message,
        sa.and_(is_covered, has_old_episode),
        sa.and_(is_over, ~_there_is(messages)),
    )


def _there_is(table: sa.Table, *which: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that a session has such a row."""
    here = (
        table.c.tenant_id == sessions.c.tenant_id,
        table.c.session_id == sessions.c.session_id,
    )
    # By hand, for SQLAlchemy looks no further out than to the next statement.
    return sa.exists().where(*here, *which).correlate(sessions, consents)


def _has(table: sa.Table, is_due: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        table.c.tenant_id == consents.c.tenant_id, table.c.user_id == consents.c.user_id, is_due
    )


def _of_user(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(
        table.c.tenant_id == sa.bindparam("tenant"), table.c.user_id == sa.bindparam("user")
    )


_now = sa.bindparam("now", type_=sa.BigInteger)
_before = sa.bindparam("before", type_=sa.BigInteger)
_most = sa.bindparam("most", type_=sa.Integer)
_theirs = _now - sa.cast(consents.c.retention_days * sa.literal(DAY_MICROS), sa.BigInteger)
_user = (consents.c.tenant_id, consents.c.user_id)
_DUE_USERS = (
    sa.select(*_user)
    .where(
        sa.text("retention_days IS NOT NULL"),  # as the index of these says it
        sa.tuple_(*_user) > sa.tuple_(sa.bindparam("last_tenant"), sa.bindparam("last_user")),
        sa.or_(
            _has(store_items, _is_old(store_items.c.updated_at, _theirs)),
            _has(memory_blocks, _is_old(memory_blocks.c.updated_at, _theirs)),
            _has(facts, _is_old(facts.c.last_seen_at, _theirs)),
            _has(sessions, _is_due(_theirs)),
        ),
    )
    .order_by(*_user)
    .limit(_most)
)
_DUE_SESSIONS = (
    sa.select(sessions.c.session_id)
    .where(_of_user(sessions), _is_due(_before))
    .order_by(sessions.c.session_id)
    .limit(_most)
)
_OLD_ITEMS = (
    sa.select(store_items.c.namespace, store_items.c.key)
    .where(_of_user(store_items), _is_old(store_items.c.updated_at, _before))
    .order_by(store_items.c.namespace, store_items.c.key)
    .limit(_most)
)
# The fact of an item that was stored again is as young as the item.
_STORED_LATELY = sa.select(store_items.c.fact_id).where(
    _of_user(store_items),
    store_items.c.fact_id.is_not(None),
    ~_is_old(store_items.c.updated_at, _before),
)
_OLD_FACTS = (
    sa.select(facts.c.fact_id)
    .where(
        _of_user(facts),
        _is_old(facts.c.last_seen_at, _before),
        facts.c.fact_id.not_in(_STORED_LATELY),
    )
    .order_by(facts.c.last_seen_at, facts.c.fact_id)
    .limit(_most)
)
_DROP_BLOCKS = (
    memory_blocks.delete()
    .where(_of_user(memory_blocks), _is_old(memory_blocks.c.updated_at, _before))
    .returning(memory_blocks.c.label)
)
_ENDED_AT = sa.select(episodes.c.ended_at).where(
    episodes.c.tenant_id == sa.bindparam("tenant"),
    episodes.c.session_id == sa.bindparam("session"),
)


def due_users(connection: Connection, now: datetime, *, after: Whose, most: int) -> Sequence[Whose]:
    """Return the next users with a retention of their own of whom something is too old."""
    which = {
        "now": micros(now),
        "last_tenant": after.tenant_id,
        "last_user": after.user_id,
        "most": most,
    }
    return [Whose(*row) for row in connection.execute(_DUE_USERS, which)]


def due_sessions(
    connection: Connection, user: Whose, before: datetime, *, most: int
) -> Sequence[str]:
    """Return a user's sessions of which something is too old."""
    which = _which(user, before, most=most)
    return connection.execute(_DUE_SESSIONS, which).scalars().all()


def forget_told(
    connection: Connection, user: Whose, before: datetime, now: datetime, *, most: int
) -> Expired:
    """Forget items and blocks that were not written since, and facts that were not said since."""
    lock_user(connection, user.tenant_id, user.user_id)
    which = _which(user, before, most=most)
    items = connection.execute(_OLD_ITEMS, which).all()
    gone = [Put(tuple(json.loads(row.namespace)), row.key, None) for row in items]
    jobs = list(write(connection, user, gone, now)) if gone else []
    blocks = connection.execute(_DROP_BLOCKS, _which(user, before)).scalars().all()
    refs = [block_ref(user.user_id, label) for label in blocks]
    quarantine.drop(connection, user.tenant_id, "block", refs)
    fact_ids = connection.execute(_OLD_FACTS, which).scalars().all()
    forgotten = forget_facts(connection, user.tenant_id, fact_ids, now)
    if forgotten.facts:
        tally.add(connection, user.tenant_id, evicted_facts=forgotten.facts)
    memories = len(gone) + len(blocks) + forgotten.facts
    return Expired(memories, jobs=(*jobs, *forgotten.jobs))


def forget_of_session(
    connection: Connection,
    user: Whose,
    session_id: str,
    before: datetime,
    now: datetime,
    *,
    timezone: str,
) -> Expired:
    """Remove a session's old messages, its episode if that is old, itself if nothing is left."""
    tenant_id = user.tenant_id
    session = lock_session(connection, tenant_id, session_id)
    lock_user(connection, tenant_id, user.user_id)
    if session is None or session.user_id != user.user_id:
        return Expired()
    here = {"tenant": tenant_id, "session": session_id}
    ended_at = connection.execute(_ENDED_AT, here).scalar()
    is_covered = session.covered_seq == session.last_seq
    gone, jobs = 0, []
    if ended_at is not None and ended_at < before and is_covered:
        forgotten = forget_session(connection, tenant_id, user.user_id, session_id, now)
        key = take_off_the_record(connection, session, now=now)
        gone, jobs = (
            forgotten.episodes + forgotten.facts,
            [*forgotten.jobs, Job("sync_episode", key)],
        )
        tally.add(
            connection,
            tenant_id,
            evicted_episodes=forgotten.episodes,
            evicted_facts=forgotten.facts,
        )
    removed = remove_messages(connection, session, before, now, timezone=timezone)
    is_over = session.state == "closed" and is_covered and session.last_message_at < before
    left = sa.select(messages.c.seq).where(of_session(messages, tenant_id, session_id)).limit(1)
    if not is_over or connection.execute(left).first() is not None:
        return Expired(gone, removed, jobs=tuple(jobs))
    forget_deleted(connection, tenant_id, user.user_id, session_id, now)
    key, _ = delete(connection, session, now)
    return Expired(gone, removed, 1, (*jobs, Job("sync_episode", key)))


def _which(user: Whose, before: datetime, **more: Any) -> dict[str, Any]:
    return user.params(before=micros(before), **more)
