"""What a turn has so far, so that an interruption can store it. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.chat.ask import Mode
from app.chat.by_words import Degraded
from app.chat.flagging import Shown
from app.chat.running import Step
from app.knowledge.search import Passage
from app.memory.recall import Memory
from app.sessions.base import Turn
from app.usage import Bill


@dataclass(slots=True)
class Draft:
    """A reply in the making; `marks` are the moments at which its steps began."""

    turn: Turn
    bill: Bill
    mode: Mode
    keeps_personal: bool = True
    route: str = "none"
    text: str = ""
    steps: list[Step] = field(default_factory=list)
    memories: Sequence[Memory] = ()
    passages: Sequence[Passage] = ()
    results: Sequence[Shown] = ()
    degraded: Sequence[Degraded] = ()
    marks: dict[str, float] = field(default_factory=dict)

    def milliseconds(self) -> dict[str, float]:
        """Return how long the turn waited, read its question, retrieved and spoke."""
        start, waited, understood, retrieved, spoken = self.marks.values()
        steps = {
            "waiting": waited - start,
            "understanding": understood - waited,
            "retrieval": retrieved - understood,
            "model": spoken - retrieved,
        }
        return {step: round(seconds * 1000, 1) for step, seconds in steps.items()}
