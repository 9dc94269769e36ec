"""What passes of what was weighed, best first, and what fell short. Touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

import numpy as np

from app.memory.field import Field
from app.memory.fusion import Floats, faded, relevance
from app.memory.matching import Flags, Places
from app.memory.showing import Ranked
from app.memory.weighing import LEXICAL_SHARE

OVERTAKEN = 0.9  # what is over comes after what holds now
LATEST_WEIGHT = 0.1  # a day, where the question asks for the latest

# What passed, best first, and the best cosines that fell short: of the own ones, and of facts.
Weighed = tuple[list[Ranked], float | None, float | None]


@dataclass(frozen=True, slots=True)
class Gates:
    """What a cosine must reach. only_cosines: words and names let nothing pass."""

    own: float
    fact: float
    only_cosines: bool


def ranked(field: Field, gates: Gates, recency: float, most: int) -> Weighed:
    """Return what passed, best first, `most` of it, and the best cosines that fell short.

    These are of the own ones, and of facts.
    """
    weights = field.weights
    own, fact = weights.best("summary", "exchange"), weights.best("fact")
    near, by_fact = own >= gates.own, fact >= gates.fact
    words = (weights.lexical >= LEXICAL_SHARE) & (not gates.only_cosines)
    related = weights.related & (not gates.only_cosines)
    passed = near | by_fact | words | related
    score = np.fmax(own, fact)
    score[np.isnan(score)] = 0.0
    base = relevance(weights.fused())
    days = field.ages()
    final = faded(base, days, recency)
    current = np.zeros_like(passed) if gates.only_cosines else _overtake(field, passed, final)
    passed = passed | current
    candidates = weights.candidates
    best = _best(passed, final, most)
    names = ("dense", "fact", "lexical", "related", "current")
    whys = np.array((near, by_fact, words, related, current))[:, best].T.tolist()
    late = ("recency",) if recency >= LATEST_WEIGHT else ()
    order = sorted(
        zip(
            (-final[best]).tolist(),
            days[best].tolist(),
            [candidates.refs[at] for at in best.tolist()],
            best.tolist(),
            score[best].tolist(),
            whys,
            strict=True,
        )
    )
    found = [
        Ranked(
            candidates.one(at),
            cosine,
            -below,
            (*compress(names, why), *late),
            field.rows.get(ref),
        )
        for below, _, ref, at, cosine, why in order[:most]
    ]
    return found, _miss(own, gates.own, passed), _miss(fact, gates.fact, passed)


def _best(passed: Flags, final: Floats, most: int) -> Places:
    """Return the places of the `most` best that passed, and of what ties with them."""
    places = passed.nonzero()[0]
    if len(places) > most:
        scores = final[places]
        least = np.partition(scores, len(scores) - most)[len(scores) - most]
        places = places[scores >= least]
    return places


def _overtake(field: Field, passed: Flags, final: Floats) -> Flags:
    """Put what holds now before what is over, in `final`; returns who tells what holds now."""
    current = np.zeros_like(passed)
    for old, new in field.overtaken.items():
        before, after = field.weights.place.get(old), field.weights.place.get(new)
        if before is not None and after is not None and passed[before]:
            current[after] = True
            final[after] = max(final[before], final[after])
            final[before] = min(final[before], OVERTAKEN * final[after])
    return current


def _miss(scores: Floats, gate: float, passed: Flags) -> float | None:
    missed = scores[~passed & (scores < gate)]
    return float(missed.max()) if len(missed) else None
