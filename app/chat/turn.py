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
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.background import Background
from app.chat.history import read_history
from app.chat.prompt import Budget, Prompt, build_prompt, check_size
from app.chat.retrieve import Retrieved, Retriever, Wanted
from app.chat.turnstile import Turnstile
from app.errors import AppError, Conflict, SessionBusy
from app.index.base import Filter
from app.knowledge.documents import Documents, Passage
from app.llm.base import ChatModel, Finish, Token
from app.memory.episodes import Episodes
from app.memory.recall import Memory, Recall
from app.sessions.base import MemoryMode, NewTurn, SessionStore, Status, Turn

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Ask:
    """What a caller asks, checked and entitled."""

    tenant_id: str
    user_id: str
    session_id: str
    text: str
    client_message_id: str | None = None
    memory: MemoryMode = "on"
    filters: Filter | None = None
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished turn, stored."""

    session_id: str
    message_id: str
    reply: str
    memories: tuple[Memory, ...]
    passages: tuple[Passage, ...]
    receipt: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a turn that failed after the bar."""

    error: AppError


Event = Token | Answer | Failed


class Running:
    """A turn that is under way; `events` ends with an `Answer` or a `Failed`."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def events(self) -> AsyncIterator[Event]:
        while True:
            event = await self._events.get()
            yield event
            if not isinstance(event, Token):
                return

    async def answer(self) -> Answer:
        """Return the finished turn. Raises the `AppError` that it failed with."""
        async for event in self.events():
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Answer):
                return event
        raise AssertionError("a turn ends with an Answer or a Failed")

    async def prepared(self) -> None:
        await asyncio.shield(self._prepared)

    def pass_the_bar(self) -> None:
        if not self._prepared.done():
            self._prepared.set_result(None)

    def emit(self, event: Event) -> None:
        self._events.put_nowait(event)

    def fail(self, error: AppError) -> None:
        if not self._prepared.done():
            self._prepared.set_exception(error)
            self._prepared.exception()  # the caller may have left: seen is not unseen
        self.emit(Failed(error))


@dataclass(slots=True)
class _Draft:
    """What a run has so far, so that an interruption can store it."""

    turn: Turn
    text: str = ""
    marks: dict[str, float] = field(default_factory=dict)


class Turns:
    """Runs turns. `renew_seconds` is a fraction of the store's lease on a reply."""

    def __init__(
        self,
        *,
        sessions: SessionStore,
        episodes: Episodes,
        recall: Recall,
        documents: Documents,
        retriever: Retriever,
        model: ChatModel,
        embedding_model: str,
        background: Background,
        budget: Budget,
        wait_seconds: float,
        renew_seconds: float,
        clock: Callable[[], datetime],
        wake_worker: Callable[[], None],
    ) -> None:
        self._sessions = sessions
        self._episodes = episodes
        self._recall = recall
        self._documents = documents
        self._retriever = retriever
        self._model = model
        self._embedding_model = embedding_model
        self._background = background
        self._budget = budget
        self._wait_seconds = wait_seconds
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._wake_worker = wake_worker
        self._turnstile = Turnstile(sessions, wait_seconds=wait_seconds)

    async def start(self, ask: Ask) -> Running:
        """Start a turn and return once it is about to speak; its message is stored by then.

        Raises what the turn fails with before that: `NotFound`, `Conflict`, `PromptTooLarge`,
        `SessionBusy`, `StorageUnavailable`, `UpstreamError` of the embedder or the index.
        """
        check_size(ask.text, self._budget)
        running = Running(ask.session_id)
        self._background.spawn(f"turn of session {ask.session_id}", self._run(ask, running))
        await running.prepared()
        return running

    async def _run(self, ask: Ask, running: Running) -> None:
        holder = uuid.uuid4().hex
        try:
            turn = await self._begin(ask, holder)
            if turn.mine:
                await self._answer(ask, turn, holder, running)
            else:
                await self._repeat(turn, running)
        except AppError as error:
            running.fail(error)
        except asyncio.CancelledError:
            running.fail(AppError("the service is shutting down"))
            raise
        except Exception:
            log.exception("a turn failed in a way that nobody foresaw")
            running.fail(AppError("something went wrong on our side"))

    async def _begin(self, ask: Ask, holder: str) -> Turn:
        """Store the message; for a repeat of one that is being answered, wait for its end."""
        new = NewTurn(
            ask.tenant_id,
            ask.session_id,
            ask.user_id,
            ask.text,
            ask.client_message_id,
            ask.memory,
            holder,
        )
        patience = time.monotonic() + self._wait_seconds
        while True:
            turn = await self._sessions.begin_turn(new, now=self._clock())
            if turn.mine or turn.reply.status == "complete":
                return turn
            if time.monotonic() > patience:
                raise SessionBusy("this message is still being answered", retry_after=5)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _answer(self, ask: Ask, turn: Turn, holder: str, running: Running) -> None:
        draft = _Draft(turn, marks={"start": time.monotonic()})
        async with self._lease(turn, holder):
            try:
                async with self._turnstile.my_turn(turn):
                    answer = await self._steps(ask, draft, holder, running)
            except AppError as error:
                await self._store(draft, holder, "failed", None, error)
                raise
            except asyncio.CancelledError:
                stopped = AppError("the service was stopped")
                await asyncio.shield(self._store(draft, holder, "interrupted", None, stopped))
                raise
            except Exception:
                await self._store(draft, holder, "failed", None, AppError("internal error"))
                raise
        running.emit(answer)

    async def _steps(self, ask: Ask, draft: _Draft, holder: str, running: Running) -> Answer:
        """Retrieve, build the prompt, speak, store: the turn from its own moment on."""
        draft.marks["waited"] = time.monotonic()
        wanted = Wanted(
            ask.tenant_id,
            ask.user_id,
            ask.session_id,
            ask.text,
            ask.memory,
            ask.filters,
            ask.top_k,
        )
        history, retrieved = await asyncio.gather(
            read_history(self._sessions, self._episodes, draft.turn),
            self._retriever.search(wanted),
        )
        draft.marks["retrieved"] = time.monotonic()
        prompt = build_prompt(
            ask.text,
            now=self._clock(),
            history=history.messages,
            summary=history.summary,
            memories=() if retrieved.recalled is None else retrieved.recalled.memories,
            passages=retrieved.found.passages,
            budget=self._budget,
        )
        running.pass_the_bar()
        finish = await self._speak(prompt, draft, running)
        draft.marks["spoken"] = time.monotonic()
        receipt = self._receipt(ask, draft, retrieved, prompt, finish)
        await self._store(draft, holder, "complete", receipt, None)
        return Answer(
            ask.session_id,
            draft.turn.reply.id,
            draft.text,
            prompt.memories,
            prompt.passages,
            receipt,
        )

    async def _speak(self, prompt: Prompt, draft: _Draft, running: Running) -> Finish:
        finish: Finish | None = None
        stream = self._model.stream(prompt.says, max_tokens=self._budget.reply_tokens)
        async for piece in stream:
            if isinstance(piece, Finish):
                finish = piece
            else:
                draft.text += piece.text
                running.emit(piece)
        if finish is None:
            raise AssertionError("a model's stream ends with a Finish")
        return finish

    async def _store(
        self,
        draft: _Draft,
        holder: str,
        status: Status,
        receipt: Mapping[str, Any] | None,
        error: AppError | None,
    ) -> None:
        """Store the reply, and ask for a checkpoint if one is due."""
        told = None if error is None else {"code": error.code, "message": error.message}
        session = await self._sessions.end_turn(
            draft.turn,
            holder,
            status=status,
            content=draft.text,
            receipt=receipt,
            error=told,
            now=self._clock(),
        )
        if session is None:
            if status == "complete":
                raise Conflict("the session was deleted, or its turn was taken over meanwhile")
            return
        if await self._episodes.after_turn(session, draft.turn.reply.seq):
            self._wake_worker()

    @asynccontextmanager
    async def _lease(self, turn: Turn, holder: str) -> AsyncIterator[None]:
        """Keep other runs off this reply for as long as we are at it."""
        keeper = asyncio.create_task(self._keep(turn, holder), name="lease of a turn")
        try:
            yield
        finally:
            keeper.cancel()

    async def _keep(self, turn: Turn, holder: str) -> None:
        while True:
            await asyncio.sleep(self._renew_seconds)
            try:
                if not await self._sessions.renew(turn, holder):
                    return  # ended, deleted or taken over: storing will find out
            except AppError as error:
                log.warning("could not renew the lease of a turn: %s", error.message)

    async def _repeat(self, turn: Turn, running: Running) -> None:
        """Give the stored answer again, with what is still there of its sources."""
        receipt = turn.reply.receipt or {}
        tenant_id, user_id = turn.session.tenant_id, turn.session.user_id
        used = receipt.get("memory", {}).get("used", [])
        passages = {d["id"]: d["score"] for d in receipt.get("documents", {}).get("used", [])}
        recalled = await self._recall.load(tenant_id, user_id, used, until=turn.reply.created_at)
        found = await self._documents.load(tenant_id, passages) if passages else []
        running.pass_the_bar()
        running.emit(Token(turn.reply.content))
        running.emit(
            Answer(
                turn.reply.session_id,
                turn.reply.id,
                turn.reply.content,
                tuple(sorted(recalled, key=lambda m: -m.score)),
                tuple(sorted(found, key=lambda p: -p.score)),
                {**receipt, "repeated": True},
            )
        )

    def _receipt(
        self, ask: Ask, draft: _Draft, retrieved: Retrieved, prompt: Prompt, finish: Finish
    ) -> dict[str, Any]:
        recalled, found, marks = retrieved.recalled, retrieved.found, draft.marks
        return {
            "question": ask.text,
            "route": "knowledge" if recalled is None else "hybrid",
            "memory": {
                "mode": ask.memory,
                "threshold": None if recalled is None else recalled.threshold,
                "best_below": None if recalled is None else recalled.best_below,
                "used": [
                    {
                        "id": memory.id,
                        "session_id": memory.session_id,
                        "memory_type": memory.memory_type,
                        "score": memory.score,
                    }
                    for memory in prompt.memories
                ],
                "dropped": prompt.dropped["memories"],
            },
            "documents": {
                "filters": ask.filters,
                "threshold": found.threshold,
                "best_below": found.best_below,
                "used": [
                    {"id": p.id, "source": p.metadata.get("source"), "score": p.score}
                    for p in prompt.passages
                ],
                "dropped": prompt.dropped["documents"],
            },
            "history": {
                "messages": len(prompt.says) - 2,
                "dropped": prompt.dropped["history"],
            },
            "tokens": {
                "input": finish.usage.input_tokens,
                "output": finish.usage.output_tokens,
                "counted": finish.usage.counted,
                "estimated_by_part": prompt.tokens,
            },
            "model": finish.model,
            "embedding_model": self._embedding_model,
            "finish_reason": finish.reason,
            "milliseconds": {
                "waiting": round((marks["waited"] - marks["start"]) * 1000, 1),
                "retrieval": round((marks["retrieved"] - marks["waited"]) * 1000, 1),
                "model": round((marks["spoken"] - marks["retrieved"]) * 1000, 1),
            },
        }
