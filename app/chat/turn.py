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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from app.background import Background
from app.chat import instructions
from app.chat.agent import Agent
from app.chat.ask import Ask, Mode
from app.chat.budget import Budget
from app.chat.history import Histories
from app.chat.prompt import Prompt, build_prompt
from app.chat.receipt import write_receipt
from app.chat.repeat import Repeats
from app.chat.retrieve import Retrieved, Retriever
from app.chat.running import Answer, Running, Step
from app.chat.turnstile import Turnstile
from app.chat.understand import Understanding, Understood
from app.chat.window import check_size
from app.errors import AppError, BudgetSpent, Conflict, SessionBusy
from app.knowledge.search import DocumentSearch, Passage
from app.llm.base import ChatModel, Finish, Token
from app.llm.tokens import estimate_tokens
from app.memory.episodes import Episodes
from app.memory.recall import Memory, Recall
from app.memory.use import Use
from app.metrics import Metrics
from app.sessions.base import NewTurn, SessionStore, Status, Turn
from app.text.zones import zone_or_utc
from app.usage import Bill, Ledger

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.2


@dataclass(slots=True)
class _Draft:
    """What a run has so far, so that an interruption can store it."""

    turn: Turn
    bill: Bill
    mode: Mode
    route: str = "none"
    text: str = ""
    steps: list[Step] = field(default_factory=list)
    memories: Sequence[Memory] = ()
    passages: Sequence[Passage] = ()
    marks: dict[str, float] = field(default_factory=dict)

    def milliseconds(self) -> dict[str, float]:
        """Return how long the turn waited, read its question, retrieved and spoke."""
        start, waited, understood, retrieved, spoken = self.marks.values()
        steps = {
            "waiting": waited - start,
            "understanding": understood - waited,
            "retrieval": retrieved - understood,
            "model": spoken - retrieved,
        }
        return {step: round(seconds * 1000, 1) for step, seconds in steps.items()}


