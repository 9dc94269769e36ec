"""The latest memories of a user, without a question. Touches: `episodes`, `facts`, `messages`."""

from __future__ import annotations

from datetime import datetime
from itertools import chain

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import episodes, facts
from app.memory.base import Fact
from app.memory.recall_rows import SUMMARY, Summary, Whose, read_recent
from app.memory.recalled import Memory, RecordType, Span
from app.memory.showing import episode_memory, fact_memory, message_memory
from app.quarantine import shown

_episode, _fact = episodes.c, facts.c


def latest(
    connection: Connection,
    whose: Whose,
    now: datetime,
    *,
    memory_type: RecordType | None,
    span: Span,
    top_k: int,
) -> list[Memory]:
    """Return memories without a score, the latest first.

    Without a `memory_type`: episodes, and the facts that stand alone. Of facts, those that hold.
    """
    found = chain(
        _episodes(connection, whose, span, top_k) if memory_type in (None, "episode") else (),
        _facts(connection, whose, span, top_k, now, only_alone=memory_type is None)
        if memory_type in (None, "fact")
        else (),
        _messages(connection, whose, span) if memory_type == "message" else (),
    )
    return sorted(found, key=lambda memory: (-memory.created_at.timestamp(), memory.id))[:top_k]


def _episodes(connection: Connection, whose: Whose, span: Span, top_k: int) -> list[Memory]:
    begun = min((at for at in (span.until, span.as_of) if at is not None), default=None)
    statement = (
        sa.select(*SUMMARY)
        .where(
            _episode.tenant_id == whose.tenant_id,
            _episode.user_id == whose.user_id,
            shown("episode", _episode.session_id),
        )
        .order_by(_episode.ended_at.desc(), _episode.session_id)
        .limit(top_k)
    )
    if begun is not None:
        statement = statement.where(_episode.started_at <= begun)
    if span.since is not None:
        statement = statement.where(_episode.ended_at >= span.since)
    return [episode_memory(Summary(*row)) for row in connection.execute(statement, whose.shown())]


def _facts(
    connection: Connection,
    whose: Whose,
    span: Span,
    top_k: int,
    now: datetime,
    *,
    only_alone: bool,
) -> list[Memory]:
    begun = min((at for at in (span.until, span.as_of) if at is not None), default=None)
    statement = (
        sa.select(facts)
        .where(
            _fact.tenant_id == whose.tenant_id,
            _fact.user_id == whose.user_id,
            _fact.valid_from <= now,
            sa.or_(_fact.valid_to.is_(None), _fact.valid_to > now),
            shown("fact", _fact.fact_id),
        )
        .order_by(_fact.learned_at.desc(), _fact.fact_id)
        .limit(top_k)
    )
    if only_alone:
        statement = statement.where(_fact.number.is_(None))
    if begun is not None:
        statement = statement.where(_fact.learned_at <= begun)
    if span.since is not None:
        statement = statement.where(_fact.last_seen_at >= span.since)
    return [fact_memory(Fact(*row)) for row in connection.execute(statement, whose.shown())]


def _messages(connection: Connection, whose: Whose, span: Span) -> list[Memory]:
    return [
        message_memory(row)
        for row in read_recent(connection, whose)
        if span.holds(row.created_at, row.created_at)
    ]
