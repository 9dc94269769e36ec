"""Settings to a Runtime: the one place that picks a technology. Touches: everything, once.

Adapters are imported only where they are picked, so that the server opens at once. What was
opened is closed in reverse order.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.background import Background
from app.chat.prompt import Budget
from app.chat.retrieve import Retriever
from app.chat.turn import Turns
from app.db import Database, open_database
from app.errors import Misconfigured, UpstreamError
from app.identity import Keys
from app.index.base import Index
from app.jobs import Jobs
from app.knowledge.documents import Documents
from app.llm.base import ChatModel, Compares, Embedder
from app.memory.checkpoints import Checkpoints
from app.memory.episodes import Episodes
from app.memory.monitor import Monitor
from app.memory.recall import Recall
from app.memory.summary import Summariser
from app.sessions.base import SessionStore
from app.sessions.sql import SqlSessions
from app.settings import Settings
from app.stamp import Stamp, check_stamp
from app.worker import Worker

log = logging.getLogger(__name__)

GROQ_CHAT_MODEL = "openai/gpt-oss-120b"
GROQ_SUMMARY_MODEL = "openai/gpt-oss-20b"
DONE_JOBS_KEPT_SECONDS = 14 * 24 * 3600.0


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
    documents: Documents
    turns: Turns
    jobs: Jobs
    worker: Worker
    monitor: Monitor
    stamp: Stamp
    limits: Limits
    clock: Callable[[], datetime]

    def start(self) -> None:
        """Start what runs beside the requests: the workers, the monitor, the warm-up."""
        settings = self.settings

        async def work() -> None:
            await self.worker.work(poll_seconds=settings.job_poll_seconds)

        async def sweep() -> None:
            await self.monitor.sweep(self.clock())
            await self.jobs.purge_done(older_than_seconds=DONE_JOBS_KEPT_SECONDS)
            self.worker.wake()

        for number in range(settings.job_workers):
            self.background.repeat(f"worker {number + 1}", work, every_seconds=0.0)
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
        stamp = Stamp(embedder.name, embedder.dimension, index_name(settings))
        if check:
            await check_stamp(database, stamp)
            await _open_index(index)
        background = Background(shutdown_seconds=settings.shutdown_seconds / 2)
        closing(background.close)
        yield _assemble(
            settings, background, database, index, embedder, chat_model, summary_model, stamp, clock
        )


def _assemble(
    settings: Settings,
    background: Background,
    database: Database,
    index: Index,
    embedder: Embedder,
    chat_model: ChatModel,
    summary_model: ChatModel,
    stamp: Stamp,
    clock: Callable[[], datetime],
) -> Runtime:
    sessions = SqlSessions(database, lease_seconds=settings.turn_lease_seconds)
    queue = Jobs(database, lease_seconds=settings.job_lease_seconds)
    summariser = Summariser(
        summary_model,
        max_tokens=settings.summary_max_tokens,
        context_tokens=settings.summary_context_tokens,
    )
    episodes = Episodes(database, every_messages=settings.summary_every_messages, clock=clock)
    checkpoints = Checkpoints(
        database, sessions, episodes, queue, index, embedder, summariser, clock=clock
    )
    gates = embedder.thresholds
    recall = Recall(
        database,
        episodes,
        index,
        embedder,
        threshold=_or(settings.memory_threshold, gates.memory),
        top_k=settings.memory_top_k,
    )

    async def run_now(tenant_id: str, kind: str, key: str) -> BaseException | None:
        return await worker.run_now(tenant_id, kind, key)

    documents = Documents(
        database,
        queue,
        index,
        embedder,
        threshold=_or(settings.document_threshold, gates.documents),
        top_k=settings.document_top_k,
        clock=clock,
        run_now=run_now,
    )
    worker = Worker(
        queue,
        {**checkpoints.handlers(), **documents.handlers()},
        lease_seconds=settings.job_lease_seconds,
    )
    turns = Turns(
        sessions=sessions,
        episodes=episodes,
        recall=recall,
        documents=documents,
        retriever=Retriever(embedder, recall, documents),
        model=chat_model,
        embedding_model=embedder.name,
        background=background,
        budget=Budget(settings.context_tokens, settings.reply_max_tokens),
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
        documents=documents,
        turns=turns,
        jobs=queue,
        worker=worker,
        monitor=Monitor(
            sessions, episodes, stale_after=timedelta(seconds=settings.stale_after_seconds)
        ),
        stamp=stamp,
        limits=Limits(settings.message_max_chars, settings.heartbeat_seconds),
        clock=clock,
    )


def _or(setting: float | None, measured: float) -> float:
    return measured if setting is None else setting


async def _open_index(index: Index) -> None:
    """Connect; an index that can't be reached now is tried again when it is needed."""
    try:
        await index.open()
    except UpstreamError as error:
        log.error("the index can't be reached yet: %s", error.message)


