"""What of a user's memory may be recalled, with all that is known of each.

Touches: the indexes' answers, `facts`, `episodes`, the embedder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from app.db import Connection, Database
from app.db.tables import micros
from app.index.base import Match, Values
from app.lexical.store import Size
from app.lexical.terms import index_terms
from app.llm.base import Embedder
from app.memory.fusion import Floats
from app.memory.lexicon import FACT, fact_ref
from app.memory.matching import Matched, document_times, matched
from app.memory.postings import Postings
from app.memory.recall_rows import (
    Clue,
    First,
    Whose,
    read_clues,
    read_holding,
    read_late,
    read_notes,
)
from app.memory.recalled import RecordType, Span
from app.memory.vectors import Held, texts_of
from app.memory.weighing import (
    CLUE_WEIGHT,
    Candidate,
    Cosine,
    Weights,
    fact_places,
    facts_apart,
    hits_in,
    place_ref,
    telling,
)
from app.text.sentences import is_question, sentences

MOST_LATE = 32  # sessions that are ranked by their texts, and texts embedded for it
MOST_EMBEDDED = 160
MOST_ASKED = 12  # terms of a question that has one answer
INLINE_NUMBERS = 500_000  # weighing so many takes less time than asking another thread
MANY_ALONE = 100  # of more facts that stand alone, only those are read that may pass
CLUES = 5  # the facts that fit best: their words find what the question's own do not
MESSAGE = "\x1e"
DAY = 86_400e6  # microseconds


@dataclass(slots=True)
class Field:
    """One question's search. rows: what a message or a fact is shown from, by ref.

    question: None where only the words are searched.

    overtaken: whose answer is over -> where it is said what holds now.
    """

    whose: Whose
    postings: Postings
    question: Values | None
    matches: Sequence[Match]
    is_all: bool
    first: First
    names: Sequence[str]
    span: Span
    left_out: str | None
    now: datetime
    fact_gate: float
    weights: Weights = field(default_factory=lambda: Weights(()))
    rows: dict[str, Any] = field(default_factory=dict)
    left: int = 0  # facts that stand alone and have but common words, which let nothing pass
    fact_cosines: dict[str, float] = field(default_factory=dict)
    fact_sessions: dict[str, str] = field(default_factory=dict)  # "" where one stands alone
    fact_places: Mapping[tuple[str, int], float] = field(default_factory=dict)
    overtaken: Mapping[str, str] = field(default_factory=dict)
    near_facts: Sequence[tuple[str, float]] = field(init=False)  # that the index told, by id
    far: frozenset[str] = field(init=False)  # of these, what stands alone and is not near enough

    def __post_init__(self) -> None:
        facts = [
            (str(match.metadata["fact_id"]), match.score, match.metadata.get("session_id"))
            for match in self.matches
            if match.metadata.get("memory_type") == "fact" and "fact_id" in match.metadata
        ]
        self.near_facts = [(fact_id, score) for fact_id, score, _ in facts]
        self.far = frozenset(
            fact_id
            for fact_id, score, session_id in facts[MANY_ALONE:]
            if not session_id and score < self.fact_gate
        )

    def ages(self) -> Floats:
        """Return how many days ago each candidate was."""
        now = micros(self.now)
        return np.array([(now - c.moment) / DAY for c in self.weights.candidates])

    @property
    def at(self) -> int:
        return micros(self.now)

    def admits(self, clues: Iterable[Clue]) -> list[Clue]:
        """Return the clues that are not over, lie in the span, and are of no session left out."""
        at, (since, until) = self.at, self.span.bounds()
        return [
            clue
            for clue in clues
            if not clue.is_over(at)
            and (clue.session_id is None or clue.session_id != self.left_out)
            and clue.last_seen_at >= since
            and clue.learned_at <= until
        ]


async def of_memories(
    found: Field, database: Database, embedder: Embedder, memory_type: RecordType | None
) -> None:
    """Weigh the user's sessions, what no summary covers yet, and the facts that stand alone."""
    first = found.first
    since, until = found.span.bounds()
    known = [
        one
        for one in first.known
        if memory_type in (None, "episode")
        and one.session_id != found.left_out
        and one.ended_at >= since
        and one.started_at <= until
    ]
    messages = _messages(found) if memory_type in (None, "message") else {}
    if not (found.matches or known or messages or first.told or first.noted.items):
        return  # nothing is remembered yet
    late = sorted((one for one in known if one.is_late), key=lambda one: one.updated_at)
    late_ids = [one.session_id for one in late[-MOST_LATE:]]

    def read(connection: Connection) -> tuple[dict[str, Clue], list[str], Matched, list[Held]]:
        clues = _clues(connection, found, less=found.far) if memory_type != "message" else {}
        found.overtaken = _overtaken(connection, found, clues)
        more = _clue_terms(found, clues)
        noted = read_notes(
            connection, found.whose, first, more, found.left_out or "", found.postings
        )
        if memory_type is None:
            clues |= _clues_by_words(connection, found, more, noted, clues)
        held = read_late(connection, found.whose, late_ids) if late_ids else []
        return clues, more, noted, held

    clues, more, noted, held = await database.read(read)
    at = found.at
    alone = [
        clue
        for clue in found.admits(clues.values() if memory_type is None else ())
        if clue.number is None and clue.holds(at)
    ]
    found.rows = {**messages, **{fact_ref(clue.fact_id): clue.fact_id for clue in alone}}
    found.weights = Weights(
        [
            *(Candidate("episode", one.session_id, one.session_id, one.ended_at) for one in known),
            *(
                Candidate("message", ref, row.session_id, micros(row.created_at))
                for ref, row in messages.items()
            ),
            *(Candidate("fact", fact_ref(c.fact_id), "", c.last_seen_at) for c in alone),
        ],
        facts_a_message=first.facts_a_message,
        left=found.left,
    )
    cosines = [*_told(found, clues), *await _fresh(found, embedder, messages, held, clues)]
    if noted.times.size + first.said.times.size < INLINE_NUMBERS:
        _take(found, cosines, messages, more, noted)
    else:  # many words in many conversations take long enough to hold up other requests
        await asyncio.to_thread(_take, found, cosines, messages, more, noted)


