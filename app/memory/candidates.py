"""What of a user's memory may be recalled, with all that is known of each.

Touches: the indexes' answers, `facts`, `episodes`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from app.db import Connection
from app.db.tables import micros
from app.lexical.store import Size
from app.lexical.terms import index_terms
from app.memory.field import MANY_ALONE, Field
from app.memory.lexicon import FACT, fact_ref
from app.memory.matching import Matched, matched
from app.memory.recall_rows import Clue, read_clues, read_holding, read_notes
from app.memory.unindexed import matched_in
from app.memory.weighing import (
    Candidates,
    Cosine,
    Weights,
    fact_places,
    facts_apart,
    place_ref,
    telling,
)

MOST_ASKED = 12  # terms of a question that has one answer
CLUES = 5  # the facts that fit best: their words find what the question's own do not


def of_memories(connection: Connection, found: Field) -> None:
    """Read of the user's sessions, what no summary covers yet, and the facts that stand alone."""
    first, known, messages = found.first, found.known, found.messages
    is_message, is_whole = found.memory_type == "message", found.memory_type is None
    clues = {} if is_message else _clues(connection, found, less=found.far)
    found.overtaken = _overtaken(connection, found, clues)
    more = _clue_terms(found, clues)
    noted = read_notes(connection, found.whose, first, more, found.left_out or "", found.postings)
    if is_whole:
        clues |= _clues_by_words(connection, found, more, noted, clues)
    alone = [
        clue
        for clue in found.admits(clues.values() if is_whole else ())
        if clue.number is None and clue.holds(found.at)
    ]
    refs = [fact_ref(clue.fact_id) for clue in alone]
    found.rows = {**messages, **dict(zip(refs, [clue.fact_id for clue in alone], strict=True))}
    said = list(messages.values())
    moments = [*(micros(row.created_at) for row in said), *(c.last_seen_at for c in alone)]
    found.weights = Weights(
        Candidates(
            [*known.session_ids, *messages, *refs],
            [*known.session_ids, *(row.session_id for row in said), *([""] * len(alone))],
            np.concatenate((known.ended_at, np.array(moments, np.int64))),
            sessions=len(known),
            messages=len(messages),
        ),
        facts_a_message=first.facts_a_message,
        left=found.left,
    )
    cosines = [*found.near_sessions, *_of_near_facts(found, clues), *found.late]
    for fact_id, (score, session_id) in found.late_facts.items():
        found.fact_cosines[fact_id] = score
        found.fact_sessions[fact_id] = session_id
    found.weigh = partial(_take, found, cosines, more, noted)


def _take(found: Field, cosines: Sequence[Cosine], more: Sequence[str], wide: Matched) -> None:
    """Take what vectors and words tell of the candidates."""
    first, weights = found.first, found.weights
    weights.take_cosines(cosines, is_all=found.is_all)
    lines = {ref: _line(row) for ref, row in found.messages.items()}
    here, here_size = matched_in(lines, first.terms)
    said = first.said if here is None else first.said.after(here)
    noted = wide.of_first(len(first.terms))
    weights.take_words(first.terms, said, _sum(first.said_size, here_size), noted, first.noted_size)
    found.fact_places = fact_places(first.terms, noted)
    if wide.refs:
        weights.take_clues(first.terms, more, wide, first.noted_size, _name_terms(found))


def of_facts(connection: Connection, found: Field) -> None:
    """Weigh the user's facts that hold at the time, each by itself."""
    first = found.first
    hits, size = facts_apart(first.noted_hits)
    noted = matched(hits, first.terms)
    nothing = matched([], first.terms)
    places = fact_places(first.terms, matched(first.noted_hits, first.terms))
    alone = [hit.ref.removeprefix(FACT) for hit in first.noted_hits if hit.ref.startswith(FACT)]
    clues = _clues(connection, found, places, alone)
    mine = [clue for clue in found.admits(clues.values()) if clue.holds(found.at)]
    ref_of = {clue.fact_id: _apart(clue) for clue in mine}
    found.rows = {ref: fact_id for fact_id, ref in ref_of.items()}
    found.weights = Weights(
        Candidates(
            list(ref_of.values()),
            [clue.session_id or "" for clue in mine],
            np.array([clue.last_seen_at for clue in mine], np.int64),
            sessions=0,
            messages=0,
        )
    )
    near = [
        (ref_of[fact_id], "fact", score) for fact_id, score in found.near_facts if fact_id in ref_of
    ]
    found.weights.take_cosines([*near, *found.late], is_all=found.is_all)
    found.weights.take_words(first.terms, nothing, Size(0, 0), noted, size)


