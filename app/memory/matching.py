"""How well a question's words match what is indexed by words. Touches nothing.

Three readings of the same postings: a whole document (BM25 over a session), its best passage (BM25
over a few units in a row), and the share of the question that one passage covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.lexical import bm25
from app.lexical.store import Hit, Size
from app.memory.lexicon import DAYS

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]

# Too few documents to tell a rare word from a common one count as so many.
FEW = 30


@dataclass(frozen=True, slots=True)
class Matched:
    """The units of the documents that hold a term, in order.

    numbers: of the units; of: each unit's document. times: (terms, units).
    day_times: (terms, documents), day_lengths: what the days' unit adds to each unit of it.
    all_times: (terms, documents), how often each term is in each document. starts: the first unit
    of each document that has any. holders: how many documents hold each term.
    """

    refs: Sequence[str]
    numbers: Places
    of: Places
    lengths: Floats
    times: Floats
    day_times: Floats
    day_lengths: Floats
    all_times: Floats
    starts: Places
    holders: Places

    def after(self, other: Matched) -> Matched:
        """Return another's documents with these behind them; of the same terms."""
        return Matched(
            (*other.refs, *self.refs),
            np.concatenate((other.numbers, self.numbers)),
            np.concatenate((other.of, self.of + len(other.refs))),
            np.concatenate((other.lengths, self.lengths)),
            np.concatenate((other.times, self.times), axis=1),
            np.concatenate((other.day_times, self.day_times), axis=1),
            np.concatenate((other.day_lengths, self.day_lengths)),
            np.concatenate((other.all_times, self.all_times), axis=1),
            np.concatenate((other.starts, self.starts + len(other.of))),
            other.holders + self.holders,
        )

    def of_first(self, terms: int) -> Matched:
        """Return the same for only so many of the terms."""
        return Matched(
            self.refs,
            self.numbers,
            self.of,
            self.lengths,
            self.times[:terms],
            self.day_times[:terms],
            self.day_lengths,
            self.all_times[:terms],
            self.starts,
            self.holders[:terms],
        )


def laid_out(
    refs: Sequence[str],
    numbers: Places,
    of: Places,
    lengths: Floats,
    times: Floats,
    day_times: Floats,
    day_lengths: Floats,
) -> Matched:
    """Return units that were found, with how often each document has each term."""
    all_times = day_times.copy()
    starts = begins(of).nonzero()[0]
    if len(of):
        all_times[:, of[starts]] += np.add.reduceat(times, starts, axis=1)
    holders = np.count_nonzero(all_times, axis=1)
    return Matched(
        refs, numbers, of, lengths, times, day_times, day_lengths, all_times, starts, holders
    )


def begins(of: Places) -> Flags:
    """Return which units, or parts, are the first of their document."""
    first = np.ones(len(of), np.bool_)
    first[1:] = of[1:] != of[:-1]
    return first


def matched(hits: Sequence[Hit], terms: Sequence[str]) -> Matched:
    """Lay out what was found of some terms; the parts of a document follow one another."""
    parts = _parts(hits)
    refs: dict[str, int] = {}
    place: dict[tuple[str, int], dict[int, int]] = {}
    units: list[int] = []
    of: list[int] = []
    lengths: list[int] = []
    for which in sorted(parts):
        document = refs.setdefault(which[0], len(refs))
        numbers = sorted(number for number in parts[which] if number != DAYS)
        place[which] = dict(zip(numbers, range(len(units), len(units) + len(numbers)), strict=True))
        units += numbers
        of += [document] * len(numbers)
        lengths += [parts[which][number] for number in numbers]
    row_of = {term: row for row, term in enumerate(terms)}
    day_times = np.zeros((len(terms), len(refs)))
    day_lengths = np.zeros(len(refs))
    cells: list[tuple[int, int, int]] = []
    for hit in hits:
        row, document, places = row_of[hit.term], refs[hit.ref], place[hit.ref, hit.part]
        days = hit.places.get(DAYS, 0)
        if days:
            day_times[row, document] = max(day_times[row, document], days)
        cells += [(row, places[n], count) for n, count in hit.places.items() if n != DAYS]
    for (ref, _), sizes in parts.items():
        day_lengths[refs[ref]] = max(day_lengths[refs[ref]], sizes.get(DAYS, 0))
    times = np.zeros((len(terms), len(units)))
    if cells:
        rows, columns, counts = np.array(cells).T
        times[rows, columns] = counts
    return laid_out(
        tuple(refs),
        np.array(units, np.intp),
        np.array(of, np.intp),
        np.array(lengths, np.float64),
        times,
        day_times,
        day_lengths,
    )


