"""How a turn ends: its reply is stored, its bill and what was of use noted, a checkpoint asked for.

Touches: sessions, `episodes`, the usage, the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from app.background import Background
from app.chat.ask import Ask
from app.chat.door import Door
from app.chat.draft import Draft
from app.errors import AppError, Conflict
from app.memory.episodes import Episodes
from app.memory.recall import Memory
from app.memory.use import Use
from app.metrics import Metrics
from app.sessions.base import SessionStore, Status
from app.telemetry import as_logged
from app.tracing import span
from app.usage import Ledger

log = logging.getLogger(__name__)


class Endings:
    """Ends turns, as complete or otherwise."""

    def __init__(
        self,
        *,
        door: Door,
        sessions: SessionStore,
        episodes: Episodes,
        use: Use,
        ledger: Ledger,
        metrics: Metrics,
        background: Background,
        clock: Callable[[], datetime],
        wake_worker: Callable[[], None],
    ) -> None:
        self._door = door
        self._sessions = sessions
        self._episodes = episodes
        self._use = use
        self._ledger = ledger
        self._metrics = metrics
        self._background = background
        self._clock = clock
        self._wake_worker = wake_worker

    def note_use(self, ask: Ask, used: Sequence[Memory], now: datetime) -> None:
        """Have it noted what was of use, in the background.

        The profile is left out: it stands in every prompt, whatever is asked.
        """
        sessions = [memory.session_id for memory in used if memory.session_id]
        facts = [fact.fact_id for memory in used for fact in memory.facts]
        if sessions or facts:
            self._background.spawn(
                f"use of the memories in session {as_logged(ask.tenant_id, ask.session_id)}",
                self._use.record(ask.tenant_id, sessions, facts, now),
            )

    async def store(
        self,
        draft: Draft,
        status: Status,
        receipt: Mapping[str, Any] | None,
        error: AppError | None,
    ) -> None:
        """Store the reply, and ask for a checkpoint if one is due.

        A turn is counted once: what could not be stored as complete comes here again as failed.
        """
        if status != "complete":
            self._metrics.turn(mode=draft.mode, route=draft.route, status=status)
        told = None if error is None else {"code": error.code, "message": error.message}
        kept = await self._door.clean(draft.text, keeps_personal=draft.keeps_personal)
        steps = await self._door.clean_steps(
            [asdict(step) for step in draft.steps], keeps_personal=draft.keeps_personal
        )
        # At once: SQLite writes both to the disk together, and what was of use with them.
        session_id = as_logged(draft.turn.reply.tenant_id, draft.turn.reply.session_id)
        recording = self._background.spawn(
            f"bill of a turn in session {session_id}",
            self._ledger.record(draft.bill, self._clock()),
        )
        try:
            with span("store the reply"):
                session = await self._sessions.end_turn(
                    draft.turn,
                    status=status,
                    content=kept.text,
                    receipt=receipt,
                    error=told,
                    steps=steps or None,
                    now=self._clock(),
                )
        finally:
            await asyncio.shield(recording)  # a bill is not lost with who waits for it
        if status == "complete":
            if session is None:
                raise Conflict("the session was deleted, or its turn was taken over meanwhile")
            self._metrics.turn(mode=draft.mode, route=draft.route, status=status)
        if session is None:
            return
        try:
            if await self._episodes.after_turn(session, draft.turn.reply.seq):
                self._wake_worker()
        except AppError as failure:  # the reply is stored; the next turn or the monitor asks again
            log.warning("could not ask for a checkpoint: %s", failure.message)
