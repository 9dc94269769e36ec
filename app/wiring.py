"""Settings to a Runtime: the one place that picks a technology. Touches: everything, once.

Adapters are imported only where they are picked, so that the server opens at once. What was
opened is closed in reverse order.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.background import Background
from app.chat.prompt import Budget
from app.chat.retrieve import Retriever
from app.chat.turn import Turns
from app.crm.base import Fetcher
from app.db import Database, open_database
from app.errors import UpstreamError
from app.gates import Gates, read_calibrated, settle
from app.identity import Keys
from app.index.base import Index
from app.jobs import Jobs
from app.knowledge import refill
from app.knowledge.documents import Documents
from app.knowledge.inbox import Inbox
from app.knowledge.loads import Loads
from app.knowledge.pending import LOAD
from app.knowledge.records import Records
from app.knowledge.search import DocumentSearch
from app.knowledge.senders import Senders
from app.lexical.version import index_anew_if_needed
from app.llm.base import ChatModel, Embedder
from app.memory import lexicon_refill
from app.memory.checkpoints import Checkpoints
from app.memory.entities import Entities
from app.memory.episodes import Episodes
from app.memory.eviction import Policy
from app.memory.evictor import Evictor
from app.memory.fact_push import FactPusher
from app.memory.facts import Facts
from app.memory.forgetting import forget_deleted
from app.memory.graph import Graph
from app.memory.importing import Imports
from app.memory.monitor import Monitor
from app.memory.profile import Profile
from app.memory.reading import Reader
from app.memory.recall import Recall
from app.memory.retention import Retention
from app.memory.use import Use
from app.picks import (
    index_name,
    pick_embedder,
    pick_fetchers,
    pick_index,
    pick_kinds,
    pick_models,
)
from app.sessions.base import SessionStore
from app.sessions.sql import SqlSessions
from app.settings import Settings
from app.sources import DEFAULT_TENANT, pick_sources
from app.stamp import Stamp, check_stamp
from app.worker import Worker
from ingest.providers import PROVIDERS

log = logging.getLogger(__name__)

DONE_JOBS_KEPT_SECONDS = 14 * 24 * 3600.0
# Jobs that index by words what an older version stored without, and the tenants that have some.
REFILLS = {
    refill.REINDEX: refill.tenants,
    lexicon_refill.REINDEX: lexicon_refill.tenants,
}


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Limits:
    """What routes need of the settings."""

    message_chars: int
    heartbeat_seconds: float


@dataclass(frozen=True, slots=True)
class Runtime:
    """The open service: one instance of each part, shared by requests, jobs and ingestion."""

    settings: Settings
    background: Background
    database: Database
    index: Index
    embedder: Embedder
    chat_model: ChatModel
    summary_model: ChatModel
    keys: Keys
    sessions: SessionStore
    episodes: Episodes
    checkpoints: Checkpoints
    recall: Recall
    facts: Facts
    fact_pusher: FactPusher
    memory_words: lexicon_refill.Refill
    entities: Entities
    graph: Graph
    profile: Profile
    imports: Imports
    documents: Documents
    document_search: DocumentSearch
    loads: Loads
    senders: Senders
    inbox: Inbox
    records: Records
    turns: Turns
    jobs: Jobs
    worker: Worker
    loader: Worker
    monitor: Monitor
    evictor: Evictor
    retention: Retention
    use: Use
    stamp: Stamp
    gates: Gates
    limits: Limits
    clock: Callable[[], datetime]

    def start(self) -> None:
        """Start what runs beside the requests: the workers, the monitor, the warm-up."""
        settings = self.settings

        async def work() -> None:
            await self.worker.work(poll_seconds=settings.job_poll_seconds)

        async def load() -> None:
            await self.loader.work(poll_seconds=settings.job_poll_seconds)

        async def sweep() -> None:
            await self.monitor.sweep(self.clock())
            await self.jobs.purge_done(older_than_seconds=DONE_JOBS_KEPT_SECONDS)
            await self.inbox.purge(older_than=timedelta(days=settings.webhook_keep_days))
            await self.loads.purge(self.clock())
            self.worker.wake()
            self.loader.wake()

        for number in range(settings.job_workers):
            self.background.repeat(f"worker {number + 1}", work, every_seconds=0.0)
        # Loads are long: they have a place of their own, and all other jobs the others.
        self.background.repeat("loader", load, every_seconds=0.0)
        self.background.repeat("monitor", sweep, every_seconds=settings.monitor_interval_seconds)
        self.background.spawn("warm-up", self._warm_up())

    async def _warm_up(self) -> None:
        """Load the models before the first question needs them."""
        for part in (self.embedder, self.chat_model, self.summary_model):
            await part.warm()


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    check: bool = True,
    clock: Callable[[], datetime] = utc_now,
) -> AsyncIterator[Runtime]:
    """Open every part that the settings ask for; nothing runs by itself until `start()`.

    `check=False` accepts an index that was built with another embedding model (for `reindex`).
    Raises `Misconfigured` with what to change.
    """
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    os.environ.setdefault("LANGCHAIN_TRACING_V2", "false")
    async with AsyncExitStack() as opened:

        def closing(close: Callable[[], Awaitable[None]]) -> None:
            opened.push_async_callback(close)

        database = await open_database(
            settings.database_address(), timeout_seconds=settings.database_timeout_seconds
        )
        closing(database.close)
        embedder = pick_embedder(settings)
        closing(embedder.close)
        index = pick_index(settings, database, embedder)
        closing(index.close)
        chat_model, summary_model = pick_models(settings, embedder)
        closing(chat_model.close)
        closing(summary_model.close)
        fetchers = pick_fetchers(settings, clock)
        for fetcher in fetchers.values():
            closing(fetcher.close)
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
        closing(background.close)
        yield _assemble(
            settings,
            background,
            database,
            index,
            embedder,
            chat_model,
            summary_model,
            fetchers,
            stamp,
            gates,
            clock,
        )


def _assemble(
    settings: Settings,
    background: Background,
    database: Database,
    index: Index,
    embedder: Embedder,
    chat_model: ChatModel,
    summary_model: ChatModel,
    fetchers: Mapping[str, Fetcher],
    stamp: Stamp,
    gates: Gates,
    clock: Callable[[], datetime],
) -> Runtime:
    async def run_now(tenant_id: str, kind: str, key: str) -> BaseException | None:
        return await worker.run_now(tenant_id, kind, key)

    sessions = SqlSessions(
        database, lease_seconds=settings.turn_lease_seconds, on_delete=forget_deleted
    )
    queue = Jobs(database, lease_seconds=settings.job_lease_seconds, in_order=[LOAD])
    reader = Reader(
        summary_model,
        max_tokens=settings.summary_max_tokens,
        context_tokens=settings.summary_context_tokens,
    )
    facts = Facts(database, run_now=run_now, clock=clock)
    fact_pusher = FactPusher(database, queue, index, embedder)
    entities = Entities(database, clock=clock)
    memory_words = lexicon_refill.Refill(database, queue, timezone=settings.timezone, clock=clock)
    episodes = Episodes(database, every_messages=settings.summary_every_messages, clock=clock)
    checkpoints = Checkpoints(
        database,
        sessions,
        episodes,
        facts,
        queue,
        index,
        embedder,
        reader,
        timezone=settings.timezone,
        exchanges=settings.memory_exchanges,
        clock=clock,
    )
    recall = Recall(
        database,
        index,
        embedder,
        entities,
        threshold=gates.memory.value,
        fact_threshold=gates.facts.value,
        top_k=settings.memory_top_k,
        recency=settings.memory_recency_weight,
        clock=clock,
    )

    use = Use(database)
    evictor = Evictor(
        database,
        Policy(
            settings.eviction_policy,
            max_age_days=settings.eviction_max_age_days,
            max_memories=settings.eviction_max_memories,
            min_importance=settings.eviction_min_importance,
            keep_facts=settings.eviction_keep_facts,
        ),
        run_now=run_now,
    )
    retention = Retention(
        database,
        queue,
        index,
        days=settings.message_retention_days,
        timezone=settings.timezone,
    )

    def wake() -> None:
        worker.wake()

    def wake_in(seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, wake)

    kinds = pick_kinds(settings)
    inbox = Inbox(
        database,
        PROVIDERS,
        coalesce_seconds=settings.webhook_coalesce_seconds,
        wake_in=wake_in,
        clock=clock,
    )
    records = Records(
        database,
        queue,
        inbox,
        PROVIDERS,
        {(DEFAULT_TENANT, name): fetcher for name, fetcher in fetchers.items()},
        kinds=kinds,
        dimension=embedder.dimension,
        attempts=settings.webhook_attempts,
        coalesce_seconds=settings.webhook_coalesce_seconds,
        wake=wake,
        clock=clock,
    )
    document_search = DocumentSearch(
        database,
        index,
        threshold=gates.documents.value,
        top_k=settings.document_top_k,
    )
    documents = Documents(
        database,
        queue,
        index,
        embedder,
        clock=clock,
        run_now=run_now,
        on_delete=records.bury,
    )
    worker = Worker(
        queue,
        {
            **checkpoints.handlers(),
            **fact_pusher.handlers(),
            **memory_words.handlers(),
            **retention.handlers(),
            **documents.handlers(),
            **records.handlers(),
        },
        lease_seconds=settings.job_lease_seconds,
    )
    loads = Loads(
        database,
        queue,
        documents,
        run=lambda claim: loader.run(claim),
        wake=lambda: loader.wake(),
        inline_rows=settings.upload_inline_rows,
        kinds=kinds,
        clock=clock,
    )
    loader = Worker(queue, loads.handlers(), lease_seconds=settings.job_lease_seconds)
    profile = Profile(
        database, max_facts=settings.profile_max_facts, max_tokens=settings.profile_max_tokens
    )
    turns = Turns(
        sessions=sessions,
        episodes=episodes,
        recall=recall,
        documents=document_search,
        retriever=Retriever(embedder, recall, document_search, profile),
        use=use,
        model=chat_model,
        embedding_model=embedder.name,
        background=background,
        budget=Budget(
            settings.context_tokens, settings.reply_max_tokens, settings.profile_max_tokens
        ),
        timezone=settings.timezone,
        wait_seconds=settings.turn_wait_seconds,
        renew_seconds=settings.turn_lease_seconds / 3,
        clock=clock,
        wake_worker=worker.wake,
    )
    return Runtime(
        settings=settings,
        background=background,
        database=database,
        index=index,
        embedder=embedder,
        chat_model=chat_model,
        summary_model=summary_model,
        keys=Keys(
            database,
            setting=settings.api_key.get_secret_value(),
            allow_anonymous=settings.allow_anonymous,
        ),
        sessions=sessions,
        episodes=episodes,
        checkpoints=checkpoints,
        recall=recall,
        facts=facts,
        fact_pusher=fact_pusher,
        memory_words=memory_words,
        entities=entities,
        graph=Graph(database, clock=clock),
        profile=profile,
        imports=Imports(database, timezone=settings.timezone, wake=wake, clock=clock),
        documents=documents,
        document_search=document_search,
        loads=loads,
        senders=Senders(pick_sources(settings), PROVIDERS),
        inbox=inbox,
        records=records,
        turns=turns,
        jobs=queue,
        worker=worker,
        loader=loader,
        monitor=Monitor(
            sessions,
            episodes,
            evictor,
            retention,
            stale_after=timedelta(seconds=settings.stale_after_seconds),
        ),
        evictor=evictor,
        retention=retention,
        use=use,
        stamp=stamp,
        gates=gates,
        limits=Limits(settings.message_max_chars, settings.heartbeat_seconds),
        clock=clock,
    )


async def _open_index(index: Index) -> None:
    """Connect; an index that can't be reached now is tried again when it is needed."""
    try:
        await index.open()
    except UpstreamError as error:
        log.error("the index can't be reached yet: %s", error.message)
