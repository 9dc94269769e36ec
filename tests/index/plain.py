"""A plain search to compare with: a dictionary, and one product per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from app.index.base import Filter, Match, Values, Vector
from app.index.filters import matches

CLOSE = 1e-6


def cosine(a: Values, b: Values) -> float:
    left, right = a.astype(np.float64), b.astype(np.float64)
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


def assert_right(
    got: Sequence[Match],
    stored: Mapping[str, Vector],
    question: Values,
    top_k: int,
    filter: Filter | None,
) -> None:
    """Check an answer row by row; near scores may come in any order, equal ones only by id."""
    passing = {
        id: max(0.0, cosine(vector.values, question))
        for id, vector in stored.items()
        if filter is None or matches(filter, vector.metadata)
    }
    ids = [match.id for match in got]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(passing)
    best = sorted(passing.values(), reverse=True)[:top_k]
    np.testing.assert_allclose([match.score for match in got], best, atol=CLOSE)
    for match in got:
        assert abs(match.score - passing[match.id]) < CLOSE
        assert match.metadata == stored[match.id].metadata
    assert list(got) == sorted(got, key=lambda match: (-match.score, match.id))
