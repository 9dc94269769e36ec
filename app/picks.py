"""Settings to parts: which index, embedder, models, CRMs. Touches nothing until a part is opened.

Adapters are imported only where they are picked, so that the server opens at once.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from app.background import Background
from app.breaker import Breakers
from app.chat.budget import Budget
from app.chat.history import HistorySettings
from app.chat.window import check_window
from app.crm.base import Fetcher
from app.db import Database
from app.errors import Misconfigured
from app.index.base import Index
from app.jwks import KeySet
from app.jwts import Jwts
from app.limiter import Limiter
from app.llm.base import ChatModel, Compares, Embedder
from app.llm.cap import Cap
from app.llm.tokens import Count, estimate_tokens
from app.llm.tools import AgentModel
from app.memory.episodes import put_close
from app.memory.eviction import Policy
from app.memory.forgetting import forget_deleted
from app.metrics import Metrics
from app.quarantine import BLOCKED, NOT_RELEASED, State
from app.redact import ALWAYS, PERSONAL, Redactor
from app.sessions.base import SessionStore
from app.sessions.limit import Limit
from app.sessions.sql import SqlSessions
from app.settings import Settings
from app.text.remembering import remembering
from app.tracing import Tracer
from app.usage import Prices
from ingest.errors import BadKinds
from ingest.kinds import KINDS, Kinds, read_kinds

log = logging.getLogger(__name__)

GROQ_CHAT_MODEL = "openai/gpt-oss-120b"
GROQ_SUMMARY_MODEL = "openai/gpt-oss-20b"
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
DEAREST = 1_000_000  # US dollars for a million tokens: what is beyond is a mistake
PRICES: Prices = {GROQ_CHAT_MODEL: (0.15, 0.60), GROQ_SUMMARY_MODEL: (0.075, 0.30)}


def index_name(settings: Settings) -> str:
    """Return what tells one index from another in a stamp."""
    if not settings.pinecone_api_key.get_secret_value():
        return "embedded"
    return f"pinecone:{settings.pinecone_host or settings.pinecone_index}"


def pick_index(
    settings: Settings, database: Database, embedder: Embedder, breakers: Breakers | None = None
) -> Index:
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
        search_seconds=settings.retrieval_timeout_seconds,
        controller_host=settings.pinecone_controller_host,
        breaker=None if breakers is None else breakers.of("pinecone"),
    )


def pick_fetchers(settings: Settings, clock: Callable[[], datetime]) -> Mapping[str, Fetcher]:
    """Return, by provider, access to the CRMs that credentials are set for."""
    fetchers: list[Fetcher] = []
    if token := settings.hubspot_access_token.get_secret_value():
        from app.crm.hubspot import HubSpotFetcher

        fetchers.append(
            HubSpotFetcher(
                token=token,
                root=settings.hubspot_api_base,
                timeout_seconds=settings.crm_timeout_seconds,
            )
        )
    if token := settings.pipedrive_api_token.get_secret_value():
        from app.crm.pipedrive import PipedriveFetcher

        fetchers.append(
            PipedriveFetcher(
                token=token,
                root=settings.pipedrive_api_base,
                timeout_seconds=settings.crm_timeout_seconds,
            )
        )
    app_of_salesforce = {
        "SALESFORCE_INSTANCE_URL": settings.salesforce_instance_url,
        "SALESFORCE_CLIENT_ID": settings.salesforce_client_id.get_secret_value(),
        "SALESFORCE_CLIENT_SECRET": settings.salesforce_client_secret.get_secret_value(),
    }
    if all(app_of_salesforce.values()):
        from app.crm.salesforce import SalesforceFetcher

        instance_url, client_id, client_secret = app_of_salesforce.values()
        fetchers.append(
            SalesforceFetcher(
                instance_url=instance_url,
                client_id=client_id,
                client_secret=client_secret,
                timeout_seconds=settings.crm_timeout_seconds,
                clock=clock,
            )
        )
    elif any(app_of_salesforce.values()):
        missing = ", ".join(name for name, value in app_of_salesforce.items() if not value)
        raise Misconfigured(f"access to Salesforce needs {missing} too")
    return {fetcher.provider: fetcher for fetcher in fetchers}


def pick_limiter(settings: Settings, metrics: Metrics) -> Limiter:
    """Return what counts requests. Raises `Misconfigured` for a limit or a URL of another form."""
    return Limiter(
        per_key=settings.rate_limit_per_key,
        per_user=settings.rate_limit_per_user,
        redis_url=settings.redis_url.get_secret_value(),
        metrics=metrics,
    )


def pick_origins(settings: Settings) -> tuple[str, ...]:
    """Return whose pages may call from a browser. Raises `Misconfigured` for what is no origin."""
    origins = tuple(part.strip() for part in settings.cors_origins.split(",") if part.strip())
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise Misconfigured(
                f"CORS_ORIGINS: {origin[:200]!r} is no origin: https://app.example is expected, "
                "with a port if it has one, in small letters and without a path; or *"
            )
    return origins


def pick_jwts(settings: Settings) -> Jwts | None:
    """Return what verifies the tokens of users. Raises `Misconfigured` for settings in conflict."""
    secret, url = settings.jwt_secret.get_secret_value(), settings.jwt_jwks_url.strip()
    needy = {
        "JWT_ISSUER": settings.jwt_issuer,
        "JWT_AUDIENCE": settings.jwt_audience,
        "JWT_TENANT_CLAIM": settings.jwt_tenant_claim,
        "JWT_FILTER_CLAIM": settings.jwt_filter_claim,
    }
    if not secret and not url:
        if idle := ", ".join(name for name, value in needy.items() if value):
            raise Misconfigured(f"{idle}: needs JWT_SECRET or JWT_JWKS_URL, or no JWT counts")
        return None
    return Jwts(
        secret=secret,
        key_set=KeySet(url, cache_seconds=settings.jwt_cache_seconds) if url else None,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        tenant_claim=settings.jwt_tenant_claim,
        filter_claim=settings.jwt_filter_claim,
        leeway=timedelta(seconds=settings.jwt_leeway_seconds),
    )


def pick_kinds(settings: Settings) -> Kinds:
    """Return the kinds of records, own ones too. Raises `Misconfigured` for a bad KINDS_FILE."""
    if settings.kinds_file is None:
        return KINDS
    try:
        return read_kinds(settings.kinds_file)
    except BadKinds as error:
        raise Misconfigured(f"KINDS_FILE={settings.kinds_file}: {error.message}") from error


def pick_prices(settings: Settings) -> Prices:
    """Return US dollars for a million tokens in and out, by model.

    Raises `Misconfigured` for MODEL_PRICES of another form.
    """
    if not settings.model_prices.strip():
        return PRICES
    try:
        given = json.loads(settings.model_prices)
    except ValueError as error:
        raise _wrong_prices(f"it is not JSON ({error})") from error
    if not isinstance(given, dict):
        raise _wrong_prices(f"it is {json.dumps(given)[:80]}")
    return {**PRICES, **{model: _price(model, pair) for model, pair in given.items()}}


def _price(model: str, pair: object) -> tuple[float, float]:
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_price, pair)):
        raise _wrong_prices(f"of {model!r} it says {json.dumps(pair)[:80]}")
    return float(pair[0]), float(pair[1])


def _is_price(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < DEAREST  # a nan is in no range


def _wrong_prices(what: str) -> Misconfigured:
    return Misconfigured(
        "MODEL_PRICES must be a JSON object of models with two numbers each, US dollars for a "
        f'million tokens in and out, as in {{"openai/gpt-oss-120b": [0.15, 0.60]}}; {what}'
    )


def pick_counter(settings: Settings, model: ChatModel) -> Count:
    """Return what counts tokens: exactly, where the model's tokenizer is on this machine.

    Raises `Misconfigured` for a TOKENIZER_FILE that can't be read.
    """
    from app.llm.counting import cached_counter, file_counter

    if settings.tokenizer_file is not None:
        return file_counter(settings.tokenizer_file)
    return cached_counter(model.name) or estimate_tokens


def pick_budget(settings: Settings, model: ChatModel) -> Budget:
    """Return the room of a prompt. Raises `Misconfigured` where what always stands won't fit."""
    budget = Budget(
        settings.context_tokens,
        settings.reply_max_tokens,
        settings.profile_max_tokens,
        documents=settings.share_documents,
        history=settings.share_history,
        memories=settings.share_memories,
        count=remembering(pick_counter(settings, model)),
    )
    check_window(budget, block_chars=settings.block_max_chars)
    return budget


