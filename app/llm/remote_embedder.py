"""Embedders behind a network: batches, deadlines, and what they answered, checked.

Touches: the network, through who inherits it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from app.breaker import Breaker, guarded
from app.errors import AppError, UpstreamInvalid
from app.llm.base import Kind, Thresholds
from app.llm.cap import Cap
from app.llm.local import UNMEASURED
from app.llm.onnx import Rows, unit_rows
from app.llm.recent import RecentRows
from app.llm.upstream import Vendor
from app.retry import retried
from app.text.clean import clean

THRESHOLDS = {"openai:text-embedding-3-small": Thresholds(memory=0.70, facts=0.70, documents=0.70)}

MOST_WAITING = 256
BATCH = 96  # Pinecone's most inputs a request
# Of a text, so that none is refused for its length: OpenAI takes 8,192 tokens, and no tokenizer
# makes more tokens than bytes. In English this is some 2,000 tokens; a chunk has 1,000 characters.
MAX_BYTES = 8_000
RETRIES = 2

# Providers refuse an empty input, and an index a vector of zeros.
_NOTHING = "(empty)"


class RemoteEmbedder(ABC):
    """What embedders behind a network share: batches, the deadline, checked unit rows.

    at_once: calls that run at once; questions go first. breaker: of the host.
    """

    def __init__(
        self,
        name: str,
        dimension: int,
        vendor: Vendor,
        *,
        deadline_seconds: float,
        question_seconds: float,
        at_once: int,
        breaker: Breaker | None,
    ) -> None:
        self.name = name
        self.dimension = dimension
        self.thresholds = THRESHOLDS.get(name, UNMEASURED)
        self._vendor = vendor
        self._deadline_seconds = deadline_seconds
        self._question_seconds = min(question_seconds, deadline_seconds)
        self._cap = Cap(at_once=at_once, queued=MOST_WAITING)
        self._breaker = breaker
        self.trouble: str | None = None
        self._recent: dict[Kind, RecentRows] = {"query": RecentRows(), "passage": RecentRows()}

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Return (len(texts), dimension) float32, rows of length 1. See `Embedder.embed`.

        A text longer than `MAX_BYTES` is embedded by its beginning. The deadline holds for a batch
        of 96 texts with its retries; questions have a shorter one. Raises
        `ModelOverloaded` where too many calls wait.
        """
        speakable = [_speakable(text) for text in texts]
        found = self._recent[kind].find(speakable)
        rest = [text for text in dict.fromkeys(speakable) if text not in found]
        for batch in (rest[at : at + BATCH] for at in range(0, len(rest), BATCH)):
            rows = self._checked(await self._guarded(batch, kind), len(batch))
            self._recent[kind].keep(batch, rows)
            found.update(zip(batch, rows, strict=True))
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([found[text] for text in speakable])

    def lookups(self) -> tuple[int, int]:
        rows = self._recent.values()
        return sum(kept.hits for kept in rows), sum(kept.misses for kept in rows)

    @abstractmethod
    async def warm(self) -> None:
        """Import the SDK. No network. Raises `Misconfigured`."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def _batch(self, texts: list[str], kind: Kind) -> Sequence[Sequence[float]]:
        """Ask the vendor for one batch; any error of its SDK may come out."""

    async def _guarded(self, texts: list[str], kind: Kind) -> Sequence[Sequence[float]]:
        is_question = kind == "query"
        seconds = self._question_seconds if is_question else self._deadline_seconds
        await self.warm()  # loading takes its time, and is not the host's fault
        deadline = asyncio.get_running_loop().time() + seconds

        async def attempt() -> Sequence[Sequence[float]]:
            with guarded(self._breaker, "embedder"):
                try:
                    async with asyncio.timeout_at(deadline):
                        return await self._batch(texts, kind)
                except Exception as error:
                    raise self._vendor.translate(error) from error

        try:
            async with self._cap.place(deadline, is_awaited=is_question):
                found = await retried(attempt, times=RETRIES, deadline=deadline)
        except AppError as error:
            self.trouble = error.message
            raise
        self.trouble = None
        return found

    def _checked(self, values: Sequence[Sequence[float]], count: int) -> Rows:
        try:
            rows = np.array(values, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise UpstreamInvalid("embedder", f"{self.name} answered with no vectors.") from error
        if rows.shape != (count, self.dimension):
            raise UpstreamInvalid(
                "embedder",
                f"{self.name} answered with vectors of shape {rows.shape}, "
                f"expected {(count, self.dimension)}.",
            )
        if not np.isfinite(rows).all() or not rows.any(axis=1).all():
            raise UpstreamInvalid("embedder", f"{self.name} answered with a vector of nothing.")
        return unit_rows(rows)


def _speakable(text: str) -> str:
    """Return the beginning of a text in a form that every provider takes."""
    start = clean(text).encode()[:MAX_BYTES].decode(errors="ignore")
    return start if start.strip() else _NOTHING
