"""Precision and recall of a detector on marked strings, by kind. A finding counts if exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from app.redact import ALWAYS, PERSONAL, Detector, Finding


def score(
    detector: Detector, strings: Iterable[tuple[str, Sequence[Finding]]]
) -> tuple[dict[str, tuple[int, int, int]], list[str]]:
    """Return (right, wrong, missed) by kind and in `ALL`, and what was wrong or missed."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    told = []
    for text, expected in strings:
        found = set(detector.find(text, ALWAYS | PERSONAL))
        for name, counter, some in (
            ("right", right, found & set(expected)),
            ("wrong", wrong, found - set(expected)),
            ("missed", missed, set(expected) - found),
        ):
            counter.update(one.kind for one in some)
            counter["ALL"] += len(some)
            if name != "right":
                told += [
                    f"{name} {one.kind} {text[one.start : one.end]!r} in {text!r}" for one in some
                ]
    kinds = [*sorted(ALWAYS | PERSONAL), "ALL"]
    return {kind: (right[kind], wrong[kind], missed[kind]) for kind in kinds}, told


def precision(counts: tuple[int, int, int]) -> float:
    right, wrong, _ = counts
    return right / (right + wrong) if right + wrong else 1.0


def recall(counts: tuple[int, int, int]) -> float:
    right, _, missed = counts
    return right / (right + missed) if right + missed else 1.0