def _clues(
    connection: Connection,
    found: Field,
    places: Collection[tuple[str, int]] = (),
    alone: Collection[str] = (),
    less: Collection[str] = (),
) -> dict[str, Clue]:
    """Read the facts that the index, the words and the clock point to."""
    told = [fact.fact_id for fact in found.first.told]
    near = (fact_id for fact_id, _ in found.near_facts if fact_id not in less)
    ids = dict.fromkeys([*near, *told, *alone])
    return read_clues(connection, found.whose, list(ids), places)


def _clues_by_words(
    connection: Connection,
    found: Field,
    more: Sequence[str],
    noted: Matched,
    clues: Mapping[str, Clue],
) -> dict[str, Clue]:
    """Read the other facts that stand alone and have one of the question's words.

    Of many, only those whose words may let them pass.
    """
    if not found.first.has_alone:
        return {}
    asked = len(found.first.terms)
    holds = (noted.all_times[:asked] > 0).any(axis=0)
    is_alone = np.array([ref[:1] == FACT for ref in noted.refs], np.bool_)
    alone = holds & is_alone
    if (every := int(alone.sum())) > MANY_ALONE:
        documents = len(found.first.known) + every
        names = _name_terms(found)
        alone &= telling(found.first.terms, more, found.first.said, noted, documents, names)
        alone |= np.isin(noted.refs, list(found.overtaken.values()))
        found.left = every - int(alone.sum())
    ids = [noted.refs[at].removeprefix(FACT) for at in alone.nonzero()[0].tolist()]
    return read_clues(connection, found.whose, [id for id in ids if id not in clues])


def _overtaken(connection: Connection, found: Field, clues: dict[str, Clue]) -> dict[str, str]:
    """Return whose answer is over: that of the fact that fits best has another value now.

    Not where the question names a value, for that was asked for; nor for a long text, which asks
    for more than one thing.
    """
    if len(found.first.terms) > MOST_ASKED:
        return {}
    near = [clues[fact_id] for fact_id, _ in found.near_facts if fact_id in clues]
    same = [clue for clue in near if clue.key == near[0].key]
    over = [clue for clue in same if clue.is_over(found.at)]
    asked = frozenset(found.first.terms)
    if not over or any(asked.issuperset(index_terms(clue.value)) for clue in same):
        return {}
    holding = read_holding(connection, found.whose, near[0].key, found.now)
    if holding is None:
        return {}
    return {_home(clue): _home(holding) for clue in over if _home(clue) != _home(holding)}


def _clue_terms(found: Field, clues: dict[str, Clue]) -> list[str]:
    """Return the words of the facts that fit best, and of related names, less the question's."""
    near = [clues[fact_id] for fact_id, _ in found.near_facts if fact_id in clues]
    best = [clue.statement for clue in found.admits(near)[:CLUES]]
    words = (term for text in [*best, *found.names] for term in index_terms(text))
    return [term for term in dict.fromkeys(words) if term not in found.first.terms]


def _of_near_facts(found: Field, clues: dict[str, Clue]) -> list[Cosine]:
    """Return what the index tells of facts; one counts where SQL says that it belongs."""
    told: list[Cosine] = []
    for fact_id, score in found.near_facts:
        clue = clues.get(fact_id)
        if clue is not None and (clue.valid_to is None or clue.valid_to > found.at):
            found.fact_cosines[fact_id] = max(score, found.fact_cosines.get(fact_id, 0.0))
            found.fact_sessions[fact_id] = clue.session_id or ""
            told.append((_home(clue), "fact", score))
    return told


def _name_terms(found: Field) -> list[frozenset[str]]:
    """Return the terms of the related names, less names that have none."""
    return [terms for name in found.names if (terms := frozenset(index_terms(name)))]


def _home(clue: Clue) -> str:
    """Return what a fact counts for: its session, or itself where it stands alone."""
    return clue.session_id if clue.session_id and clue.number else fact_ref(clue.fact_id)


def _apart(clue: Clue) -> str:
    alone = not clue.session_id or clue.number is None
    return fact_ref(clue.fact_id) if alone else place_ref(str(clue.session_id), clue.number or 0)


def _line(row: Any) -> str:
    return f"{row.speaker or 'User'}: {row.content}"


def _sum(one: Size, other: Size) -> Size:
    return Size(one.items + other.items, one.length + other.length)
