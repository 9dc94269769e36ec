"""Has sessions that went quiet summarised and closed. Touches: the sessions, the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.memory.episodes import Episodes
from app.sessions.base import SessionStore

AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Swept:
    """What one pass found: turns whose process died, and sessions that went quiet."""

    interrupted: int
    quiet: int


class Monitor:
    """One pass is a call, so a test hands it `now`; `background` repeats it."""

    def __init__(
        self, sessions: SessionStore, episodes: Episodes, *, stale_after: timedelta
    ) -> None:
        self._sessions = sessions
        self._episodes = episodes
        self._stale_after = stale_after

    async def sweep(self, now: datetime) -> Swept:
        """Ask for a last checkpoint of every session without a message for `stale_after`."""
        interrupted = await self._sessions.end_lapsed()
        quiet = await self._sessions.gone_quiet(before=now - self._stale_after, limit=AT_ONCE)
        for session in quiet:
            await self._episodes.ask_to_close(session)
        return Swept(interrupted, len(quiet))
