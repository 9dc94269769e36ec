"""What was found, as it is shown: texts from SQL, the facts that fit, no thing thrice.

Touches: `episodes`, `facts`, `messages`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import messages, sessions
from app.index.base import vector_id
from app.memory.base import Fact
from app.memory.episodes import Episode
from app.memory.fusion import apart
from app.memory.recall_rows import SAID_COLUMNS, Whose, read_texts
from app.memory.recalled import FACT, MESSAGE, Memory
from app.memory.weighing import Candidate
from app.sessions.rows import of_session

MOST_FACTS = 5  # of a session
SPARE = 20  # looked at beyond `top_k`, so that something else can step forward
NEXT = 3  # and at first: mostly, few say the same


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate that passed. row: the message that it is, or the id of the fact."""

    candidate: Candidate
    score: float
    relevance: float
    why: tuple[str, ...]
    row: Any = None


@dataclass(frozen=True, slots=True)
class Fitting:
    """Which facts fit a question: by id with their cosines, by place with their share of words.

    sessions: whose each of the former is.
    """

    cosines: Mapping[str, float]
    gate: float
    places: Mapping[tuple[str, int], float]
    sessions: Mapping[str, str]
    at: datetime

    def near(self, sessions: Collection[str]) -> set[str]:
        """Return the facts of some sessions whose cosines pass."""
        return {
            fact_id
            for fact_id, cosine in self.cosines.items()
            if cosine >= self.gate and self.sessions[fact_id] in sessions
        }

    def order(self, fact: Fact) -> tuple[float, int]:
        share = self.places.get((fact.session_id or "", fact.number or 0), 0.0)
        return -self.cosines.get(fact.fact_id, 0.0) - share, fact.number or 0


async def show(
    database: Database, whose: Whose, ranked: Sequence[Ranked], top_k: int, fitting: Fitting
) -> tuple[Memory, ...]:
    """Return the first `top_k` as memories; what says about the same as another steps back."""
    some = ranked[: top_k + SPARE]
    found: list[Memory] = []
    for part in (some[: top_k + NEXT], some[top_k + NEXT :]):
        if part:
            found += await _load(database, whose, part, fitting)
        first, later = apart([memory.text for memory in found])
        if len(first) >= top_k:  # what comes behind these can't step forward
            break
    return tuple(found[at] for at in (first + later)[:top_k])


async def _load(
    database: Database, whose: Whose, some: Sequence[Ranked], fitting: Fitting
) -> list[Memory]:
    """Return what is still there, in its order."""
    ids = {one.candidate.session_id for one in some if one.candidate.kind == "episode"}
    alone = {str(one.row) for one in some if one.candidate.kind == "fact"}
    places = [place for place in fitting.places if place[0] in ids]
    episodes, facts = await database.read(
        lambda c: read_texts(c, whose, ids, fitting.near(ids) | alone, places)
    )
    fit: defaultdict[str, list[Fact]] = defaultdict(list)
    for fact in sorted(facts.values(), key=fitting.order):
        if fact.session_id and fact.number is not None and fact.holds(fitting.at):
            fit[fact.session_id].append(fact)
    return [
        memory
        for one in some
        if (memory := _memory(one, episodes, facts, fit[one.candidate.session_id])) is not None
    ]


async def reload(
    database: Database,
    whose: Whose,
    used: Sequence[Mapping[str, Any]],
    until: datetime,
) -> list[Memory]:
    """Return what is still there of the memories that a receipt of this user names.

    `until` is the receipt's time: what has been written since under an old id is left out.
    """
    said = {place for one in used if (place := _said_at(one)) is not None}
    whole = {one["session_id"] for one in used if one["memory_type"] == "episode"}
    named = {fact_id for one in used for fact_id in _fact_ids(one)}

    def read(connection: Connection) -> list[Memory]:
        rows = connection.execute(_said(whose, said, until)).all() if said else []
        texts = {(row.session_id, row.seq): row for row in rows}
        episodes, facts = read_texts(connection, whose, whole, named, ())
        old = {id: one for id, one in episodes.items() if one.created_at <= until}
        held = {id: fact for id, fact in facts.items() if fact.created_at <= until}
        again = (_again(one, texts, old, held) for one in used)
        return [memory for memory in again if memory is not None]

    return await database.read(read)


