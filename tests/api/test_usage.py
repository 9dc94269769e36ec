"""What model calls cost, through HTTP: receipts, GET /usage, GET /metrics, the budget of a day."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.calls import Json, answered, chat, close, groq, key, read, refused
from tests.knowledge.calls import finish_jobs
from tests.served import events_of, listening, served, served_at
from tests.wire.memory import summed_up
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, ModelServer, model_server

NOON = datetime(2026, 11, 30, 12, 20, tzinfo=UTC)
EACH = PROMPT_TOKENS + COMPLETION_TOKENS  # tokens of a call


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


async def rows(client: httpx.AsyncClient, **query: Any) -> dict[str, Json]:
    body = await read(client, "/usage", params=query)
    return {row["key"]: row for row in body["rows"]}


class Counters:
    """What GET /metrics told, read by the parser of the format's own library."""

    def __init__(self, text: str) -> None:
        self.samples = [s for f in text_string_to_metric_families(text) for s in f.samples]

    def sum(self, name: str, **labels: str) -> float:
        """Return the counter `rag_{name}_total`, of all that have these labels."""
        named = [sample for sample in self.samples if sample.name == f"rag_{name}_total"]
        assert named, name
        return sum(sample.value for sample in named if labels.items() <= sample.labels.items())


async def metrics(client: httpx.AsyncClient) -> Counters:
    response = await client.get("/metrics")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain; version=")
    return Counters(response.text)


async def test_a_turn_and_a_checkpoint_stand_in_the_usage_with_their_price(
    model: ModelServer, clock: Clock
) -> None:
    def script(body: dict[str, Any]) -> str:
        is_checkpoint = '"facts"' in body["messages"][0]["content"]
        return summed_up("The user said hello.") if is_checkpoint else "Hello there."

    model.script = script
    prices = json.dumps({"answers": [1.0, 10.0]})
    chosen = groq(model, chat_model="answers", summary_model="sums", model_prices=prices)
    usd = (PROMPT_TOKENS * 1.0 + COMPLETION_TOKENS * 10.0) / 1e6
    async with served_at(clock, **chosen) as (client, _):
        told = (await chat(client, "hello", session_id="s1", user_id="ada"))["receipt"]
        await chat(client, "hello", session_id="s2", user_id="bob")
        await close(client, "s1", params={"user_id": "ada"})
        by_purpose = await rows(client)
        by_user = await rows(client, by="user")
        by_model = await rows(client, by="model")
        tenant = await read(client, "/usage", params={"by": "tenant"})
        of_bob = await rows(client, by="model", user_id="bob")
        counted = await metrics(client)
    assert told["calls"] == [
        {
            "purpose": "chat",
            "model": "groq:answers",
            "input_tokens": PROMPT_TOKENS,
            "output_tokens": COMPLETION_TOKENS,
            "counted": True,
            "usd": pytest.approx(usd),
        }
    ]
    assert told["cost"] == pytest.approx(usd)
    assert by_purpose["chat"] == {
        "key": "chat",
        "calls": 2,
        "input_tokens": 2 * PROMPT_TOKENS,
        "output_tokens": 2 * COMPLETION_TOKENS,
        "estimated_calls": 0,
        "unpriced_calls": 0,
        "usd": pytest.approx(2 * usd),
    }
    assert (by_purpose["checkpoint"]["calls"], by_purpose["checkpoint"]["unpriced_calls"]) == (1, 1)
    assert {name: row["calls"] for name, row in by_user.items()} == {"ada": 2, "bob": 1}
    assert {name: row["calls"] for name, row in by_model.items()} == {
        "groq:answers": 2,
        "groq:sums": 1,
    }
    assert list(of_bob) == ["groq:answers"]
    assert [row["key"] for row in tenant["rows"]] == ["default"]
    assert tenant["total"]["calls"] == 3
    assert (tenant["since"], tenant["until"]) == ("2026-10-31T12:00:00Z", "2026-11-30T13:00:00Z")
    chats = {"purpose": "chat", "model": "groq:answers"}
    sums = {"purpose": "checkpoint", "model": "groq:sums"}
    assert counted.sum("model_calls", **chats, counted="true") == 2
    assert counted.sum("model_calls", **sums) == 1
    assert counted.sum("model_calls") == 3
    assert counted.sum("model_tokens", **chats, direction="input") == 2 * PROMPT_TOKENS
    assert counted.sum("model_cost_dollars") == pytest.approx(2 * usd)
    assert counted.sum("model_unpriced_calls", **sums) == 1
    assert counted.sum("turns", mode="chat", status="complete") == counted.sum("turns") == 2


