"""The contract of a model that calls tools, and of the tools. Touches nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from app.llm.base import Finish, Say, Token, Usage
from app.llm.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool tells the model.

    kept: what may be stored of it, in its place; None: all of it.
    is_error: it failed, and `text` says why. is_refused: it was not called.
    """

    text: str
    kept: str | None = None
    is_error: bool = False
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool. parameters: a JSON schema. call: with the arguments as the model wrote them."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """One call of the model, as it is to be paid."""

    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool was called, and has answered."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    answer: ToolAnswer


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """steps: calls of the model. tokens: of all calls together, in and out.

    context_tokens: the model's window. reply_tokens: the longest reply. count: how it counts.
    """

    steps: int
    tokens: int
    context_tokens: int
    reply_tokens: int
    count: Callable[[str], int] = estimate_tokens


Acted = Token | ToolCalled | ModelCalled | Finish


@runtime_checkable
class AgentModel(Protocol):
    """A model that goes on calling tools until it answers."""

    name: str

    def run(
        self, prompt: Sequence[Say], tools: Sequence[ToolSpec], limits: AgentLimits
    ) -> AsyncGenerator[Acted, None]:
        """Yield what happens, in order, and last exactly one `Finish`.

        The tokens are those of the reply alone: what a model says before it calls a tool is not
        told. Its usage is that of all calls together. At a limit the model answers once more
        without tools from what it has, if there is room; else the reply says so. Either way, the
        reason of the `Finish` is then "length" where no answer was left. Raises `UpstreamError`
        as a `ChatModel` does.
        """
        ...
