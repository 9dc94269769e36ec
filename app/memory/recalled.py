"""What recall is asked for, and what it gives back. Touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Literal

from app.db.tables import micros
from app.memory.base import Fact

RecordType = Literal["episode", "fact", "message"]
MESSAGE = "#m"
FACT = "facts#"


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered thing. `created_at` is the time of the conversation, not of the summary.

    memory_type: "episode"; "message" for one that no summary covers yet; "fact", whose session is
    "" if it was told by itself. score: the best cosine of its vectors. relevance: 0..1, its rank
    beside the others that were found, the best being 1 before age counts. facts: those of the
    session that fit the question and are true at the time that was asked for.
    """

    id: str
    memory_type: str
    session_id: str
    score: float
    text: str
    created_at: datetime
    relevance: float = 0.0
    why: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Recalled:
    """The memories that passed, best first, and the best score below `threshold`."""

    memories: tuple[Memory, ...]
    threshold: float
    best_below: float | None


@dataclass(frozen=True, slots=True)
class Span:
    """Which memories count: those of conversations that lie in it, at least in part.

    as_of: nothing that began later counts, and facts are those that were true then.
    """

    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None

    def holds(self, begun: datetime, ended: datetime) -> bool:
        """Say whether something that lasted from `begun` to `ended` counts."""
        return (
            (self.since is None or ended >= self.since)
            and (self.until is None or begun <= self.until)
            and (self.as_of is None or begun <= self.as_of)
        )

    def bounds(self) -> tuple[float, float]:
        """Return the same in microseconds: what ends after the first, and begins by the second."""
        begun = [micros(at) for at in (self.until, self.as_of) if at is not None]
        return -inf if self.since is None else micros(self.since), min(begun, default=inf)


EVER = Span()
