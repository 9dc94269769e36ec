"""The lines of the comparison, and who is first on each. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.benchmarks.peers.lines import Found

Better = Literal["less", "more"]
Cell = float | str | None


@dataclass(frozen=True, slots=True)
class Line:
    """A row. `best`: which figures are better, or the words that are right, the best first."""

    key: str
    label: str
    best: Better | tuple[str, ...]
    digits: int = 1


_OUTCOME = (
    "stored", "error, stored", "kept as said", "error, kept as said", "error, lost",
    "lost, no error",
)  # fmt: skip

LINES = (
    Line("memory's model calls", "model calls for memory, 10-turn chat", "less"),
    Line("memory's prompt tokens", "their prompt tokens", "less", 0),
    Line("largest memory prompt", "largest of these prompts, tokens", "less", 0),
    Line("embedding calls", "calls of the embedder, 10-turn chat", "less"),
    Line("search model calls", "model calls of a search", "less", 0),
    Line("turn p50", "a turn's search and add, p50 ms", "less"),
    Line("turn p95", "the same, p95 ms", "less"),
    Line("turn CPU", "the same, CPU ms, with its share of what comes later", "less"),
    Line("add p50", "add a message, p50 ms", "less"),
    Line("add p95", "the same, p95 ms", "less"),
    Line("until found", "until it is found, ms", "less"),
    Line("load", "load the memories, s", "less", 2),
    Line("load CPU", "the same, CPU s", "less", 2),
    Line("search p50", "search, p50 ms", "less"),
    Line("search p95", "search, p95 ms", "less"),
    Line("search CPU", "search, CPU ms", "less"),
    Line("right one in the top 5", "the right one in the top 5", "more", 2),
    Line("20 at once, kept", "20 adds at once: kept", "more", 0),
    Line("20 at once, errors", "20 adds at once: errors", "less", 0),
    Line("20 at once, seconds", "20 adds at once, s", "less", 2),
    Line("kill -9 after an add", "kill -9 after an add: the memory is", ("there", "lost")),
    Line("told 3 times, any model", "told 3 times: facts stored", "less", 0),
    Line("told 3 times, a careful model", "the same, a model that minds", "less", 0),
    Line("moved, any model", "Lisbon, then Porto: current is", ("Porto",)),
    Line("moved, a careful model", "the same, a model that minds", ("Porto",)),
    Line("another user's memories seen", "another user's memories seen", "less", 0),
    Line("empty query", "empty query", ("refused", "nothing")),
    Line("model says fenced", "model answers in a fence", _OUTCOME),
    Line("model says braces in prose", "in prose with braces", _OUTCOME),
    Line("model says truncated", "cut off", _OUTCOME),
    Line("model says garbage", "garbage", _OUTCOME),
    Line("one 429", "one 429", _OUTCOME),
    Line("429 for good", "429 as long as it is asked", _OUTCOME),
)


def places(line: Line, cells: Sequence[Cell]) -> list[int | None]:
    """Return each cell's place, 1 for the best; equal ones share it, None has none."""
    worth = [_worth(line, cell) for cell in cells]
    return [
        None if one is None else 1 + sum(other is not None and other < one for other in worth)
        for one in worth
    ]


def _worth(line: Line, cell: Cell) -> float | None:
    """Return what is smaller the better a cell is."""
    if cell is None:
        return None
    if isinstance(cell, str):
        if isinstance(line.best, tuple) and cell in line.best:
            return float(line.best.index(cell))
        return float("inf")
    shown = round(cell, line.digits)
    return -shown if line.best == "more" else shown


def rows(results: Mapping[str, Found], ours: Sequence[str]) -> list[list[str]]:
    """Return the table's rows: the cells, the best ones bold, and how the best of ours stands."""
    made = []
    for line in LINES:
        cells = [found.get(line.key) for found in results.values()]
        ranked = places(line, cells)
        shown = [
            f"**{_shown(line, cell)}**" if place == 1 else _shown(line, cell)
            for cell, place in zip(cells, ranked, strict=True)
        ]
        made.append([line.label, *shown, standing(line, results, ours)])
    return made


def standing(line: Line, results: Mapping[str, Found], ours: Sequence[str]) -> str:
    """Return "first", "first too" (others are as good), or by what we are behind."""
    own = [(name, found.get(line.key)) for name, found in results.items() if name in ours]
    others = [found.get(line.key) for name, found in results.items() if name not in ours]
    worth = [it for _, cell in own if (it := _worth(line, cell)) is not None]
    beside = [it for cell in others if (it := _worth(line, cell)) is not None]
    if not own:
        return ""
    if not worth:
        return "behind"
    if not beside or min(worth) < min(beside):
        return "first"
    if min(worth) == min(beside):
        return "first too"
    best, theirs = min(worth), min(beside)
    return f"behind: {best / theirs:.1f}×" if theirs > 0 and best != float("inf") else "behind"


def _shown(line: Line, cell: Cell) -> str:
    if cell is None:
        return "never" if line.key == "until found" else ""
    return cell if isinstance(cell, str) else f"{cell:,.{line.digits}f}"
