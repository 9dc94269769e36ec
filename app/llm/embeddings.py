"""Embedders: which one a setting names, and those behind a network. Touches: the network."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.breaker import Breaker, Breakers
from app.errors import Misconfigured
from app.llm.base import Embedder, Kind, Thresholds
from app.llm.chat import missing_package
from app.llm.local import local_embedder
from app.llm.onnx import Rows, unit_rows
from app.llm.remote_embedder import RemoteEmbedder
from app.llm.upstream import Vendor

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from pinecone import AsyncPinecone

DIMENSIONS = {
    "openai:text-embedding-3-small": 1536,
    "openai:text-embedding-3-large": 3072,
    "openai:text-embedding-ada-002": 1536,
    "pinecone:llama-text-embed-v2": 1024,
    "pinecone:multilingual-e5-large": 1024,
}


def embedder_for(
    spec: str,
    *,
    dimension: int | None = None,
    model_dir: Path | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    pinecone_api_key: str | None = None,
    pinecone_host: str | None = None,
    deadline_seconds: float = 30.0,
    question_seconds: float = 3.0,
    at_once: int = 32,
    breakers: Breakers | None = None,
) -> Embedder:
    """Return the embedder that EMBEDDING_MODEL names; nothing is loaded or called yet.

    spec: "" or "local" (the bundled model, or the one in `model_dir`), "mock" or "mock:DIMENSION",
    "pinecone:MODEL", or "PROVIDER:MODEL" of LangChain's `init_embeddings`.
    dimension: EMBEDDING_DIMENSION, for models that are not in `DIMENSIONS`; for those that are, a
    shorter vector, where the provider can.
    api_key, base_url: for a LangChain provider; None leaves both to its environment variables.
    pinecone_host: the root of Pinecone's inference API; None is Pinecone's own.
    question_seconds: the deadline of a remote one for a question, where a person waits.
    at_once: calls of a remote one; more wait. breakers: of the hosts.
    Raises `Misconfigured`.
    """
    if spec in ("", "local"):
        return local_embedder(model_dir)
    provider, _, model = spec.partition(":")
    if provider == "mock":
        return MockEmbedder(_whole_number(model) if model else 384)
    if not provider or not model:
        raise Misconfigured(
            f"EMBEDDING_MODEL must be local, mock:384 or provider:model; it is {spec!r}.",
            param="EMBEDDING_MODEL",
        )
    wanted = dimension or DIMENSIONS.get(spec)
    if wanted is None:
        raise Misconfigured(
            f"EMBEDDING_DIMENSION must say how many dimensions {spec!r} has.",
            param="EMBEDDING_DIMENSION",
        )
    if provider == "pinecone":
        return PineconeEmbedder(
            model,
            wanted,
            api_key=pinecone_api_key or "",
            host=pinecone_host,
            deadline_seconds=deadline_seconds,
            question_seconds=question_seconds,
            at_once=at_once,
            breaker=None if breakers is None else breakers.of("pinecone inference"),
        )
    return LangChainEmbedder(
        spec,
        wanted,
        api_key=api_key,
        base_url=base_url,
        deadline_seconds=deadline_seconds,
        question_seconds=question_seconds,
        at_once=at_once,
        breaker=None if breakers is None else breakers.of(provider),
    )


def _whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise Misconfigured(
            f"EMBEDDING_MODEL 'mock:{text}' needs a dimension, as in mock:384.",
            param="EMBEDDING_MODEL",
        )
    return int(text)


class MockEmbedder:
    """Random unit vectors by hash, for tests: equal texts are equal, others unrelated."""

    def __init__(self, dimension: int = 384) -> None:
        self.name = f"mock:{dimension}"
        self.dimension = dimension
        self.thresholds = Thresholds(memory=0.0, facts=0.0, documents=0.0)
        self.trouble: str | None = None

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Return (len(texts), dimension) float32, rows of length 1; `kind` does not matter."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return unit_rows(np.stack([self._random(text) for text in texts]))

    async def warm(self) -> None:
        """There is nothing to load."""

    async def close(self) -> None:
        """There is nothing to close."""

    def _random(self, text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        return np.random.default_rng(int.from_bytes(digest)).standard_normal(self.dimension)


class PineconeEmbedder(RemoteEmbedder):
    """A model of Pinecone's inference API, through the real SDK."""

    def __init__(
        self,
        model: str,
        dimension: int,
        *,
        api_key: str,
        host: str | None = None,
        deadline_seconds: float = 30.0,
        question_seconds: float = 3.0,
        at_once: int = 32,
        breaker: Breaker | None = None,
    ) -> None:
        if not api_key:
            raise Misconfigured(
                f"EMBEDDING_MODEL 'pinecone:{model}' needs PINECONE_API_KEY.",
                param="PINECONE_API_KEY",
            )
        name = f"pinecone:{model}"
        vendor = Vendor("embedder", "Pinecone", model, "PINECONE_API_KEY", "EMBEDDING_MODEL")
        super().__init__(
            name,
            dimension,
            vendor,
            deadline_seconds=deadline_seconds,
            question_seconds=question_seconds,
            at_once=at_once,
            breaker=breaker,
        )
        self._model = model
        self._api_key = api_key
        self._host = host
        self._client: AsyncPinecone | None = None
        self._building = asyncio.Lock()

    async def warm(self) -> None:
        """Import the SDK and make its client. No network."""
        await self._loaded()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _batch(self, texts: list[str], kind: Kind) -> Sequence[Sequence[float]]:
        client = await self._loaded()
        parameters: dict[str, Any] = {"input_type": kind, "truncate": "END"}
        if self.dimension != DIMENSIONS.get(self.name, self.dimension):
            parameters["dimension"] = self.dimension
        found = await client.inference.embed(model=self._model, inputs=texts, parameters=parameters)
        return [getattr(one, "values", []) for one in found.data]

    async def _loaded(self) -> AsyncPinecone:
        async with self._building:
            if self._client is None:
                self._client = await asyncio.to_thread(self._made)
            return self._client

    def _made(self) -> AsyncPinecone:
        from pinecone import AsyncPinecone, RetryConfig

        return AsyncPinecone(
            api_key=self._api_key,
            host=self._host,
            timeout=self._deadline_seconds,
            retry_config=RetryConfig(max_retries=0),
        )


