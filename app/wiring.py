"""Settings to a Runtime: the one place that picks a technology. Touches: everything, once.

Adapters are imported only where they are picked, so that the server opens at once. What was
opened is closed in reverse order.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from app.assembling import assemble
from app.background import Background
from app.clock import DatabaseClock
from app.db import open_database
from app.db.measured import MeasuredDatabase
from app.errors import UpstreamError
from app.gates import read_calibrated, settle
from app.index.base import Index
from app.knowledge import refill
from app.lexical.version import index_anew_if_needed
from app.memory import lexicon_refill
from app.metrics import Metrics
from app.picks import (
    index_name,
    pick_breakers,
    pick_cap,
    pick_embedder,
    pick_fetchers,
    pick_index,
    pick_jwts,
    pick_limiter,
    pick_models,
    pick_sessions,
    pick_tracer,
)
from app.runtime import Runtime as Runtime
from app.settings import Settings
from app.stamp import Stamp, check_stamp

log = logging.getLogger(__name__)

# Jobs that index by words what an older version stored without, and the tenants that have some.
REFILLS = {
    refill.REINDEX: refill.tenants,
    lexicon_refill.REINDEX: lexicon_refill.tenants,
}


def utc_now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    check: bool = True,
    clock: Callable[[], datetime] | None = None,
    own_clock: Callable[[], datetime] = utc_now,
) -> AsyncIterator[Runtime]:
    """Open every part that the settings ask for; nothing runs by itself until `start()`.

    clock: the time as the product sees it; None: the database's, told from `own_clock`.
    `check=False` accepts an index that was built with another embedding model (for `reindex`).
    Raises `Misconfigured` with what to change.
    """
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    os.environ.setdefault("LANGCHAIN_TRACING_V2", "false")
    async with AsyncExitStack() as opened:

        def closing(close: Callable[[], Awaitable[None]]) -> None:
            opened.push_async_callback(close)

        metrics = Metrics()
        tracer = pick_tracer(settings)
        if tracer is not None:
            closing(tracer.close)
        limiter = pick_limiter(settings, metrics)
        closing(limiter.close)
        database = await open_database(
            settings.database_address(),
            timeout_seconds=settings.database_timeout_seconds,
            within=settings.data_dir,
        )
        closing(database.close)
        database = MeasuredDatabase(database, metrics)
        if clock is None:
            clock = DatabaseClock(database, own_clock)
            await clock.set()
        breakers, cap = pick_breakers(settings, metrics), pick_cap(settings, metrics)
        embedder = pick_embedder(settings, breakers)
        closing(embedder.close)
        index = pick_index(settings, database, embedder, breakers)
        closing(index.close)
        chat_model, summary_model = pick_models(settings, embedder, cap, breakers)
        closing(chat_model.close)
        closing(summary_model.close)
        fetchers = pick_fetchers(settings, clock)
        for fetcher in fetchers.values():
            closing(fetcher.close)
        jwts = pick_jwts(settings)
        if jwts is not None:
            closing(jwts.close)
        stamp = Stamp(embedder.name, embedder.dimension, index_name(settings))
        if check:
            await check_stamp(database, stamp)
            await index_anew_if_needed(database, REFILLS, clock())
            await _open_index(index)
        gates = settle(
            await read_calibrated(database, embedder),
            embedder.thresholds,
            memory=settings.memory_threshold,
            documents=settings.document_threshold,
        )
        background = Background(shutdown_seconds=settings.shutdown_seconds / 2)
        sessions = pick_sessions(settings, database, background, metrics)
        closing(sessions.close)
        if check:
            await sessions.open()
        closing(background.close)  # before the store: what runs late settles sessions
        yield assemble(
            settings,
            background,
            database,
            sessions,
            index,
            embedder,
            chat_model,
            summary_model,
            fetchers,
            jwts,
            stamp,
            gates,
            cap,
            breakers,
            metrics,
            tracer,
            limiter,
            clock,
        )


async def _open_index(index: Index) -> None:
    """Connect; an index that can't be reached now is tried again when it is needed."""
    try:
        await index.open()
    except UpstreamError as error:
        log.error("the index can't be reached yet: %s", error.message)
