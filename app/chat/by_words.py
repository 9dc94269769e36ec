"""A search that goes on with words alone where vectors can't be had. Touches: the embedder.

Texts and words are in SQL, so that an index or an embedder that is out of order costs a part of
what is found, and no answer. A refusal (a wrong key, an unknown model) stays an error: somebody has
to see it. Whatever fails SQL fails the search.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from app.errors import (
    AppError,
    ModelOverloaded,
    UpstreamInvalid,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.index.base import Values
from app.knowledge.search import Found
from app.llm.base import Embedder
from app.memory.recalled import Recalled
from app.metrics import Metrics
from app.tracing import span

log = logging.getLogger(__name__)

T = TypeVar("T", Recalled, Found)

Part = Literal["memory", "documents"]
FAILURES = (UpstreamUnavailable, UpstreamTimeout, UpstreamInvalid, ModelOverloaded)


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that was searched by its words only. code: of the failure; of: what failed."""

    part: Part
    code: str
    of: str


class Searching:
    """The searches of one question; `degraded` is what they had to do without vectors.

    What has failed is not asked again: the user has waited for it once.
    """

    def __init__(self, embedder: Embedder, text: str, metrics: Metrics) -> None:
        self._embedder = embedder
        self._text = text
        self._metrics = metrics
        self._question: Values | None = None
        self._failure: AppError | None = None
        self.degraded: list[Degraded] = []

    async def embed(self) -> None:
        began = time.monotonic()
        try:
            with span("embed the question"):
                self._question = (await self._embedder.embed([self._text], kind="query"))[0]
            self._metrics.embedded(time.monotonic() - began)
        except FAILURES as error:
            self._give_up(error)

    async def of(self, part: Part, search: Callable[[Values | None], Awaitable[T]]) -> T:
        """Return what `search` finds by the question's vector, or without one by its words."""
        if self._question is not None:
            try:
                return await self._measured(part, search, self._question)
            except FAILURES as error:
                self._metrics.search_failed(part)
                self._give_up(error)
        found = await self._measured(part, search, None)
        if self._failure is not None and part not in [one.part for one in self.degraded]:
            failed = getattr(self._failure, "part", "embedder")
            self.degraded.append(Degraded(part, self._failure.code, failed))
        return found

    async def _measured(
        self, part: Part, search: Callable[[Values | None], Awaitable[T]], question: Values | None
    ) -> T:
        began = time.monotonic()
        with span(f"search {part}", {"rag.by_words_only": question is None}) as of_search:
            found = await search(question)
            passed = found.memories if isinstance(found, Recalled) else found.passages
            of_search.set({"rag.found": len(passed)})
        scores = [one.score for one in passed]
        if found.best_below is not None:
            scores.append(found.best_below)
        self._metrics.searched(part, time.monotonic() - began, max(scores, default=None))
        return found

    def _give_up(self, error: AppError) -> None:
        log.warning("searching by words only: %s", error.message)
        self._question, self._failure = None, error