class LangChainEmbedder(RemoteEmbedder):
    """Any "provider:model" of LangChain's `init_embeddings`."""

    def __init__(
        self,
        spec: str,
        dimension: int,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        deadline_seconds: float = 30.0,
        question_seconds: float = 3.0,
        at_once: int = 32,
        breaker: Breaker | None = None,
    ) -> None:
        provider, _, model = spec.partition(":")
        self._key_setting = f"the API key of {provider} ({provider.upper()}_API_KEY)"
        vendor = Vendor("embedder", provider, model, self._key_setting, "EMBEDDING_MODEL")
        super().__init__(
            spec,
            dimension,
            vendor,
            deadline_seconds=deadline_seconds,
            question_seconds=question_seconds,
            at_once=at_once,
            breaker=breaker,
        )
        self._provider, self._model = provider, model
        given = {"api_key": api_key, "base_url": base_url}
        self._options: dict[str, Any] = {key: value for key, value in given.items() if value}
        self._embeddings: Embeddings | None = None
        self._building = asyncio.Lock()

    async def warm(self) -> None:
        """Import LangChain and the provider's package. No network. Raises `Misconfigured`."""
        await self._loaded()

    async def close(self) -> None:
        client = getattr(self._embeddings, "http_async_client", None)
        self._embeddings = None
        if client is not None:
            await client.aclose()

    async def _batch(self, texts: list[str], kind: Kind) -> Sequence[Sequence[float]]:
        embeddings = await self._loaded()
        if kind == "query" and len(texts) == 1:
            return [await embeddings.aembed_query(texts[0])]
        return await embeddings.aembed_documents(texts)

    async def _loaded(self) -> Embeddings:
        async with self._building:
            if self._embeddings is None:
                self._embeddings = await asyncio.to_thread(self._made)
            return self._embeddings

    def _made(self) -> Embeddings:
        try:
            from langchain.embeddings import init_embeddings

            options = self._options | (self._for_openai() if self._provider == "openai" else {})
            made: Embeddings = init_embeddings(self._model, provider=self._provider, **options)
            return made
        except ImportError as error:
            raise missing_package("EMBEDDING_MODEL", self.name, error) from error
        except Exception as error:
            raise Misconfigured(
                f"EMBEDDING_MODEL={self.name!r} can't be set up ({type(error).__name__}): "
                f"check the provider's name and {self._key_setting}.",
                param="EMBEDDING_MODEL",
            ) from error

    def _for_openai(self) -> dict[str, Any]:
        from openai import DefaultAsyncHttpxClient

        options: dict[str, Any] = {
            "http_async_client": DefaultAsyncHttpxClient(),
            "timeout": self._deadline_seconds,
            "max_retries": 0,
            # Its own length check downloads a tokenizer.
            "check_embedding_ctx_length": False,
        }
        if self.dimension != DIMENSIONS.get(self.name, self.dimension):
            options["dimensions"] = self.dimension
        return options
