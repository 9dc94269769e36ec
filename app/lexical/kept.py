"""What was laid out of scopes, kept in memory while it is asked for. Touches nothing."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Generic, TypeVar

Held = TypeVar("Held")

IDLE_SECONDS = 600.0  # so long a scope is kept that nobody asks about


class Kept(Generic[Held]):
    """Scopes as they were at a state, up to `most` numbers together. From any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        # The one used last comes last: with how many numbers it has, and when it was used.
        self._scopes: OrderedDict[int, tuple[Held, int, float]] = OrderedDict()
        self._numbers = 0

    def get(self, scope: int) -> Held | None:
        with self._lock:
            found = self._scopes.get(scope)
            if found is None:
                return None
            held, numbers, _ = found
            self._scopes[scope] = held, numbers, time.monotonic()
            self._scopes.move_to_end(scope)
            return held

    def keep(self, scope: int, held: Held, numbers: int) -> None:
        now = time.monotonic()
        with self._lock:
            before = self._scopes.pop(scope, None)
            self._numbers += numbers - (0 if before is None else before[1])
            self._scopes[scope] = held, numbers, now
            while self._scopes:
                other, (_, size, used_at) = next(iter(self._scopes.items()))
                if now - used_at <= IDLE_SECONDS and self._numbers <= self._most:
                    break
                del self._scopes[other]
                self._numbers -= size
