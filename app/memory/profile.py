"""What is currently true of a user, bounded: it is in every prompt. Touches: `facts`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import facts
from app.llm.tokens import estimate_tokens
from app.memory.base import USER, Fact, FactKind
from app.quarantine import BLOCKED, State, shown

KINDS: tuple[FactKind, ...] = ("fact", "preference", "action")
SINCE_TOKENS, UNTIL_TOKENS = 11, 8  # what a prompt says of a fact beside its statement

_fact = facts.c
_OF_USER = sa.and_(
    _fact.tenant_id == sa.bindparam("tenant"),
    _fact.user_id == sa.bindparam("user"),
    _fact.subject == sa.literal_column(f"'{USER}'"),  # a literal: the index is for it alone
    _fact.valid_from <= sa.bindparam("at", type_=_fact.valid_from.type),
    sa.or_(
        _fact.valid_to.is_(None), _fact.valid_to > sa.bindparam("at", type_=_fact.valid_to.type)
    ),
    shown("fact", _fact.fact_id),
)
_STANDING = (_fact.sightings.desc(), _fact.last_seen_at.desc())
_MOST = sa.bindparam("most", type_=sa.Integer)


def _best(*conditions: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    """Return the ids of the first facts of a kind: an index has them in this order."""
    some = sa.select(_fact.fact_id).where(_OF_USER, *conditions).order_by(*_STANDING).limit(_MOST)
    return sa.select(some.subquery().c.fact_id)


_WANTED = sa.union(
    _best(_fact.mark.is_not(None), _fact.kind != "recommendation"),
    *(_best(_fact.kind == kind) for kind in KINDS),
).subquery()
_PROFILE = (
    sa.select(facts)
    .join(_WANTED, _WANTED.c.fact_id == _fact.fact_id)
    .where(_fact.tenant_id == sa.bindparam("tenant"))
)


class Profile:
    """Picks what is true of a user now, from one bounded query and without a model.

    withholds: the states in the quarantine list of what is left out.
    """

    def __init__(
        self,
        database: Database,
        *,
        max_facts: int,
        max_tokens: int,
        withholds: Sequence[State] = BLOCKED,
    ) -> None:
        self._database = database
        self._max_facts = max_facts
        self._max_tokens = max_tokens
        self._withholds = withholds

    async def of(self, tenant_id: str, user_id: str, at: datetime) -> list[Fact]:
        """Return the facts, preferences and open actions that hold at a time. See `within`."""
        return await self._database.read(lambda c: self.within(c, tenant_id, user_id, at))

    def within(
        self, connection: Connection, tenant_id: str, user_id: str, at: datetime
    ) -> list[Fact]:
        """Return them as a transaction sees them.

        Critical ones first, then pinned ones, then by kind; within it by how often and how lately
        they were said. No kind crowds out the others.
        """
        if not self._max_facts or not self._max_tokens:
            return []
        which = {
            "tenant": tenant_id,
            "user": user_id,
            "at": at,
            "most": self._max_facts,
            "withheld": list(self._withholds),
        }
        found = [Fact(*row) for row in connection.execute(_PROFILE, which)]
        return self._fitting(sorted(found, key=_order))

    def _fitting(self, found: Sequence[Fact]) -> list[Fact]:
        """Return what fits: the marked ones, a share of each kind in turn, then what is next."""
        share = max(1, self._max_facts // len(KINDS))
        taken: dict[FactKind, int] = dict.fromkeys(KINDS, 0)
        turns: list[tuple[int, Fact]] = []
        for fact in found:
            if fact.mark is None:
                taken[fact.kind] += 1
            place = 0 if fact.mark else taken[fact.kind]
            turns.append((min(place, share + 1), fact))
        chosen: list[Fact] = []
        tokens = 0
        for _, fact in sorted(turns, key=lambda turn: turn[0]):
            cost = estimate_tokens(fact.statement) + SINCE_TOKENS
            cost += 0 if fact.ends_at is None else UNTIL_TOKENS
            if len(chosen) < self._max_facts and tokens + cost <= self._max_tokens:
                chosen.append(fact)
                tokens += cost
        return sorted(chosen, key=_order)


def _order(fact: Fact) -> tuple[int, int, int, float, str]:
    mark = {"critical": 0, "pinned": 1, None: 2}[fact.mark]
    kind = KINDS.index(fact.kind)
    return mark, kind, -fact.sightings, -fact.last_seen_at.timestamp(), fact.fact_id
