"""What model calls cost: a bill for a turn or a job, and the ledger of all. Touches: `usage`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from app.db import Database

Purpose = Literal["chat", "understand", "checkpoint", "agent", "aside"]
Prices = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Spent:
    """One call of a model. `is_counted` is False where its tokens were estimated."""

    purpose: Purpose
    model: str
    input_tokens: int
    output_tokens: int
    is_counted: bool


class Bill:
    """The model calls of one turn or job of a user."""

    def __init__(self, tenant_id: str, user_id: str) -> None:
        self.tenant_id = tenant_id
        self.user_id = user_id
        self.lines: list[Spent] = []

    def add(
        self, purpose: Purpose, model: str, input_tokens: int, output_tokens: int, is_counted: bool
    ) -> None:
        self.lines.append(Spent(purpose, model, input_tokens, output_tokens, is_counted))


class Ledger:
    """Keeps what was spent. prices: US dollars for a million tokens in and out, by model."""

    def __init__(self, database: Database, *, prices: Prices, daily_tokens: int | None) -> None:
        self._database = database
        self._prices = prices
        self._daily_tokens = daily_tokens

    def cost(self, spent: Spent) -> float | None:
        """Return US dollars; None where the model's price is not known."""
        raise NotImplementedError

    def told(self, bill: Bill) -> list[dict[str, Any]]:
        """Return the lines of a bill for a receipt."""
        return []

    async def record(self, bill: Bill, now: datetime) -> None:
        """Add the lines of a bill to the usage of their hour, and to the metrics."""

    async def check(self, tenant_id: str, now: datetime) -> None:
        """Raise `BudgetSpent` (429) when the tenant has used its tokens of the day."""

    async def defers(self, tenant_id: str, now: datetime) -> float | None:
        """Return for how many seconds background work has to wait; None: it need not."""
        return None
