"""Texts that the lexical index does not hold, matched as it would. Touches nothing.

Of each text is kept how often it has which terms, by the hashes of them that this process gives:
the same messages are looked at with every question, until a summary covers them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.lexical.kept import Kept
from app.lexical.store import Size
from app.lexical.terms import index_terms
from app.memory.matching import Matched, laid_out

MOST_NUMBERS = 200_000  # of all texts together: about 10 MB


@dataclass(frozen=True, slots=True)
class _Counted:
    length: int
    times: Mapping[int, int]


_kept: Kept[_Counted] = Kept(MOST_NUMBERS)


def matched_in(texts: Mapping[str, str], terms: Sequence[str]) -> tuple[Matched | None, Size]:
    """Return what is found in texts, by their ref, as if each were indexed as one unit.

    None where no text has a term; and how much they hold in all.
    """
    counted = {ref: _count(text) for ref, text in texts.items()}
    size = Size(len(counted), sum([one.length for one in counted.values()]))
    asked = [hash(term) for term in terms]
    held = sorted([ref for ref, one in counted.items() if not one.times.keys().isdisjoint(asked)])
    if not held:
        return None, size
    some = [counted[ref] for ref in held]
    return laid_out(
        held,
        np.ones(len(some), np.intp),
        np.arange(len(some)),
        np.array([one.length for one in some], np.float64),
        np.array([[one.times.get(term, 0) for one in some] for term in asked], np.float64),
        np.zeros((len(asked), len(some))),
        np.zeros(len(some)),
    ), size


def _count(text: str) -> _Counted:
    key = hash(text)
    held = _kept.get(key)
    if held is None:
        counts = Counter([hash(term) for term in index_terms(text)])
        held = _Counted(counts.total(), counts)
        _kept.keep(key, held, 2 * len(counts) + 2)
    return held
