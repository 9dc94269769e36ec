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
from app.memory.fusion import Apart
from app.memory.recall_rows import SAID_COLUMNS, Summary, Whose, read_texts
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


def show(
    connection: Connection, whose: Whose, ranked: Sequence[Ranked], top_k: int, fitting: Fitting
) -> tuple[Memory, ...]:
    """Return the first `top_k` as memories; what says about the same as another steps back."""
    some = ranked[: top_k + SPARE]
    read = _Read()
    found: list[Ranked] = []
    told = Apart()
    for part in (some[: top_k + NEXT], some[top_k + NEXT :]):
        if part:
            read.add(connection, whose, part, fitting)
        for one in part:
            if (text := read.text(one)) is not None:
                found.append(one)
                told.add(text)
        if len(told.first) >= top_k:  # what comes behind these can't step forward
            break
    return tuple([read.memory(found[at]) for at in (told.first + told.later)[:top_k]])


class _Read:
    """What was read to show what passed: of each session also the facts that fit best."""

    def __init__(self) -> None:
        self._summaries: dict[str, Summary] = {}
        self._facts: dict[str, Fact] = {}
        self._fit: defaultdict[str, list[Fact]] = defaultdict(list)

    def add(
        self, connection: Connection, whose: Whose, some: Sequence[Ranked], fitting: Fitting
    ) -> None:
        ids = {one.candidate.session_id for one in some if one.candidate.kind == "episode"}
        alone = {str(one.row) for one in some if one.candidate.kind == "fact"}
        places = [place for place in fitting.places if place[0] in ids]
        summaries, facts = read_texts(connection, whose, ids, fitting.near(ids) | alone, places)
        self._summaries |= summaries
        self._facts |= facts
        for fact in sorted(facts.values(), key=fitting.order):
            if fact.session_id and fact.number is not None and fact.holds(fitting.at):
                self._fit[fact.session_id].append(fact)

    def text(self, one: Ranked) -> str | None:
        """Return None for what went meanwhile."""
        match one.candidate.kind:
            case "message":
                return _line(one.row)
            case "fact":
                fact = self._facts.get(one.row)
                return None if fact is None else fact.statement
            case "episode":
                summary = self._summaries.get(one.candidate.session_id)
                return None if summary is None else summary.text

    def memory(self, one: Ranked) -> Memory:
        """Return what has a text as a memory."""
        ranked = (one.score, one.relevance, one.why)
        match one.candidate.kind:
            case "message":
                return message_memory(one.row, *ranked)
            case "fact":
                return fact_memory(self._facts[one.row], *ranked)
            case "episode":
                session_id = one.candidate.session_id
                fit = tuple(self._fit[session_id][:MOST_FACTS])
                return episode_memory(self._summaries[session_id], *ranked, fit)


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
        summaries, facts = read_texts(connection, whose, whole, named, ())
        old = {id: one for id, one in summaries.items() if one.created_at <= until}
        held = {id: fact for id, fact in facts.items() if fact.created_at <= until}
        again = (_again(one, texts, old, held) for one in used)
        return [memory for memory in again if memory is not None]

    return await database.read(read)


def episode_memory(
    summary: Summary,
    score: float = 0.0,
    relevance: float = 0.0,
    why: tuple[str, ...] = (),
    facts: tuple[Fact, ...] = (),
) -> Memory:
    """Return an episode as a memory; without a score, for a listing."""
    return Memory(
        id=vector_id(summary.session_id),
        memory_type="episode",
        session_id=summary.session_id,
        score=score,
        text=summary.text,
        created_at=summary.ended_at,
        relevance=relevance,
        why=why,
        facts=facts,
    )


def fact_memory(
    fact: Fact, score: float = 0.0, relevance: float = 0.0, why: tuple[str, ...] = ()
) -> Memory:
    """Return a fact as a memory; without a score, for a listing."""
    return Memory(
        id=f"{FACT}{fact.fact_id}",
        memory_type="fact",
        session_id=fact.session_id or "",
        score=score,
        text=fact.statement,
        created_at=fact.learned_at,
        relevance=relevance,
        why=why,
        facts=(fact,),
    )


def message_memory(
    row: Any, score: float = 0.0, relevance: float = 0.0, why: tuple[str, ...] = ()
) -> Memory:
    """Return a message that no summary covers yet as a memory; without a score, for a listing."""
    return Memory(
        id=f"{vector_id(row.session_id)}{MESSAGE}{row.seq}",
        memory_type="message",
        session_id=row.session_id,
        score=score,
        text=_line(row),
        created_at=row.created_at,
        relevance=relevance,
        why=why,
    )


def _line(row: Any) -> str:
    return f"{row.speaker or 'User'}: {row.content}"


def _again(
    used: Mapping[str, Any],
    texts: Mapping[tuple[str, int], Any],
    summaries: Mapping[str, Summary],
    facts: Mapping[str, Fact],
) -> Memory | None:
    place = _said_at(used)
    if place is not None:
        bare = message_memory(texts[place]) if place in texts else None
    elif used["memory_type"] == "fact":
        fact = facts.get(used["id"].removeprefix(FACT))
        bare = None if fact is None else fact_memory(fact)
    else:
        summary = summaries.get(used["session_id"])
        bare = None if summary is None else episode_memory(summary)
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
