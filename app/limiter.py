"""Rate limits of keys and users, in this process or shared by replicas. Touches: Redis, if set.

A sliding window: what the window before counted weighs in by how much of it is still in sight.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from limits import RateLimitItem, parse_many
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.storage.base import SlidingWindowCounterSupport
from limits.aio.strategies import SlidingWindowCounterRateLimiter as Counter

from app.erased import pseudonym
from app.errors import Misconfigured, RateLimited
from app.metrics import Metrics

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

T = TypeVar("T")
log = logging.getLogger(__name__)

DEADLINE_SECONDS = 0.25
PAUSE_SECONDS = 1.0  # after a failure, before Redis is asked again
LOG_EVERY_SECONDS = 60.0


class Limiter:
    """Counts requests. Where Redis does not answer, this process counts by itself until it does.

    per_key, per_user: such as `600/minute`; "" is no limit. redis_url: "" counts in this process.
    Raises `Misconfigured` for settings of another form.
    """

    def __init__(self, *, per_key: str, per_user: str, redis_url: str, metrics: Metrics) -> None:
        self._per_key = _read_limit("RATE_LIMIT_PER_KEY", per_key)
        self._per_user = _read_limit("RATE_LIMIT_PER_USER", per_user)
        self._metrics = metrics
        self._here = Counter(MemoryStorage())
        self._pool, self._shared, self._failures = _open_redis(redis_url)
        self._ask_from = self._log_from = 0.0  # by the monotonic clock
        self.trouble: str | None = None

    @property
    def place(self) -> str:
        """Where requests are counted."""
        if self._per_key is None and self._per_user is None:
            return "no limits are set"
        return "in this process" if self._shared is None else "shared through Redis"

    async def count_key(self, tenant_id: str, name: str) -> None:
        """Count a request of a caller. Raises `RateLimited`."""
        if self._per_key is not None:
            await self._count(self._per_key, "this key", ("key", tenant_id, name))

    async def count_user(self, tenant_id: str, user_id: str) -> None:
        """Count a request about a user, whose id does not go to Redis. Raises `RateLimited`."""
        if self._per_user is not None:
            who = ("user", tenant_id, pseudonym(tenant_id, user_id))
            await self._count(self._per_user, "this user", who)

    async def check(self) -> str | None:
        """Ask Redis, where there is one; returns what is wrong with it."""
        await self._ask(lambda shared: shared.storage.get("check"))
        return self.trouble

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()

    async def _count(self, item: RateLimitItem, whose: str, who: tuple[str, ...]) -> None:
        wait = await self._ask(lambda shared: _wait(shared, item, who))
        if wait is None:
            wait = await _wait(self._here, item, who)
        if wait > 0:
            self._metrics.rate_limited(who[0])
            raise RateLimited(f"the limit of {whose} is {_told(item)}", retry_after=wait)

    async def _ask(self, question: Callable[[Counter], Awaitable[T]]) -> T | None:
        """Return what Redis says; None where there is none, or it did not answer."""
        if self._shared is None or time.monotonic() < self._ask_from:
            return None
        if self.trouble is not None:
            self._ask_from = time.monotonic() + PAUSE_SECONDS  # one request tries, the others go on
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                answer = await question(self._shared)
        except self._failures as error:
            self._failed(error)
            return None
        if self.trouble is not None:
            log.info("Redis answers again: rate limits are shared")
        self._ask_from, self.trouble = 0.0, None
        return answer

    def _failed(self, error: Exception) -> None:
        now = time.monotonic()
        self._metrics.limits_not_shared()
        self._ask_from = now + PAUSE_SECONDS
        self.trouble = f"Redis does not answer ({type(error).__name__}): counted in this process"
        if now >= self._log_from:
            self._log_from = now + LOG_EVERY_SECONDS
            log.warning("rate limits: %s", self.trouble)


async def _wait(counter: Counter, item: RateLimitItem, who: tuple[str, ...]) -> float:
    """Count one request; returns 0, or for how many seconds the next one will be refused too."""
    if await counter.hit(item, *who):
        return 0.0
    storage, window = cast(SlidingWindowCounterSupport, counter.storage), item.get_expiry()
    before, before_ends, now, now_ends = await storage.get_sliding_window(
        item.key_for(*who), window
    )
    if now >= item.amount:  # this window is full: the next one begins, and weighs it ever less
        wait = now_ends - window + (now - item.amount) * window / now
    elif before:
        wait = before_ends - (item.amount - now) * window / before
    else:
        wait = 0.0
    return max(wait, 0.001)  # it ended while we asked


def _open_redis(
    url: str,
) -> tuple[ConnectionPool | None, Counter | None, tuple[type[Exception], ...]]:
    if not url:
        return None, None, (OSError,)
    from redis.asyncio import ConnectionPool
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError

    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise _wrong_redis("it begins otherwise")
    try:
        pool = ConnectionPool.from_url(url, retry=Retry(NoBackoff(), 0))
        options: dict[str, Any] = {"key_prefix": "rag-limits", "connection_pool": pool}
        storage = RedisStorage("async+redis://", implementation="redispy", **options)
    except ValueError:  # not kept as the cause: it may tell a part of the password
        raise _wrong_redis("its port or its options can't be read") from None
    return pool, Counter(storage), (RedisError, OSError, TimeoutError)


def _wrong_redis(why: str) -> Misconfigured:
    # Without its value, which may hold a password.
    return Misconfigured(f"REDIS_URL must be of the form redis://host:6379/0: {why}")


def _read_limit(setting: str, text: str) -> RateLimitItem | None:
    if not text.strip():
        return None
    try:
        (item,) = parse_many(text.strip())
    except ValueError:
        item = None
    if item is None or item.amount < 1:
        raise Misconfigured(
            f"{setting}={text[:80]}: a number, a / and a time are expected, 600/minute or "
            "10/5 second say; times are second, minute, hour, day, month and year"
        )
    return item


def _told(item: RateLimitItem) -> str:
    name, times = item.GRANULARITY.name, item.multiples
    return f"{item.amount} requests per {name if times == 1 else f'{times} {name}s'}"
