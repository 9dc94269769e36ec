"""Lets the turns of one session through one at a time, in the order of their messages.

Touches: the session store. The store knows the order across replicas; this keeps the waiters of
one process from asking it more often than needed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import SessionBusy
from app.sessions.base import SessionStore, Turn

LOOK_AGAIN_SECONDS = 0.2  # turns of other processes end without telling us


class Turnstile:
    """`wait_seconds`: how long a turn waits for the earlier ones before it gives up."""

    def __init__(self, sessions: SessionStore, *, wait_seconds: float) -> None:
        self._sessions = sessions
        self._wait_seconds = wait_seconds
        self._here: defaultdict[tuple[str, str], dict[int, asyncio.Event]] = defaultdict(dict)

    @asynccontextmanager
    async def my_turn(self, turn: Turn) -> AsyncIterator[None]:
        """Enter once all earlier turns of the session have ended. Raises `SessionBusy`."""
        key, seq = (turn.session.tenant_id, turn.session.session_id), turn.reply.seq
        waiters = self._here[key]
        waiters[seq] = asyncio.Event()
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._wait(waiters, turn)
            except TimeoutError as error:
                raise SessionBusy(
                    "earlier messages of this session are still being answered", retry_after=5
                ) from error
            yield
        finally:
            del waiters[seq]
            if waiters:
                waiters[min(waiters)].set()
            else:
                self._here.pop(key, None)

    async def _wait(self, waiters: dict[int, asyncio.Event], turn: Turn) -> None:
        seq = turn.reply.seq
        while min(waiters) < seq or not await self._sessions.is_next(turn):
            news = waiters[seq]
            try:
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await news.wait()
            except TimeoutError:
                continue
            news.clear()
