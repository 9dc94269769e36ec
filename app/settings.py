"""Every environment variable, its default and its unit. Touches: the environment and `.env`.

Only entry points and `wiring` read this; the rooms get plain values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from dotenv import load_dotenv
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.errors import Misconfigured
from app.text.zones import zone_name

_PLACEHOLDERS = ("your-", "your_", "<", "changeme", "change-me", "replace-me", "xxx")


def _real_secret(value: object) -> object:
    """Count a placeholder such as `your-api-key-here` as no key at all."""
    if isinstance(value, str) and value.strip().lower().startswith(_PLACEHOLDERS):
        return ""
    return value.strip() if isinstance(value, str) else value


def _empty_is_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


Secret = Annotated[SecretStr, BeforeValidator(_real_secret)]
OptionalFloat = Annotated[float | None, BeforeValidator(_empty_is_none)]
OptionalInt = Annotated[int | None, BeforeValidator(_empty_is_none)]
Zone = Annotated[str, BeforeValidator(lambda given: given or "UTC"), AfterValidator(zone_name)]
OptionalPath = Annotated[Path | None, BeforeValidator(_empty_is_none)]
NO_SECRET = SecretStr("")


class Settings(BaseSettings):
    """The service's settings; an environment variable wins over `.env`."""

    model_config = SettingsConfigDict(env_file=".env", extra="ignore", frozen=True)

    # Serving
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65_535)
    workers: int = Field(1, ge=1, le=64)
    log_level: str = "INFO"
    max_body_bytes: int = Field(10 * 1024 * 1024, gt=0)
    max_upload_bytes: int = Field(100 * 1024 * 1024, gt=0)
    max_webhook_bytes: int = Field(2 * 1024 * 1024, gt=0)
    public_base_url: str = ""
    heartbeat_seconds: float = Field(15.0, gt=0)
    shutdown_seconds: float = Field(20.0, ge=0)
    otel_exporter_otlp_endpoint: str = ""

    # State
    data_dir: Path = Path("data")
    database_url: str = ""
    database_timeout_seconds: float = Field(30.0, gt=0)
    database_pool_size: int = Field(10, ge=1, le=1_000)
    session_store: Secret = NO_SECRET
    session_store_volatile: bool = False
    session_store_ttl_seconds: float = Field(86_400.0, ge=1)
    session_store_timeout_seconds: float = Field(5.0, gt=0)

    # Identity
    allow_anonymous: bool = False
    api_key: Secret = NO_SECRET
    open_webui_jwt_secret: Secret = NO_SECRET
    jwt_secret: Secret = NO_SECRET
    jwt_jwks_url: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_tenant_claim: str = ""
    jwt_filter_claim: str = ""
    jwt_leeway_seconds: float = Field(30.0, ge=0, le=600)
    jwt_cache_seconds: float = Field(300.0, ge=1)
    rate_limit_per_key: str = ""
    rate_limit_per_user: str = ""
    redis_url: Secret = NO_SECRET
    cors_origins: str = ""

    # Privacy
    memory_consent: bool = True
    pii_consent: bool = True
    redacted_types: str = ""
    phone_region: str = "US"
    person_fields: str = "user_id"
    quarantine: Literal["flag", "withhold"] = "flag"

    # Chat model
    groq_api_key: Secret = NO_SECRET
    groq_api_base: str = "https://api.groq.com"
    groq_max_retries: int = Field(2, ge=0)
    chat_model: str = ""
    summary_model: str = ""
    model_timeout_seconds: float = Field(60.0, gt=0)
    model_max_concurrent: int = Field(32, ge=1)
    model_max_queued: int = Field(256, ge=0)
    breaker_failures: int = Field(5, ge=1)
    breaker_seconds: float = Field(15.0, gt=0)
    retrieval_timeout_seconds: float = Field(3.0, gt=0)
    reply_max_tokens: int = Field(1024, gt=0)
    context_tokens: int = Field(16_000, gt=0)
    tokenizer_file: OptionalPath = None
    model_prices: str = ""
    daily_token_budget: OptionalInt = Field(None, gt=0)

    # Embeddings
    embedding_model: str = ""
    embedding_dimension: OptionalInt = None
    local_model_dir: OptionalPath = None

    # Index
    pinecone_api_key: Secret = NO_SECRET
    pinecone_index: str = "conversational-rag"
    pinecone_host: str = ""
    pinecone_create_index: bool = False
    pinecone_cloud: str = "aws"
    pinecone_region: str = "us-east-1"
    pinecone_timeout_seconds: float = Field(10.0, gt=0)
    pinecone_controller_host: str = ""

    # Retrieval
    memory_threshold: OptionalFloat = Field(None, ge=0, le=1)
    document_threshold: OptionalFloat = Field(None, ge=0, le=1)
    memory_top_k: int = Field(3, ge=0, le=100)
    document_top_k: int = Field(4, ge=0, le=100)
    memory_recency_weight: float = Field(0.0003, ge=0, le=10)
    share_documents: float = Field(50, ge=0)
    share_history: float = Field(30, ge=0)
    share_memories: float = Field(20, ge=0)

    # Business data
    kinds_file: OptionalPath = None
    upload_inline_rows: int = Field(1000, ge=0)
    webhook_token: Secret = NO_SECRET
    webhook_secret: Secret = NO_SECRET
    webhook_sources: Secret = NO_SECRET
    webhook_coalesce_seconds: float = Field(2.0, ge=0)
    webhook_attempts: int = Field(8, ge=1)
    webhook_keep_days: float = Field(14.0, ge=7)
    hubspot_client_secret: Secret = NO_SECRET
    hubspot_access_token: Secret = NO_SECRET
    hubspot_api_base: str = "https://api.hubapi.com"
    pipedrive_webhook_login: Secret = NO_SECRET
    pipedrive_api_token: Secret = NO_SECRET
    pipedrive_api_base: str = "https://api.pipedrive.com"
    salesforce_webhook_token: Secret = NO_SECRET
    salesforce_organization_id: str = ""
    salesforce_instance_url: str = ""
    salesforce_client_id: Secret = NO_SECRET
    salesforce_client_secret: Secret = NO_SECRET
    crm_timeout_seconds: float = Field(20.0, gt=0)

    # The conversation
    message_max_chars: int = Field(32_000, gt=0)
    turn_wait_seconds: float = Field(120.0, gt=0)
    turn_lease_seconds: float = Field(30.0, gt=0)
    history_strategy: Literal["buffer", "window", "token", "summary", "summary_buffer"] = (
        "summary_buffer"
    )
    history_window: int = Field(10, ge=1, le=100)
    history_tokens: int = Field(2_000, gt=0)
    history_max_messages: int = Field(60, ge=2, le=1_000)
    session_limit_messages: int = Field(1_000, gt=0)
    session_limit_tokens: int = Field(200_000, gt=0)
    question_rewriting: bool = True
    max_sessions_per_user: OptionalInt = Field(None, gt=0)
    served_model_name: str = "conversational-rag"

    # Agents
    agent_tools: str = ""
    agent_max_steps: int = Field(6, ge=1, le=50)
    agent_max_tokens: int = Field(30_000, gt=0)
    block_max_chars: int = Field(2_000, gt=0, le=20_000)

    # Memory
    summary_every_messages: int = Field(10, gt=0)
    summary_max_tokens: int = Field(300, gt=0)
    summary_context_tokens: int = Field(16_000, gt=0)
    memory_exchanges: bool = True
    timezone: Zone = "UTC"
    profile_max_facts: int = Field(30, ge=0, le=200)
    profile_max_tokens: int = Field(400, ge=0)
    monitor_interval_seconds: float = Field(300.0, gt=0)
    stale_after_seconds: float = Field(1800.0, ge=0)
    job_lease_seconds: float = Field(120.0, gt=0)
    job_poll_seconds: float = Field(5.0, gt=0)
    job_workers: int = Field(2, ge=1)

    # Forgetting
    eviction_policy: Literal["none", "time", "count", "importance", "hybrid"] = "none"
    eviction_max_age_days: float = Field(365.0, gt=0)
    eviction_max_memories: int = Field(1_000, ge=1)
    eviction_min_importance: float = Field(0.2, ge=0, le=1)
    eviction_keep_facts: bool = True
    message_retention_days: OptionalFloat = Field(None, gt=0)

    def database_address(self) -> str:
        """Return the database's URL: the one that was set, else a file in `data_dir`."""
        file = quote(str(self.data_dir / "service.db"))  # a folder's name may hold a `?`
        return self.database_url or f"sqlite:///{file}"


def read_settings() -> Settings:
    """Return the settings of this process. Raises `Misconfigured` with every setting at fault.

    What else stands in `.env` (a provider's own key, say) goes to the environment, where the
    provider's SDK looks for it.
    """
    load_dotenv(".env")
    try:
        return Settings()
    except ValidationError as error:
        wrong = [
            f"{'.'.join(str(part) for part in problem['loc']).upper()}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise Misconfigured("wrong settings\n  " + "\n  ".join(wrong)) from error