def episode_memory(episode: Episode) -> Memory:
    """Return an episode as a memory without a score, for a listing."""
    return Memory(
        id=vector_id(episode.session_id),
        memory_type="episode",
        session_id=episode.session_id,
        score=0.0,
        text=episode.text,
        created_at=episode.ended_at,
    )


def fact_memory(fact: Fact) -> Memory:
    """Return a fact as a memory without a score."""
    return Memory(
        id=f"{FACT}{fact.fact_id}",
        memory_type="fact",
        session_id=fact.session_id or "",
        score=0.0,
        text=fact.statement,
        created_at=fact.learned_at,
        facts=(fact,),
    )


def message_memory(row: Any) -> Memory:
    """Return a message that no summary covers yet as a memory without a score."""
    return Memory(
        id=f"{vector_id(row.session_id)}{MESSAGE}{row.seq}",
        memory_type="message",
        session_id=row.session_id,
        score=0.0,
        text=f"{row.speaker or 'User'}: {row.content}",
        created_at=row.created_at,
    )


def _memory(
    one: Ranked,
    episodes: Mapping[str, Episode],
    facts: Mapping[str, Fact],
    fit: Sequence[Fact],
) -> Memory | None:
    """Return None for what went meanwhile."""
    if one.candidate.kind == "message":
        bare = message_memory(one.row)
    elif one.candidate.kind == "fact":
        if one.row not in facts:
            return None
        bare = fact_memory(facts[one.row])
    elif one.candidate.session_id in episodes:
        episode = episodes[one.candidate.session_id]
        bare = replace(episode_memory(episode), facts=tuple(fit[:MOST_FACTS]))
    else:
        return None
    return replace(bare, score=one.score, relevance=one.relevance, why=one.why)


def _again(
    used: Mapping[str, Any],
    texts: Mapping[tuple[str, int], Any],
    episodes: Mapping[str, Episode],
    facts: Mapping[str, Fact],
) -> Memory | None:
    place = _said_at(used)
    if place is not None:
        bare = message_memory(texts[place]) if place in texts else None
    elif used["memory_type"] == "fact":
        fact = facts.get(used["id"].removeprefix(FACT))
        bare = None if fact is None else fact_memory(fact)
    else:
        episode = episodes.get(used["session_id"])
        bare = None if episode is None else episode_memory(episode)
    if bare is None:
        return None
    return replace(
        bare,
        score=used["score"],
        relevance=used.get("relevance", 0.0),
        why=tuple(used.get("why", ())),
        facts=tuple(facts[fact_id] for fact_id in _fact_ids(used) if fact_id in facts),
    )


def _said_at(used: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the session and number of a message; None for what is none."""
    if used["memory_type"] != "message":
        return None
    return used["session_id"], int(used["id"].rpartition(MESSAGE)[2])


def _fact_ids(used: Mapping[str, Any]) -> list[str]:
    own = [used["id"].removeprefix(FACT)] if used["memory_type"] == "fact" else []
    return list(dict.fromkeys([*own, *used.get("fact_ids", ())]))


def _said(whose: Whose, said: Collection[tuple[str, int]], until: datetime) -> sa.Select[Any]:
    return (
        sa.select(*SAID_COLUMNS)
        .join(sessions, of_session(sessions, whose.tenant_id, messages.c.session_id))
        .where(
            messages.c.tenant_id == whose.tenant_id,
            sessions.c.user_id == whose.user_id,
            sa.tuple_(messages.c.session_id, messages.c.seq).in_(list(said)),
            messages.c.created_at <= until,
        )
    )