def pick_withholds(settings: Settings) -> Sequence[State]:
    """Return the states in the quarantine list of what answers leave out."""
    return NOT_RELEASED if settings.quarantine == "withhold" else BLOCKED


def pick_history(settings: Settings) -> HistorySettings:
    return HistorySettings(
        settings.history_strategy,
        settings.history_window,
        settings.history_tokens,
        max_messages=settings.history_max_messages,
        limit_messages=settings.session_limit_messages,
        limit_tokens=settings.session_limit_tokens,
    )


def pick_eviction(settings: Settings) -> Policy:
    return Policy(
        settings.eviction_policy,
        max_age_days=settings.eviction_max_age_days,
        max_memories=settings.eviction_max_memories,
        min_importance=settings.eviction_min_importance,
        keep_facts=settings.eviction_keep_facts,
    )


def pick_redactor(settings: Settings) -> Redactor:
    """Return what takes out of texts what must not be kept. Raises `Misconfigured`."""
    from app.redact.detector import PatternDetector

    also = {name.strip().upper() for name in settings.redacted_types.split(",") if name.strip()}
    if unknown := also - PERSONAL - ALWAYS:
        known = ", ".join(sorted(kind.lower() for kind in PERSONAL))
        raise Misconfigured(f"REDACTED_TYPES: {', '.join(sorted(unknown))} is not one of {known}")
    detector = PatternDetector(region=_phone_region(settings.phone_region))
    return Redactor(detector, also=frozenset(kind for kind in PERSONAL if kind in also))


