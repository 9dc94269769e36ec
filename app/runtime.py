"""The open service: its parts, and what runs beside the requests. Touches: nothing by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import SecretStr

from app.audit import Audit
from app.background import Background
from app.chat.aside import Asides
from app.chat.door import Door
from app.chat.history import Histories
from app.chat.place import Places
from app.chat.turn import Turns
from app.consents import Consents
from app.db import Database
from app.gates import Gates
from app.index.base import Index
from app.jobs import Jobs
from app.jwts import Jwts
from app.keys import Keys
from app.knowledge.documents import Documents
from app.knowledge.inbox import Inbox
from app.knowledge.loads import Loads
from app.knowledge.records import Records
from app.knowledge.search import DocumentSearch
from app.knowledge.senders import Senders
from app.limiter import Limiter
from app.llm.base import ChatModel, Embedder
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
from app.sessions.base import SessionStore
from app.settings import Settings
from app.stamp import Stamp
from app.usage import Ledger
from app.worker import Worker

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
