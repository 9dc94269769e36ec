"""What of a user's memory may be recalled, with all that is known of each.

Touches: the indexes' answers, `facts`, `episodes`, the embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from app.db import Connection
from app.db.tables import micros
from app.index.base import Match, Values
from app.lexical.store import Size
from app.lexical.terms import index_terms
from app.llm.base import Embedder
from app.memory.fusion import Floats
from app.memory.known import NOBODY, Known
from app.memory.lexicon import FACT, fact_ref
from app.memory.matching import Flags, Matched, matched
from app.memory.postings import Postings
from app.memory.recall_rows import (
    Clue,
    First,
    Whose,
    read_clues,
    read_holding,
    read_notes,
)
from app.memory.recalled import RecordType, Span
from app.memory.vectors import Held, texts_of
from app.memory.weighing import (
    CLUE_WEIGHT,
    NONE,
    Candidates,
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
MANY_ALONE = 100  # of more facts that stand alone, only those are read that may pass
CLUES = 5  # the facts that fit best: their words find what the question's own do not
LONGEST_QUESTION = 2_000  # characters; to cut a longer text would hold up other requests
MESSAGE = "\x1e"
DAY = 86_400e6  # microseconds


@dataclass(slots=True)
class Field:
    """One question's search. rows: what a message or a fact is shown from, by ref.

    question: None where only the words are searched. memory_type: which alone are searched for.
    known, messages: those that may be recalled. held: the sessions that the index lags behind.
    late: what was embedded, since the index does not show it; late_facts: by id how near each is,
    and whose it is.
    overtaken: whose answer is over -> where it is said what holds now.
    weigh: what is left to be done once all is read.
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
    memory_type: RecordType | None
    now: datetime
    fact_gate: float
    held: Sequence[Held] = ()
    known: Known = field(init=False)
    messages: dict[str, Any] = field(init=False)
    late: Sequence[Cosine] = ()
    late_facts: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    weights: Weights = field(default_factory=lambda: Weights(NONE))
    rows: dict[str, Any] = field(default_factory=dict)
    left: int = 0  # facts that stand alone and have but common words, which let nothing pass
    fact_cosines: dict[str, float] = field(default_factory=dict)
    fact_sessions: dict[str, str] = field(default_factory=dict)  # "" where one stands alone
    fact_places: Mapping[tuple[str, int], float] = field(default_factory=dict)
    overtaken: Mapping[str, str] = field(default_factory=dict)
    weigh: Callable[[], None] | None = None
    near_sessions: Sequence[Cosine] = field(init=False)  # what the index told of them
    near_facts: Sequence[tuple[str, float]] = field(init=False)  # that the index told, by id
    far: frozenset[str] = field(init=False)  # of these, what stands alone and is not near enough
    at: int = field(init=False)  # now, in microseconds since the epoch

    def __post_init__(self) -> None:
        self.at = micros(self.now)
        self.known = _admitted(self)
        self.messages = _messages(self) if self.memory_type in (None, "message") else {}
        near: list[Cosine] = []
        facts: list[tuple[str, float, object]] = []
        for match in self.matches:
            told = match.metadata
            kind, session_id = told.get("memory_type"), told.get("session_id", "")
            if kind != "fact":
                reading = "exchange" if kind == "exchange" else "summary"
                near.append((str(session_id), reading, match.score))
            elif "fact_id" in told:
                facts.append((str(told["fact_id"]), match.score, session_id))
        self.near_sessions = near
        self.near_facts = [(fact_id, score) for fact_id, score, _ in facts]
        self.far = frozenset(
            [
                fact_id
                for fact_id, score, session_id in facts[MANY_ALONE:]
                if not session_id and score < self.fact_gate
            ]
        )

    @property
    def is_empty(self) -> bool:
        """Say whether nothing is remembered yet."""
        first = self.first
        some = self.matches or len(self.known) or self.messages or first.told
        if self.memory_type == "fact":
            return not (some or first.noted_hits)
        return not (some or first.noted.items)

    def ages(self) -> Floats:
        """Return how many days ago each candidate was."""
        return np.asarray((self.at - self.weights.candidates.moments) / DAY)

    def admits(self, clues: Iterable[Clue]) -> list[Clue]:
        """Return the clues that are not over, lie in the span, and are of no session left out."""
        at, (since, until) = self.at, self.span.bounds()
        return [
            clue
            for clue in clues
            if (clue.valid_to is None or clue.valid_to > at)
            and (clue.session_id is None or clue.session_id != self.left_out)
            and clue.last_seen_at >= since
            and clue.learned_at <= until
        ]


