"""Facts that depend on each other, and what is to be done to them. Touches nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from app.memory.base import Fact
from app.memory.timeline import Point


@dataclass(frozen=True, slots=True)
class Group:
    """Facts that depend on each other: all of a key, or those of one value where many may hold."""

    key: str
    value_key: str | None
    is_recommendation: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact that was found, as it would be if it is new, and the one time it was said."""

    fact: Fact
    point: Point


@dataclass(slots=True)
class Work:
    """What is to be done to a group: what was found, and from which time on it may change."""

    since: datetime
    drafts: list[Draft] = field(default_factory=list)


class Groups(dict[Group, Work]):
    """Groups that are concerned by something."""

    def concern(self, group: Group, since: datetime) -> Work:
        work = self.setdefault(group, Work(since))
        work.since = min(work.since, since)
        return work


def group_of(fact: Fact) -> Group:
    if not fact.is_many:
        return Group(fact.key, None, False)
    return Group(fact.key, fact.value_key, fact.kind == "recommendation")


def by_group(held: Iterable[Fact]) -> dict[Group, list[Fact]]:
    grouped: defaultdict[Group, list[Fact]] = defaultdict(list)
    for fact in held:
        grouped[group_of(fact)].append(fact)
    return grouped
