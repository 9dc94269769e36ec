"""A service whose live sessions are held by Redis: what it demands of it, and what kills lose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import Misconfigured
from tests.api.calls import chat
from tests.redis import PASSWORD, OwnRedis, Persistence
from tests.served import served, service, settings

Servers = Callable[[Persistence], OwnRedis]


async def ready(client: httpx.AsyncClient) -> tuple[int, dict[str, Any]]:
    response = await client.get("/health/ready")
    return response.status_code, response.json()["parts"]["session_store"]


async def said(client: httpx.AsyncClient, session_id: str) -> list[str]:
    response = await client.get(f"/sessions/{session_id}", params={"user_id": "ada"})
    return [message["content"] for message in response.json()["messages"]]


async def test_a_redis_that_may_lose_what_it_acknowledged_is_refused(
    new_redis: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    url = new_redis("everysec").url
    with pytest.raises(Misconfigured) as refused:
        async with served(session_store=url):
            raise AssertionError("it opened")
    told = refused.value.message
    assert "appendfsync is everysec" in told
    assert "appendonly yes; appendfsync always" in told
    assert "SESSION_STORE_VOLATILE=true" in told
    assert PASSWORD not in told + caplog.text


@pytest.mark.parametrize("login", ["", ":not-the-password@", "nobody:at-all@"])
async def test_a_redis_that_refuses_us_stops_the_start_without_telling_the_password(
    redis_url: str, login: str
) -> None:
    if "@" not in redis_url:
        pytest.skip("TEST_REDIS_URL names a Redis that lets anybody in")
    url = f"redis://{login}{redis_url.partition('@')[2]}"
    with pytest.raises(Misconfigured) as refused:
        async with served(session_store=url):
            pass
    assert "SESSION_STORE: this Redis refuses the user and the password" in str(refused.value)
    assert "not-the-password" not in str(refused.value)


async def test_a_volatile_redis_will_do_where_that_is_said_and_ready_repeats_it(
    new_redis: Servers,
) -> None:
    url = new_redis("none").url
    async with served(session_store=url, session_store_volatile=True) as (client, _):
        await chat(client, session_id="s", user_id="ada", message="hello")
        status, part = await ready(client)
    assert (status, part["status"]) == (200, "ok")
    assert "live sessions may be lost" in part["detail"]
    assert "appendonly is no" in part["detail"]


async def test_redis_may_come_after_the_service_and_is_looked_at_then(
    new_redis: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    kept, lossy = new_redis("always"), new_redis("everysec")
    for server in (kept, lossy):
        server.kill()
    ask = {"message": "hello", "user_id": "ada", "session_id": "s"}
    async with served(session_store=kept.url) as (client, _):
        refused = await client.post("/chat", json=ask)
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            503,
            "storage_unavailable",
        )
        assert int(refused.headers["retry-after"]) > 0
        assert (await ready(client))[0] == 503
        kept.start()
        assert (await client.post("/chat", json=ask)).status_code == 200
        assert (await ready(client))[0] == 200
    async with served(session_store=lossy.url) as (client, _):
        lossy.start()
        assert (await client.post("/chat", json=ask)).status_code == 503
    assert "the session store can't be reached yet" in caplog.text
    assert "appendfsync is everysec" in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("url", [f"http://:{PASSWORD}@host", f"redis://:{PASSWORD}@host:port/0"])
async def test_an_address_of_another_form_is_refused_without_telling_it(url: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        async with served(session_store=url):
            raise AssertionError("it opened")
    assert "SESSION_STORE must be of the form redis://host:6379/0" in refused.value.message
    assert PASSWORD not in f"{refused.value.message}{refused.value.__cause__}"
    assert PASSWORD not in repr(settings(session_store=url))


async def test_a_service_that_is_killed_before_it_settles_leaves_it_to_the_next(
    tmp_path: Path, new_redis: Servers
) -> None:
    """And Redis is killed as well: what was acknowledged is on its disk."""
    server = new_redis("always")
    environment = {
        "SESSION_STORE": server.url,
        "EMBEDDING_MODEL": "mock:32",
        "MONITOR_INTERVAL_SECONDS": "3600",
    }
    texts = [f"message {n}" for n in range(5)]
    replies = []
    with service(tmp_path, **environment) as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=30) as client:
            for text in texts:
                answer = await chat(client, session_id="s", user_id="ada", message=text)
                replies.append(answer["reply"])
            process.kill()
    server.kill()
    server.start()
    with service(tmp_path, **environment) as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=30) as client:
            found = await said(client, "s")
    assert found == [part for pair in zip(texts, replies, strict=True) for part in pair]


async def test_what_was_said_a_moment_ago_is_recalled_searched_and_exported(redis_url: str) -> None:
    async with served(session_store=redis_url) as (client, _):
        await chat(client, session_id="s", user_id="ada", message="My parrot is called Kiki.")
        await chat(client, session_id="s", user_id="ada", message="Kiki is green.")
        asked = {"user_id": "ada", "memory_type": "message"}
        listed = (await client.get("/memories", params=asked)).json()["memories"]
        assert {memory["text"] for memory in listed} == {
            "User: My parrot is called Kiki.",
            "User: Kiki is green.",
        }
        exported = (await client.get("/users/ada/export")).json()
        assert len(exported["messages"]) == 4
        assert {message["status"] for message in exported["messages"]} == {"complete"}
        other = await chat(client, session_id="t", user_id="ada", message="Is Kiki green?")
        assert "green" in str(other["memories"])


async def test_an_erased_user_is_gone_from_redis_though_messages_keep_coming(
    redis_url: str,
) -> None:
    async with served(session_store=redis_url) as (client, runtime):
        for n in range(3):
            await chat(client, session_id=f"s{n}", user_id="ada", message="Kiki is green.")
        await chat(client, session_id="theirs", user_id="bo", message="Hello.")
        stop = asyncio.Event()

        async def go_on(n: int) -> None:
            while not stop.is_set():
                ask = {"message": "Kiki again", "session_id": f"s{n}", "user_id": "ada"}
                await client.post("/chat", json=ask)
                await asyncio.sleep(0)

        talking = [asyncio.create_task(go_on(n)) for n in range(3)]
        await asyncio.sleep(0)
        await client.delete("/users/ada")
        stop.set()
        await asyncio.gather(*talking)
        erased = (await client.delete("/users/ada")).json()
        assert await runtime.sessions.held("default", "ada") == 0
        assert await runtime.sessions.held("default", "bo") == 1
        assert (erased["verified"], erased["remaining"]) == (True, {})
        left = (await client.get("/sessions", params={"user_id": "ada"})).json()
        assert left["sessions"] == []
