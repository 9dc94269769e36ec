"""Memories beside what is known of each: cosines, words, names. Touches nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.lexical.store import Hit, Size
from app.memory import matching
from app.memory.fusion import Floats, fuse
from app.memory.lexicon import FACT, FACTS, SAID_AGAIN, SUMMARY
from app.memory.matching import Flags, Matched, Places
from app.memory.recalled import RecordType

Moments = NDArray[np.int64]
Cosine = tuple[str, str, float]  # the ref of a candidate, the name of a reading, how near it is

IN_A_ROW = 3  # messages of a passage: fewer miss the answer, more blur it (measured)
CLUE_WEIGHT = 0.5  # of a word that only the best facts have, beside one of the question
# So much of the question in one passage makes it related, whatever the cosine: 95% of LoCoMo's
# questions find that in their own conversations; of another's, 3 in 100 pass by it alone.
LEXICAL_SHARE = 0.4
SLACK = 0.05  # below it, while it is not known exactly how much each word tells
MOST_PLACES = 200  # facts of one user that are found by their words


class Candidate(NamedTuple):
    """What may be recalled. ref: what it is called in the lexical index."""

    kind: RecordType
    ref: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """All that may be recalled, in columns: sessions, then messages, then facts.

    moments: when each was last spoken of, in microseconds since the epoch. sessions, messages: how
    many of each there are.
    """

    refs: Sequence[str]
    session_ids: Sequence[str]
    moments: Moments
    sessions: int
    messages: int

    def __len__(self) -> int:
        return len(self.refs)

    def span(self, kind: RecordType) -> slice:
        """Return where those of a kind are."""
        others = self.sessions + self.messages
        match kind:
            case "episode":
                return slice(0, self.sessions)
            case "message":
                return slice(self.sessions, others)
            case "fact":
                return slice(others, len(self.refs))

    def one(self, at: int) -> Candidate:
        is_session, is_fact = at < self.sessions, at >= self.sessions + self.messages
        kind: RecordType = "episode" if is_session else "fact" if is_fact else "message"
        return Candidate(kind, self.refs[at], self.session_ids[at])


NOWHERE: tuple[Places, Places] = (np.empty(0, np.intp), np.empty(0, np.intp))
NONE = Candidates((), (), np.empty(0, np.int64), 0, 0)


class Weights:
    """The readings of all candidates, as they come in."""

    def __init__(
        self, candidates: Candidates, *, facts_a_message: float = 1.0, left: int = 0
    ) -> None:
        """left: how many more there are that could not pass."""
        self.candidates = candidates
        self.documents = len(candidates) + left
        self.place = {ref: at for at, ref in enumerate(candidates.refs)}
        self.facts_a_message = facts_a_message
        self.readings: dict[str, Floats] = {}
        self.cosines: dict[str, Floats] = {}  # NaN where none is known
        self.lexical = np.zeros(len(candidates))  # the share of the question in one passage
        self.related = np.zeros(len(candidates), bool)
        self._placed_last: tuple[Sequence[str] | None, tuple[Places, Places]] = None, NOWHERE

    def take_cosines(self, cosines: Iterable[Cosine], *, is_all: bool) -> None:
        """Take the best cosine of each kind.

        is_all: what is not among them has none; else the index only told the nearest, and any
        other session counts as far as the farthest of them.
        """
        place = self.place
        known: dict[str, tuple[list[int], list[float]]] = {}
        for ref, kind, score in cosines:
            if (at := place.get(ref)) is not None:
                if (of_kind := known.get(kind)) is None:
                    of_kind = known[kind] = [], []
                of_kind[0].append(at)
                of_kind[1].append(score)
        for kind, (places, found) in known.items():
            scores = np.array(found)
            best = np.full(len(self.candidates), np.nan)
            np.fmax.at(best, places, scores)
            self.cosines[kind] = best
            reading = best.copy()
            if not is_all:
                of_sessions = reading[self.candidates.span("episode")]
                of_sessions[np.isnan(of_sessions)] = scores.min()
            self.readings[kind] = reading

    def take_words(
        self, terms: Sequence[str], said: Matched, said_size: Size, noted: Matched, noted_size: Size
    ) -> None:
        """Take what the question's own words tell."""
        if not terms:
            return
        even = np.ones(len(terms))
        in_said, in_noted = self._placed(said.refs), self._placed(noted.refs)
        whole = matching.whole(said, even, said_size, self.documents)
        self._read("said", ("episode", "message"), in_said, whole)
        in_a_row, single = matching.passages(said, IN_A_ROW), matching.passages(noted, 1)
        passage = matching.best_passage(said, in_a_row, even, said_size, units=IN_A_ROW)
        self._read("passage", ("episode", "message"), in_said, passage)
        whole = matching.whole(noted, even, noted_size, noted_size.items)
        self._read("noted", ("episode", "fact"), in_noted, whole)
        weights = rarity(terms, said, noted, self.documents)
        for found, times, (documents, places) in (
            (said, in_a_row, in_said),
            (noted, single, in_noted),
        ):
            shares = matching.covered(found, times, weights)
            self.lexical[places] = np.maximum(self.lexical[places], shares[documents])

    def take_clues(
        self,
        terms: Sequence[str],
        more: Sequence[str],
        noted: Matched,
        size: Size,
        names: Collection[frozenset[str]],
    ) -> None:
        """Take what the words of the best facts tell, and who holds a related name whole.

        Beside the question's own `terms`, which come before.
        """
        documents, places = placed = self._placed(noted.refs)
        if more:
            weights = np.array([1.0] * len(terms) + [CLUE_WEIGHT] * len(more))
            whole = matching.whole(noted, weights, size, size.items)
            self._read("widened", ("episode", "fact"), placed, whole)
        else:
            self.readings["widened"] = self.readings["noted"]
        for holds in _hold_a_name([*terms, *more], noted, names):
            if holds.sum() * 2 > max(size.items, matching.FEW):
                continue  # it tells nothing: they all do
            self.related[places[holds[documents]]] = True

    def fused(self) -> Floats:
        if not self.readings:
            return np.zeros(len(self.candidates))
        return fuse(self.readings, self.facts_a_message)

    def best(self, *kinds: str) -> Floats:
        """Return the best cosine of some kinds, NaN where none is known."""
        best = np.full(len(self.candidates), np.nan)
        for kind in kinds:
            if kind in self.cosines:
                best = np.fmax(best, self.cosines[kind])
        return best

    def _read(
        self,
        name: str,
        kinds: Collection[RecordType],
        placed: tuple[Places, Places],
        scores: Floats,
    ) -> None:
        reading = np.full(len(self.candidates), np.nan)
        for kind in kinds:
            reading[self.candidates.span(kind)] = 0.0
        documents, places = placed
        reading[places] = scores[documents]
        self.readings[name] = reading

    def _placed(self, refs: Sequence[str]) -> tuple[Places, Places]:
        """Return which documents are candidates, and which."""
        if refs is self._placed_last[0]:  # notes are asked for twice
            return self._placed_last[1]
        places = np.fromiter(map(self.place.get, refs, repeat(-1)), np.intp, len(refs))
        documents = (places >= 0).nonzero()[0]
        self._placed_last = refs, (documents, places[documents])
        return self._placed_last[1]


