"""Hosts that keep failing are left alone for a while. Touches nothing but the clock.

Our own, since the typed library for asyncio (purgatory) lets every call through at once when the
time is over, counts a cancelled call as a failure and runs on the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

from app.errors import LeftAlone, UpstreamBusy, UpstreamTimeout, UpstreamUnavailable

State = Literal["closed", "open", "half_open"]


class Breaker:
    """Counts the failures in a row of one host; `failures` of them open it for `seconds`.

    Then one call goes through: its end closes the breaker, or opens it again. A host that is busy
    has not failed: it says itself for how long. told: each change of its state. clock: in seconds,
    of any beginning.
    """

    def __init__(
        self,
        host: str,
        *,
        failures: int,
        seconds: float,
        told: Callable[[str, State], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host
        self._most = failures
        self._seconds = seconds
        self._told = told
        self._clock = clock
        self._failed = 0
        self._opened_at: float | None = None
        self._probe: object | None = None
        told(host, "closed")

    @property
    def state(self) -> State:
        if self._opened_at is None:
            return "closed"
        return "open" if self._left() > 0 else "half_open"

    @contextmanager
    def call(self, part: str, *, is_whole: bool = True) -> Iterator[None]:
        """Go around one call of the host. Raises `LeftAlone` (of `part`) while it is open.

        What comes out of it must be ours already. is_whole: the call ends with it; else it was the
        beginning of a stream, whose end is told by `succeeded` or `failed`.
        """
        mine = self._enter(part)
        try:
            yield
        except BaseException as error:
            if is_failure(error):
                self.failed()
            elif isinstance(error, Exception) and not isinstance(error, UpstreamBusy):
                self.succeeded()  # a refusal, or garbage, is an answer
            raise
        else:
            if is_whole or self._opened_at is not None:
                self.succeeded()
        finally:
            if self._probe is mine:  # it was cancelled, or told to come later: the next one tries
                self._probe = None

    def failed(self) -> None:
        self._failed += 1
        if self._failed >= self._most and (self._opened_at is None or self._left() <= 0):
            self._opened_at = self._clock()
            self._told(self.host, "open")

    def succeeded(self) -> None:
        self._failed = 0
        if self._opened_at is not None:
            self._opened_at = None
            self._told(self.host, "closed")

    def _enter(self, part: str) -> object:
        mine = object()
        if self._opened_at is None:
            return mine
        left = self._left()
        if left > 0 or self._probe is not None:
            raise LeftAlone(
                part,
                f"{self.host.capitalize()} failed {self._failed} times in a row: it is left alone "
                "for now.",
                retry_after=max(left, 1.0),
            )
        self._probe = mine
        self._told(self.host, "half_open")
        return mine

    def _left(self) -> float:
        opened_at = self._clock() if self._opened_at is None else self._opened_at
        return opened_at + self._seconds - self._clock()


class Breakers:
    """The breakers of a process, one a host: what two parts call there counts together."""

    def __init__(
        self, *, failures: int, seconds: float, told: Callable[[str, State], None]
    ) -> None:
        self._failures = failures
        self._seconds = seconds
        self._told = told
        self._known: dict[str, Breaker] = {}

    def of(self, host: str) -> Breaker:
        """Return the breaker of a host, which is named as people call it."""
        if host not in self._known:
            self._known[host] = Breaker(
                host, failures=self._failures, seconds=self._seconds, told=self._told
            )
        return self._known[host]

    def states(self) -> Mapping[str, State]:
        return {host: breaker.state for host, breaker in sorted(self._known.items())}


def guarded(
    breaker: Breaker | None, part: str, *, is_whole: bool = True
) -> AbstractContextManager[None]:
    """Return what goes around one call: see `Breaker.call`. None: of a host that is never left."""
    return nullcontext() if breaker is None else breaker.call(part, is_whole=is_whole)


def is_failure(error: BaseException) -> bool:
    """Say whether the host is out of order, rather than busy or refusing what was asked."""
    if isinstance(error, UpstreamBusy):
        return False
    return isinstance(error, UpstreamUnavailable | UpstreamTimeout)
