"""A user's memories as eviction judges them. Touches: `episodes`, `facts`, `sessions`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import episodes, facts, sessions
from app.memory.eviction import Candidate, Doomed, Kind, Policy
from app.memory.importance import importance, worth_at_least
from app.sessions.rows import of_session

PAGE = 1_000
OPENING_CHARS = 200

_is_covered = sessions.c.last_seq == sessions.c.covered_seq
_stands_by_itself = ~sa.exists().where(  # told by itself, or its conversation was evicted
    episodes.c.tenant_id == facts.c.tenant_id, episodes.c.session_id == facts.c.session_id
)


def _is_after(at: sa.Column[datetime], row_id: sa.Column[str]) -> sa.ColumnElement[bool]:
    last = sa.tuple_(sa.bindparam("last_at", type_=at.type), sa.bindparam("last_id", type_=sa.Text))
    return sa.tuple_(at, row_id) > last


_EPISODES = (
    sa.select(
        episodes.c.ended_at,
        episodes.c.session_id,
        episodes.c.used_at,
        episodes.c.uses,
        episodes.c.mark,
        episodes.c.version,
        _is_covered.label("is_covered"),
    )
    .select_from(episodes)
    .join(
        sessions,
        sa.and_(
            sessions.c.tenant_id == episodes.c.tenant_id,
            sessions.c.session_id == episodes.c.session_id,
        ),
    )
    .where(
        episodes.c.tenant_id == sa.bindparam("tenant"),
        episodes.c.user_id == sa.bindparam("user"),
        _is_after(episodes.c.ended_at, episodes.c.session_id),
    )
    # Not by id alone, or a database reads the whole tenant in the order of its key.
    .order_by(episodes.c.ended_at, episodes.c.session_id)
    .limit(PAGE)
)
_FACTS = (
    sa.select(
        facts.c.last_seen_at,
        facts.c.fact_id,
        facts.c.session_id,
        facts.c.kind,
        facts.c.used_at,
        facts.c.uses,
        facts.c.sightings,
        facts.c.mark,
        facts.c.version,
    )
    .where(
        facts.c.tenant_id == sa.bindparam("tenant"),
        facts.c.user_id == sa.bindparam("user"),
        _is_after(facts.c.last_seen_at, facts.c.fact_id),
    )
    .order_by(facts.c.last_seen_at, facts.c.fact_id)
    .limit(PAGE)
)


@dataclass(frozen=True, slots=True)
class User:
    tenant_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Seen:
    """How a row stood when it was judged; a use or a mark since then makes it another one."""

    version: int
    uses: int
    mark: str | None


@dataclass(frozen=True, slots=True)
class Judged:
    """What of a user may go; `held` memories beside it may not now."""

    candidates: Sequence[Candidate]
    seen: Mapping[tuple[Kind, str], Seen]
    held: int


async def users(
    database: Database, policy: Policy, now: datetime, *, tenant_id: str | None = None
) -> AsyncIterator[User]:
    """Yield the users who may have something to evict, of one tenant or of all."""
    last = ("", "")
    while True:
        which = {"last_tenant": last[0], "last_user": last[1]}
        statement = _users(policy, now, tenant_id)
        page = await database.read(partial(_rows, statement, which))
        for row in page:
            yield User(*row)
        if len(page) < PAGE:
            return
        last = (page[-1][0], page[-1][1])


def look_again(
    connection: Connection, tenant_id: str, kind: Kind, memory_id: str, policy: Policy
) -> Seen | None:
    """Return how a memory stands now, locked; None if it is gone.

    A session's mark is also that of a fact that would go with it.
    """
    if kind == "fact":
        row = connection.execute(
            sa.select(facts.c.version, facts.c.uses, facts.c.mark)
            .where(facts.c.tenant_id == tenant_id, facts.c.fact_id == memory_id, _stands_by_itself)
            .with_for_update()
        ).first()
        return None if row is None else _seen(row)
    row = connection.execute(
        sa.select(episodes.c.version, episodes.c.uses, episodes.c.mark)
        .where(of_session(episodes, tenant_id, memory_id))
        .with_for_update()
    ).first()
    if row is None or row.mark is not None or policy.keep_facts:
        return None if row is None else _seen(row)
    marked = connection.execute(
        sa.select(facts.c.mark).where(
            of_session(facts, tenant_id, memory_id), facts.c.mark.is_not(None)
        )
    ).scalar()
    return Seen(row.version, row.uses, marked)


async def openings(
    database: Database, tenant_id: str, doomed: Sequence[Doomed]
) -> dict[tuple[Kind, str], str]:
    """Return how the texts begin of memories that are still there."""
    ids = {kind: [each.id for each in doomed if each.kind == kind] for kind in ("episode", "fact")}
    texts = (
        sa.select(sa.literal("episode"), episodes.c.session_id, episodes.c.text).where(
            episodes.c.tenant_id == tenant_id, episodes.c.session_id.in_(ids["episode"])
        ),
        sa.select(sa.literal("fact"), facts.c.fact_id, facts.c.statement).where(
            facts.c.tenant_id == tenant_id, facts.c.fact_id.in_(ids["fact"])
        ),
    )
    rows = await database.read(lambda c: c.execute(sa.union_all(*texts)).all())
    return {(row[0], row[1]): row[2][:OPENING_CHARS] for row in rows}


async def judge(database: Database, user: User, policy: Policy, now: datetime) -> Judged:
    """Return a user's memories with what each is worth at a time."""
    rows = await _every(database, _EPISODES, user)
    own = [] if policy.keep_facts else await _every(database, _FACTS, user)
    return await asyncio.to_thread(_judged, rows, own, now)


