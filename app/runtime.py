"""The open service: its parts, and what runs beside the requests. Touches: nothing by itself."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import SecretStr

from app.audit import Audit
from app.background import Background
from app.breaker import Breakers
from app.chat.aside import Asides
from app.chat.door import Door
from app.chat.history import Histories
from app.chat.place import Places
from app.chat.turn import Turns
from app.clock import LOOK_AGAIN_SECONDS, DatabaseClock
from app.consents import Consents
from app.db import Database
from app.gates import Gates
from app.index.base import Index
from app.index.sizes import IndexSizes
from app.jobs import Jobs
from app.jwts import Jwts
from app.keys import Keys
from app.knowledge.documents import Documents
from app.knowledge.inbox import Inbox
from app.knowledge.loads import Loads
from app.knowledge.records import Records
from app.knowledge.search import DocumentSearch
from app.knowledge.senders import Senders
from app.lexical import terms
from app.limiter import Limiter
from app.llm import tokens
from app.llm.base import ChatModel, Embedder, Remembers
from app.memory.blocks import Blocks
from app.memory.checkpoints import Checkpoints
from app.memory.entities import Entities
from app.memory.episodes import Episodes
from app.memory.evictor import Evictor
from app.memory.fact_push import FactPusher
from app.memory.facts import Facts
from app.memory.graph import Graph
from app.memory.importing import Imports
from app.memory.items import Items
from app.memory.lexicon_refill import Refill
from app.memory.monitor import Monitor
from app.memory.profile import Profile
from app.memory.recall import Recall
from app.memory.retention import Retention
from app.memory.use import Use
from app.metrics import Metrics
from app.privacy.erasure import Erasure
from app.privacy.export import Exports
from app.privacy.restoring import Restoring
from app.quarantine.review import Review
from app.quiet import Quiet
from app.sessions.base import SessionStore
from app.settings import Settings
from app.stamp import Stamp
from app.tracing import Tracer
from app.usage import Ledger
from app.worker import Worker

SAMPLE_SECONDS = 5.0
TEND_SECONDS = 2.0
# While a thread is busy, the event loop would wait for its 5 ms to be over, several times a turn.
SWITCH_SECONDS = 0.001
# New objects between two looks of the garbage collector, and looks until one at what they left. At
# Python's own 700 it looks several times in a turn, mostly at what is still in use.
GARBAGE = (10_000, 5)
DONE_JOBS_KEPT_SECONDS = 14 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What routes need of the settings."""

    message_chars: int
    heartbeat_seconds: float
    served_model_name: str
    public_base_url: str
    origins: tuple[str, ...]
    any_host: bool
    open_webui_secret: SecretStr


@dataclass(frozen=True, slots=True)
class Runtime:
    """The open service: one instance of each part, shared by requests, jobs and ingestion."""

    settings: Settings
    background: Background
    database: Database
    index: Index
    index_sizes: IndexSizes
    embedder: Embedder
    chat_model: ChatModel
    summary_model: ChatModel
    keys: Keys
    jwts: Jwts | None
    sessions: SessionStore
    episodes: Episodes
    checkpoints: Checkpoints
    recall: Recall
    facts: Facts
    fact_pusher: FactPusher
    memory_words: Refill
    entities: Entities
    graph: Graph
    profile: Profile
    blocks: Blocks
    quarantine: Review
    histories: Histories
    consents: Consents
    audit: Audit
    door: Door
    ledger: Ledger
    metrics: Metrics
    tracer: Tracer | None
    limiter: Limiter
    items: Items
    imports: Imports
    documents: Documents
    document_search: DocumentSearch
    loads: Loads
    senders: Senders
    inbox: Inbox
    records: Records
    turns: Turns
    places: Places
    asides: Asides
    jobs: Jobs
    worker: Worker
    loader: Worker
    monitor: Monitor
    evictor: Evictor
    retention: Retention
    erasure: Erasure
    exports: Exports
    restoring: Restoring
    use: Use
    stamp: Stamp
    gates: Gates
    breakers: Breakers
    quiet: Quiet
    limits: Limits
    clock: Callable[[], datetime]

    def start(self, *, is_alone: bool = False) -> None:
        """Start what runs beside the requests: the workers, the monitor, the warm-up.

        is_alone: nothing else runs in this process.
        """
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

        if isinstance(self.clock, DatabaseClock):
            self.background.repeat("clock", self.clock.set, every_seconds=LOOK_AGAIN_SECONDS)
        for number in range(settings.job_workers):
            self.background.repeat(f"worker {number + 1}", work, every_seconds=0.0)
        # Loads are long: they have a place of their own, and all other jobs the others.
        self.background.repeat("loader", load, every_seconds=0.0)
        self.background.repeat("monitor", sweep, every_seconds=settings.monitor_interval_seconds)
        if settings.session_store.get_secret_value():
            self.background.repeat("settling", self.sessions.tend, every_seconds=TEND_SECONDS)
        self.background.spawn("warm-up", self._warm_up(is_alone))
        self._watch()

    def stop(self) -> None:
        """Begin nothing more beside the requests; what runs goes on until it is drained."""
        self.background.stop()
        self.worker.stop()
        self.loader.stop()

    def _watch(self) -> None:
        """Have the metrics tell of what is not counted where it happens."""
        metrics, background = self.metrics, self.background
        metrics.watch_cache("tokens", tokens.lookups)
        metrics.watch_cache("lexical_terms", terms.lookups)
        if isinstance(self.embedder, Remembers):
            metrics.watch_cache("embeddings", self.embedder.lookups)
        metrics.watch_failures(lambda: background.late_failures, lambda: len(background.failures))

        async def sample() -> None:
            metrics.sample()

        if metrics.is_shared:  # a scrape reaches one of the processes only
            background.repeat("metrics", sample, every_seconds=SAMPLE_SECONDS)

    async def _warm_up(self, is_alone: bool) -> None:
        """Load the models before the first question needs them."""
        for part in (self.embedder, self.chat_model, self.summary_model):
            await part.warm()
        if is_alone:
            # What is loaded by now stays. Otherwise the garbage collector looks through all of it
            # time and again, and everybody waits for a fifth of a second.
            gc.freeze()
            gc.set_threshold(*GARBAGE)
            sys.setswitchinterval(SWITCH_SECONDS)