def index_name(settings: Settings) -> str:
    """Return what tells one index from another in a stamp."""
    if not settings.pinecone_api_key.get_secret_value():
        return "embedded"
    return f"pinecone:{settings.pinecone_host or settings.pinecone_index}"


def pick_index(settings: Settings, database: Database, embedder: Embedder) -> Index:
    api_key = settings.pinecone_api_key.get_secret_value()
    if not api_key:
        from app.index.embedded import EmbeddedIndex

        return EmbeddedIndex(database, dimension=embedder.dimension)
    from app.index.pinecone import PineconeIndex

    return PineconeIndex(
        api_key=api_key,
        index_name=settings.pinecone_index,
        host=settings.pinecone_host,
        dimension=embedder.dimension,
        create=settings.pinecone_create_index,
        cloud=settings.pinecone_cloud,
        region=settings.pinecone_region,
        timeout_seconds=settings.pinecone_timeout_seconds,
        controller_host=settings.pinecone_controller_host,
    )


def pick_embedder(settings: Settings) -> Embedder:
    from app.llm.embeddings import embedder_for

    return embedder_for(
        settings.embedding_model,
        dimension=settings.embedding_dimension,
        model_dir=settings.local_model_dir,
        pinecone_api_key=settings.pinecone_api_key.get_secret_value() or None,
        pinecone_host=settings.pinecone_controller_host or None,
        deadline_seconds=settings.model_timeout_seconds,
    )


def pick_models(settings: Settings, embedder: Embedder) -> tuple[ChatModel, ChatModel]:
    """Return the model that answers and the one that summarises."""
    has_groq = bool(settings.groq_api_key.get_secret_value())
    chat = settings.chat_model or (GROQ_CHAT_MODEL if has_groq else "")
    follows = settings.chat_model if ":" in settings.chat_model else ""
    summary = settings.summary_model or follows or (GROQ_SUMMARY_MODEL if has_groq else "")
    return (
        _model(settings, chat, embedder, "CHAT_MODEL"),
        _model(settings, summary, embedder, "SUMMARY_MODEL"),
    )


def _model(settings: Settings, spec: str, embedder: Embedder, setting: str) -> ChatModel:
    """`provider:model` for any provider; a bare id is Groq's; without a Groq key, offline."""
    provider, _, model = spec.rpartition(":")
    groq_key = settings.groq_api_key.get_secret_value()
    if provider not in ("", "groq", "offline"):
        from app.llm.chat import provider_chat

        return provider_chat(spec, timeout_seconds=settings.model_timeout_seconds, setting=setting)
    if groq_key and provider != "offline" and model != "offline":
        from app.llm.groq import groq_chat

        return groq_chat(
            api_key=groq_key,
            model=model,
            base_url=settings.groq_api_base,
            timeout_seconds=settings.model_timeout_seconds,
            max_retries=settings.groq_max_retries,
            setting=setting,
        )
    if provider == "groq":
        raise Misconfigured(f"{setting}={spec} needs GROQ_API_KEY")
    if model not in ("", "offline"):
        log.warning("%s=%s needs GROQ_API_KEY: answering offline", setting, spec)
    from app.llm.offline import offline_chat

    compares = embedder.similarity if isinstance(embedder, Compares) else None
    return offline_chat(similarity=compares)
