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
class Before:
    """What a checkpoint reads: what was said, the summary until then, what is known."""

    said: Sequence[Message]
    summary: str
    known: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Cleans for one user. keeps_personal: what the user's consent says."""

    redactor: Redactor
    keeps_personal: bool

    def text(self, text: str) -> str:
        return self.redactor.clean(text, keeps_personal=self.keeps_personal).text

    def before(self, said: Sequence[Message], summary: str, known: Sequence[Fact]) -> Before:
        return Before(
            [self._message(one) for one in said],
            self.text(summary),
            [self._fact(one) for one in known],
        )

    def reading(self, reading: Reading) -> Reading:
        return replace(
            reading,
            summary=self.text(reading.summary),
            facts=[self._written(one) for one in reading.facts],
            entities=[self._written(one) for one in reading.entities],
            relations=[self._written(one) for one in reading.relations],
        )

    def _message(self, message: Message) -> Message:
        content = self.text(message.content)
        return message if content == message.content else replace(message, content=content)

    def _fact(self, fact: Fact) -> Fact:
        told = {"subject": self.text(fact.subject), "value": self.text(fact.value)}
        return fact if told == {"subject": fact.subject, "value": fact.value} else fact.but(**told)

    def _written(self, one: M) -> M:
        told = one.model_dump()
        cleaned = self.redactor.clean_json(told, keeps_personal=self.keeps_personal)
        return one if cleaned == told else type(one).model_validate(cleaned)
