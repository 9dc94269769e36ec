"""A store of live sessions in a real Redis, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from app.background import Background
from app.db import Database
from app.llm.tokens import estimate_tokens
from app.sessions.redis import RedisSessions
from app.sessions.redis_link import Link
from app.sessions.redis_settler import Settler
from app.sessions.sql import SqlSessions


@asynccontextmanager
async def redis_store(
    url: str,
    database: Database,
    *,
    lease_seconds: float = 30,
    limit: Any = None,
    time_to_live_seconds: float = 60,
    kept: int = 8,
    settles: bool = True,
    timeout_seconds: float = 5,
    link: Link | None = None,
) -> AsyncIterator[RedisSessions]:
    """Open a store. settles: False is a process that dies before what it does afterwards."""
    background = Background()
    link = link or Link(url, timeout_seconds=timeout_seconds, accepts_loss=False)

    def drop(name: str, work: Any) -> None:
        work.close()

    store = RedisSessions(
        link,
        Settler(
            link,
            database,
            time_to_live_seconds=time_to_live_seconds,
            kept=kept,
            count_tokens=estimate_tokens,
            limit=limit,
        ),
        SqlSessions(
            database, lease_seconds=lease_seconds, count_tokens=estimate_tokens, limit=limit
        ),
        lease_seconds=lease_seconds,
        count_tokens=estimate_tokens,
        spawn=background.spawn if settles else drop,
    )
    await store.open()
    try:
        yield store
    finally:
        await background.close()
        await store.close()
