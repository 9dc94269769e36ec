"""What a checkpoint reads and learns, as it may be kept. Touches nothing.

What comes in is clean before it is stored. This is for what was stored before that was so, for
users who allow less than they did then, and for what a model makes up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import BaseModel

from app.memory.base import Fact
from app.memory.reading import Reading
from app.redact import Redactor
from app.sessions.base import Message

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Cleans for one user. keeps_personal: what the user's consent says."""

    redactor: Redactor
    keeps_personal: bool

    def text(self, text: str) -> str:
        return self.redactor.clean(text, keeps_personal=self.keeps_personal).text

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        return [replace(message, content=self.text(message.content)) for message in messages]

    def facts(self, facts: Sequence[Fact]) -> list[Fact]:
        return [
            replace(fact, subject=self.text(fact.subject), value=self.text(fact.value))
            for fact in facts
        ]

    def reading(self, reading: Reading) -> Reading:
        return replace(
            reading,
            summary=self.text(reading.summary),
            facts=[self._written(one) for one in reading.facts],
            entities=[self._written(one) for one in reading.entities],
            relations=[self._written(one) for one in reading.relations],
        )

    def _written(self, one: M) -> M:
        told = one.model_dump()
        cleaned = self.redactor.clean_json(told, keeps_personal=self.keeps_personal)
        return one if cleaned == told else type(one).model_validate(cleaned)
