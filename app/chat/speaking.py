"""A prompt becomes a reply, by the model alone or by an agent. Touches: the model, `agent`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from app.chat.agent import Agent
from app.chat.ask import Ask
from app.chat.draft import Draft
from app.chat.prompt import Prompt
from app.chat.running import Step
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
        """Emit the reply as it comes, and note it, and what it costs, in the draft.

        Raises `UpstreamError` of the model.
        """
        if ask.mode == "agent":
            return await self._act(ask, prompt, now, draft, emit)
        finish: Finish | None = None
        most = min(self._reply_tokens, ask.reply_tokens or self._reply_tokens)
        draft.bill.begin()
        try:
            async for piece in self._model.stream(prompt.says, max_tokens=most):
                if isinstance(piece, Finish):
                    finish = piece
                else:
                    draft.text += piece.text
                    emit(piece)
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
