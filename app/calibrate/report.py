"""What was measured, in words and figures for a terminal. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from app.calibrate.spread import FEWEST_PAIRS, TELLS_APART, At, Spread
from app.gates import Gate, Origin

PAIRS = {
    "memory": "a fact's statement (where there are few: a message) with the memory of its own "
    "conversation, apart from what quotes it, and with the best of another user's memory",
    "facts": "the words that a fact was read in with that fact, and with the best of another "
    "user's facts",
    "documents": "a record's name and a field of it, or a sentence taken out of its text, with its "
    "own document, and with another one",
}
NEEDS = {
    "memory": "facts, or messages of four telling words and more, in sessions that are summarised, "
    "of more than one user (or at least in more than one session)",
    "facts": "facts that were read in messages, of more than one user (or at least in more than "
    "one session)",
    "documents": "documents: records, or texts of more than one sentence",
}
ORIGINS: dict[Origin, str] = {
    "setting": "a setting",
    "calibrated": "applied by an earlier run",
    "default": "the model's default",
}


def report(kind: str, spread: Spread, today: Gate) -> Iterator[str]:
    """Yield the lines about one kind."""
    yield f"{kind}: {PAIRS[kind]}"
    count = len(spread.related)
    if not spread.is_enough:
        yield f"  too little data: {count} pairs, and {FEWEST_PAIRS} are needed: {NEEDS[kind]}"
        yield f"  {_today(today)}"
        return
    yield f"  {f'{count} questions':<14}   p5   p50   p95"
    yield f"  {'related':<14}{_points(spread.related)}"
    yield f"  {'unrelated':<14}{_points(spread.unrelated)}"
    yield f"  AUC {spread.auc():.3f} (1: told apart always, 0.5: by chance)"
    yield f"  best F1 {_at(spread.best())}"
    yield f"  today   {_at(spread.at(today.value))}, {ORIGINS[today.origin]}"
    if not tells_apart(spread):
        yield "  the scores hardly tell the two apart: no threshold is worth applying"


def tells_apart(spread: Spread) -> bool:
    """Say whether a threshold may be taken from it."""
    return spread.is_enough and spread.auc() >= TELLS_APART


def _today(gate: Gate) -> str:
    return f"today {gate.value:.3f}, {ORIGINS[gate.origin]}"


def _at(found: At) -> str:
    return (
        f"{found.threshold:.3f}: F1 {found.f1:.3f}, precision {found.precision:.3f}, "
        f"recall {found.recall:.3f}"
    )


def _points(scores: NDArray[np.float64]) -> str:
    return " ".join(f"{point:5.3f}" for point in np.percentile(scores, [5, 50, 95]))
