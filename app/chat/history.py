"""What was said before in this session. Touches: the session store, `episodes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.memory.episodes import Episodes
from app.sessions.base import Message, SessionStore, Turn

RECENT = 60  # messages read per turn, however long the session is


@dataclass(frozen=True, slots=True)
class History:
    """The last messages, oldest first, and the session's own summary where they don't reach back
    to its beginning."""

    messages: Sequence[Message]
    summary: str


async def read_history(sessions: SessionStore, episodes: Episodes, turn: Turn) -> History:
    """Return the history before a turn's question; costs the same for a session of any length."""
    session = turn.session
    messages = await sessions.history(turn, limit=RECENT)
    first = messages[0].seq if messages else turn.question.seq  # old ones may have been removed
    if first == 1:
        return History(messages, "")
    episode = await episodes.get(session.tenant_id, session.session_id)
    is_ours = episode is not None and episode.user_id == session.user_id
    return History(messages, episode.text if episode is not None and is_ours else "")
