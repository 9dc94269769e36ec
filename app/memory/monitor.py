"""Has sessions that went quiet closed, and forgets what is due. Touches: the sessions, the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.memory.episodes import Episodes
from app.memory.evictor import Evictor
from app.memory.retention import Retention
from app.memory.user_retention import UserRetention
from app.sessions.base import SessionStore

AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Swept:
    """What one pass found: turns whose process died, sessions that went quiet, and what it forgot:
    memories that were evicted, and messages that were old and summarised, and how much of users
    with a retention of their own."""

    interrupted: int
    quiet: int
    evicted: int = 0
    removed: int = 0
    expired: int = 0


class Monitor:
    """One pass is a call, so a test hands it `now`; `background` repeats it."""

    def __init__(
        self,
        sessions: SessionStore,
        episodes: Episodes,
        evictor: Evictor,
        retention: Retention,
        user_retention: UserRetention,
        *,
        stale_after: timedelta,
    ) -> None:
        self._sessions = sessions
        self._episodes = episodes
        self._evictor = evictor
        self._retention = retention
        self._user_retention = user_retention
        self._stale_after = stale_after

    async def sweep(self, now: datetime) -> Swept:
        """Ask for a last checkpoint of every session without a message for `stale_after`.

        Then forget what the settings say, as much as one pass may.
        """
        interrupted = await self._sessions.end_lapsed()
        quiet = await self._sessions.gone_quiet(before=now - self._stale_after, limit=AT_ONCE)
        for session in quiet:
            await self._episodes.ask_to_close(session)
        evicted = await self._evictor.evict(None, None, self._evictor.policy, now)
        removed = await self._retention.sweep(now)
        expired = await self._user_retention.sweep(now)
        return Swept(interrupted, len(quiet), evicted.memories, removed.messages, expired.things)
