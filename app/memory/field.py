"""One question's search: what was asked, and all that is known of what may answer it.

Touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from app.db.tables import micros
from app.index.base import Match, Values
from app.memory.fusion import Floats
from app.memory.known import NOBODY, Known
from app.memory.matching import Flags
from app.memory.postings import Postings
from app.memory.recall_rows import Clue, First, Whose
from app.memory.recalled import EVER, RecordType, Span
from app.memory.weighing import NONE, Cosine, Weights
from app.text.remembering import remembering
from app.text.sentences import is_question, sentences

MANY_ALONE = 100  # of more facts that stand alone, only those are read that may pass
LONGEST_QUESTION = 2_000  # characters; to cut a longer text would hold up other requests
MESSAGE = "\x1e"
DAY = 86_400e6  # microseconds


@dataclass(slots=True)
class Field:
    """One question's search. rows: what a message or a fact is shown from, by ref.

    question: None where only the words are searched. memory_type: which alone are searched for.
    known, messages: those that may be recalled.
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
            kind = told.get("memory_type")
            if kind == "exchange":
                near.append((str(told.get("session_id", "")), "exchange", match.score))
            elif kind != "fact":
                near.append((str(told.get("session_id", "")), "summary", match.score))
            elif "fact_id" in told:
                facts.append((str(told["fact_id"]), match.score, told.get("session_id", "")))
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


def in_span(known: Known, span: Span, left_out: str | None) -> Flags:
    """Return which sessions lie in a span, less one that is left out."""
    if span == EVER:
        admitted = np.ones(len(known), np.bool_)
    else:
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
    admitted = in_span(known, found.span, found.left_out)
    return known if admitted.all() else known.those(admitted)


def _messages(found: Field) -> dict[str, Any]:
    """Return the messages of open sessions that say something, by ref."""
    return {
        f"{MESSAGE}{row.session_id}#{row.seq}": row
        for row in found.first.recent
        if not _only_asks(row.content) and found.span.holds(row.created_at, row.created_at)
    }


@remembering
def _only_asks(text: str) -> bool:
    """Say whether a message is a bare question, which says nothing of its user."""
    return len(text) <= LONGEST_QUESTION and all(map(is_question, sentences(text)))