def rarity(terms: Sequence[str], said: Matched, noted: Matched, documents: int) -> Floats:
    """Return how much each term tells in this user's memory."""
    in_said, in_noted = matching.holders(said, terms), matching.holders(noted, terms)
    holders = {term: max(in_said[term], in_noted[term]) for term in terms}
    return matching.rarity(terms, holders, documents)


def telling(
    terms: Sequence[str],
    more: Sequence[str],
    said: Matched,
    noted: Matched,
    documents: int,
    names: Collection[frozenset[str]],
) -> Flags:
    """Return which documents of notes may pass by words or by a related name.

    noted: of the question's terms, and of `more`. documents: about how many candidates there are.
    """
    asked = noted.of_first(len(terms))
    times = matching.passages(asked, 1)
    shares = matching.covered(asked, times, rarity(terms, said, asked, documents))
    may = shares >= LEXICAL_SHARE - SLACK
    for holds in _hold_a_name([*terms, *more], noted, names):
        may |= holds
    return may


def _hold_a_name(
    terms: Sequence[str], noted: Matched, names: Collection[frozenset[str]]
) -> Iterator[Flags]:
    """Yield for each name that the terms have whole which documents hold it."""
    if not names:
        return
    has = noted.all_times > 0
    for name in names:
        rows = [at for at, term in enumerate(terms) if term in name]
        if len(rows) == len(name):
            yield np.asarray(has[rows].all(axis=0), np.bool_)


def fact_places(terms: Sequence[str], noted: Matched) -> dict[tuple[str, int], float]:
    """Return the facts that have most of the question's words, by session and number.

    With the share that they have; a word that nearly all facts have counts for hardly anything.
    """
    is_fact = (noted.numbers >= FACTS) & (noted.numbers < SAID_AGAIN)
    every = int(is_fact.sum())
    if not every:
        return {}
    held = np.count_nonzero(noted.times[:, is_fact], axis=1).tolist()
    telling = matching.rarity(terms, dict(zip(terms, held, strict=True)), every)
    shares = matching.cover(matching.passages(noted, 1), telling)
    passed = (is_fact & (shares >= LEXICAL_SHARE)).nonzero()[0]
    best = passed[np.argsort(-shares[passed], kind="stable")[:MOST_PLACES]]
    return {
        (noted.refs[noted.of[at]], int(noted.numbers[at]) - FACTS): float(shares[at])
        for at in best.tolist()
    }


def facts_apart(noted: Sequence[Hit]) -> tuple[list[Hit], Size]:
    """Return what was found in notes as if each fact were indexed by itself: see `place_ref`."""
    found: list[Hit] = []
    lengths: dict[str, int] = {}
    for hit in noted:
        for number, times in hit.places.items():
            if FACTS <= number < SAID_AGAIN or hit.ref.startswith(FACT):
                ref = hit.ref if hit.ref.startswith(FACT) else place_ref(hit.ref, number - FACTS)
                length = hit.lengths.get(number, 0)
                found.append(Hit(hit.term, ref, 0, {SUMMARY: times}, {SUMMARY: length}))
                lengths[ref] = length
    return found, Size(len(lengths), sum(lengths.values()))


def place_ref(session_id: str, number: int) -> str:
    """Return what a session's fact is called where facts stand apart."""
    return f"{session_id}{FACT}{number}"