async def test_a_model_without_a_price_leaves_the_cost_open(model: ModelServer) -> None:
    async with served(**groq(model, chat_model="nobody-knows")) as (client, _):
        receipt = (await chat(client, "hello"))["receipt"]
    assert receipt["calls"][0]["usd"] is None
    assert receipt["cost"] is None


async def test_the_offline_model_costs_nothing_and_is_counted_by_estimate() -> None:
    async with served() as (client, _):
        receipt = (await chat(client, "hello"))["receipt"]
        row = (await rows(client))["chat"]
    assert (receipt["cost"], receipt["calls"][0]["counted"]) == (0.0, False)
    assert (row["estimated_calls"], row["unpriced_calls"], row["usd"]) == (1, 0, 0.0)
    assert row["input_tokens"] > 0


async def test_usage_is_counted_by_the_hour_and_the_hours_are_told(clock: Clock) -> None:
    async with served_at(clock) as (client, _):
        for hours in range(3):
            clock.now = NOON + timedelta(hours=hours)
            await chat(client, "hello")
        within = {"from": "2026-11-30T14:50:00+01:00", "to": "2026-11-30T15:05:00+01:00"}
        body = await read(client, "/usage", params=within)
        ends = await read(client, "/usage", params={**within, "to": "2026-11-30T14:00:00Z"})
    assert (body["since"], body["until"]) == ("2026-11-30T13:00:00Z", "2026-11-30T15:00:00Z")
    assert body["total"]["calls"] == 2
    assert (ends["until"], ends["total"]["calls"]) == ("2026-11-30T14:00:00Z", 1)


BAD: list[tuple[dict[str, str], str]] = [
    ({"from": "2026-11-30T12:00:00"}, "offset"),
    ({"from": "2026-11-30T12:00:00Z", "to": "2026-11-30T12:00:00Z"}, "from must be before to"),
    ({"from": "2027-01-01T00:00:00Z"}, "from must be before to"),
    ({"by": "week"}, "by"),
    ({"limit": "0"}, "limit"),
]


async def test_usage_of_no_time_or_by_something_else_is_refused(clock: Clock) -> None:
    async with served_at(clock) as (client, _):
        for query, told in BAD:
            error = refused(await client.get("/usage", params=query), 422)
            assert told in error["message"], query


async def test_rows_beyond_the_limit_are_left_out_but_not_out_of_the_total() -> None:
    async with served() as (client, _):
        for user in ("ada", "bob", "eve"):
            await chat(client, "hello", user_id=user)
        body = await read(client, "/usage", params={"by": "user", "limit": 2})
        whole = await read(client, "/usage", params={"by": "user", "limit": 3})
    assert (len(body["rows"]), body["is_cut"], body["total"]["calls"]) == (2, True, 3)
    assert (len(whole["rows"]), whole["is_cut"]) == (3, False)


async def test_users_see_their_own_usage_and_tenants_nothing_of_each_other() -> None:
    async with served() as (client, runtime):
        admin, foreign = await key(runtime, "admin"), await key(runtime, "admin", tenant="globex")
        ada, bob = [await key(runtime, "user", user=user) for user in ("ada", "bob")]
        gateway = await key(runtime, "gateway")
        await chat(client, "hello", headers=ada)
        for _ in range(2):
            await chat(client, "hello", headers=bob)

        async def calls(headers: dict[str, str], **query: str) -> int:
            body = await read(client, "/usage", params=query, headers=headers)
            return int(body["total"]["calls"])

        assert [await calls(who) for who in (admin, ada, bob, foreign)] == [3, 1, 2, 0]
        assert await calls(gateway, user_id="bob") == 2
        assert await calls(foreign, by="tenant") == 0
        for by in ("tenant", "user"):
            refused(await client.get("/usage", params={"by": by}, headers=ada), 403)
        refused(await client.get("/usage", params={"user_id": "bob"}, headers=ada), 403)
        refused(await client.get("/usage", headers=gateway), 422)
        refused(await client.get("/metrics", headers=gateway), 403)