def _phone_region(given: str) -> str:
    region = given.strip().upper() or "US"
    if region != "US":
        from phonenumbers import SUPPORTED_REGIONS  # slow to load

        if region not in SUPPORTED_REGIONS:
            raise Misconfigured(
                f"PHONE_REGION={given[:80]}: the two letters of a country are expected, DE say"
            )
    return region


def pick_breakers(settings: Settings, metrics: Metrics) -> Breakers:
    return Breakers(
        failures=settings.breaker_failures, seconds=settings.breaker_seconds, told=metrics.breaker
    )


def pick_cap(settings: Settings, metrics: Metrics) -> Cap:
    """Return the cap of all model calls of this process."""
    return Cap(
        at_once=settings.model_max_concurrent,
        queued=settings.model_max_queued,
        told=lambda running, queued: metrics.model_queue(running=running, queued=queued),
        refused=metrics.refused_for_queue,
    )


def pick_embedder(settings: Settings, breakers: Breakers | None = None) -> Embedder:
    from app.llm.embeddings import embedder_for

    return embedder_for(
        settings.embedding_model,
        dimension=settings.embedding_dimension,
        model_dir=settings.local_model_dir,
        pinecone_api_key=settings.pinecone_api_key.get_secret_value() or None,
        pinecone_host=settings.pinecone_controller_host or None,
        deadline_seconds=settings.model_timeout_seconds,
        question_seconds=settings.retrieval_timeout_seconds,
        at_once=settings.model_max_concurrent,
        breakers=breakers,
    )


def pick_models(
    settings: Settings,
    embedder: Embedder,
    cap: Cap | None = None,
    breakers: Breakers | None = None,
) -> tuple[ChatModel, ChatModel]:
    """Return the model that answers and the one that summarises, under one cap."""
    has_groq = bool(settings.groq_api_key.get_secret_value())
    chat = settings.chat_model or (GROQ_CHAT_MODEL if has_groq else "")
    follows = settings.chat_model if ":" in settings.chat_model else ""
    summary = settings.summary_model or follows or (GROQ_SUMMARY_MODEL if has_groq else "")
    return (
        _model(settings, chat, embedder, "CHAT_MODEL", cap, breakers),
        _model(settings, summary, embedder, "SUMMARY_MODEL", cap, breakers),
    )


