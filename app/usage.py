"""What model calls cost: a bill for a turn or a job, and the ledger of all. Touches: `usage`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from app.db import Connection, Database
from app.db.insert import add_up
from app.db.locks import lock_user
from app.db.tables import usage
from app.erased import is_of_erased
from app.errors import AppError, BudgetSpent, UpstreamInvalid, UpstreamTimeout
from app.metrics import Metrics
from app.tracing import happened

log = logging.getLogger(__name__)

Purpose = Literal["chat", "understand", "checkpoint", "agent", "aside"]
Breakdown = Literal["tenant", "user", "purpose", "model"]
Prices = Mapping[str, tuple[float, float]]

FREE = "offline"
OK = "ok"
NOBODY = ""  # whose usage that of erased users is
DEFERS_AT = 0.8  # of the tokens of the day; what is left of them is for questions
NANOS = 1_000_000_000
HOUR = timedelta(hours=1)

# A model that refuses, or is not reached, charges nothing; one that is left in the middle does.
_BEGUN = (UpstreamInvalid, UpstreamTimeout, TimeoutError, asyncio.CancelledError)
_KEY = ["tenant_id", "hour", "user_id", "purpose", "model"]
_SUMS = [column.name for column in usage.c if column.name not in _KEY]
_HOUR = usage.c.hour.type
_OF_TENANT = usage.c.tenant_id == sa.bindparam("tenant")
_TOKENS_OF_DAY = sa.select(
    sa.func.coalesce(sa.func.sum(usage.c.input_tokens + usage.c.output_tokens), 0)
).where(
    _OF_TENANT,
    usage.c.hour >= sa.bindparam("since", type_=_HOUR),
    usage.c.hour < sa.bindparam("until", type_=_HOUR),
)


@dataclass(frozen=True, slots=True)
class Spent:
    """One call of a model. `is_counted` is False where its tokens were estimated."""

    purpose: Purpose
    model: str
    input_tokens: int
    output_tokens: int
    is_counted: bool


@dataclass(frozen=True, slots=True)
class Used:
    """Calls added up. usd: of the calls whose price is known; `unpriced_calls` are the others."""

    key: str
    calls: int
    input_tokens: int
    output_tokens: int
    estimated_calls: int
    unpriced_calls: int
    usd: float


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a call of a model took. outcome: "ok", or the code of what it failed with."""

    purpose: Purpose
    model: str
    outcome: str
    seconds: float


class Bill:
    """The model calls of one turn or job of a user. began: when it did; None: as it is recorded."""

    def __init__(self, tenant_id: str, user_id: str, *, began: datetime | None = None) -> None:
        self.tenant_id = tenant_id
        self.user_id = user_id
        self.began = began
        self.lines: list[Spent] = []
        self.timings: list[Timing] = []
        self._called_at: float | None = None

    def begin(self) -> None:
        """Note that a call begins, right before it does: `add` or `add_broken` ends it."""
        self._called_at = time.monotonic()

    def add(
        self, purpose: Purpose, model: str, input_tokens: int, output_tokens: int, is_counted: bool
    ) -> None:
        self.lines.append(Spent(purpose, model, input_tokens, output_tokens, is_counted))
        tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        self._end(purpose, model, OK, {f"gen_ai.usage.{name}": n for name, n in tokens.items()})

    def add_broken(
        self,
        purpose: Purpose,
        model: str,
        error: BaseException,
        *,
        input_tokens: int,
        output_tokens: int = 0,
    ) -> None:
        """Add a call that ended in an error, with estimated tokens, if the model had taken it."""
        self._end(purpose, model, error.code if isinstance(error, AppError) else "stopped", {})
        if isinstance(error, _BEGUN) or output_tokens:
            self.add(purpose, model, input_tokens, output_tokens, False)

    def _end(self, purpose: Purpose, model: str, outcome: str, tokens: Mapping[str, int]) -> None:
        began, self._called_at = self._called_at, None
        if began is None:
            return
        seconds = time.monotonic() - began
        self.timings.append(Timing(purpose, model, outcome, seconds))
        provider, _, bare = model.partition(":")
        happened(
            f"chat {bare or model}",
            {
                "gen_ai.operation.name": "chat",  # by OpenTelemetry's conventions
                "gen_ai.provider.name": provider,
                "gen_ai.request.model": bare or model,
                "rag.purpose": purpose,
                **tokens,
            },
            seconds=seconds,
            failure=None if outcome == OK else outcome,
        )