class Turns:
    """Runs turns.

    timezone: an IANA name, for users whose session names none.
    renew_seconds: a fraction of the store's lease on a reply.
    """

    def __init__(
        self,
        *,
        sessions: SessionStore,
        episodes: Episodes,
        recall: Recall,
        documents: DocumentSearch,
        histories: Histories,
        understanding: Understanding,
        retriever: Retriever,
        agent: Agent,
        use: Use,
        ledger: Ledger,
        metrics: Metrics,
        model: ChatModel,
        embedding_model: str,
        background: Background,
        budget: Budget,
        timezone: str,
        wait_seconds: float,
        renew_seconds: float,
        clock: Callable[[], datetime],
        wake_worker: Callable[[], None],
    ) -> None:
        self._sessions = sessions
        self._episodes = episodes
        self._repeats = Repeats(recall, documents)
        self._histories = histories
        self._understanding = understanding
        self._retriever = retriever
        self._agent = agent
        self._use = use
        self._ledger = ledger
        self._metrics = metrics
        self._model = model
        self._embedding_model = embedding_model
        self._background = background
        self._budget = budget
        self._agent_budget = replace(budget, context_tokens=agent.prompt_tokens)
        self._timezone = timezone
        self._wait_seconds = wait_seconds
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._wake_worker = wake_worker
        self._turnstile = Turnstile(sessions, wait_seconds=wait_seconds)

    async def start(self, ask: Ask) -> Running:
        """Start a turn and return once it is about to speak; its message is stored by then.

        Raises what the turn fails with before that: `NotFound`, `Conflict`, `PromptTooLarge`,
        `SessionBusy`, `BudgetSpent`, `StorageUnavailable`, `UpstreamError` of the embedder or the
        index.
        """
        await asyncio.to_thread(
            check_size, ask.text, self._budget, ask.instructions, instructions.of(ask.mode)
        )
        await self._check_budget(ask)
        running = Running(ask.session_id)
        self._background.spawn(f"turn of session {ask.session_id}", self._run(ask, running))
        await running.prepared()
        return running

    async def _check_budget(self, ask: Ask) -> None:
        """Raise `BudgetSpent`, but for a repeat of what was answered: that costs nothing."""
        try:
            await self._ledger.check(ask.tenant_id, self._clock())
        except BudgetSpent:
            named = ask.client_message_id
            here = ask.tenant_id, ask.session_id
            if named is None or not await self._sessions.is_answered(*here, named):
                raise

    async def _run(self, ask: Ask, running: Running) -> None:
        try:
            turn = await self._begin(ask)
            if turn.mine:
                await self._answer(ask, turn, running)
            else:
                answer = await self._repeats.answer(turn)
                running.pass_the_bar()
                running.emit(Token(answer.reply))
                running.emit(answer)
        except AppError as error:
            running.fail(error)
        except asyncio.CancelledError:
            running.fail(AppError("the service is shutting down"))
            raise
        except Exception:
            log.exception("a turn failed in a way that nobody foresaw")
            running.fail(AppError("something went wrong on our side"))

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
        )
        patience = time.monotonic() + self._wait_seconds
        while True:
            turn = await self._sessions.begin_turn(new, now=self._clock())
            if turn.mine or turn.reply.status == "complete":
                return turn
            if time.monotonic() > patience:
                raise SessionBusy("this message is still being answered", retry_after=5)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _answer(self, ask: Ask, turn: Turn, running: Running) -> None:
        bill = Bill(ask.tenant_id, ask.user_id)
        draft = _Draft(turn, bill, ask.mode, marks={"start": time.monotonic()})
        async with self._lease(turn):
            try:
                async with self._turnstile.my_turn(turn):
                    answer = await self._steps(ask, draft, running)
            except AppError as error:
                await self._store(draft, "failed", None, error)
                raise
            except asyncio.CancelledError:
                stopped = AppError("the service was stopped")
                await asyncio.shield(self._store(draft, "interrupted", None, stopped))
                raise
            except Exception:
                draft.text = ""  # it may be what could not be stored
                await self._store(draft, "failed", None, AppError("internal error"))
                raise
        running.emit(answer)

    async def _steps(self, ask: Ask, draft: _Draft, running: Running) -> Answer:
        """Understand, retrieve, build the prompt, speak, store: the turn from its own moment on."""
        draft.marks["waited"] = time.monotonic()
        now = self._clock()
        local = now.astimezone(zone_or_utc(draft.turn.session.timezone or self._timezone))
        history, known = await asyncio.gather(
            self._histories.before(draft.turn, ask), self._retriever.known(ask, now)
        )
        for limit in history.outgrown:
            self._metrics.outgrown(limit)
        is_agent = ask.mode == "agent"  # it looks for what it needs by itself
        understood, retrieved = Understood(ask.text, "hybrid", "agent"), Retrieved()
        if not is_agent:
            said = [say for unit in history.units for say in unit]
            understood = await self._understanding.of(
                ask, said, known.profile, local, draft.bill, summary=history.summary
            )
        draft.route = understood.route
        draft.marks["understood"] = time.monotonic()
        if not is_agent:
            retrieved = await self._retriever.search(ask, understood)
        draft.marks["retrieved"] = time.monotonic()
        build = partial(
            build_prompt,
            ask.text,
            asked=understood.question if understood.is_rewritten else None,
            now=local,
            template=instructions.of(ask.mode),
            instructions=ask.instructions,
            profile=known.profile,
            blocks=known.blocks,
            history=history.units,
            memories=() if retrieved.recalled is None else retrieved.recalled.memories,
            passages=() if retrieved.found is None else retrieved.found.passages,
            budget=self._agent_budget if is_agent else self._budget,
            keeps_calls=is_agent,
        )
        # In a thread: counting takes several passes, of some milliseconds each.
        prompt = await asyncio.to_thread(build, summary=history.summary)
        if prompt.dropped["history"] and not history.summary:
            history = await self._histories.with_summary(draft.turn.session, history)
            if history.summary:
                prompt = await asyncio.to_thread(build, summary=history.summary)
        draft.memories, draft.passages = prompt.memories, prompt.passages
        running.pass_the_bar()
        finish = await self._speak(ask, prompt, local, draft, running)
        draft.marks["spoken"] = time.monotonic()
        receipt = write_receipt(
            ask,
            understood,
            history,
            retrieved,
            prompt,
            finish,
            memories=draft.memories,
            passages=draft.passages,
            steps=draft.steps,
            calls=self._ledger.told(draft.bill),
            embedding_model=self._embedding_model,
            milliseconds=draft.milliseconds(),
        )
        await self._store(draft, "complete", receipt, None)
        self._note_use(ask, draft.memories, now)
        return Answer(
            session_id=ask.session_id,
            message_id=draft.turn.reply.id,
            reply=draft.text,
            memories=tuple(draft.memories),
            passages=tuple(draft.passages),
            receipt=receipt,
        )

    def _note_use(self, ask: Ask, used: Sequence[Memory], now: datetime) -> None:
        """Have it noted what was of use, in the background.

        The profile is left out: it stands in every prompt, whatever is asked.
        """
        sessions = [memory.session_id for memory in used if memory.session_id]
        facts = [fact.fact_id for memory in used for fact in memory.facts]
        if sessions or facts:
            self._background.spawn(
                f"use of the memories in session {ask.session_id}",
                self._use.record(ask.tenant_id, sessions, facts, now),
            )

    async def _speak(
        self, ask: Ask, prompt: Prompt, now: datetime, draft: _Draft, running: Running
    ) -> Finish:
        if ask.mode == "agent":
            return await self._act(ask, prompt, now, draft, running)
        finish: Finish | None = None
        most = min(self._budget.reply_tokens, ask.reply_tokens or self._budget.reply_tokens)
        try:
            async for piece in self._model.stream(prompt.says, max_tokens=most):
                if isinstance(piece, Finish):
                    finish = piece
                else:
                    draft.text += piece.text
                    running.emit(piece)
        except BaseException as error:  # what it said until then has to be paid, too
            asked, said = sum(prompt.tokens.values()), estimate_tokens(draft.text)
            draft.bill.add_broken(
                "chat", self._model.name, error, input_tokens=asked, output_tokens=said
            )
            raise
        if finish is None:
            raise AssertionError("a model's stream ends with a Finish")
        usage = finish.usage
        draft.bill.add("chat", finish.model, usage.input_tokens, usage.output_tokens, usage.counted)
        return finish

    async def _act(
        self, ask: Ask, prompt: Prompt, now: datetime, draft: _Draft, running: Running
    ) -> Finish:
        """Let the agent call its tools; what they found is what the reply was made from."""
        run = self._agent.run(ask, draft.turn, prompt.says, now, draft.bill)
        draft.steps, draft.memories, draft.passages = run.steps, run.memories, run.passages
        finish: Finish | None = None
        async for piece in run.speak():
            if isinstance(piece, Finish):
                finish = piece
                continue
            if isinstance(piece, Token):
                draft.text += piece.text
            running.emit(piece)
        if finish is None:
            raise AssertionError("an agent's run ends with a Finish")
        return finish

    async def _store(
        self,
        draft: _Draft,
        status: Status,
        receipt: Mapping[str, Any] | None,
        error: AppError | None,
    ) -> None:
        """Store the reply, and ask for a checkpoint if one is due."""
        told = None if error is None else {"code": error.code, "message": error.message}
        try:
            session = await self._sessions.end_turn(
                draft.turn,
                status=status,
                content=draft.text,
                receipt=receipt,
                error=told,
                steps=[asdict(step) for step in draft.steps] or None,
                now=self._clock(),
            )
        finally:
            await self._ledger.record(draft.bill, self._clock())
        self._metrics.turn(mode=draft.mode, route=draft.route, status=status)
        if session is None:
            if status == "complete":
                raise Conflict("the session was deleted, or its turn was taken over meanwhile")
            return
        try:
            if await self._episodes.after_turn(session, draft.turn.reply.seq):
                self._wake_worker()
        except AppError as failure:  # the reply is stored; the next turn or the monitor asks again
            log.warning("could not ask for a checkpoint: %s", failure.message)

    @asynccontextmanager
    async def _lease(self, turn: Turn) -> AsyncIterator[None]:
        """Keep other runs off this reply for as long as we are at it."""
        keeper = asyncio.create_task(self._keep(turn), name="lease of a turn")
        try:
            yield
        finally:
            keeper.cancel()

    async def _keep(self, turn: Turn) -> None:
        while True:
            await asyncio.sleep(self._renew_seconds)
            try:
                if not await self._sessions.renew(turn):
                    return  # ended, deleted or taken over: storing will find out
            except AppError as error:
                log.warning("could not renew the lease of a turn: %s", error.message)
