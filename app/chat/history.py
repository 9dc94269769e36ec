"""What was said before in this session, as a strategy shows it. Touches: sessions, `episodes`.

`buffer` shows all messages that are read, `window` the last exchanges, `token` the last messages
that hold so many tokens, `summary` the session's summary, and `summary_buffer` all that are read
with the summary of what is older. The summary is the one that checkpoints write: no strategy calls
a model. It lags behind by some messages, which `summary` shows in full: else nobody would tell the
model of them. What was said off the record is in no summary, so it leaves with its checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.chat.ask import Ask, HistoryWish, Strategy
from app.chat.units import (
    Unit,
    is_pinned,
    last_exchanges,
    last_messages,
    last_tokens,
    last_units,
    tokens_of,
    unit_of,
    units_of,
)
from app.llm.base import Say
from app.llm.tokens import estimate_tokens
from app.memory.episodes import Episode, Episodes
from app.sessions.base import Message, Session, SessionStore, Turn

__all__ = ["Histories", "History", "HistorySettings", "Unit"]


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

    left_out: messages that stand before the units, or had no place. outgrown: the limits that the
    session is beyond ("messages", "tokens"). seqs: the number of each unit's stored message; empty
    for a conversation that the client told.
    """

    strategy: Strategy
    units: Sequence[Unit]
    summary: str
    left_out: int = 0
    outgrown: tuple[str, ...] = ()
    seqs: Sequence[int] = ()

    def tokens(self) -> int:
        """Return about how many tokens it costs."""
        return estimate_tokens(self.summary) + sum(map(tokens_of, self.units))


@dataclass(frozen=True, slots=True)
class _Cut:
    """How much is shown; None: as much as is read."""

    strategy: Strategy
    window: int | None
    tokens: int | None

    @property
    def is_summarised(self) -> bool:
        return self.strategy in ("summary", "summary_buffer")

    async def start(self, units: Sequence[Unit]) -> int:
        """Return where the units begin that are shown."""
        start = 0 if self.window is None else last_exchanges(units, self.window)
        if self.tokens is None:
            return start
        # in a thread, for a client may tell a megabyte
        return max(start, await asyncio.to_thread(last_tokens, units, self.tokens))


class Histories:
    """Reads histories."""

    def __init__(
        self, sessions: SessionStore, episodes: Episodes, settings: HistorySettings
    ) -> None:
        self._sessions = sessions
        self._episodes = episodes
        self._settings = settings

    def look_back(self, ask: Ask) -> int:
        """Return how many messages are read before a turn; 0 where that is not known before."""
        cut = self._cut(ask.history, has_consent=ask.has_consent)
        return 0 if ask.told is not None or cut.strategy == "summary" else self._most(cut)

    async def before(self, turn: Turn, ask: Ask) -> History:
        """Return the history before a turn; costs the same for a session of any length.

        Without consent, the session's summary is memory like any other, and its messages stand.
        """
        cut = self._cut(ask.history, has_consent=ask.has_consent)
        before_seq = turn.question.seq
        if ask.told is None:
            return await self._stored(turn.session, before_seq, cut, turn.before)
        return await self._told(turn.session, before_seq, cut, ask.told)

    async def now(self, session: Session, *, has_consent: bool) -> History:
        """Return what a next question of the session would see, by the default strategy."""
        cut = self._cut(HistoryWish(), has_consent=has_consent)
        return await self._stored(session, session.last_seq + 1, cut)

    async def with_summary(self, session: Session, history: History) -> History:
        """Return a history with the session's summary, for a prompt that can't hold it whole."""
        if history.summary or history.strategy not in ("summary", "summary_buffer"):
            return history
        return replace(history, summary=_text(await self._episode(session)))

    def _cut(self, wish: HistoryWish, *, has_consent: bool) -> _Cut:
        strategy = wish.strategy or self._settings.strategy
        if not has_consent and strategy in ("summary", "summary_buffer"):
            strategy = "buffer"
        window = self._settings.window if strategy == "window" else None
        tokens = self._settings.tokens if strategy == "token" else None
        return _Cut(strategy, wish.window or window, wish.tokens or tokens)

    def _most(self, cut: _Cut) -> int:
        most = self._settings.max_messages
        return most if cut.window is None else min(most, 2 * cut.window)

    async def _stored(
        self,
        session: Session,
        before_seq: int,
        cut: _Cut,
        before: Sequence[Message] | None = None,
    ) -> History:
        """before: what the store told of the latest messages already."""
        episode, covered = None, 0
        if cut.strategy == "summary":
            episode = await self._episode(session)
            covered = _covered(session, episode)
        if before is None:
            most = min(self._most(cut), before_seq - 1 - covered)
            before = await self._sessions.history(session, before_seq=before_seq, limit=most)
        messages = [message for message in before if message.seq > covered]
        units = [unit_of(message) for message in messages]
        start = await cut.start(units)
        seqs = [message.seq for message in messages[start:]]
        first = seqs[0] if seqs else before_seq
        if first > 1 and cut.is_summarised and episode is None:
            episode = await self._episode(session)
        return History(
            cut.strategy,
            units[start:],
            _text(episode),
            left_out=first - 1,
            outgrown=self._limits_passed(session),
            seqs=seqs,
        )

    async def _told(
        self, session: Session, before_seq: int, cut: _Cut, told: Sequence[Say]
    ) -> History:
        """Return what is shown of a conversation that the client tells.

        The summary is of what we stored, and where that is less than what is told, it can't stand
        for the messages that are left out by `summary`: they stay.
        """
        units, dropped = await asyncio.to_thread(units_of, told)  # there may be many
        start = max(last_messages(units, self._settings.max_messages), await cut.start(units))
        episode, stored = None, before_seq - 1
        if cut.strategy == "summary" and sum(not is_pinned(unit) for unit in units) <= stored:
            episode = await self._episode(session)
            start = max(start, last_units(units, stored - _covered(session, episode)))
        left = [unit for unit in units[:start] if not is_pinned(unit)]
        if left and cut.is_summarised and episode is None:
            episode = await self._episode(session)
        return History(
            cut.strategy,
            [*filter(is_pinned, units[:start]), *units[start:]],
            _text(episode) if left else "",
            left_out=sum(map(len, left)) + dropped,
            outgrown=self._limits_passed(session),
        )

    def _limits_passed(self, session: Session) -> tuple[str, ...]:
        sizes = {
            "messages": session.last_seq > self._settings.limit_messages,
            "tokens": session.tokens > self._settings.limit_tokens,
        }
        return tuple(limit for limit, is_passed in sizes.items() if is_passed)

    async def _episode(self, session: Session) -> Episode | None:
        episode = await self._episodes.told(session.tenant_id, session.session_id)
        return episode if episode is not None and episode.user_id == session.user_id else None


def _covered(session: Session, episode: Episode | None) -> int:
    """Return the last message that the summary stands for; a late answer takes it back."""
    return 0 if episode is None else min(session.covered_seq, episode.covered_seq)


def _text(episode: Episode | None) -> str:
    return "" if episode is None else episode.text