def late_ids(
    first: First, span: Span, left_out: str | None, memory_type: RecordType | None
) -> list[str]:
    """Return the sessions that the index does not show yet, and that may be recalled."""
    if memory_type not in (None, "episode"):
        return []
    known = first.known.those(first.known.is_late)
    known = known.those(_in_span(known, span, left_out))
    order = np.argsort(known.updated_at, kind="stable")[-MOST_LATE:].tolist()
    return [known.session_ids[at] for at in order]


async def embed_late(found: Field, embedder: Embedder) -> None:
    """Embed what the index has not shown: messages, and texts that were written just now."""
    if found.question is None or not (found.messages or found.first.told or found.held):
        return
    shown: set[tuple[str, str]] = set()
    if found.memory_type != "fact" and (found.first.told or found.held):
        shown = {(match.id, str(match.metadata.get("text", ""))) for match in found.matches}
    texts = [(ref, "exchange", row.content) for ref, row in found.messages.items()]
    if found.memory_type != "message":
        texts += [
            (fact_ref(fact.fact_id), "fact", fact.statement)
            for fact in found.first.told
            if (f"facts#{fact.fact_id}", fact.statement) not in shown
        ]
    facts: dict[str, str] = {}
    # Of each session something, and the whole memory first.
    late: list[tuple[int, tuple[str, str, str]]] = []
    for memory in found.held:
        for place, (id, text, metadata) in enumerate(texts_of(memory)):
            if (id, text) not in shown:
                kind = "fact" if metadata["memory_type"] == "fact" else "summary"
                late.append((place, (memory.episode.session_id, kind, text)))
                if kind == "fact":
                    facts[text] = str(metadata["fact_id"])
    late.sort(key=lambda it: it[0])
    texts += [it for _, it in late[:MOST_EMBEDDED]]
    if not texts:
        return
    vectors = await embedder.embed([text for _, _, text in texts])
    scores = np.maximum(vectors @ found.question, 0.0).tolist()
    near = list(zip(texts, scores, strict=True))
    found.late = [(ref, kind, score) for (ref, kind, _), score in near]
    found.late_facts = {
        facts[text]: (score, ref)
        for (ref, kind, text), score in near
        if kind == "fact" and text in facts
    }


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
    here, here_size = hits_in(lines, first.terms)
    said = first.said.after(matched(here, first.terms)) if here else first.said
    every = [*first.terms, *more]
    noted = wide.of_first(len(first.terms))
    weights.take_words(first.terms, said, _sum(first.said_size, here_size), noted, first.noted_size)
    found.fact_places = fact_places(first.terms, noted)
    if wide.refs:
        share = np.array([1.0] * len(first.terms) + [CLUE_WEIGHT] * len(more))
        weights.take_clues(every, share, wide, first.noted_size, _name_terms(found))


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


def _in_span(known: Known, span: Span, left_out: str | None) -> Flags:
    """Return which sessions lie in a span, less one that is left out."""
    since, until = span.bounds()
    admitted = (known.ended_at >= since) & (known.started_at <= until)
    if left_out is not None and left_out in known.session_ids:
        admitted[known.session_ids.index(left_out)] = False
    return admitted


def _admitted(found: Field) -> Known:
    """Return the sessions that may be recalled."""
    known = found.first.known
    if found.memory_type not in (None, "episode"):
        return NOBODY
    admitted = _in_span(known, found.span, found.left_out)
    return known if admitted.all() else known.those(admitted)


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


def _only_asks(text: str) -> bool:
    """Say whether a message is a bare question, which says nothing of its user."""
    return len(text) <= LONGEST_QUESTION and all(map(is_question, sentences(text)))


def _sum(one: Size, other: Size) -> Size:
    return Size(one.items + other.items, one.length + other.length)
