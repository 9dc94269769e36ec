"""Which memories of a user go, and why. Touches nothing.

A memory is a conversation's episode with its facts, or a fact that stands by itself. What is
marked never goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from app.memory.base import Mark

PolicyName = Literal["none", "time", "count", "importance", "hybrid"]
Kind = Literal["episode", "fact"]

LONGEST_DAYS = 365_000  # no date is a longer time ago


@dataclass(frozen=True, slots=True)
class Policy:
    """When memories go.

    time: older than `max_age_days`. count: beyond `max_memories`, the oldest first. importance:
    worth less than `min_importance`. hybrid: old and worth less, and what is beyond the count then,
    the least worth first. keep_facts: facts never go; those of a conversation that goes stand by
    themselves from then on.
    """

    name: PolicyName
    max_age_days: float
    max_memories: int
    min_importance: float
    keep_facts: bool

    def oldest(self, now: datetime) -> datetime:
        """Return the time before which a memory is old."""
        return now - timedelta(days=min(self.max_age_days, LONGEST_DAYS))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that may go. `at`: when it was said last."""

    id: str
    kind: Kind
    at: datetime
    importance: float
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Doomed:
    id: str
    kind: Kind
    reason: str


def choose(
    candidates: Sequence[Candidate], policy: Policy, now: datetime, *, held: int = 0
) -> list[Doomed]:
    """Return what goes of one user's memories, in that order.

    held: how many memories the user has beside the candidates, which count and can't go now.
    """
    total = len(candidates) + held
    free = [candidate for candidate in candidates if candidate.mark is None]
    by_age = sorted(free, key=lambda c: (c.at, c.kind, c.id))
    by_worth = sorted(free, key=lambda c: (c.importance, c.at, c.kind, c.id))
    old = f"older than {policy.max_age_days:g} days"
    if policy.name == "time":
        return [_doomed(c, old) for c in by_age if _is_old(c, policy, now)]
    if policy.name == "count":
        return _beyond(by_age, total, policy)
    if policy.name == "importance":
        return [_doomed(c, _worth(c, policy)) for c in by_worth if _is_worth_less(c, policy)]
    if policy.name == "hybrid":
        gone: list[Doomed] = []
        left: list[Candidate] = []
        for c in by_worth:
            if _is_old(c, policy, now) and _is_worth_less(c, policy):
                gone.append(_doomed(c, f"{old}, and its {_worth(c, policy)}"))
            else:
                left.append(c)
        return gone + _beyond(left, total - len(gone), policy)
    return []


def _beyond(ranked: Sequence[Candidate], total: int, policy: Policy) -> list[Doomed]:
    """Return the first of the ranked, as many as are too many."""
    reason = f"beyond the {policy.max_memories} memories that a user may have"
    return [_doomed(c, reason) for c in ranked[: max(total - policy.max_memories, 0)]]


def _is_old(candidate: Candidate, policy: Policy, now: datetime) -> bool:
    return candidate.at < policy.oldest(now)


def _is_worth_less(candidate: Candidate, policy: Policy) -> bool:
    return candidate.importance < policy.min_importance


def _worth(candidate: Candidate, policy: Policy) -> str:
    return f"importance {candidate.importance:.3f} is below {policy.min_importance:g}"


def _doomed(candidate: Candidate, reason: str) -> Doomed:
    return Doomed(candidate.id, candidate.kind, reason)
