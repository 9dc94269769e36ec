"""One turn: the order of its steps. Touches: the rooms that it calls.

The turn is a task of its own, owned by `background`: a reader that leaves does not lose it. The
caller waits in `start` until everything that can fail with a status has happened, and then reads
events. Both forms of the HTTP reply read the same events.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from app.background import Background
from app.chat.ask import Ask
from app.chat.beside import beside
from app.chat.composing import Composed, Composer
from app.chat.door import Door
from app.chat.draft import Draft
from app.chat.ending import Endings
from app.chat.flagging import Flagged, flagged, of_result, of_told
from app.chat.receipt import write_receipt
from app.chat.repeat import Repeats
from app.chat.retrieve import Known
from app.chat.running import Answer, Running
from app.chat.speaking import Speaker
from app.chat.turnstile import Turnstile
from app.errors import AppError, BudgetSpent, ModelOverloaded, SessionBusy, ShuttingDown
from app.knowledge.search import DocumentSearch
from app.llm.base import Token
from app.llm.cap import Cap
from app.memory.recall import Recall
from app.metrics import Metrics
from app.sessions.base import NewTurn, SessionStore, Turn
from app.telemetry import as_logged, note
from app.text.zones import zone_or_utc
from app.tracing import span
from app.usage import Bill, Ledger

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.2
FLAGGED_INLINE_CHARS = 8_000  # looked through in 2 ms: a thread is for what takes longer


class Turns:
    """Runs turns.

    timezone: an IANA name, for users whose session names none.
    renew_seconds: a fraction of the store's lease on a reply.
    """

    def __init__(
        self,
        *,
        door: Door,
        sessions: SessionStore,
        recall: Recall,
        documents: DocumentSearch,
        composer: Composer,
        cap: Cap,
        speaker: Speaker,
        endings: Endings,
        ledger: Ledger,
        metrics: Metrics,
        embedding_model: str,
        background: Background,
        timezone: str,
        wait_seconds: float,
        renew_seconds: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._door = door
        self._sessions = sessions
        self._repeats = Repeats(recall, documents)
        self._composer = composer
        self._cap = cap
        self._speaker = speaker
        self._endings = endings
        self._ledger = ledger
        self._metrics = metrics
        self._embedding_model = embedding_model
        self._background = background
        self._timezone = timezone
        self._wait_seconds = wait_seconds
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._turnstile = Turnstile(sessions, wait_seconds=wait_seconds)

    async def start(self, ask: Ask) -> Running:
        """Start a turn and return once it is about to speak; its message is stored by then.

        Raises what the turn fails with before that: `NotFound`, `Conflict`, `PromptTooLarge`,
        `SessionBusy`, `BudgetSpent`, `ModelOverloaded`, `StorageUnavailable`, `ShuttingDown`,
        `UpstreamRefused` of the embedder or the index.
        """
        note(tenant_id=ask.tenant_id, session_id=ask.session_id)
        ask = await self._door.admit(ask)
        await self._composer.check(ask)
        await self._check_budget(ask)
        if self._background.is_over:  # nobody would wait for its end
            raise ShuttingDown("the service is shutting down", retry_after=1)
        is_counted = await self._is_admitted(ask)
        running = Running(ask.session_id)
        self._background.spawn(
            f"turn of session {_named(ask)}", self._run(ask, running, is_counted)
        )
        await running.prepared()
        return running

    async def _check_budget(self, ask: Ask) -> None:
        """Raise `BudgetSpent`, but for a repeat of what was answered: that costs nothing."""
        try:
            await self._ledger.check(ask.tenant_id, self._clock())
        except BudgetSpent:
            if not await self._is_answered(ask):
                raise

    async def _is_admitted(self, ask: Ask) -> bool:
        """Say whether the turn counts among those that call a model; a repeat needs no place.

        Raises `ModelOverloaded` before anything is stored: who tries again finds the session as it
        was, with or without a `client_message_id`.
        """
        try:
            self._cap.admit(_whose(ask))
        except ModelOverloaded:
            if not await self._is_answered(ask):
                raise
            return False
        return True

    async def _is_answered(self, ask: Ask) -> bool:
        named = ask.client_message_id
        here = ask.tenant_id, ask.session_id
        return named is not None and await self._sessions.is_answered(*here, named)

    async def _run(self, ask: Ask, running: Running, is_counted: bool) -> None:
        try:
            async with beside(self._composer.known(ask, self._clock())) as known:
                turn = await self._begin(ask)
                if turn.mine:
                    await self._answer(ask, turn, known, running)
                else:
                    answer = await self._repeats.answer(turn, ask.bound, recalls=ask.has_consent)
                    running.pass_the_bar()
                    running.emit(Token(answer.reply))
                    running.emit(answer)
        except AppError as error:
            running.fail(error)
        except asyncio.CancelledError:
            running.fail(ShuttingDown("the service is shutting down", retry_after=1))
            raise
        except Exception:
            log.exception("a turn failed in a way that nobody foresaw")
            running.fail(AppError("something went wrong on our side"))
        finally:
            if is_counted:
                self._cap.leave(_whose(ask))

    async def _begin(self, ask: Ask) -> Turn:
        """Store the message; for a repeat of one that is being answered, wait for its end."""
        new = NewTurn(
            tenant_id=ask.tenant_id,
            session_id=ask.session_id,
            user_id=ask.user_id,
            text=ask.text,
            client_message_id=ask.client_message_id,
            memory=ask.memory,
            holder=uuid.uuid4().hex,
            timezone=ask.timezone,
            look_back=self._composer.look_back(ask),
        )
        patience = time.monotonic() + self._wait_seconds
        while True:
            with span("store the question"):
                turn = await self._sessions.begin_turn(new, now=self._clock())
            if turn.mine or turn.reply.status == "complete":
                return turn
            if time.monotonic() > patience:
                raise SessionBusy("this message is still being answered", retry_after=5)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _answer(
        self, ask: Ask, turn: Turn, known: Awaitable[Known], running: Running
    ) -> None:
        bill = Bill(ask.tenant_id, ask.user_id, began=turn.reply.created_at)
        draft = Draft(turn, bill, ask.mode, ask.keeps_personal, marks={"start": time.monotonic()})
        async with self._lease(turn):
            try:
                async with self._turnstile.my_turn(turn):
                    answer = await self._steps(ask, draft, known, running)
            except AppError as error:
                await self._endings.store(draft, "failed", None, error)
                raise
            except asyncio.CancelledError:
                stopped = ShuttingDown("the service was stopped")
                await asyncio.shield(self._endings.store(draft, "interrupted", None, stopped))
                raise
            except Exception:
                draft.text = ""  # it may be what could not be stored
                await self._endings.store(draft, "failed", None, AppError("internal error"))
                raise
        running.emit(answer)

    async def _steps(
        self, ask: Ask, draft: Draft, known: Awaitable[Known], running: Running
    ) -> Answer:
        """Compose the prompt, speak, store: the turn from its own moment on."""
        draft.marks["waited"] = time.monotonic()
        now = self._clock()
        local = now.astimezone(zone_or_utc(draft.turn.session.timezone or self._timezone))
        if draft.turn.is_next:
            told = await known
        else:  # the turns that it waited for may have changed it
            told = await self._composer.known(ask, now)
        composed = await self._composer.compose(ask, draft, told, local)
        for limit in composed.history.outgrown:
            self._metrics.outgrown(limit)
        running.pass_the_bar()
        finish = await self._speaker.speak(ask, composed.prompt, local, draft, running.emit)
        draft.marks["spoken"] = time.monotonic()
        receipt = write_receipt(
            ask,
            composed,
            draft,
            finish,
            calls=self._ledger.told(draft.bill),
            embedding_model=self._embedding_model,
            flagged=await self._flagged(ask, composed, draft),
        )
        self._endings.note_use(ask, draft.memories, now)
        await self._endings.store(draft, "complete", receipt, None)
        first = running.first_token if ask.is_streamed else None
        self._metrics.turn_took(draft.milliseconds(), first)
        self._metrics.used("memory", [memory.score for memory in draft.memories])
        self._metrics.used("documents", [passage.score for passage in draft.passages])
        return Answer(
            session_id=ask.session_id,
            message_id=draft.turn.reply.id,
            reply=draft.text,
            memories=tuple(draft.memories),
            passages=tuple(draft.passages),
            receipt=receipt,
        )

    async def _flagged(self, ask: Ask, composed: Composed, draft: Draft) -> Sequence[Flagged]:
        """Return what in the prompt reads like instructions, and count it."""
        told = of_told(composed.prompt.says[1:-1]) if ask.told is not None else []
        before = [
            one
            for say in composed.prompt.says[:-1]
            if say.role == "tool"
            for one in of_result(say.call_id, say.content, (), ())
        ]
        shown = [*composed.prompt.shown, *told, *before, *draft.results]
        is_quick = sum(len(one.text) for one in shown) <= FLAGGED_INLINE_CHARS
        found = flagged(shown) if is_quick else await asyncio.to_thread(flagged, shown)
        for one in found:
            self._metrics.flagged(one.kind)
        return found

    @asynccontextmanager
    async def _lease(self, turn: Turn) -> AsyncIterator[None]:
        """Keep other runs off this reply for as long as we are at it."""
        keepers: list[asyncio.Task[None]] = []

        def keep() -> None:
            keepers.append(asyncio.create_task(self._keep(turn), name="lease of a turn"))

        # Most turns are over before: a timer costs them less than a task.
        late = asyncio.get_running_loop().call_later(self._renew_seconds, keep)
        try:
            yield
        finally:
            late.cancel()
            for keeper in keepers:
                keeper.cancel()

    async def _keep(self, turn: Turn) -> None:
        while True:
            try:
                if not await self._sessions.renew(turn):
                    return  # ended, deleted or taken over: storing will find out
            except AppError as error:
                log.warning("could not renew the lease of a turn: %s", error.message)
            await asyncio.sleep(self._renew_seconds)


def _whose(ask: Ask) -> tuple[str, str]:
    return ask.tenant_id, ask.user_id


def _named(ask: Ask) -> str:
    """Return the session as the name of a task may hold it, which is logged."""
    return as_logged(ask.tenant_id, ask.session_id)
