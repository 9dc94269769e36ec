"""Whether a text says what a fact states. Touches nothing."""

from __future__ import annotations

from functools import cached_property

from app.memory.grounding import Grounds
from app.memory.written import WrittenFact
from app.text.sentences import sentences
from app.text.terms import terms
from app.text.words import DENIES

ENOUGH = 2 / 3  # of what the assistant states, that somebody else must have said

_NOBODY = frozenset(terms("user assistant customer person"))


class Support:
    """A text that may support many facts: read once, and only as far as it is asked."""

    def __init__(self, text: str) -> None:
        self._text = text

    def states(self, fact: WrittenFact) -> bool:
        """Say whether it has a fact's value, most of its words, and says yes or no alike."""
        value, stated = set(terms(fact.value)), set(terms(fact.statement)) - _NOBODY
        there = self._terms
        if not value or not value <= there or len(stated & there) < ENOUGH * len(stated):
            return False
        near = [one for one, said in self._sentences if value & said]
        denied = DENIES.search(fact.statement) is not None
        if not any((DENIES.search(one) is not None) == denied for one in near):
            return False
        return self._grounds.support(fact.statement, fact.value)

    @cached_property
    def _terms(self) -> frozenset[str]:
        return frozenset(terms(self._text))

    @cached_property
    def _sentences(self) -> list[tuple[str, frozenset[str]]]:
        return [(one, frozenset(terms(one))) for one in sentences(self._text)]

    @cached_property
    def _grounds(self) -> Grounds:
        return Grounds([self._text, "user assistant"])