def _parts(hits: Sequence[Hit]) -> dict[tuple[str, int], Mapping[int, int]]:
    """Return how long the units of each part are.

    What was looked up one after the other may be of before and of after a part was written anew.
    """
    parts: dict[tuple[str, int], Mapping[int, int]] = {}
    for hit in hits:
        known = parts.setdefault((hit.ref, hit.part), hit.lengths)
        if known is not hit.lengths and known != hit.lengths:
            parts[hit.ref, hit.part] = {**known, **hit.lengths}
    return parts


def whole(found: Matched, weights: Floats, size: Size, documents: int) -> Floats:
    """Return each document's BM25, as a share of the question's weight.

    weights: of each term. size: all that is indexed; documents: how many there are.
    """
    lengths = found.day_lengths + np.bincount(found.of, found.lengths, len(found.refs))
    all_documents = max(documents, len(found.refs))
    average = size.length / max(all_documents, 1)
    having = found.holders.tolist()
    return _bm25(found.all_times, having, lengths, average, weights, all_documents)


def passages(found: Matched, units: int) -> Floats:
    """Return how often each term is in so many units in a row, with the days.

    Of (terms, units), each passage by its first unit.
    """
    times = _in_a_row(found.times, found.of, units)
    return times + found.day_times[:, found.of] if found.day_times.any() else times


def best_passage(
    found: Matched, times: Floats, weights: Floats, size: Size, *, units: int
) -> Floats:
    """Return the best BM25 of the passages of each document; times: of these, so many units."""
    if not len(found.of):
        return np.zeros(len(found.refs))
    own = _in_a_row(found.lengths[np.newaxis], found.of, units)[0]
    lengths = own + found.day_lengths[found.of]
    seen = found.lengths.sum() + found.day_lengths.sum()
    every = max(len(found.of), round(len(found.of) * size.length / max(seen, 1)))
    having = np.count_nonzero(times, axis=1).tolist()
    scores = _bm25(times, having, lengths, float(lengths.mean()), weights, every)
    return _best(scores, found)


def covered(found: Matched, times: Floats, rarity: Floats) -> Floats:
    """Return the largest share of the terms' rarity that a passage of each document has."""
    return _best(cover(times, rarity), found)


def cover(times: Floats, rarity: Floats) -> Floats:
    """Return the share of the terms' rarity that each passage has."""
    total = rarity.sum()
    if total <= 0 or not times.size:
        return np.zeros(times.shape[1])
    return np.asarray(rarity @ (times > 0) / total, np.float64)


def rarity(terms: Sequence[str], holders: Mapping[str, int], documents: int) -> Floats:
    """Return how much each term tells; one that nobody holds, as much as one that one does."""
    every = max(documents, FEW, *holders.values())
    return np.array([bm25.weight(max(holders.get(term, 0), 1), every) for term in terms])


def holders(found: Matched, terms: Sequence[str]) -> dict[str, int]:
    """Return how many documents hold each term."""
    return dict(zip(terms, found.holders.tolist(), strict=True))


def _bm25(
    times: Floats,
    having: Sequence[int],
    lengths: Floats,
    average: float,
    weights: Floats,
    every: int,
) -> Floats:
    """Return BM25 of (terms, items), of which `having` have each term, as a share of the whole."""
    telling = weights * np.array([bm25.weight(n, every) for n in having])
    total = telling.sum()
    if total <= 0:
        return np.zeros(times.shape[1])
    return np.asarray(telling @ bm25.shares(times, lengths, average) / total, np.float64)


def _in_a_row(values: Floats, of: Places, units: int) -> Floats:
    """Return the sums of so many columns in a row that are of one document."""
    if units == 1:
        return values
    summed = values.copy()
    for step in range(1, units):
        same = of[step:] == of[:-step]
        summed[:, :-step] += values[:, step:] * same
    return summed


def _best(scores: Floats, found: Matched) -> Floats:
    best = np.zeros(len(found.refs))
    if len(found.of):
        best[found.of[found.starts]] = np.maximum.reduceat(scores, found.starts)
    return best
