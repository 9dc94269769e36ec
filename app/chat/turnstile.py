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
from app.tracing import span

LOOK_AGAIN_SECONDS = 0.2  # turns of other processes end without telling us

Place = tuple[int, str]  # the reply's number, and who is to answer it


class Turnstile:
    """`wait_seconds`: how long a turn waits for the earlier ones before it gives up."""

    def __init__(self, sessions: SessionStore, *, wait_seconds: float) -> None:
        self._sessions = sessions
        self._wait_seconds = wait_seconds
        self._here: defaultdict[tuple[str, str], dict[Place, asyncio.Event]] = defaultdict(dict)

    @asynccontextmanager
    async def my_turn(self, turn: Turn) -> AsyncIterator[None]:
        """Enter once all earlier turns of the session have ended. Raises `SessionBusy`."""
        key = (turn.session.tenant_id, turn.session.session_id)
        waiters, place = self._here[key], (turn.reply.seq, turn.holder)
        waiters[place] = asyncio.Event()
        try:
            with span("wait for the turn"):
                if not turn.is_next:
                    await self._wait_for(waiters, turn)
            yield
        finally:
            del waiters[place]
            if waiters:
                waiters[min(waiters)].set()
            else:
                self._here.pop(key, None)

    async def _wait_for(self, waiters: dict[Place, asyncio.Event], turn: Turn) -> None:
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._wait(waiters, turn)
        except TimeoutError as error:
            raise SessionBusy(
                "earlier messages of this session are still being answered", retry_after=5
            ) from error

    async def _wait(self, waiters: dict[Place, asyncio.Event], turn: Turn) -> None:
        place = (turn.reply.seq, turn.holder)
        while min(waiters)[0] < turn.reply.seq or not await self._sessions.is_next(turn):
            news = waiters[place]
            try:
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await news.wait()
            except TimeoutError:
                continue
            news.clear()
