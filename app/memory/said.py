"""What a user's conversations hold word for word, by words and by date.

Touches: `messages`, `sessions`, the lexical index.

Only what memory may hold is found: of other sessions neither what was said with memory off nor what
was taken off the record, which the lexical index knows no more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import Instant, lexical_items, messages, sessions
from app.lexical import bm25, store
from app.lexical.terms import index_terms, query_terms
from app.memory.lexicon import SAID

MOST_TERMS = 32  # of a question that are looked up
MOST_PLACES = 200  # messages that are read of those that hold its words
MOST_READ = 400  # messages that no summary covers yet, and those between two dates

_m, _s = messages.c, sessions.c
_SINCE = sa.bindparam("since", type_=Instant)
_UNTIL = sa.bindparam("until", type_=Instant)
_INDEXED = sa.exists(
    sa.select(lexical_items.c.id).where(
        lexical_items.c.scope == sa.bindparam("scope"),
        lexical_items.c.ref == _m.session_id,
        lexical_items.c.part <= _m.seq,
    )
)
_IS_NEW = _m.seq > _s.covered_seq
_IS_HERE = sa.and_(
    _m.session_id == sa.bindparam("session"), _m.seq < sa.bindparam("before", type_=sa.Integer)
)
_IS_ELSEWHERE = sa.and_(
    _m.session_id != sa.bindparam("session"), _m.memory == "on", sa.or_(_IS_NEW, _INDEXED)
)
_FOUND = (
    sa.select(_m.session_id, _m.seq, _m.role, _m.content, _m.created_at)
    .join(sessions, sa.and_(_s.tenant_id == _m.tenant_id, _s.session_id == _m.session_id))
    .where(
        _s.tenant_id == sa.bindparam("tenant"),
        _s.user_id == sa.bindparam("user"),
        _m.content != "",
        sa.or_(_SINCE.is_(None), sa.and_(_s.last_message_at >= _SINCE, _m.created_at >= _SINCE)),
        sa.or_(_UNTIL.is_(None), _m.created_at <= _UNTIL),
        sa.or_(_IS_HERE, _IS_ELSEWHERE),
    )
)
_LATEST = _FOUND.order_by(_m.created_at.desc(), _m.session_id, _m.seq.desc()).limit(
    sa.bindparam("most", type_=sa.Integer)
)
_NEW = _LATEST.where(_s.last_seq > _s.covered_seq, _IS_NEW)
_HERE = _LATEST.where(_m.session_id == sa.bindparam("session"))  # as far back as the index or not
_AT = _FOUND.where(sa.tuple_(_m.session_id, _m.seq).in_(sa.bindparam("places", expanding=True)))


@dataclass(frozen=True, slots=True)
class Saying:
    """One message, as it was written."""

    session_id: str
    seq: int
    role: Literal["user", "assistant"]
    text: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Here:
    """The session that asks, and the message before which it is asked about."""

    session_id: str
    before_seq: int


class Said:
    """Finds messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(
        self,
        tenant_id: str,
        user_id: str,
        words: str,
        *,
        here: Here,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
    ) -> list[Saying]:
        """Return the user's messages that have most of the words, best first.

        Without words, the latest between the two dates.
        """
        terms = await asyncio.to_thread(query_terms, words)
        scope = store.scope_of(SAID, tenant_id, user_id)
        which = {
            "tenant": tenant_id,
            "user": user_id,
            "scope": scope,
            "session": here.session_id,
            "before": here.before_seq,
            "since": since,
            "until": until,
        }
        if not terms:
            rows = await self._database.read(
                lambda c: c.execute(_LATEST, {**which, "most": limit}).all()
            )
            return [Saying(*row) for row in rows]
        terms = terms[:MOST_TERMS]
        rows, total = await self._database.read(lambda c: _rows(c, which, scope, terms))
        return await asyncio.to_thread(_best, rows, terms, total, limit)


def _rows(
    connection: Connection, which: dict[str, Any], scope: int, terms: Sequence[str]
) -> tuple[list[Any], int]:
    """Return the messages that may fit, and about how many there are in all."""
    weights: Counter[tuple[str, int]] = Counter()
    for hit in store.lookup(connection, scope, terms):
        for unit in hit.places:
            weights[hit.ref, unit] += 1
    places = [place for place, _ in weights.most_common(MOST_PLACES) if place[1] > 0]
    rows = {
        (row.session_id, row.seq): row
        for statement in (_NEW, _HERE)
        for row in connection.execute(statement, {**which, "most": MOST_READ})
    }
    if places:
        for row in connection.execute(_AT, {**which, "places": places}):
            rows[row.session_id, row.seq] = row
    return list(rows.values()), max(len(weights), len(rows))


def _best(rows: Sequence[Any], terms: Sequence[str], total: int, limit: int) -> list[Saying]:
    counts = [Counter(index_terms(row.content)) for row in rows]
    holders = Counter(term for count in counts for term in terms if term in count)
    lengths = [count.total() for count in counts]
    average = sum(lengths) / max(len(lengths), 1)

    def score(at: int) -> float:
        return sum(
            bm25.weight(holders[term], total) * bm25.share(counts[at][term], lengths[at], average)
            for term in terms
            if counts[at][term]
        )

    scores = [score(at) for at in range(len(rows))]
    order = sorted(
        (at for at, found in enumerate(scores) if found > 0),
        key=lambda at: (-scores[at], -rows[at].created_at.timestamp(), rows[at].seq),
    )
    return [Saying(*rows[at]) for at in order[:limit]]
