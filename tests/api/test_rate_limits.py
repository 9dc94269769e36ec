"""Rate limits of keys and of users, in one process and shared by several."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from app import limiter
from app.errors import Misconfigured
from app.limiter import Limiter
from app.metrics import Metrics
from tests.api.calls import answered, key, read, refused
from tests.redis import PASSWORD, OwnRedis, Persistence
from tests.served import served

REMOTE = "203.0.113.9"
QUESTION = {
    "model": "conversational-rag",
    "messages": [{"role": "user", "content": "hello"}],
}


async def statuses(client: httpx.AsyncClient, count: int, **options: Any) -> list[int]:
    path = options.pop("path", "/sessions")
    return [(await client.get(path, **options)).status_code for _ in range(count)]


async def test_a_key_that_asks_too_often_is_told_when_to_come_back() -> None:
    async with served(address=REMOTE, rate_limit_per_key="3/2 second") as (client, runtime):
        ada, bob = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bob")
        assert await statuses(client, 3, headers=ada) == [200] * 3
        for _ in range(20):  # a window that turns lets another one in
            answer = await client.get("/sessions", headers=ada)
            if answer.status_code != 200:
                break
        told = refused(answer, 429)
        assert told["code"] == "rate_limited"
        assert "3 requests per 2 seconds" in told["message"]
        assert await statuses(client, 3, headers=bob) == [200] * 3
        await asyncio.sleep(int(answer.headers["retry-after"]))
        assert await statuses(client, 1, headers=ada) == [200]


async def test_health_and_webhooks_have_no_key_and_no_limit() -> None:
    async with served(rate_limit_per_key="1/hour", webhook_token="t") as (client, _):
        assert await statuses(client, 2) == [200, 429]
        assert await statuses(client, 3, path="/health/ready") == [200] * 3
        for _ in range(3):
            answer = await client.post("/webhooks/hubspot/wrong", content=b"[]")
            assert answer.status_code not in (429, 500)


async def test_a_stranger_spends_nobody_s_limit() -> None:
    async with served(address=REMOTE, rate_limit_per_key="2/hour") as (client, runtime):
        ada = await key(runtime, "user", user="ada")
        wrong = {"Authorization": "Bearer rag_of_nobody"}
        assert await statuses(client, 4, headers=wrong) == [401] * 4
        assert await statuses(client, 3, headers=ada) == [200, 200, 429]


async def test_a_user_is_limited_however_it_is_named() -> None:
    async with served(address=REMOTE, rate_limit_per_user="4/hour") as (client, runtime):
        gateway, ada = await key(runtime, "gateway"), await key(runtime, "user", user="ada")
        said = {"message": "hello", "user_id": "ada"}
        for _ in range(2):
            answered(await client.post("/chat", json=said, headers=gateway))
        asked = {**QUESTION, "user": "ada"}
        answered(await client.post("/v1/chat/completions", json=asked, headers=gateway))
        assert await statuses(client, 2, headers=ada) == [200, 429]
        refused(await client.post("/chat", json=said, headers=gateway), 429)
        theirs = await client.post("/v1/chat/completions", json=asked, headers=gateway)
        assert refused(theirs, 429)["type"] == "rate_limit_error"
        assert int(theirs.headers["retry-after"]) >= 1
        # Another user, and the same name in another tenant, have limits of their own.
        for other in ({**said, "user_id": "bob"}, said):
            tenant = "default" if other["user_id"] == "bob" else "globex"
            headers = await key(runtime, "gateway", tenant=tenant)
            answered(await client.post("/chat", json=other, headers=headers))
        limited = (await client.get("/metrics", headers=await key(runtime, "admin"))).text
        assert 'rag_rate_limited_requests_total{limit="user"} 3.0' in limited


async def test_two_services_share_one_limit_through_redis(redis_url: str) -> None:
    chosen: dict[str, Any] = {
        "rate_limit_per_key": "6/hour",
        "rate_limit_per_user": "100/hour",
        "redis_url": redis_url,
        "api_key": "one",
    }
    headers = {"Authorization": "Bearer one"}
    async with served(**chosen) as (one, _), served(**chosen) as (two, runtime):
        found = [await statuses(client, 1, headers=headers) for client in (one, two) * 5]
        assert found == [[200]] * 6 + [[429]] * 4
        ready = await read(one, "/health/ready")
        assert ready["parts"]["limits"] == {"status": "ok", "detail": "shared through Redis"}
        assert runtime.limiter.trouble is None


async def test_without_redis_each_process_counts_by_itself_until_redis_is_back(
    new_redis: Callable[[Persistence], OwnRedis], caplog: pytest.LogCaptureFixture
) -> None:
    redis = new_redis("none")
    caplog.set_level(logging.INFO, "app.limiter")
    chosen: dict[str, Any] = {
        "rate_limit_per_key": "3/hour",
        "redis_url": redis.url,
        "api_key": "two",
    }
    headers = {"Authorization": "Bearer two"}
    async with served(**chosen) as (client, runtime):
        assert await statuses(client, 4, headers=headers) == [200, 200, 200, 429]
        redis.kill()
        assert await statuses(client, 4, headers=headers) == [200, 200, 200, 429]
        ready = await read(client, "/health/ready")
        assert (ready["status"], ready["parts"]["limits"]["status"]) == ("degraded", "failing")
        assert "counted in this process" in ready["parts"]["limits"]["detail"]
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        assert b"rag_rate_limit_redis_failures_total 0.0" not in runtime.metrics.text()
        redis.start()
        await asyncio.sleep(limiter.PAUSE_SECONDS)
        # It began anew with nothing, and counts again: a process of its own would say 429.
        assert await statuses(client, 4, headers=headers) == [200, 200, 200, 429]
        assert (await read(client, "/health/ready"))["status"] == "ok"
    assert PASSWORD not in caplog.text


async def test_a_redis_that_never_answers_costs_a_moment_and_no_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        async with served(rate_limit_per_key="2/hour", redis_url=url) as (client, runtime):
            assert await statuses(client, 3) == [200, 200, 429]
            assert "TimeoutError" in (runtime.limiter.trouble or "")


@pytest.mark.parametrize(
    "wrong",
    ["600", "600/fortnight", "0/minute", "-1/minute", "1/second; 5/minute", "many", "/hour"],
)
def test_a_limit_of_another_form_is_refused_with_what_was_expected(wrong: str) -> None:
    for setting in ("per_key", "per_user"):
        given = {"per_key": "", "per_user": "", "redis_url": "", setting: wrong}
        with pytest.raises(Misconfigured) as failure:
            Limiter(**given, metrics=Metrics())
        assert f"RATE_LIMIT_{setting.upper()}={wrong}" in failure.value.message
        assert "600/minute" in failure.value.message


@pytest.mark.parametrize(
    "wrong",
    ["http://u:hunter2@host/0", "host:6379", "redis://u:hunter2@host:port/0", "redis://[::1/0"],
)
def test_a_url_of_another_form_is_refused_without_telling_its_password(wrong: str) -> None:
    with pytest.raises(Misconfigured) as failure:
        Limiter(per_key="", per_user="", redis_url=wrong, metrics=Metrics())
    assert "redis://host:6379/0" in failure.value.message
    assert "hunter2" not in failure.value.message
    assert failure.value.__cause__ is None