def _take(
    found: Field,
    cosines: Sequence[Cosine],
    messages: Mapping[str, Any],
    more: Sequence[str],
    wide: Matched,
) -> None:
    """Take what vectors and words tell of the candidates."""
    first, weights = found.first, found.weights
    weights.take_cosines(cosines, is_all=found.is_all)
    here, here_size = hits_in({ref: _line(row) for ref, row in messages.items()}, first.terms)
    said = first.said.after(matched(here, first.terms)) if here else first.said
    every = [*first.terms, *more]
    noted = wide.of_first(len(first.terms))
    weights.take_words(first.terms, said, _sum(first.said_size, here_size), noted, first.noted_size)
    found.fact_places = fact_places(first.terms, noted)
    if wide.refs:
        share = np.array([1.0] * len(first.terms) + [CLUE_WEIGHT] * len(more))
        names = [frozenset(index_terms(name)) for name in found.names]
        weights.take_clues(every, share, wide, first.noted_size, [n for n in names if n])


async def of_facts(
    found: Field, database: Database, embedder: Embedder, memory_type: RecordType | None
) -> None:
    """Weigh the user's facts that hold at the time, each by itself."""
    first = found.first
    hits, size = facts_apart(first.noted_hits)
    noted = matched(hits, first.terms)
    nothing = matched([], first.terms)
    places = fact_places(first.terms, matched(first.noted_hits, first.terms))
    alone = [hit.ref.removeprefix(FACT) for hit in first.noted_hits if hit.ref.startswith(FACT)]
    clues = await database.read(lambda c: _clues(c, found, places, alone))
    at = found.at
    mine = [clue for clue in found.admits(clues.values()) if clue.holds(at)]
    refs = {_apart(clue): clue for clue in mine}
    found.rows = {ref: clue.fact_id for ref, clue in refs.items()}
    found.weights = Weights(
        [Candidate("fact", ref, c.session_id or "", c.last_seen_at) for ref, c in refs.items()]
    )
    told = {clue.fact_id: (ref, clue) for ref, clue in refs.items()}
    near = [
        Cosine(told[fact_id][0], "fact", score)
        for fact_id, score in found.near_facts
        if fact_id in told
    ]
    late = {told[f.fact_id][0]: f.statement for f in first.told if f.fact_id in told}
    near += await _embedded(found, embedder, [(ref, "fact", text) for ref, text in late.items()])
    found.weights.take_cosines(near, is_all=found.is_all)
    found.weights.take_words(first.terms, nothing, Size(0, 0), noted, size)


