"""A prompt becomes a reply, by the model alone or by an agent. Touches: the model, `agent`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from app.chat.agent import Agent
from app.chat.ask import Ask
from app.chat.draft import Draft
from app.chat.prompt import Prompt
from app.chat.running import Step
from app.errors import UpstreamInvalid
from app.llm.base import ChatModel, Finish, Token
from app.llm.tokens import estimate_tokens

Emit = Callable[[Token | Step], None]


class Speaker:
    """Speaks replies. reply_tokens: the most that one may take."""

    def __init__(self, model: ChatModel, agent: Agent, *, reply_tokens: int) -> None:
        self._model = model
        self._agent = agent
        self._reply_tokens = reply_tokens

    async def speak(
        self, ask: Ask, prompt: Prompt, now: datetime, draft: Draft, emit: Emit
    ) -> Finish:
        """Note the reply, and what it costs, in the draft; emit it as it comes if that is wanted.

        A reply that nobody reads as it comes is asked for whole: reading a stream takes a model's
        client far longer, and what broke off in the middle can be asked for again.
        Raises `UpstreamError` of the model.
        """
        if ask.mode == "agent":
            return await self._act(ask, prompt, now, draft, emit)
        most = min(self._reply_tokens, ask.reply_tokens or self._reply_tokens)
        draft.bill.begin()
        try:
            if ask.is_streamed:
                finish = await self._stream(prompt, most, draft, emit)
            else:
                finish = await self._whole(prompt, most, draft)
        except BaseException as error:  # what it said until then has to be paid, too
            said = draft.text or (error.said if isinstance(error, UpstreamInvalid) else "")
            draft.bill.add_broken(
                "chat",
                self._model.name,
                error,
                input_tokens=sum(prompt.tokens.values()),
                output_tokens=estimate_tokens(said),
            )
            raise
        usage = finish.usage
        draft.bill.add("chat", finish.model, usage.input_tokens, usage.output_tokens, usage.counted)
        return finish

    async def _whole(self, prompt: Prompt, most: int, draft: Draft) -> Finish:
        whole = await self._model.complete(prompt.says, max_tokens=most)
        draft.text = whole.text
        return Finish(whole.reason, whole.usage, whole.model)

    async def _stream(self, prompt: Prompt, most: int, draft: Draft, emit: Emit) -> Finish:
        finish: Finish | None = None
        async for piece in self._model.stream(prompt.says, max_tokens=most):
            if isinstance(piece, Finish):
                finish = piece
            else:
                draft.text += piece.text
                emit(piece)
        if finish is None:
            raise AssertionError("a model's stream ends with a Finish")
        return finish

    async def _act(
        self, ask: Ask, prompt: Prompt, now: datetime, draft: Draft, emit: Emit
    ) -> Finish:
        """Let the agent call its tools; what they found is what the reply was made from."""
        run = self._agent.run(ask, draft.turn, prompt.says, now, draft.bill)
        draft.steps, draft.memories, draft.passages = run.steps, run.memories, run.passages
        draft.results, draft.degraded = run.results, run.degraded
        finish: Finish | None = None
        async for piece in run.speak():
            if isinstance(piece, Finish):
                finish = piece
                continue
            if isinstance(piece, Token):
                draft.text += piece.text
            emit(piece)
        if finish is None:
            raise AssertionError("an agent's run ends with a Finish")
        return finish