@pytest.mark.parametrize(
    ("fault", "is_streamed", "said"),
    [
        ("early_end", False, True),
        ("early_end", True, True),
        ("stream_error", True, True),
        ("empty", False, False),
    ],
)
async def test_a_reply_that_broke_off_is_counted_by_estimate(
    model: ModelServer, fault: Any, is_streamed: bool, said: bool
) -> None:
    model.fault = fault
    async with served(**groq(model)) as (client, _):
        response = await client.post("/chat", json={"message": "hello", "stream": is_streamed})
        counted = await metrics(client)
        row = (await rows(client))["chat"]
    assert "event: error" in response.text if is_streamed else response.status_code >= 500
    assert (row["calls"], row["estimated_calls"]) == (1, 1)
    assert row["input_tokens"] > PROMPT_TOKENS
    assert (row["output_tokens"] > 0) == said
    assert counted.sum("turns", status="failed") == counted.sum("turns") == 1


async def test_a_call_that_the_model_refused_is_not_counted(model: ModelServer) -> None:
    model.fault = "unauthorized"
    async with served(**groq(model)) as (client, _):
        response = await client.post("/chat", json={"message": "hello"})
        assert await rows(client) == {}
    assert response.status_code >= 500


async def test_a_turn_that_is_stopped_in_mid_stream_is_counted(
    model: ModelServer, tmp_path: Any
) -> None:
    model.fault, model.latency_seconds = "stall", 30.0
    where = {"database_url": f"sqlite:///{tmp_path / 'state.db'}", "shutdown_seconds": 0.2}
    async with listening(**groq(model, model_timeout_seconds=60.0, **where)) as (client, _):
        asked = {"message": "hello", "stream": True}
        async with client.stream("POST", "/chat", json=asked) as response:
            async for line in response.aiter_lines():
                if line == "event: token":
                    break
    async with served(database_url=where["database_url"]) as (client, _):
        row = (await rows(client))["chat"]
    assert (row["calls"], row["estimated_calls"]) == (1, 1)
    assert row["output_tokens"] > 0


async def test_a_rewrite_is_counted_also_when_nothing_came_of_it(model: ModelServer) -> None:
    model.script = lambda body: "" if "<recent_messages" in str(body) else "Hello there."
    async with served(**groq(model)) as (client, _):
        await chat(client, "The contract of Acme ends in May.", session_id="s1")
        receipt = (await chat(client, "And what about it?", session_id="s1"))["receipt"]
        row = (await rows(client))["understand"]
    assert [call["purpose"] for call in receipt["calls"]] == ["understand", "chat"]
    assert receipt["understood"]["trouble"] == "upstream_invalid"
    assert (row["calls"], row["estimated_calls"], row["output_tokens"]) == (1, 1, 0)


async def test_a_rewrite_that_is_stopped_is_counted(model: ModelServer, tmp_path: Any) -> None:
    where = {"database_url": f"sqlite:///{tmp_path / 'state.db'}", "shutdown_seconds": 0.2}
    async with served(**groq(model, **where)) as (client, _):
        await chat(client, "The contract of Acme ends in May.", session_id="s1")
        model.fault, model.latency_seconds = "slow", 30.0
        follow_up = chat(client, "And what about it?", session_id="s1")
        asking = asyncio.create_task(follow_up)
        while len(model.requests) < 2:
            await asyncio.sleep(0.01)
    with pytest.raises(AssertionError):  # it was told that the service is shutting down
        await asking
    async with served(database_url=where["database_url"]) as (client, _):
        row = (await rows(client))["understand"]
    assert (row["calls"], row["estimated_calls"]) == (1, 1)


async def test_a_checkpoint_that_fails_is_counted_with_all_its_calls(model: ModelServer) -> None:
    model.script = ["I'm sorry, I can't do that."]
    chosen = groq(model, chat_model="offline", summary_model="sums")
    async with served(**chosen) as (client, _):
        await chat(client, "My dog is called Rex.", session_id="s1")
        await client.post("/sessions/s1/close")
        row = (await rows(client))["checkpoint"]
        status = (await read(client, "/sessions/s1"))["state"]
    assert (row["calls"], row["input_tokens"]) == (2, 2 * PROMPT_TOKENS)
    assert status == "open"


