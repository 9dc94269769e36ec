"""The way to the Redis of live sessions. Touches: that Redis.

It has to keep what it acknowledges: that is looked at before it is used, and again after it was
away. Its address may hold a password, and is never told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as NotConnected

from app.errors import Misconfigured, StorageUnavailable

log = logging.getLogger(__name__)

DEMANDED = "appendonly yes", "appendfsync always", "maxmemory-policy noeviction"
_VOLATILE = "or SESSION_STORE_VOLATILE=true, which accepts that live sessions may be lost"
_FAILURES = (RedisError, OSError, TimeoutError)


class Link:
    """Runs scripts. accepts_loss: a Redis that may lose what it acknowledged will do."""

    def __init__(self, url: str, *, timeout_seconds: float, accepts_loss: bool) -> None:
        """Raises `Misconfigured` for a URL of another form."""
        if not url.startswith(("redis://", "rediss://", "unix://")):
            raise _wrong_url("it begins otherwise")
        try:
            self._client = Redis.from_url(
                url,
                decode_responses=True,
                retry=Retry(NoBackoff(), 1, supported_errors=(NotConnected,)),
                # `_ask` has the deadline: under one of its own the client calls `asyncio.wait_for`,
                # which swallows a cancellation now and then (Python 3.11), and who waits for that
                # waits for ever.
                socket_timeout=None,
                socket_connect_timeout=None,
            )
        except ValueError:  # not kept as the cause: it may tell a part of the password
            raise _wrong_url("its port or its options can't be read") from None
        self._timeout_seconds = timeout_seconds
        self._accepts_loss = accepts_loss
        self._scripts: dict[str, AsyncScript] = {}
        self._is_checked = False
        self.may_lose: str | None = None

    async def open(self) -> None:
        """Look at how it keeps what it acknowledges; if it is not there yet, that comes later.

        Raises `Misconfigured` where it may lose that, and where it refuses us.
        """
        try:
            await self._check()
        except StorageUnavailable as error:
            if isinstance(error.__cause__, AuthenticationError):
                raise Misconfigured(
                    "SESSION_STORE: this Redis refuses the user and the password of the URL, or "
                    "asks for a password and there is none"
                ) from None
            log.error("the session store can't be reached yet: %s", error.message)

    async def close(self) -> None:
        await self._client.aclose()

    async def run(self, script: str, keys: Sequence[str], *args: str | int) -> Any:
        """Run a script. Raises `StorageUnavailable`; then it may have run or not."""
        await self._checked()
        known = self._scripts.get(script)
        if known is None:
            known = self._scripts[script] = self._client.register_script(script)
        return await self._ask(known(keys=list(keys), args=list(args)))

    async def members(self, name: str, prefix: str, *, most: int = 0) -> list[str]:
        """Return the members of a sorted set without scores that begin so; 0: all of them."""
        await self._checked()
        ends = (f"[{prefix}", f"({prefix}\x7f") if prefix else ("-", "+")
        limit = {"start": 0, "num": most} if most else {}
        found = await self._ask(self._client.zrangebylex(name, *ends, **limit))
        return [str(member) for member in found]

    async def after(self, name: str, last: str, *, most: int) -> list[str]:
        """Return the members that follow one in a sorted set without scores."""
        await self._checked()
        begin = f"({last}" if last else "-"
        found = await self._ask(self._client.zrangebylex(name, begin, "+", start=0, num=most))
        return [str(member) for member in found]

    async def size(self, name: str) -> int:
        """Count a set, and look anew at how Redis keeps things."""
        self._is_checked = False
        await self._checked()
        return int(await self._ask(self._client.zcard(name)))

    async def _checked(self) -> None:
        if self._is_checked:
            return
        try:
            await self._check()
        except Misconfigured as error:  # it came back with other settings
            log.error("%s", error.message)
            raise StorageUnavailable(
                "the session store may lose what it acknowledges", retry_after=30
            ) from error

    async def _check(self) -> None:
        found = await self._lacking()
        if found and not self._accepts_loss:
            lines = "; ".join(DEMANDED)
            raise Misconfigured(
                f"SESSION_STORE: this Redis may lose what it acknowledges ({', '.join(found)}). "
                f"Its redis.conf needs: {lines} (a policy volatile-… will do), {_VOLATILE}"
            )
        self.may_lose = ", ".join(found) or None
        self._is_checked = True

    async def _lacking(self) -> list[str]:
        """Return what of its settings lets Redis lose things."""
        try:
            told: dict[str, str] = {}
            for name in ("appendonly", "appendfsync", "maxmemory-policy"):
                told |= await self._ask(self._client.config_get(name), refused=ResponseError)
        except ResponseError:
            return ["it does not answer CONFIG GET, so nobody can tell"]
        policy = told.get("maxmemory-policy", "unknown")
        is_kept = policy == "noeviction" or policy.startswith("volatile-")
        wanted = {"appendonly": "yes", "appendfsync": "always"}
        found = [
            f"{name} is {told.get(name, 'unknown')}"
            for name, value in wanted.items()
            if told.get(name) != value
        ]
        return found if is_kept else [*found, f"maxmemory-policy is {policy}"]

    async def _ask(self, question: Any, *, refused: type[Exception] | tuple[()] = ()) -> Any:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await question
        except refused:
            raise
        except _FAILURES as error:
            self._is_checked = False
            raise StorageUnavailable(
                f"the session store did not answer ({type(error).__name__})", retry_after=5
            ) from error


def _wrong_url(why: str) -> Misconfigured:
    # Without its value, which may hold a password.
    return Misconfigured(f"SESSION_STORE must be of the form redis://host:6379/0: {why}")
