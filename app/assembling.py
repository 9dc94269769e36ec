"""Which part is made of which, and with which settings. Touches: nothing; all is opened already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from app.audit import Audit
from app.background import Background
from app.breaker import Breakers
from app.chat.agent import Agent
from app.chat.aside import Asides
from app.chat.composing import Composer
from app.chat.door import Door
from app.chat.ending import Endings
from app.chat.history import Histories
from app.chat.place import Places
from app.chat.retrieve import Retriever
from app.chat.speaking import Speaker
from app.chat.tools import FORMS, Parts
from app.chat.tools_search import Sources
from app.chat.tools_write import Keepers
from app.chat.turn import Turns
from app.chat.understand import Understanding
from app.consents import Consent, Consents
from app.crm.base import Fetcher
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
from app.knowledge.pending import LOAD
from app.knowledge.persons import Persons
from app.knowledge.records import Records
from app.knowledge.search import DocumentSearch
from app.knowledge.senders import Senders
from app.knowledge.within import check as check_bound_filter
from app.limiter import Limiter
from app.llm.base import ChatModel, Embedder
from app.llm.cap import Cap
from app.llm.operator_tools import load_tools
from app.llm.tools import AgentLimits
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
from app.memory.reading import Reader
from app.memory.recall import Recall
from app.memory.retention import Retention
from app.memory.said import Said
from app.memory.use import Use
from app.memory.user_retention import UserRetention
from app.metrics import Metrics
from app.picks import (
    pick_agent,
    pick_budget,
    pick_eviction,
    pick_history,
    pick_kinds,
    pick_origins,
    pick_prices,
    pick_redactor,
    pick_withholds,
)
from app.privacy.erasure import Erasure
from app.privacy.export import Exports
from app.privacy.removing_business import Business
from app.privacy.restoring import Restoring
from app.quarantine.review import Review
from app.quiet import Quiet
from app.runtime import Limits, Runtime
from app.sessions.base import SessionStore
from app.settings import Settings
from app.sources import DEFAULT_TENANT, pick_sources
from app.stamp import Stamp
from app.tracing import Tracer
from app.usage import Ledger
from app.worker import Worker
from ingest.providers import PROVIDERS


def assemble(
    settings: Settings,
    background: Background,
    database: Database,
    sessions: SessionStore,
    index: Index,
    embedder: Embedder,
    chat_model: ChatModel,
    summary_model: ChatModel,
    fetchers: Mapping[str, Fetcher],
    jwts: Jwts | None,
    stamp: Stamp,
    gates: Gates,
    cap: Cap,
    breakers: Breakers,
    metrics: Metrics,
    tracer: Tracer | None,
    limiter: Limiter,
    clock: Callable[[], datetime],
) -> Runtime:
    """Make every part out of the settings and of what is open already."""

    async def run_now(tenant_id: str, kind: str, key: str) -> BaseException | None:
        return await worker.run_now(tenant_id, kind, key)

    consents = Consents(
        database, default=Consent(settings.memory_consent, settings.pii_consent), clock=clock
    )
    redactor = pick_redactor(settings)
    door = Door(consents, redactor)
    queue = Jobs(database, lease_seconds=settings.job_lease_seconds, in_order=[LOAD])
    quiet = Quiet()
    reader = Reader(
        summary_model,
        max_tokens=settings.summary_max_tokens,
        context_tokens=settings.summary_context_tokens,
    )
    ledger = Ledger(
        database,
        prices=pick_prices(settings),
        daily_tokens=settings.daily_token_budget,
        metrics=metrics,
    )
    facts = Facts(database, consents, run_now=run_now, clock=clock)
    fact_pusher = FactPusher(database, queue, index, embedder, clock=clock)
    entities = Entities(database, clock=clock)
    memory_words = Refill(database, queue, timezone=settings.timezone, clock=clock)
    withholds = pick_withholds(settings)
    episodes = Episodes(
        database,
        every_messages=settings.summary_every_messages,
        clock=clock,
        withholds=withholds,
    )
    checkpoints = Checkpoints(
        database,
        sessions,
        episodes,
        facts,
        queue,
        index,
        embedder,
        reader,
        ledger,
        redactor,
        consents,
        timezone=settings.timezone,
        exchanges=settings.memory_exchanges,
        clock=clock,
    )
    recall = Recall(
        database,
        index,
        embedder,
        threshold=gates.memory.value,
        fact_threshold=gates.facts.value,
        top_k=settings.memory_top_k,
        recency=settings.memory_recency_weight,
        clock=clock,
        withholds=withholds,
    )

    use = Use(database, consents)
    evictor = Evictor(database, pick_eviction(settings), run_now=run_now)
    retention = Retention(
        database,
        queue,
        index,
        sessions,
        days=settings.message_retention_days,
        timezone=settings.timezone,
    )

    def wake() -> None:
        worker.wake()

    def wake_in(seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, wake)

    kinds = pick_kinds(settings)
    person_fields = [name.strip() for name in settings.person_fields.split(",") if name.strip()]
    persons = Persons(person_fields, PROVIDERS)
    inbox = Inbox(
        database,
        PROVIDERS,
        persons.named_in_body,
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
        redactor=redactor,
        named=persons.named,
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
        withholds=withholds,
    )
    documents = Documents(
        database,
        queue,
        index,
        embedder,
        redactor=redactor,
        clock=clock,
        run_now=run_now,
        on_delete=records.bury,
        named=persons.named,
    )
    erasure = Erasure(
        database,
        queue,
        index,
        Business(database, queue, persons, documents, records, clock),
        sessions,
        fields=person_fields,
        run_now=run_now,
        clock=clock,
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
            **erasure.handlers(),
        },
        lease_seconds=settings.job_lease_seconds,
        metrics=metrics,
        tracer=tracer,
        quiet=quiet,
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
    loader = Worker(
        queue,
        loads.handlers(),
        lease_seconds=settings.job_lease_seconds,
        metrics=metrics,
        tracer=tracer,
        quiet=quiet,
    )
    profile = Profile(
        database,
        max_facts=settings.profile_max_facts,
        max_tokens=settings.profile_max_tokens,
        withholds=withholds,
    )
    blocks = Blocks(
        database,
        consents,
        max_chars=settings.block_max_chars,
        clock=clock,
        withholds=withholds,
    )
    histories = Histories(sessions, episodes, pick_history(settings))
    budget = pick_budget(settings, chat_model)
    agent = Agent(
        pick_agent(chat_model),
        Parts(
            Sources(embedder, recall, Said(database), document_search, metrics),
            Keepers(facts, blocks),
            sessions,
            load_tools(settings.agent_tools, reserved=FORMS),
            redactor,
        ),
        AgentLimits(
            settings.agent_max_steps,
            settings.agent_max_tokens,
            settings.context_tokens,
            settings.reply_max_tokens,
            budget.count,
        ),
    )
    turns = Turns(
        door=door,
        sessions=sessions,
        recall=recall,
        documents=document_search,
        composer=Composer(
            histories,
            Understanding(summary_model if settings.question_rewriting else None),
            Retriever(database, embedder, recall, document_search, profile, blocks, metrics),
            budget,
            agent_tokens=agent.prompt_tokens,
        ),
        cap=cap,
        speaker=Speaker(chat_model, agent, reply_tokens=settings.reply_max_tokens),
        endings=Endings(
            door=door,
            sessions=sessions,
            episodes=episodes,
            use=use,
            ledger=ledger,
            metrics=metrics,
            background=background,
            clock=clock,
            wake_worker=worker.wake,
        ),
        ledger=ledger,
        metrics=metrics,
        embedding_model=embedder.name,
        background=background,
        timezone=settings.timezone,
        wait_seconds=settings.turn_wait_seconds,
        renew_seconds=settings.turn_lease_seconds / 3,
        clock=clock,
    )
    return Runtime(
        settings=settings,
        background=background,
        database=database,
        index=index,
        index_sizes=IndexSizes(index),
        embedder=embedder,
        chat_model=chat_model,
        summary_model=summary_model,
        keys=Keys(
            database,
            check_filter=check_bound_filter,
            spawn=background.spawn,
            setting=settings.api_key.get_secret_value(),
            allow_anonymous=settings.allow_anonymous,
            has_jwt=jwts is not None,
        ),
        jwts=jwts,
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
        blocks=blocks,
        quarantine=Review(database, clock=clock, withholds=withholds),
        histories=histories,
        consents=consents,
        audit=Audit(database, clock=clock),
        door=door,
        ledger=ledger,
        metrics=metrics,
        tracer=tracer,
        limiter=limiter,
        items=Items(database, recall, embedder, consents, run_now=run_now, clock=clock),
        imports=Imports(
            database, consents, sessions, timezone=settings.timezone, wake=wake, clock=clock
        ),
        documents=documents,
        document_search=document_search,
        loads=loads,
        senders=Senders(pick_sources(settings), PROVIDERS),
        inbox=inbox,
        records=records,
        turns=turns,
        places=Places(sessions, clock=clock),
        asides=Asides(
            summary_model,
            ledger,
            context_tokens=settings.summary_context_tokens,
            reply_tokens=settings.reply_max_tokens,
            clock=clock,
        ),
        jobs=queue,
        worker=worker,
        loader=loader,
        monitor=Monitor(
            sessions,
            episodes,
            evictor,
            retention,
            UserRetention(
                database, consents, sessions, timezone=settings.timezone, run_now=run_now
            ),
            stale_after=timedelta(seconds=settings.stale_after_seconds),
        ),
        evictor=evictor,
        retention=retention,
        erasure=erasure,
        exports=Exports(database, persons, document_search, clock=clock),
        restoring=Restoring(
            database,
            persons,
            memory_words,
            dimension=embedder.dimension,
            wake=wake,
            clock=clock,
        ),
        use=use,
        stamp=stamp,
        gates=gates,
        breakers=breakers,
        quiet=quiet,
        limits=Limits(
            settings.message_max_chars,
            settings.heartbeat_seconds,
            served_model_name=settings.served_model_name,
            public_base_url=settings.public_base_url.rstrip("/"),
            origins=pick_origins(settings),
            any_host=settings.allow_anonymous,
            open_webui_secret=settings.open_webui_jwt_secret,
        ),
        clock=clock,
    )
