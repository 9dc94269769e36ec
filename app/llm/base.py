"""The contracts of the chat model and the embedder. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Role = Literal["system", "user", "assistant", "tool"]
Kind = Literal["query", "passage"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asks for; `id` joins it with its result."""

    id: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What a model reads of it, so that it can be counted."""
        return f"{self.name} {json.dumps(dict(self.arguments))}"


@dataclass(frozen=True, slots=True)
class Say:
    """One message of a prompt.

    calls: of an assistant's message; each is followed by a "tool" message with its `call_id`.
    """

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `counted` is False where the provider said nothing and we estimated."""

    input_tokens: int
    output_tokens: int
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Token:
    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a reply; `reason` is the provider's finish reason ("stop", "length", …)."""

    reason: str
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    reason: str
    usage: Usage
    model: str


class ChatModel(Protocol):
    """A model that answers a list of messages.

    Both calls raise `UpstreamError` (part "model"): Busy with `retry_after`, Timeout, Unavailable,
    Refused, and Invalid for a stream that ends without a finish reason or an empty answer; and
    `ModelOverloaded` where too many calls run and wait.
    """

    name: str
    trouble: str | None
    """Why the last call failed; None after one that did not."""

    def stream(self, prompt: Sequence[Say], *, max_tokens: int) -> AsyncIterator[Token | Finish]:
        """Yield the reply as it comes, then exactly one `Finish`."""
        ...

    async def complete(
        self, prompt: Sequence[Say], *, max_tokens: int, is_awaited: bool = True
    ) -> Completion:
        """Return the whole reply. is_awaited: a person waits for it, so it goes first."""
        ...

    async def warm(self) -> None:
        """Load what the first call would have to load. No network."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The measured gates of one embedding model, as max(0, cosine)."""

    memory: float
    facts: float
    documents: float


class Embedder(Protocol):
    """Texts to unit vectors.

    `name` and `dimension` are known without loading the model: they are the stamp of an index.
    """

    name: str
    dimension: int
    thresholds: Thresholds
    trouble: str | None
    """Why the last call failed; None after one that did not."""

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> NDArray[np.float32]:
        """Return (len(texts), dimension) float32, rows of length 1.

        `kind` matters only to models that embed questions and passages differently.
        Raises `UpstreamError` (part "embedder").
        """
        ...

    async def warm(self) -> None:
        """Load what the first call would have to load. No network."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Remembers(Protocol):
    """An embedder that keeps the vectors of the texts embedded last."""

    def lookups(self) -> tuple[int, int]:
        """Return how many texts it had the vectors of, and how many it had not."""
        ...


@runtime_checkable
class Compares(Protocol):
    """An embedder that runs on this machine, and so can compare while a reply is made."""

    def similarity(self, question: str, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of each sentence to the question, (len(sentences),). Blocks."""
        ...
