"""The contract of a detector of what is personal or secret. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["SECRET", "CARD", "IBAN", "SSN", "EMAIL", "PHONE", "IP"]

ALWAYS: frozenset[Kind] = frozenset({"SECRET", "CARD", "IBAN", "SSN"})
PERSONAL: frozenset[Kind] = frozenset({"EMAIL", "PHONE", "IP"})


@dataclass(frozen=True, slots=True)
class Finding:
    """What stands from character `start` up to `end` of a text."""

    start: int
    end: int
    kind: Kind


class Detector(Protocol):
    """Finds what is personal or secret."""

    def find(self, text: str, kinds: frozenset[Kind]) -> Sequence[Finding]:
        """Return the findings of some kinds, in order, none within another."""
        ...
