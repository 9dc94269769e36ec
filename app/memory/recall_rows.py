"""What recall reads from SQL, each statement in the transaction of its caller.

Touches: `episodes`, `facts`, `messages`, `sessions`, the lexical index. What the quarantine list
withholds is not among it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from app.db import Connection
from app.db.parts import in_parts
from app.db.tables import episodes, facts, messages, sessions
from app.lexical import store
from app.lexical.store import Hit, Size
from app.lexical.terms import query_terms
from app.memory.base import Fact
from app.memory.known import NOBODY, Known, KnownEpisodes
from app.memory.lexicon import NOTED
from app.memory.matching import Matched, matched
from app.memory.postings import Postings
from app.memory.standing import standing
from app.quarantine import BLOCKED, State, shown

RECENT = 20  # messages that no summary covers yet, the latest first; and facts told of late
# A term in more parts than this tells little, and would cost much to look up.
COMMON = 3_000

_TENANT: sa.BindParameter[str] = sa.bindparam("tenant")
_USER: sa.BindParameter[str] = sa.bindparam("user")
_IDS: sa.BindParameter[str] = sa.bindparam("ids", expanding=True)
_episode, _fact = episodes.c, facts.c
_EPISODE_SHOWN = shown("episode", _episode.session_id)
_FACT_SHOWN = shown("fact", _fact.fact_id)

SUMMARY = (_episode.session_id, _episode.text, _episode.ended_at, _episode.created_at)
_SUMMARIES = sa.select(*SUMMARY).where(
    _episode.tenant_id == _TENANT,
    _episode.user_id == _USER,
    _episode.session_id.in_(_IDS),
    _EPISODE_SHOWN,
)
# The sessions first, and limited: else SQLite may begin with all messages of the tenant.
_OPEN = (
    sa.select(sessions.c.tenant_id, sessions.c.session_id, sessions.c.covered_seq)
    .where(
        sessions.c.tenant_id == _TENANT,
        sessions.c.user_id == _USER,
        sessions.c.session_id != sa.bindparam("left_out"),
        sessions.c.last_seq > sessions.c.covered_seq,
    )
    .order_by(sessions.c.last_message_at.desc())
    .limit(RECENT)
    .subquery()
)
SAID_COLUMNS = (
    messages.c.session_id,
    messages.c.seq,
    messages.c.content,
    messages.c.created_at,
    messages.c.speaker,
)
_NOT_COVERED = (
    sa.select(*SAID_COLUMNS)
    .join(
        _OPEN,
        sa.and_(
            messages.c.tenant_id == _OPEN.c.tenant_id,
            messages.c.session_id == _OPEN.c.session_id,
            messages.c.seq > _OPEN.c.covered_seq,
        ),
    )
    .where(messages.c.role == "user", messages.c.memory == "on")
    .order_by(messages.c.created_at.desc(), messages.c.seq.desc())
    .limit(RECENT)
)
_MY_FACTS = sa.select(facts).where(_fact.tenant_id == _TENANT, _fact.user_id == _USER, _FACT_SHOWN)
_FACTS_BY_ID = _MY_FACTS.where(_fact.fact_id.in_(_IDS))
_AT_PLACES = sa.tuple_(_fact.session_id, _fact.number).in_(sa.bindparam("places", expanding=True))
_FACTS_BY_PLACE = _MY_FACTS.where(_AT_PLACES)
_OF_LATE = (
    _MY_FACTS.where(_fact.number.is_(None))
    .order_by(_fact.updated_at.desc())
    .limit(RECENT)
    .subquery()
)
_TOLD_OF_LATE = (
    sa.select(_OF_LATE)
    .where(
        sa.or_(
            _OF_LATE.c.indexed_version < _OF_LATE.c.version,
            _OF_LATE.c.updated_at > sa.bindparam("changed_after", type_=_fact.updated_at.type),
        )
    )
    .order_by(_OF_LATE.c.updated_at.desc())
)
_CLUE: tuple[sa.ColumnElement[Any], ...] = (
    _fact.fact_id,
    _fact.session_id,
    _fact.number,
    _fact.statement,
    *(
        sa.type_coerce(at, sa.BigInteger)
        for at in (_fact.valid_from, _fact.valid_to, _fact.learned_at, _fact.last_seen_at)
    ),
    _fact.key,
    _fact.value,
)
_MY_CLUES = sa.select(*_CLUE).where(_fact.tenant_id == _TENANT, _fact.user_id == _USER, _FACT_SHOWN)
_HOLDING = _MY_CLUES.where(
    _fact.key == sa.bindparam("key"),
    _fact.kind != "recommendation",
    _fact.valid_from <= sa.bindparam("at", type_=_fact.valid_from.type),
    sa.or_(
        _fact.valid_to.is_(None),
        _fact.valid_to > sa.bindparam("at", type_=_fact.valid_from.type),
    ),
).limit(2)
_CLUES = _MY_CLUES.where(_fact.fact_id.in_(_IDS))
_CLUES_BY_PLACE = _MY_CLUES.where(_AT_PLACES)


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose memory. withheld: the states in the quarantine list of what is left out."""

    tenant_id: str
    user_id: str
    withheld: Sequence[State] = BLOCKED

    def params(self, **more: Any) -> dict[str, Any]:
        return {"tenant": self.tenant_id, "user": self.user_id, **more}

    def shown(self, **more: Any) -> dict[str, Any]:
        """Return the parameters of what leaves out what is withheld."""
        return self.params(withheld=list(self.withheld), **more)


