"""A rehearsal scaled up to a month, and its table. Touches nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.costs.workload import Workload
from app.usage import Used

REHEARSED = 6  # conversations of a user; from then on a further one takes what the last one took


@dataclass(frozen=True, slots=True)
class Part:
    """What one purpose takes; usd is None where the price of its model is not known."""

    purpose: str
    calls: float
    input_tokens: float
    output_tokens: float
    usd: float | None


def rehearsed(load: Workload) -> int:
    """Return how many conversations of a user have to be played."""
    return max(1, min(REHEARSED, math.ceil(load.conversations / load.users)))


def month(load: Workload, taken: Sequence[Sequence[Used]]) -> list[Part]:
    """Return what all users take together, by purpose.

    taken: by each conversation of a user who begins without memories, in order.
    """
    weights = _weights(load, len(taken))
    sums: dict[str, list[float]] = {}
    is_priced: dict[str, bool] = {}
    for weight, rows in zip(weights, taken, strict=True):
        for row in rows:
            so_far = sums.setdefault(row.key, [0.0] * 4)
            values = (row.calls, row.input_tokens, row.output_tokens, row.usd)
            sums[row.key] = [old + weight * new for old, new in zip(so_far, values, strict=True)]
            is_priced[row.key] = is_priced.get(row.key, True) and not row.unpriced_calls
    return [
        Part(purpose, calls, given, got, usd if is_priced[purpose] else None)
        for purpose, (calls, given, got, usd) in sums.items()
    ]


def total(parts: Sequence[Part]) -> Part:
    """Return all parts together."""
    prices = [part.usd for part in parts if part.usd is not None]
    return Part(
        "total",
        sum(part.calls for part in parts),
        sum(part.input_tokens for part in parts),
        sum(part.output_tokens for part in parts),
        sum(prices) if len(prices) == len(parts) else None,
    )


def table(parts: Sequence[Part]) -> list[str]:
    """Return the lines of a table, the total last."""
    rows: list[tuple[str, ...]] = [("purpose", "calls", "tokens in", "tokens out", "USD")]
    for part in (*parts, total(parts)):
        numbers = (part.calls, part.input_tokens, part.output_tokens)
        usd = "unknown" if part.usd is None else f"{part.usd:,.2f}"
        rows.append((part.purpose, *(f"{number:,.0f}" for number in numbers), usd))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _weights(load: Workload, played: int) -> list[float]:
    """Return how often each rehearsed conversation happens; the last one stands for all later."""
    each = load.conversations / load.users
    before = [min(1.0, max(0.0, each - number)) for number in range(played - 1)]
    return [load.users * weight for weight in (*before, each - sum(before))]