def _messages(found: Field) -> dict[str, Any]:
    """Return the messages of open sessions that say something, by ref."""
    return {
        f"{MESSAGE}{row.session_id}#{row.seq}": row
        for row in found.first.recent
        if not _only_asks(row.content) and found.span.holds(row.created_at, row.created_at)
    }


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
    asked = noted.of_first(len(found.first.terms))
    holds = (document_times(asked) > 0).any(axis=0)
    is_alone = np.array([ref.startswith(FACT) for ref in noted.refs], bool)
    alone = holds & is_alone
    if (every := int(alone.sum())) > MANY_ALONE:
        documents = len(found.first.known) + every
        names = [frozenset(index_terms(name)) for name in found.names]
        alone &= telling(found.first.terms, more, found.first.said, noted, documents, names)
        alone |= np.isin(noted.refs, list(found.overtaken.values()))
        found.left = every - int(alone.sum())
    ids = [noted.refs[at].removeprefix(FACT) for at in np.flatnonzero(alone).tolist()]
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


def _told(found: Field, clues: dict[str, Clue]) -> Iterable[Cosine]:
    """Yield what the index tells; a fact counts where SQL says that it belongs."""
    for match in found.matches:
        kind = str(match.metadata.get("memory_type", ""))
        if kind != "fact":
            session_id = str(match.metadata.get("session_id", ""))
            yield Cosine(session_id, "exchange" if kind == "exchange" else "summary", match.score)
    at = found.at
    for fact_id, score in found.near_facts:
        clue = clues.get(fact_id)
        if clue is not None and not clue.is_over(at):
            found.fact_cosines[fact_id] = max(score, found.fact_cosines.get(fact_id, 0.0))
            found.fact_sessions[fact_id] = clue.session_id or ""
            yield Cosine(_home(clue), "fact", score)


async def _fresh(
    found: Field,
    embedder: Embedder,
    messages: dict[str, Any],
    held: Sequence[Held],
    clues: dict[str, Clue],
) -> list[Cosine]:
    """Embed what the index has not shown: messages, and texts of sessions written just now."""
    shown = {(match.id, str(match.metadata.get("text", ""))) for match in found.matches}
    texts = [(ref, "exchange", row.content) for ref, row in messages.items()]
    texts += [
        (fact_ref(fact.fact_id), "fact", fact.statement)
        for fact in found.first.told
        if fact.fact_id in clues and (f"facts#{fact.fact_id}", fact.statement) not in shown
    ]
    facts: dict[str, str] = {}
    # Of each session something, and the whole memory first.
    late: list[tuple[int, tuple[str, str, str]]] = []
    for memory in held:
        for place, (id, text, metadata) in enumerate(texts_of(memory)):
            if (id, text) not in shown:
                kind = "fact" if metadata["memory_type"] == "fact" else "summary"
                late.append((place, (memory.episode.session_id, kind, text)))
                if kind == "fact":
                    facts[text] = str(metadata["fact_id"])
    late.sort(key=lambda it: it[0])
    texts += [it for _, it in late[:MOST_EMBEDDED]]
    cosines = await _embedded(found, embedder, texts)
    for one, (_, kind, text) in zip(cosines, texts, strict=False):
        if kind == "fact" and text in facts:
            found.fact_cosines[facts[text]] = one.score
            found.fact_sessions[facts[text]] = one.ref
    return cosines


async def _embedded(
    found: Field, embedder: Embedder, texts: Sequence[tuple[str, str, str]]
) -> list[Cosine]:
    """Return the cosines of texts, given with their ref and kind; none without a vector."""
    if not texts or found.question is None:
        return []
    vectors = await embedder.embed([text for _, _, text in texts])
    scores = np.maximum(vectors @ found.question, 0.0)
    return [
        Cosine(ref, kind, float(score)) for (ref, kind, _), score in zip(texts, scores, strict=True)
    ]


def _home(clue: Clue) -> str:
    """Return what a fact counts for: its session, or itself where it stands alone."""
    return clue.session_id if clue.session_id and clue.number else fact_ref(clue.fact_id)


def _apart(clue: Clue) -> str:
    alone = not clue.session_id or clue.number is None
    return fact_ref(clue.fact_id) if alone else place_ref(str(clue.session_id), clue.number or 0)


def _line(row: Any) -> str:
    return f"{row.speaker or 'User'}: {row.content}"


def _only_asks(text: str) -> bool:
    """Say whether a message is a bare question, which says nothing of its user."""
    return all(is_question(sentence) for sentence in sentences(text))


def _sum(one: Size, other: Size) -> Size:
    return Size(one.items + other.items, one.length + other.length)