class Summary(NamedTuple):
    """What is shown of an episode. ended_at: its conversation's end; created_at: its own."""

    session_id: str
    text: str
    ended_at: datetime
    created_at: datetime


class Clue(NamedTuple):
    """What recall needs of a fact to rank it; `number` is None if it stands alone.

    Its times are microseconds since the epoch: to make datetimes of many takes long.
    """

    fact_id: str
    session_id: str | None
    number: int | None
    statement: str
    valid_from: int
    valid_to: int | None
    learned_at: int
    last_seen_at: int
    key: str
    value: str

    def holds(self, at: int) -> bool:
        return self.valid_from <= at and not self.is_over(at)

    def is_over(self, at: int) -> bool:
        return self.valid_to is not None and self.valid_to <= at


@dataclass(frozen=True, slots=True)
class First:
    """What is read beside the query of the index.

    noted_hits: where only facts are asked for. has_alone: whether facts stand alone; told: those of
    them that the index may not show yet. has_entities: whether names may be related.
    """

    known: Known
    terms: Sequence[str]
    said: Matched
    said_size: Size
    noted: store.State
    noted_size: Size
    noted_hits: Sequence[Hit]
    recent: Sequence[Any]
    facts_a_message: float
    has_alone: bool
    has_entities: bool
    told: Sequence[Fact]


def read_first(
    connection: Connection,
    whose: Whose,
    terms: Sequence[str],
    left_out: str,
    changed_after: datetime,
    postings: Postings,
    episodes_of: KnownEpisodes,
    *,
    only_facts: bool,
) -> First:
    """Read the user's sessions, where the question's words are, and what is newer than the index.

    left_out: a session that is no candidate; its words count nowhere, however long it is.
    What changed after `changed_after` is late, as `KnownEpisodes.read` says.
    """
    holds = standing(connection, whose.shown(), left_out)
    scopes = holds.said_scope, holds.noted_scope
    known = NOBODY
    if not only_facts:
        known = episodes_of.read(
            connection, whose.params(), holds.episodes, holds.withheld, changed_after
        )
    has_alone = holds.facts > holds.read_facts
    late = whose.shown(changed_after=changed_after)
    told = connection.execute(_TOLD_OF_LATE, late).all() if has_alone else ()
    asked = _of_others(holds.names, terms)
    worth = _worth_a_look(connection, scopes, (holds.said_size, holds.noted_size), asked)
    if only_facts:
        said = matched([], [])
        noted_hits = store.lookup(connection, holds.noted_scope, worth, left_out=left_out)
    else:  # of both at once: the notes are looked into next
        states = {holds.said_scope: holds.said, holds.noted_scope: holds.noted}
        postings.learn(connection, states, worth)
        said = postings.find(connection, holds.said_scope, holds.said, worth, left_out=left_out)
        noted_hits = []
    return First(
        known=known,
        terms=worth,
        said=said,
        said_size=holds.said_size,
        noted=holds.noted,
        noted_size=holds.noted_size,
        noted_hits=noted_hits,
        facts_a_message=holds.read_facts / max(int(known.covered_seq.sum()), 1),
        recent=read_recent(connection, whose, left_out),
        has_alone=has_alone,
        has_entities=holds.has_entities,
        told=[Fact(*row) for row in told],
    )


