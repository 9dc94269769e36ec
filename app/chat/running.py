"""A turn as its reader sees it: tokens, then its answer or its failure. Touches nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import AppError
from app.knowledge.search import Passage
from app.llm.base import Token
from app.memory.recall import Memory


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished turn, stored."""

    session_id: str
    message_id: str
    reply: str
    memories: tuple[Memory, ...]
    passages: tuple[Passage, ...]
    receipt: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A tool that an agent called. `result`: what the model was told; `is_error`: it failed.

    is_refused: it was not called, for the user had not asked for it.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    result: str
    is_error: bool = False
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a turn that failed after the bar."""

    error: AppError


Event = Token | Step | Answer | Failed


class Running:
    """A turn that is under way; `events` ends with an `Answer` or a `Failed`."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._began = time.monotonic()
        self.first_token: float | None = None  # seconds from the beginning on
        self._prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def events(self) -> AsyncIterator[Event]:
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Answer | Failed):
                return

    async def answer(self) -> Answer:
        """Return the finished turn. Raises the `AppError` that it failed with."""
        async for event in self.events():
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Answer):
                return event
        raise AssertionError("a turn ends with an Answer or a Failed")

    async def prepared(self) -> None:
        await asyncio.shield(self._prepared)

    def pass_the_bar(self) -> None:
        if not self._prepared.done():
            self._prepared.set_result(None)

    def emit(self, event: Event) -> None:
        if self.first_token is None and isinstance(event, Token):
            self.first_token = time.monotonic() - self._began
        self._events.put_nowait(event)

    def fail(self, error: AppError) -> None:
        if not self._prepared.done():
            self._prepared.set_exception(error)
            self._prepared.exception()  # the caller may have left: seen is not unseen
        self.emit(Failed(error))
