"""A turn in which the model calls tools. Touches: memory, knowledge, the model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

from app.chat.ask import Ask
from app.chat.running import Step
from app.knowledge.search import Passage
from app.llm.base import Finish, Say, Token
from app.memory.recall import Memory
from app.sessions.base import Turn
from app.usage import Bill


class AgentRun:
    """One agent turn; `memories` and `passages` are what its tools have found so far."""

    def __init__(self) -> None:
        self.memories: list[Memory] = []
        self.passages: list[Passage] = []
        self.steps: list[Step] = []

    async def speak(self) -> AsyncGenerator[Token | Step | Finish, None]:
        """Yield the steps and the reply as they come, then exactly one `Finish`.

        Its usage is that of all calls together; each call stands on the bill too.
        """
        raise NotImplementedError
        yield


class Agent:
    """Runs agent turns."""

    def run(self, ask: Ask, turn: Turn, says: Sequence[Say], now: datetime, bill: Bill) -> AgentRun:
        """Begin a run for a prompt. now: in the user's time zone."""
        raise NotImplementedError