def read_recent(connection: Connection, whose: Whose, left_out: str = "") -> Sequence[Any]:
    """Read the user's latest messages that no summary covers yet."""
    return connection.execute(_NOT_COVERED, whose.params(left_out=left_out)).all()


def read_clues(
    connection: Connection,
    whose: Whose,
    fact_ids: Collection[str],
    places: Collection[tuple[str, int]] = (),
) -> dict[str, Clue]:
    """Read the facts that the indexes named, and that are still there, by id."""
    found: dict[str, Clue] = {}
    for some in in_parts(places):
        rows = connection.execute(_CLUES_BY_PLACE, whose.shown(places=some)).all()
        found |= {row[0]: Clue(*row) for row in rows}
    for ids in in_parts(fact_ids):
        rows = connection.execute(_CLUES, whose.shown(ids=ids)).all()
        found |= {row[0]: Clue(*row) for row in rows}
    return found


def read_holding(connection: Connection, whose: Whose, key: str, at: datetime) -> Clue | None:
    """Read what holds of a key at a time, if it is one fact alone."""
    rows = connection.execute(_HOLDING, whose.shown(key=key, at=at)).all()
    return Clue(*rows[0]) if len(rows) == 1 else None


def read_notes(
    connection: Connection,
    whose: Whose,
    first: First,
    more: Sequence[str],
    left_out: str,
    postings: Postings,
) -> Matched:
    """Read where in notes the question's words are, and some more."""
    scope = store.scope_of(NOTED, whose.tenant_id, whose.user_id)
    common = set(more).difference(_worth_a_look(connection, [scope], [first.noted_size], more))
    terms = [*first.terms, *more]
    return postings.find(connection, scope, first.noted, terms, left_out=left_out, common=common)


def read_texts(
    connection: Connection,
    whose: Whose,
    session_ids: Collection[str],
    fact_ids: Collection[str],
    places: Collection[tuple[str, int]],
) -> tuple[dict[str, Summary], dict[str, Fact]]:
    """Read what is shown: episodes by session, facts by id; these also by session and number."""
    shown = {
        row[0]: Summary(*row)
        for ids in in_parts(session_ids)
        for row in connection.execute(_SUMMARIES, whose.shown(ids=ids)).all()
    }
    rows: list[Any] = []
    for ids in in_parts(fact_ids):
        rows += connection.execute(_FACTS_BY_ID, whose.shown(ids=ids)).all()
    for some in in_parts(places):
        rows += connection.execute(_FACTS_BY_PLACE, whose.shown(places=some)).all()
    return shown, {row.fact_id: Fact(*row) for row in rows}


def _of_others(names: Sequence[str], terms: Sequence[str]) -> Sequence[str]:
    """Return the terms without the user's own names; but never none.

    "Where does Ann work?" asks, of Ann's memory, where she works: she says "I" there.
    """
    own = {term for name in names for term in query_terms(name)}
    return [term for term in terms if term not in own] or terms


def _worth_a_look(
    connection: Connection, scopes: Sequence[int], sizes: Sequence[Size], terms: Sequence[str]
) -> list[str]:
    """Return the terms without those that very many have; but never none."""
    worth = list(terms)
    for scope, size in zip(scopes, sizes, strict=True):
        if size.items > COMMON and worth:
            held_by = store.frequencies(connection, scope, worth, most=COMMON)
            rare = [term for term in worth if held_by.get(term, 0) <= COMMON]
            worth = rare or worth[:1]
    return worth