class Ledger:
    """Keeps what was spent.

    prices: US dollars for a million tokens in and out, by model.
    daily_tokens: what a tenant may use in a day (UTC); None: no bound.
    cache_seconds: for how long another replica's spending may go unseen.
    """

    def __init__(
        self,
        database: Database,
        *,
        prices: Prices,
        daily_tokens: int | None,
        metrics: Metrics | None = None,
        cache_seconds: float = 2.0,
    ) -> None:
        self._database = database
        self._prices = prices
        self._daily_tokens = daily_tokens
        self._metrics = metrics or Metrics()
        self._cache_seconds = cache_seconds
        self._today: dict[str, _Today] = {}

    def cost(self, spent: Spent) -> float | None:
        """Return US dollars; None where the model's price is not known."""
        nanos = self._nanos(spent)
        return None if nanos is None else nanos / NANOS

    def told(self, bill: Bill) -> list[dict[str, Any]]:
        """Return the lines of a bill for a receipt."""
        return [
            {
                "purpose": line.purpose,
                "model": line.model,
                "input_tokens": line.input_tokens,
                "output_tokens": line.output_tokens,
                "counted": line.is_counted,
                "usd": self.cost(line),
            }
            for line in bill.lines
        ]

    async def record(self, bill: Bill, now: datetime) -> None:
        """Add the lines of a bill to the usage of their hour and to the metrics, and empty it.

        What a user began who was erased meanwhile is nobody's, so that the sums are right.
        The work that was paid for is done: a database that fails is logged and counted, not raised.
        """
        lines, bill.lines = bill.lines, []
        timings, bill.timings = bill.timings, []
        for took in timings:
            self._metrics.call_took(took.purpose, took.model, took.outcome, took.seconds)
        if not lines:
            return
        for line in lines:
            self._metrics.called(
                line.purpose,
                line.model,
                input_tokens=line.input_tokens,
                output_tokens=line.output_tokens,
                is_counted=line.is_counted,
                dollars=self.cost(line),
            )
        if (today := self._today.get(bill.tenant_id)) is not None and today.day == _day(now):
            today.tokens += sum(line.input_tokens + line.output_tokens for line in lines)

        def add(connection: Connection) -> None:
            lock_user(connection, bill.tenant_id, bill.user_id)
            is_late = is_of_erased(connection, bill.tenant_id, bill.user_id, bill.began or now)
            whose = NOBODY if is_late else bill.user_id
            rows = self._rows(bill.tenant_id, whose, lines, now)
            add_up(connection, usage, rows, key=_KEY)

        try:
            await self._database.write(add)
        except (AppError, SQLAlchemyError) as error:
            self._metrics.not_recorded()
            log.error("could not record the usage of %s model calls: %s", len(lines), error)

    async def check(self, tenant_id: str, now: datetime) -> None:
        """Raise `BudgetSpent` (429) when the tenant has used its tokens of the day.

        Questions that are being answered at once may overshoot it, by what they take.
        """
        if self._daily_tokens is None:
            return
        used = await self._used_today(tenant_id, now)
        if used < self._daily_tokens:
            return
        self._metrics.refused_for_budget()
        tomorrow = _day(now) + timedelta(days=1)
        raise BudgetSpent(
            f"the tokens of today are used: {used} of {self._daily_tokens} "
            f"(DAILY_TOKEN_BUDGET); there are new ones from {tomorrow:%Y-%m-%d %H:%M} UTC on",
            retry_after=(tomorrow - now).total_seconds(),
        )

    async def defers(self, tenant_id: str, now: datetime) -> float | None:
        """Return for how many seconds background work has to wait; None: it need not."""
        if self._daily_tokens is None:
            return None
        used = await self._used_today(tenant_id, now)
        if used < DEFERS_AT * self._daily_tokens:
            return None
        self._metrics.deferred_for_budget()
        return (_day(now) + timedelta(days=1) - now).total_seconds()

    async def used(
        self,
        tenant_id: str,
        user_id: str | None,
        *,
        since: datetime,
        until: datetime,
        by: Breakdown,
        limit: int,
    ) -> tuple[list[Used], Used]:
        """Return what was spent in the hours from `since` up to `until`, and the total.

        user_id: None is all users. The rows with the most tokens come first; `limit` of them.
        """
        column = usage.c[by if by in ("purpose", "model") else f"{by}_id"]
        where = [_OF_TENANT, usage.c.hour >= since, usage.c.hour < until]
        if user_id is not None:
            where.append(usage.c.user_id == user_id)
        sums = [sa.func.coalesce(sa.func.sum(usage.c[name]), 0).label(name) for name in _SUMS]
        tokens = sa.func.sum(usage.c.input_tokens + usage.c.output_tokens)
        rows = (
            sa.select(column.label("key"), *sums)
            .where(*where)
            .group_by(column)
            .order_by(tokens.desc(), column)
            .limit(limit)
        )
        total = sa.select(sa.literal("total").label("key"), *sums).where(*where)
        which = {"tenant": tenant_id}

        def read(connection: Connection) -> tuple[list[Used], Used]:
            found = connection.execute(rows, which).all()
            together = connection.execute(total, which).one()
            return [_used(row) for row in found], _used(together)

        return await self._database.read(read)

    def _nanos(self, spent: Spent) -> int | None:
        bare = spent.model.partition(":")[2] or spent.model
        price = self._prices.get(spent.model) or self._prices.get(bare)
        if price is None:
            return 0 if spent.model == FREE else None
        # Dollars for a million are thousands of nanodollars for one.
        return round(1_000 * (spent.input_tokens * price[0] + spent.output_tokens * price[1]))

    def _rows(
        self, tenant_id: str, user_id: str, lines: Sequence[Spent], now: datetime
    ) -> list[dict[str, Any]]:
        """Return the rows to add, one for each purpose and model, always in the same order."""
        added: dict[tuple[str, str], dict[str, int]] = {}
        for line in sorted(lines, key=lambda line: (line.purpose, line.model)):
            nanos = self._nanos(line)
            sums = added.setdefault((line.purpose, line.model), dict.fromkeys(_SUMS, 0))
            sums["calls"] += 1
            sums["input_tokens"] += line.input_tokens
            sums["output_tokens"] += line.output_tokens
            sums["estimated_calls"] += not line.is_counted
            sums["unpriced_calls"] += nanos is None
            sums["cost_nanos"] += nanos or 0
        whose = {"tenant_id": tenant_id, "user_id": user_id, "hour": floor_hour(now)}
        return [
            {**whose, "purpose": purpose, "model": model, **sums}
            for (purpose, model), sums in added.items()
        ]

    async def _used_today(self, tenant_id: str, now: datetime) -> int:
        day, tick = _day(now), time.monotonic()
        known = self._today.get(tenant_id)
        if known is None or known.day != day or tick - known.read_at >= self._cache_seconds:
            which = {"tenant": tenant_id, "since": day, "until": day + timedelta(days=1)}
            tokens = await self._database.read(lambda c: c.execute(_TOKENS_OF_DAY, which).scalar())
            known = self._today[tenant_id] = _Today(day, tick, int(tokens or 0))
        return known.tokens


@dataclass(slots=True)
class _Today:
    """A tenant's tokens of a day as they were read, and what was recorded here since."""

    day: datetime
    read_at: float
    tokens: int


def floor_hour(moment: datetime) -> datetime:
    """Return the beginning of a moment's hour, in UTC."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _day(moment: datetime) -> datetime:
    return floor_hour(moment).replace(hour=0)


def _used(row: sa.Row[Any]) -> Used:
    key, values = row[0], list(row)[1:]
    sums = {name: int(value) for name, value in zip(_SUMS, values, strict=True)}
    return Used(key, usd=sums.pop("cost_nanos") / NANOS, **sums)
