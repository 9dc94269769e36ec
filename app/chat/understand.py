"""What a question means: on its own, and where its answer may stand. Touches: the small model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.chat.ask import Ask
from app.llm.base import ChatModel, Say
from app.memory.base import Fact
from app.usage import Bill

Route = Literal["knowledge", "memory", "hybrid", "clarification"]


@dataclass(frozen=True, slots=True)
class Understood:
    """`question` is what is searched for; the user's own words unless it was rewritten.

    why: what decided the route. trouble: why a rewrite that was due did not happen.
    since, until: the time that the question speaks of, for memory; since <= t < until.
    """

    question: str
    route: Route
    why: str
    is_rewritten: bool = False
    trouble: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Understanding:
    """Reads questions. model: None leaves every question as it is."""

    def __init__(self, model: ChatModel | None) -> None:
        self._model = model

    async def of(
        self,
        ask: Ask,
        history: Sequence[Say],
        profile: Sequence[Fact],
        now: datetime,
        bill: Bill,
    ) -> Understood:
        """Return what is meant; calls the model only for a question that depends on others.

        history: what was said before, oldest first. now: in the user's time zone.
        Never raises for the model: what fails falls back to the user's words.
        """
        return Understood(ask.text, "knowledge" if ask.memory == "off" else "hybrid", "default")
