"""A service with a clock that tests move, what was said to it, and all that its stores hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import sqlalchemy as sa

from app.db.tables import metadata
from app.lexical.store import scope_of
from app.memory import fact_rows, lexicon
from app.memory.base import FoundFact
from app.sessions.rows import put_sync
from app.wiring import Runtime
from tests.api.calls import chat, close
from tests.knowledge.calls import finish_jobs
from tests.served import served_at

Row = dict[str, Any]
Rows = dict[str, list[Row]]


@dataclass
class Clock:
    now: datetime = field(default=datetime(2026, 3, 1, 12, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.now

    def ago(self, days: float) -> None:
        self.now -= timedelta(days=days)


@asynccontextmanager
async def serving(clock: Clock, **chosen: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Serve at a clock's time; nothing is closed or evicted unless a test asks for it."""
    async with served_at(clock, **{"stale_after_seconds": 10.0**9, **chosen}) as service:
        yield service


@asynccontextmanager
async def two_replicas(
    clock: Clock, **chosen: Any
) -> AsyncIterator[list[tuple[httpx.AsyncClient, Runtime]]]:
    async with serving(clock, **chosen) as one, serving(clock, **chosen) as other:
        yield [one, other]


async def converse(
    client: httpx.AsyncClient, clock: Clock, session_id: str, *texts: str, days_ago: float
) -> None:
    """Have a conversation so many days ago, summarised and closed; its user begins its id."""
    today = clock.now
    clock.ago(days_ago)
    for text in texts:
        await chat(client, text, session_id=session_id, user_id=session_id.partition("-")[0])
    await close(client, session_id)
    clock.now = today


def found(predicate: str, value: str, at: datetime, **fields: Any) -> FoundFact:
    """Return a fact that a user said in the first message."""
    said = {
        "subject": "user",
        "predicate": predicate,
        "value": value,
        "statement": f"The user's {predicate} is {value}.",
        "kind": "fact",
        "is_many": False,
        "confidence": 0.9,
        "said_by": "user",
        "seq": 1,
        "quote": value,
        "said_at": at,
        "valid_from": at,
    }
    return FoundFact(**{**said, **fields})


async def learn(runtime: Runtime, session_id: str, *facts: FoundFact) -> None:
    """Store facts of a conversation as its checkpoint does, in all stores."""
    user = session_id.partition("-")[0]

    def take(connection: sa.Connection) -> None:
        fact_rows.take(connection, "default", user, session_id, facts, runtime.clock())
        lexicon.index_notes(connection, "default", user, session_id)
        put_sync(connection, "default", session_id, now=runtime.clock())

    await runtime.database.write(take)
    await finish_jobs(runtime)


async def every_row(runtime: Runtime) -> Rows:
    """Return all rows of all tables, but of the jobs."""

    def read(connection: sa.Connection) -> Rows:
        return {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings().all()]
            for table in metadata.sorted_tables
            if table.name != "jobs"
        }

    return await runtime.database.read(read)


def of_user(rows: Rows, user: str) -> Rows:
    """Return the rows that belong to a user: by its name, by an id that it begins, by scope."""
    scopes = {scope_of(kind, "default", user) for kind in ("memory", "notes")}
    fact_ids = {row["fact_id"] for row in rows["facts"] if row["user_id"] == user}
    seqs = {row["seq"] for row in rows["index_rows"] if row["user_id"] == user}

    def is_theirs(table: str, row: Row) -> bool:
        if table == "index_vectors":
            return row["seq"] in seqs
        ids = [str(row.get(name) or "") for name in ("user_id", "session_id")]
        return (
            any(found.partition("-")[0] == user for found in ids)
            or row.get("scope") in scopes
            or row.get("fact_id") in fact_ids
        )

    return {table: [row for row in found if is_theirs(table, row)] for table, found in rows.items()}


def about(rows: Rows, name: str) -> set[str]:
    """Return the tables that hold a word, however it is written into their rows."""
    return {table for table, found in rows.items() if any(name in str(row) for row in found)}


async def vectors(runtime: Runtime) -> list[str]:
    return [found async for found in runtime.index.list_ids("memory")]
