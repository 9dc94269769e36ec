"""Bills and the ledger, on each database: what is added up, what it costs, and the budget."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.db import Database, open_database
from app.errors import (
    BudgetSpent,
    Misconfigured,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.metrics import Metrics
from app.picks import pick_prices
from app.usage import Bill, Breakdown, Ledger, Spent, Used
from tests.seams.stores import database as database
from tests.seams.stores import database_url
from tests.served import settings

NOON = datetime(2026, 11, 30, 12, 20, tzinfo=UTC)
PRICES = {"openai/gpt-oss-120b": (0.15, 0.60), "openai:gpt-5-mini": (0.25, 2.0)}


def ledger(database: Database, *, daily_tokens: int | None = None, cache: float = 0.0) -> Ledger:
    return Ledger(database, prices=PRICES, daily_tokens=daily_tokens, cache_seconds=cache)


def bill(*lines: Spent, tenant: str = "default", user: str = "ada") -> Bill:
    made = Bill(tenant, user)
    made.lines = list(lines)
    return made


def spent(purpose: str = "chat", model: str = "offline", tokens: int = 100) -> Spent:
    return Spent(purpose, model, tokens, tokens // 10, True)  # type: ignore[arg-type]


async def used(
    of: Ledger, by: Breakdown = "purpose", user: str | None = None, tenant: str = "default"
) -> tuple[dict[str, Used], Used]:
    since, until = NOON - timedelta(days=2), NOON + timedelta(days=2)
    rows, total = await of.used(tenant, user, since=since, until=until, by=by, limit=100)
    return {row.key: row for row in rows}, total


async def test_a_recorded_bill_is_empty_and_counts_once(database: Database) -> None:
    ours = ledger(database)
    of_ada = bill(spent(tokens=100), spent(tokens=50), spent("understand", tokens=10))
    await ours.record(of_ada, NOON)
    await ours.record(of_ada, NOON)
    rows, total = await used(ours)
    assert of_ada.lines == []
    assert {key: (row.calls, row.input_tokens, row.output_tokens) for key, row in rows.items()} == {
        "chat": (2, 150, 15),
        "understand": (1, 10, 1),
    }
    assert (total.key, total.calls, total.input_tokens) == ("total", 3, 160)


async def test_the_same_calls_are_told_by_tenant_user_purpose_and_model(
    database: Database,
) -> None:
    ours = ledger(database)
    await ours.record(bill(spent(), spent("checkpoint", "nobody:knows")), NOON)
    await ours.record(bill(spent(tokens=300), user="bob"), NOON + timedelta(hours=3))
    await ours.record(bill(spent(tokens=7), tenant="globex"), NOON)
    by_user, total = await used(ours, "user")
    assert {key: row.input_tokens for key, row in by_user.items()} == {"bob": 300, "ada": 200}
    assert list(by_user) == ["bob", "ada"]  # the most tokens first
    assert list((await used(ours, "model"))[0]) == ["offline", "nobody:knows"]
    assert (await used(ours, "tenant"))[0]["default"].calls == total.calls == 3
    assert (total.unpriced_calls, total.estimated_calls) == (1, 0)
    assert (await used(ours, user="ada"))[1].calls == 2
    assert (await used(ours, tenant="globex"))[1].input_tokens == 7
    nothing = Used("total", 0, 0, 0, 0, 0, 0.0)
    assert await used(ours, tenant="initech") == ({}, nothing)


async def test_only_the_hours_that_were_asked_for_are_counted(database: Database) -> None:
    ours = ledger(database)
    for hours in range(4):
        await ours.record(bill(spent(tokens=10**hours * 10)), NOON + timedelta(hours=hours))
    since = NOON.replace(minute=0) + timedelta(hours=1)
    rows, total = await ours.used(
        "default", None, since=since, until=since + timedelta(hours=2), by="purpose", limit=5
    )
    assert total.input_tokens == rows[0].input_tokens == 100 + 1000


@pytest.fixture(params=["sqlite-disk", "postgres"])
async def replicas(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Ledger, Ledger]]:
    """Two ledgers, each with a connection of its own to the same database."""
    url = database_url(request.param, request, tmp_path)
    first, second = await open_database(url), await open_database(url)
    yield ledger(first, daily_tokens=1_000_000), ledger(second, daily_tokens=1_000_000)
    await first.close()
    await second.close()


async def test_what_two_replicas_record_at_once_adds_up(
    replicas: tuple[Ledger, Ledger],
) -> None:
    lines = [spent(), spent("understand"), spent("agent", "groq:openai/gpt-oss-120b")]

    async def one(number: int) -> None:
        some = random.Random(number).sample(lines, k=len(lines))
        await replicas[number % 2].record(bill(*some, user=f"u{number % 3}"), NOON)

    await asyncio.gather(*(one(number) for number in range(40)))
    rows, total = await used(replicas[0])
    assert {key: (row.calls, row.input_tokens) for key, row in rows.items()} == {
        "chat": (40, 4_000),
        "understand": (40, 4_000),
        "agent": (40, 4_000),
    }
    assert rows["agent"].usd == pytest.approx(40 * (100 * 0.15 + 10 * 0.60) / 1e6)
    assert total == (await used(replicas[1]))[1]


async def test_a_replica_sees_what_another_has_used_of_the_budget(
    replicas: tuple[Ledger, Ledger],
) -> None:
    first, second = replicas
    await second.check("default", NOON)
    await first.record(bill(spent(tokens=1_000_000)), NOON)
    for each in replicas:
        with pytest.raises(BudgetSpent):
            await each.check("default", NOON)


async def test_background_work_waits_from_80_percent_on_and_questions_from_all_of_it(
    database: Database,
) -> None:
    ours = ledger(database, daily_tokens=1_100)
    left = timedelta(hours=11, minutes=40).total_seconds()
    seen = []
    for _ in range(10):
        deferred = await ours.defers("default", NOON)
        assert deferred in (None, left)
        await ours.check("default", NOON)
        seen.append(deferred is not None)
        await ours.record(bill(spent(tokens=100)), NOON)  # 110 tokens
    assert seen == [False] * 8 + [True] * 2
    with pytest.raises(BudgetSpent) as refusal:
        await ours.check("default", NOON)
    assert (refusal.value.status, refusal.value.retry_after) == (429, left)
    assert "1100 of 1100" in refusal.value.message
    assert "2026-12-01 00:00 UTC" in refusal.value.message
    await ours.check("globex", NOON)
    midnight = NOON.replace(hour=0, minute=0) + timedelta(days=1)
    with pytest.raises(BudgetSpent) as last:
        await ours.check("default", midnight - timedelta(seconds=1))
    assert last.value.retry_after == 1
    await ours.check("default", midnight)
    assert await ours.defers("default", midnight) is None


async def test_what_was_recorded_here_counts_at_once_though_the_sum_is_cached(
    database: Database,
) -> None:
    ours = ledger(database, daily_tokens=1_000, cache=3600.0)
    await ours.check("default", NOON)
    await ours.record(bill(spent(tokens=1_000)), NOON)
    with pytest.raises(BudgetSpent):
        await ours.check("default", NOON)


async def test_a_day_is_one_in_utc_whatever_the_zone_of_the_clock(database: Database) -> None:
    ours = ledger(database, daily_tokens=100)
    late = datetime.fromisoformat("2026-11-30T23:30:00-05:00")  # the 1st of December in UTC
    await ours.record(bill(spent()), late)
    await ours.check("default", NOON)
    with pytest.raises(BudgetSpent):
        await ours.check("default", NOON + timedelta(days=1))


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("groq:openai/gpt-oss-120b", 0.75),
        ("openai/gpt-oss-120b", 0.75),
        ("openai:gpt-5-mini", 2.25),
        ("gpt-5-mini", None),
        ("nobody:knows", None),
        ("offline", 0.0),
    ],
)
async def test_a_price_is_found_with_and_without_its_provider(
    model: str, usd: float | None
) -> None:
    database = await open_database("sqlite:///:memory:")
    ours = ledger(database)
    assert ours.cost(Spent("chat", model, 1_000_000, 1_000_000, True)) == usd
    lines = ours.told(bill(Spent("chat", model, 1_000_000, 1_000_000, False)))
    assert lines == [
        {
            "purpose": "chat",
            "model": model,
            "input_tokens": 1_000_000,
            "output_tokens": 1_000_000,
            "counted": False,
            "usd": usd,
        }
    ]
    await database.close()


async def test_a_database_that_fails_is_counted_and_fails_nobody() -> None:
    database = await open_database("sqlite:///:memory:")
    metrics = Metrics()
    ours = Ledger(database, prices={}, daily_tokens=None, metrics=metrics)
    await database.close()
    await ours.record(bill(spent()), NOON)
    assert b"rag_usage_record_failures_total 1.0" in metrics.text()


@pytest.mark.parametrize(
    ("error", "said", "is_billed"),
    [
        (UpstreamInvalid("model", "cut off"), 0, True),
        (UpstreamTimeout("model", "too late"), 0, True),
        (asyncio.CancelledError(), 0, True),
        (TimeoutError(), 0, True),
        (UpstreamRefused("model", "no"), 0, False),
        (UpstreamUnavailable("model", "away"), 0, False),
        (UpstreamUnavailable("model", "away in the middle"), 3, True),
    ],
)
def test_a_call_that_broke_off_is_billed_by_estimate_if_the_model_had_begun(
    error: BaseException, said: int, is_billed: bool
) -> None:
    broken = Bill("default", "ada")
    broken.add_broken("chat", "offline", error, input_tokens=50, output_tokens=said)
    assert broken.lines == ([Spent("chat", "offline", 50, said, False)] if is_billed else [])


def test_own_prices_join_the_table() -> None:
    prices = pick_prices(settings(model_prices='{"openai:gpt-5-mini": [0.25, 2]}'))
    assert prices["openai:gpt-5-mini"] == (0.25, 2.0)
    assert prices["openai/gpt-oss-120b"] == (0.15, 0.60)
    assert pick_prices(settings(model_prices="  ")) == pick_prices(settings())
    cheaper = pick_prices(settings(model_prices='{"openai/gpt-oss-120b": [0, 0.5]}'))
    assert cheaper["openai/gpt-oss-120b"] == (0.0, 0.5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "it is [1, 2]"),
        ('{"m": 3}', "of 'm' it says 3"),
        ('{"m": [1]}', "of 'm' it says [1]"),
        ('{"m": [1, -2]}', "of 'm' it says [1, -2]"),
        ('{"m": [1, "2"]}', "of 'm' it says"),
        ('{"m": [true, 2]}', "of 'm' it says"),
        ('{"m": [NaN, 2]}', "of 'm' it says"),
        ('{"m": [1e9, 2]}', "of 'm' it says"),
    ],
)
def test_prices_of_another_form_are_refused_with_what_came(given: str, told: str) -> None:
    with pytest.raises(Misconfigured) as refusal:
        pick_prices(settings(model_prices=given))
    assert "MODEL_PRICES" in refusal.value.message
    assert told in refusal.value.message
