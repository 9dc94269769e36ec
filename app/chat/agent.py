"""A turn in which the model calls tools. Touches: memory, knowledge, the model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.chat.ask import Ask
from app.chat.by_words import Degraded
from app.chat.flagging import Shown, of_result
from app.chat.running import Step
from app.chat.tools import WRITES, Parts, Toolbox
from app.knowledge.search import Passage
from app.llm.base import Finish, Say, Token
from app.llm.blocks import block
from app.llm.tokens import estimate_tokens
from app.llm.tools import AgentLimits, AgentModel, ModelCalled, ToolCalled
from app.memory.recall import Memory
from app.sessions.base import Turn
from app.usage import Bill

RESULT_TOKENS = 1_500
OWN_TOOLS_TOKENS = 1_600  # how our tools are described to the model
RESULTS = 3  # that have room beside a prompt of full length
SHOWN_CHARS = 8_000  # of a step, to whoever reads the turn as it comes
LEFT_OUT = "…"
KEPT_ARGUMENTS = frozenset({"fact_id", "label"})


class AgentRun:
    """One agent turn; `memories` and `passages` are what its tools have found so far.

    results: what the tools have told the model.
    """

    def __init__(
        self,
        model: AgentModel,
        toolbox: Toolbox,
        says: Sequence[Say],
        limits: AgentLimits,
        bill: Bill,
    ) -> None:
        self._model = model
        self._toolbox = toolbox
        self._says = says
        self._limits = limits
        self._bill = bill
        self.memories: list[Memory] = toolbox.searches.memories
        self.passages: list[Passage] = toolbox.searches.passages
        self.degraded: list[Degraded] = toolbox.searches.degraded
        self.steps: list[Step] = []
        self.results: list[Shown] = []

    async def speak(self) -> AsyncGenerator[Token | Step | Finish, None]:
        """Yield the steps and the reply as they come, then exactly one `Finish`.

        Its usage is that of all calls together; each call stands on the bill too.
        """
        happened = self._model.run(self._says, self._toolbox.specs(), self._limits)
        self._bill.begin()
        try:
            async with aclosing(happened):
                async for event in happened:
                    match event:
                        case ModelCalled(model, usage):
                            self._bill.add(
                                "agent",
                                model,
                                usage.input_tokens,
                                usage.output_tokens,
                                usage.counted,
                            )
                        case ToolCalled():
                            self._bill.begin()  # it is asked again once the last tool has answered
                            yield self._step(event)
                        case _:
                            yield event
        except BaseException as error:  # what was asked until then has to be paid, too
            asked = sum(estimate_tokens(say.content) for say in self._says)
            self._bill.add_broken("agent", self._model.name, error, input_tokens=asked)
            raise

    def _step(self, called: ToolCalled) -> Step:
        """Note a step as it may be stored, and return it as it may be shown."""
        answer = called.answer
        if called.name not in WRITES:  # what these tell is ours
            self.results += of_result(called.id, answer.text, self.memories, self.passages)
        step = Step(
            called.id,
            called.name,
            called.arguments,
            answer.text[:SHOWN_CHARS],
            answer.is_error,
            answer.is_refused,
        )
        arguments = _kept(called.arguments) if called.name in WRITES else called.arguments
        kept = answer.text if answer.kept is None else answer.kept
        self.steps.append(replace(step, arguments=arguments, result=kept))
        return step


class Agent:
    """Runs agent turns. limits: those of a turn."""

    def __init__(self, model: AgentModel, parts: Parts, limits: AgentLimits) -> None:
        self._model = model
        self._parts = parts
        self._limits = limits
        self._result_tokens = min(RESULT_TOKENS, limits.context_tokens // 8)

    @property
    def prompt_tokens(self) -> int:
        """The part of the model's window that a prompt may take: the tools need the rest."""
        whole = self._limits.context_tokens
        described = sum(
            self._limits.count(f"{tool.description}{json.dumps(dict(tool.parameters))}")
            for tool in self._parts.operator_tools
        )
        room = RESULTS * self._result_tokens + OWN_TOOLS_TOKENS + described
        return max(whole // 2, whole - room)

    def run(self, ask: Ask, turn: Turn, says: Sequence[Say], now: datetime, bill: Bill) -> AgentRun:
        """Begin a run for a prompt. now: in the user's time zone."""
        toolbox = Toolbox(
            self._parts,
            ask,
            turn,
            now,
            shown=_shown(ask, says),
            result_tokens=self._result_tokens,
        )
        most = min(self._limits.reply_tokens, ask.reply_tokens or self._limits.reply_tokens)
        return AgentRun(self._model, toolbox, says, replace(self._limits, reply_tokens=most), bill)


def _shown(ask: Ask, says: Sequence[Say]) -> str:
    """Return what a prompt shows that the user did not write now: memories, results of tools."""
    results = [say.content for say in says if say.role == "tool"]
    last = says[-1].content.removesuffix(block("question", ask.text)) if says else ""
    return "\n".join([*results, last])


def _kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be stored of the arguments of a write: what is forgotten is gone from here.

    The texts are the user's, and stand in their message.
    """
    return {
        name: value if name in KEPT_ARGUMENTS or not isinstance(value, str) else LEFT_OUT
        for name, value in arguments.items()
    }
