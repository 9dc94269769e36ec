"""What was said before in this session, as a strategy shows it. Touches: sessions, `episodes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.chat.ask import Ask, Strategy
from app.llm.base import Say
from app.memory.episodes import Episodes
from app.sessions.base import Session, SessionStore, Turn

Unit = tuple[Say, ...]
"""Messages that stay together: one, or an assistant's tool calls with their results."""


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """strategy, window (exchanges) and tokens are defaults; max_messages are read at most.

    limit_messages, limit_tokens: beyond them a session has outgrown its limits.
    """

    strategy: Strategy
    window: int
    tokens: int
    max_messages: int
    limit_messages: int
    limit_tokens: int


@dataclass(frozen=True, slots=True)
class History:
    """`units`, oldest first, and the session's own summary where the strategy shows it.

    left_out: messages of the session that neither stand in `units`. outgrown: the limits that the
    session is beyond ("messages", "tokens").
    """

    strategy: Strategy
    units: Sequence[Unit]
    summary: str
    left_out: int = 0
    outgrown: tuple[str, ...] = ()


class Histories:
    """Reads histories."""

    def __init__(
        self, sessions: SessionStore, episodes: Episodes, settings: HistorySettings
    ) -> None:
        self._sessions = sessions
        self._episodes = episodes
        self._settings = settings

    async def before(self, turn: Turn, ask: Ask) -> History:
        """Return the history before a turn; costs the same for a session of any length."""
        session = turn.session
        messages = await self._sessions.history(turn, limit=self._settings.max_messages)
        units = [(Say(m.role, m.content),) for m in messages]
        strategy = ask.history.strategy or self._settings.strategy
        first = messages[0].seq if messages else turn.question.seq
        if first == 1:
            return History(strategy, units, "")
        episode = await self._episodes.get(session.tenant_id, session.session_id)
        is_ours = episode is not None and episode.user_id == session.user_id
        return History(strategy, units, episode.text if episode is not None and is_ours else "")

    async def now(self, session: Session) -> History:
        """Return what a next question of the session would see, by the default strategy."""
        raise NotImplementedError