def pick_session_limit(settings: Settings) -> Limit | None:
    most = settings.max_sessions_per_user
    return None if most is None else Limit(most, lambda c, s, now: put_close(c, s, now=now))


def pick_sessions(
    settings: Settings, database: Database, background: Background, metrics: Metrics
) -> SessionStore:
    """Return where live sessions are held. Raises `Misconfigured` for a SESSION_STORE of another
    form."""
    lease, limit = settings.turn_lease_seconds, pick_session_limit(settings)
    in_sql = SqlSessions(
        database,
        lease_seconds=lease,
        count_tokens=estimate_tokens,
        on_delete=forget_deleted,
        limit=limit,
        metrics=metrics,
    )
    url = settings.session_store.get_secret_value()
    if not url:
        return in_sql
    from app.sessions.redis import RedisSessions
    from app.sessions.redis_link import Link
    from app.sessions.redis_settler import Settler

    link = Link(
        url,
        timeout_seconds=settings.session_store_timeout_seconds,
        accepts_loss=settings.session_store_volatile,
    )
    settler = Settler(
        link,
        database,
        time_to_live_seconds=settings.session_store_ttl_seconds,
        kept=2 * settings.history_max_messages,
        count_tokens=estimate_tokens,
        limit=limit,
    )
    return RedisSessions(
        link,
        settler,
        in_sql,
        lease_seconds=lease,
        count_tokens=estimate_tokens,
        spawn=background.spawn,
        metrics=metrics,
    )


def pick_agent(chat_model: ChatModel) -> AgentModel:
    """Return the chat model as one that calls tools."""
    if isinstance(chat_model, AgentModel):
        return chat_model
    from app.llm.agent import LangChainAgent
    from app.llm.chat import LangChainChat

    if not isinstance(chat_model, LangChainChat):
        raise Misconfigured(f"the chat model {chat_model.name} can't call tools")
    return LangChainAgent(chat_model)


def _model(
    settings: Settings,
    spec: str,
    embedder: Embedder,
    setting: str,
    cap: Cap | None,
    breakers: Breakers | None,
) -> ChatModel:
    """`provider:model` for any provider; a bare id is Groq's; without a Groq key, offline."""
    provider, _, model = spec.rpartition(":")
    groq_key = settings.groq_api_key.get_secret_value()
    if provider not in ("", "groq", "offline"):
        from app.llm.chat import provider_chat

        return provider_chat(
            spec,
            timeout_seconds=settings.model_timeout_seconds,
            setting=setting,
            cap=cap,
            breakers=breakers,
        )
    if groq_key and provider != "offline" and model != "offline":
        from app.llm.groq import groq_chat

        return groq_chat(
            api_key=groq_key,
            model=model,
            base_url=settings.groq_api_base,
            timeout_seconds=settings.model_timeout_seconds,
            max_retries=settings.groq_max_retries,
            setting=setting,
            cap=cap,
            breakers=breakers,
        )
    if provider == "groq":
        raise Misconfigured(f"{setting}={spec} needs GROQ_API_KEY")
    if model not in ("", "offline"):
        log.warning("%s=%s needs GROQ_API_KEY: answering offline", setting, spec)
    from app.llm.offline import offline_chat

    compares = embedder.similarity if isinstance(embedder, Compares) else None
    return offline_chat(similarity=compares)


def pick_tracer(settings: Settings) -> Tracer | None:
    """Return where traces go; None: nowhere. Raises `Misconfigured` without the extra `otel`."""
    endpoint = settings.otel_exporter_otlp_endpoint.strip()
    if not endpoint:
        return None
    name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    if not re.match(r"https?://[^/\s]", endpoint):
        raise Misconfigured(
            f"{name} must be an http or https URL, as in http://collector:4318; it is {endpoint!r}",
            param=name,
        )
    try:
        from app.otel import OpenTelemetry
    except ImportError as error:
        raise Misconfigured(
            f"{name} needs OpenTelemetry: pip install conversational-rag[otel]", param=name
        ) from error
    return OpenTelemetry(endpoint)