async def _every(database: Database, statement: sa.Select[Any], user: User) -> list[Any]:
    found: list[Any] = []
    last = (datetime.min.replace(tzinfo=UTC), "")
    while True:
        which = {
            "tenant": user.tenant_id,
            "user": user.user_id,
            "last_at": last[0],
            "last_id": last[1],
        }
        page = await database.read(partial(_rows, statement, which))
        found += page
        if len(page) < PAGE:
            return found
        last = page[-1][:2]


def _rows(
    statement: sa.Select[Any], which: Mapping[str, Any], connection: Connection
) -> Sequence[Any]:
    return connection.execute(statement, which).all()


def _judged(rows: Sequence[Any], own: Sequence[Any], now: datetime) -> Judged:
    candidates: list[Candidate] = []
    seen: dict[tuple[Kind, str], Seen] = {}
    of_sessions: dict[str, list[Any]] = {}
    held = 0
    summarised = {row.session_id for row in rows}
    for fact in own:
        if fact.session_id in summarised:
            of_sessions.setdefault(fact.session_id, []).append(fact)
            continue
        worth = _worth_of_fact(fact, now)
        candidates.append(Candidate(fact.fact_id, "fact", fact.last_seen_at, worth, fact.mark))
        seen["fact", fact.fact_id] = _seen(fact)
    for row in rows:
        if not row.is_covered:
            held += 1
            continue
        with_it = of_sessions.get(row.session_id, [])
        worth = importance(
            "episode",
            last=_latest(row.ended_at, row.used_at),
            uses=row.uses,
            mark=row.mark,
            now=now,
        )
        worth = max([worth, *(_worth_of_fact(fact, now) for fact in with_it)])
        mark = next((each.mark for each in (row, *with_it) if each.mark is not None), None)
        candidates.append(Candidate(row.session_id, "episode", row.ended_at, worth, mark))
        seen["episode", row.session_id] = _seen(row)
    return Judged(candidates, seen, held)


def _worth_of_fact(fact: Any, now: datetime) -> float:
    return importance(
        fact.kind,
        last=_latest(fact.last_seen_at, fact.used_at),
        uses=fact.uses,
        sightings=fact.sightings,
        mark=fact.mark,
        now=now,
    )


def _latest(at: datetime, used_at: datetime | None) -> datetime:
    return at if used_at is None else max(at, used_at)


def _seen(row: Any) -> Seen:
    return Seen(row.version, row.uses, row.mark)


def _users(policy: Policy, now: datetime, tenant_id: str | None) -> sa.Select[Any]:
    """Return what selects the next page of users of whom something may go."""
    kinds: list[tuple[sa.Table, sa.Column[datetime], sa.ColumnElement[bool]]] = [
        (episodes, episodes.c.ended_at, sa.true())
    ]
    if not policy.keep_facts:
        kinds.append((facts, facts.c.last_seen_at, _stands_by_itself))
    memories = sa.union_all(
        *(
            sa.select(
                table.c.tenant_id,
                table.c.user_id,
                at.label("at"),
                sa.func.coalesce(table.c.used_at, at).label("used_at"),
                table.c.mark,
            ).where(which, *([] if tenant_id is None else [table.c.tenant_id == tenant_id]))
            for table, at, which in kinds
        )
    ).subquery()
    free = memories.c.mark.is_(None)
    is_old = sa.and_(free, memories.c.at < policy.oldest(now))
    unused = worth_at_least(policy.min_importance, now)
    is_worth_less = sa.and_(free, memories.c.at < unused, memories.c.used_at < unused)
    are_too_many = sa.func.count() > policy.max_memories
    whose = (memories.c.tenant_id, memories.c.user_id)
    conditions = {
        "time": _any(is_old),
        "count": are_too_many,
        "importance": _any(is_worth_less),
        "hybrid": sa.or_(are_too_many, _any(sa.and_(is_old, is_worth_less))),
    }
    last = sa.tuple_(sa.bindparam("last_tenant"), sa.bindparam("last_user"))
    return (
        sa.select(*whose)
        .where(sa.tuple_(*whose) > last)
        .group_by(*whose)
        .having(conditions.get(policy.name, sa.false()))
        .order_by(*whose)
        .limit(PAGE)
    )


def _any(which: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.func.sum(sa.case((which, 1), else_=0)) > 0
