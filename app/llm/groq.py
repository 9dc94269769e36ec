"""Groq's chat models through LangChain's ChatGroq. Touches: the network.

ChatGroq takes and returns plain JSON, and Groq's own client sends it. Between the two, that client
would check every message against its types and make models of every chunk, which LangChain undoes
again: half of what a call costs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.breaker import Breakers
from app.errors import Misconfigured
from app.llm.cap import Cap
from app.llm.carrying import carry
from app.llm.chat import LangChainChat
from app.llm.upstream import Vendor

if TYPE_CHECKING:
    from groq import AsyncGroq
    from langchain_core.language_models import BaseChatModel


TEMPERATURE = 0.3
COMPLETIONS = "/openai/v1/chat/completions"


def groq_chat(
    *,
    api_key: str,
    model: str,
    base_url: str | None = None,
    timeout_seconds: float = 60.0,
    max_retries: int = 2,
    setting: str = "CHAT_MODEL",
    cap: Cap | None = None,
    breakers: Breakers | None = None,
) -> LangChainChat:
    """Return a Groq model as our `ChatModel`.

    base_url: the root of the API or what ends in /openai/v1; None is Groq's own.
    timeout_seconds: for a call with all its retries, and for a whole stream.
    setting: the setting that a refusal of the model's id points to.
    Raises `Misconfigured` without a key.
    """
    if not api_key:
        raise Misconfigured("Groq needs GROQ_API_KEY.", param="GROQ_API_KEY")
    vendor = Vendor("model", "Groq", model, "GROQ_API_KEY", setting)
    options: dict[str, Any] = {
        "model": model,
        "api_key": api_key,
        "base_url": root_url(base_url) if base_url else None,
        "timeout": timeout_seconds,
        "max_retries": 0,  # LangChainChat retries, within the deadline
        "temperature": TEMPERATURE,
        "reasoning_format": "hidden",
        # Reasoning counts against `max_tokens`.
        "reasoning_effort": "low" if model.startswith("openai/gpt-oss") else None,
    }

    def build() -> BaseChatModel:
        from groq import AsyncGroq, DefaultAsyncHttpxClient
        from langchain_groq import ChatGroq

        try:
            http = DefaultAsyncHttpxClient(event_hooks={"request": [carry]})
            client = AsyncGroq(
                api_key=api_key,
                base_url=options["base_url"],
                timeout=timeout_seconds,
                max_retries=0,
                http_client=http,
            )
            plain = _Completions(client)
            return ChatGroq(http_async_client=http, async_client=plain, **options)
        except Exception as error:
            raise Misconfigured(
                f"Groq can't be set up ({type(error).__name__}): check GROQ_API_BASE.",
                param="GROQ_API_BASE",
            ) from error

    return LangChainChat(
        f"groq:{model}",
        build,
        vendor.translate,
        deadline_seconds=timeout_seconds,
        max_retries=max_retries,
        cap=cap,
        breaker=None if breakers is None else breakers.of("groq"),
    )


class _Completions:
    """What ChatGroq calls of Groq's client, in plain JSON."""

    def __init__(self, client: AsyncGroq) -> None:
        self._client = client

    async def create(self, *, stream: bool = False, **body: Any) -> Any:
        """Return the answer, or its chunks as they come. Raises the client's own errors."""
        from groq import AsyncStream

        return await self._client.post(
            COMPLETIONS,
            body={**body, "stream": stream},
            cast_to=object,
            stream=stream,
            stream_cls=AsyncStream[object],
        )


def root_url(base_url: str) -> str:
    """Return the root that ChatGroq wants: it adds /openai/v1 by itself."""
    url = base_url.rstrip("/")
    for tail in ("/openai/v1", "/openai"):
        url = url.removesuffix(tail)
    return url