async def test_a_spent_budget_answers_429_and_stores_nothing(
    model: ModelServer, clock: Clock
) -> None:
    async with served_at(clock, **groq(model, daily_token_budget=2 * EACH)) as (client, runtime):
        for _ in range(2):
            await chat(client, "hello", session_id="s1")
        for stream in (False, True):
            asked = {"message": "once more", "session_id": "s1", "stream": stream}
            response = await client.post("/chat", json=asked)
            error = refused(response, 429)
            assert error["code"] == "token_budget_spent"
            assert f"{2 * EACH} of {2 * EACH}" in error["message"]
            assert response.headers["retry-after"] == str((11 * 60 + 40) * 60)
        messages = (await read(client, "/sessions/s1"))["messages"]
        other = await key(runtime, "admin", tenant="globex")
        said = await client.post(
            "/chat", json={"message": "hello", "user_id": "eve"}, headers=other
        )
        answered(said)
        home = await key(runtime, "admin")
        counted = await client.get("/metrics", headers=home)
        clock.now = NOON.replace(hour=0, minute=0) + timedelta(days=1)
        asked = {"message": "a new day", "session_id": "s1", "user_id": "default"}
        answered(await client.post("/chat", json=asked, headers=home))
    assert [message["content"] for message in messages[::2]] == ["hello", "hello"]
    assert "rag_budget_refusals_total 2.0" in counted.text


async def test_a_repeat_of_an_answered_message_has_its_reply_when_the_budget_is_spent(
    model: ModelServer, clock: Clock
) -> None:
    async with served_at(clock, **groq(model, daily_token_budget=EACH)) as (client, runtime):
        user = await key(runtime, "user", user="ada")
        other = await key(runtime, "user", user="bob")
        asked = {"message": "hello", "session_id": "s1", "client_message_id": "m1"}
        first = answered(await client.post("/chat", json=asked, headers=user))
        again = answered(await client.post("/chat", json=asked, headers=user))
        refused(await client.post("/chat", json=asked, headers=other), 404)
        for changed in ({"client_message_id": "m2"}, {"client_message_id": None}):
            response = await client.post("/chat", json={**asked, **changed}, headers=user)
            refused(response, 429)
    assert again["message_id"] == first["message_id"]
    assert len(model.requests) == 1


async def test_a_low_budget_puts_off_checkpoints_first_and_says_so(
    model: ModelServer, clock: Clock
) -> None:
    model.script = [summed_up("The user said hello.")]
    # Two questions are 90 % of the budget, so that what is left is for a third.
    chosen = groq(model, daily_token_budget=2 * EACH * 10 // 9, summary_every_messages=4)
    async with served_at(clock, **chosen) as (client, runtime):
        for _ in range(2):
            await chat(client, "hello", session_id="s1")
        await runtime.worker.drain()
        ready = await read(client, "/health/ready")
        closed = await close(client, "s1")
        counted = await metrics(client)
        assert len(model.requests) == 2
        clock.now = NOON.replace(hour=0, minute=0) + timedelta(days=1)
        await finish_jobs(runtime)
        after = await read(client, "/health/ready")
        session = await read(client, "/sessions/s1")
        third = await client.post("/chat", json={"message": "hello again"})
    assert ready["status"] == "ok"
    assert ready["parts"]["summary_model"]["status"] == "ok"
    told = "deferred: the tenant's tokens of the day (DAILY_TOKEN_BUDGET) run low"
    assert ready["summaries"] == {"pending": 1, "failed": 0, "last_error": told}
    assert (closed["state"], closed["summary"]) == ("open", None)
    assert told in closed["pending"]
    assert counted.sum("budget_deferrals") >= 2
    assert after["summaries"]["pending"] == 0
    assert session["summary"] == "The user said hello."
    answered(third)


async def test_without_a_budget_nothing_is_put_off(model: ModelServer, clock: Clock) -> None:
    async with served_at(clock, **groq(model)) as (client, _):
        await asyncio.gather(*(chat(client, "hello", session_id=f"s{n}") for n in range(5)))
        counted = await metrics(client)
    assert counted.sum("budget_refusals") == counted.sum("budget_deferrals") == 0


async def test_a_session_beyond_a_limit_is_counted_with_each_turn() -> None:
    async with served(session_limit_messages=2, session_limit_tokens=10_000) as (client, _):
        for _ in range(3):
            await chat(client, "hello", session_id="s1")
        counted = await metrics(client)
    assert counted.sum("outgrown_session_turns", limit="messages") == 2
    assert counted.sum("outgrown_session_turns") == 2


async def test_a_stream_tells_its_cost_with_its_receipt(model: ModelServer) -> None:
    async with served(**groq(model)) as (client, _):
        response = await client.post("/chat", json={"message": "hello", "stream": True})
    done = json.loads(events_of(response.text)[-1][1])
    assert [call["purpose"] for call in done["receipt"]["calls"]] == ["chat"]
    assert done["receipt"]["cost"] > 0
