"""Memories beside what is known of each: cosines, words, names. Touches nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.lexical.store import Hit, Size
from app.lexical.terms import index_terms
from app.memory import matching
from app.memory.fusion import Floats, fuse
from app.memory.lexicon import FACT, FACTS, SAID_AGAIN, SUMMARY
from app.memory.matching import Matched, Places
from app.memory.recalled import RecordType

Flags = NDArray[np.bool_]

IN_A_ROW = 3  # messages of a passage: fewer miss the answer, more blur it (measured)
CLUE_WEIGHT = 0.5  # of a word that only the best facts have, beside one of the question
# So much of the question in one passage makes it related, whatever the cosine: 95% of LoCoMo's
# questions find that in their own conversations; of another's, 3 in 100 pass by it alone.
LEXICAL_SHARE = 0.4
SLACK = 0.05  # below it, while it is not known exactly how much each word tells
MOST_PLACES = 200  # facts of one user that are found by their words


class Candidate(NamedTuple):
    """What may be recalled. ref: what it is called in the lexical index.

    moment: when it was last spoken of, in microseconds since the epoch.
    """

    kind: RecordType
    ref: str
    session_id: str
    moment: int


class Cosine(NamedTuple):
    """A text of a candidate and how near the question it is. kind: the name of a reading."""

    ref: str
    kind: str
    score: float


class Weights:
    """The readings of all candidates, as they come in."""

    def __init__(
        self, candidates: Sequence[Candidate], *, facts_a_message: float = 1.0, left: int = 0
    ) -> None:
        """left: how many more there are that could not pass."""
        self.candidates = candidates
        self.documents = len(candidates) + left
        self.place = {one.ref: at for at, one in enumerate(candidates)}
        self.facts_a_message = facts_a_message
        self.readings: dict[str, Floats] = {}
        self.cosines: dict[str, Floats] = {}  # NaN where none is known
        self.lexical = np.zeros(len(candidates))  # the share of the question in one passage
        self.related = np.zeros(len(candidates), bool)
        self._kinds = np.array([one.kind for one in candidates], "U7")

    def take_cosines(self, cosines: Iterable[Cosine], *, is_all: bool) -> None:
        """Take the best cosine of each kind.

        is_all: what is not among them has none; else the index only told the nearest, and any
        other session counts as far as the farthest of them.
        """
        found: dict[str, list[Cosine]] = {}
        for one in cosines:
            if one.ref in self.place:
                found.setdefault(one.kind, []).append(one)
        is_session = self._are("episode")
        for kind, some in found.items():
            best = np.full(len(self.candidates), np.nan)
            for one in some:
                at = self.place[one.ref]
                best[at] = np.fmax(best[at], one.score)
            self.cosines[kind] = best
            farthest = np.nan if is_all else min(one.score for one in some)
            self.readings[kind] = np.where(np.isnan(best) & is_session, farthest, best)

    def take_words(
        self, terms: Sequence[str], said: Matched, said_size: Size, noted: Matched, noted_size: Size
    ) -> None:
        """Take what the question's own words tell."""
        if not terms:
            return
        even = np.ones(len(terms))
        whole = matching.whole(said, even, said_size, self.documents)
        self._read("said", ("episode", "message"), said, whole)
        passage = matching.best_passage(said, even, said_size, units=IN_A_ROW)
        self._read("passage", ("episode", "message"), said, passage)
        whole = matching.whole(noted, even, noted_size, noted_size.items)
        self._read("noted", ("episode", "fact"), noted, whole)
        weights = rarity(terms, said, noted, self.documents)
        for found, units in ((said, IN_A_ROW), (noted, 1)):
            shares = matching.covered(found, weights, units=units)
            documents_here, places = self._places(found)
            np.maximum.at(self.lexical, places, shares[documents_here])

    def take_clues(
        self,
        terms: Sequence[str],
        weights: Floats,
        noted: Matched,
        size: Size,
        names: Collection[frozenset[str]],
    ) -> None:
        """Take what the words of the best facts tell, and who holds a related name whole."""
        self._read(
            "widened",
            ("episode", "fact"),
            noted,
            matching.whole(noted, weights, size, size.items),
        )
        for holds in _hold_a_name(terms, noted, names):
            if holds.sum() * 2 > max(size.items, matching.FEW):
                continue  # it tells nothing: they all do
            for ref in np.array(noted.refs)[holds]:
                if ref in self.place:
                    self.related[self.place[ref]] = True

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
        self, name: str, kinds: Collection[RecordType], found: Matched, scores: Floats
    ) -> None:
        reading = np.where(self._are(*kinds), 0.0, np.nan)
        documents, places = self._places(found)
        reading[places] = scores[documents]
        self.readings[name] = reading

    def _places(self, found: Matched) -> tuple[Places, Places]:
        """Return which documents are candidates, and which."""
        places = np.array([self.place.get(ref, -1) for ref in found.refs], np.intp)
        documents = np.flatnonzero(places >= 0)
        return documents, places[documents]

    def _are(self, *kinds: RecordType) -> Flags:
        return np.isin(self._kinds, kinds)


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
    shares = matching.covered(asked, rarity(terms, said, asked, documents), units=1)
    may = shares >= LEXICAL_SHARE - SLACK
    for holds in _hold_a_name([*terms, *more], noted, [name for name in names if name]):
        may |= holds
    return may


def _hold_a_name(
    terms: Sequence[str], noted: Matched, names: Collection[frozenset[str]]
) -> Iterator[Flags]:
    """Yield for each name that the terms have whole which documents hold it."""
    has = matching.document_times(noted) > 0
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
    held = (noted.times[:, is_fact] > 0).sum(axis=1).tolist()
    telling = matching.rarity(terms, dict(zip(terms, held, strict=True)), every)
    shares = np.where(is_fact, matching.unit_cover(noted, telling), 0.0)
    best = np.argsort(-shares, kind="stable")[:MOST_PLACES]
    return {
        (noted.refs[noted.of[at]], int(noted.numbers[at]) - FACTS): float(shares[at])
        for at in best.tolist()
        if shares[at] >= LEXICAL_SHARE
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


def hits_in(texts: Mapping[str, str], terms: Sequence[str]) -> tuple[list[Hit], Size]:
    """Return what the lexical index would find in texts that it does not hold, by their ref."""
    found: list[Hit] = []
    length = 0
    for ref, text in texts.items():
        counts = Counter(index_terms(text))
        length += counts.total()
        found += [
            Hit(term, ref, 0, {1: counts[term]}, {1: counts.total()})
            for term in terms
            if term in counts
        ]
    return found, Size(len(texts), length)
