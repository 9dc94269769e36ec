"""The loop of an agent: LangChain's graph, with our calls of the model and of the tools in it.

Touches: the network. Its own module, because defining the middleware imports LangChain.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import StructuredTool

from app.errors import ToolUseFailed
from app.llm.base import Finish, Say, Token, ToolCall, Usage
from app.llm.blocks import block, defuse
from app.llm.chat import LangChainChat, Spoken
from app.llm.messages import langchain_messages
from app.llm.tokens import FRAME_TOKENS, MESSAGE_TOKENS
from app.llm.tools import Acted, AgentLimits, ModelCalled, ToolAnswer, ToolCalled, ToolSpec
from app.tracing import span

MOST_CALLS = 32  # of one answer that are done
SMALLEST_REPLY_TOKENS = 64
NO_ROOM = "I had to stop before I could answer: this turn has used up what it may take."
TOO_MANY = f"Not called: {MOST_CALLS} tools may be called at once."
NO_MORE_TOOLS = "No tool can be called any more. Answer the question now from what is here."

_ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


async def act(
    chat: LangChainChat,
    prompt: Sequence[Say],
    tools: Sequence[ToolSpec],
    limits: AgentLimits,
) -> AsyncGenerator[Acted, None]:
    """Run the graph. See `AgentModel.run`."""
    model = await chat.loaded()
    loop = _Loop(chat, tools, limits)
    graph = create_agent(model, [_declared(tool) for tool in tools], middleware=[loop])
    events = cast(
        "AsyncGenerator[Acted, None]",
        graph.astream(
            {"messages": cast("Any", langchain_messages(prompt))},
            {"recursion_limit": 2 * limits.steps + 10},
            stream_mode="custom",
        ),
    )
    async with aclosing(events):
        async for event in events:
            yield event
    yield Finish(loop.reason, loop.usage, chat.name)


class _Loop(AgentMiddleware):
    """Does the calls of the graph's two nodes, bounded, and writes down what happens."""

    def __init__(self, chat: LangChainChat, tools: Sequence[ToolSpec], limits: AgentLimits) -> None:
        super().__init__()
        self._chat = chat
        self._specs = {tool.name: tool for tool in tools}
        self._described = [_described(tool) for tool in tools]
        self._described_tokens = limits.count(json.dumps(self._described))
        self._limits = limits
        self._calls = 0
        self._unreadable: set[str] = set()
        self._surplus: set[str] = set()
        self.usage = Usage(0, 0)
        self.reason = ""

    async def awrap_model_call(self, request: Any, handler: Any) -> AIMessage:
        """Call the model: with the tools while there is room for it, then once without them."""
        write = request.runtime.stream_writer
        prompt = [_said(message) for message in request.messages]
        self._calls += 1
        # In a thread: a long prompt takes some milliseconds to count.
        if await asyncio.to_thread(self._may_call_tools, prompt):
            spoken, tokens = await self._asked(prompt)
            if spoken is not None:
                self._pay(spoken, write)
                self._unreadable |= spoken.unreadable
                self._surplus |= {call.id for call in spoken.calls[MOST_CALLS:]}
                if not spoken.calls:
                    self.reason = spoken.reason
                    for token in tokens:
                        write(token)
                return _message(spoken)
        return await self._last_words(prompt, write)

    async def awrap_tool_call(self, request: Any, handler: Any) -> ToolMessage:
        """Call a tool; whatever is wrong with the call is told to the model."""
        asked = request.tool_call
        spec = self._specs.get(asked["name"])
        if spec is None:
            answer = ToolAnswer(
                defuse(f"There is no tool {asked['name'][:80]!r}: there are {self._names()}."),
                kept="There is no such tool.",  # a later turn is not to read names from it
                is_error=True,
            )
        elif asked["id"] in self._surplus:
            answer = ToolAnswer(TOO_MANY, is_error=True, is_refused=True)
        elif asked["id"] in self._unreadable:
            answer = ToolAnswer("The arguments must be one JSON object.", is_error=True)
        else:
            about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": asked["name"]}
            with span(f"execute_tool {asked['name']}", about):
                answer = await spec.call(asked["args"])
        request.runtime.stream_writer(ToolCalled(asked["id"], asked["name"], asked["args"], answer))
        return ToolMessage(
            content=answer.text, tool_call_id=asked["id"], name=asked["name"] or "unknown"
        )

    def _names(self) -> str:
        return ", ".join(self._specs)

    def _may_call_tools(self, prompt: Sequence[Say]) -> bool:
        asked = self._tokens(prompt) + self._described_tokens
        return (
            bool(self._specs)
            and self._calls < self._limits.steps
            and asked + self._limits.reply_tokens <= min(self._left, self._limits.context_tokens)
        )

    @property
    def _left(self) -> int:
        return self._limits.tokens - self.usage.input_tokens - self.usage.output_tokens

    async def _asked(self, prompt: Sequence[Say]) -> tuple[Spoken | None, list[Token]]:
        """Return an answer with its tokens; None if the model twice failed to call a tool.

        The tokens are held back: only its end tells an answer from words before a call.
        """
        for _ in range(2):
            tokens: list[Token] = []
            try:
                async with aclosing(
                    self._chat.speak(
                        prompt, max_tokens=self._limits.reply_tokens, tools=self._described
                    )
                ) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Spoken):
                            return piece, tokens
                        tokens.append(piece)
            except ToolUseFailed:
                continue
        return None, []

    async def _last_words(self, prompt: Sequence[Say], write: Any) -> AIMessage:
        """Have the model answer without tools, as it comes, or say that there is no room for it."""
        room = self._limits.context_tokens
        if self._calls > 1:  # the question itself may always be asked
            room = min(room, self._left)
        flat, asked = await asyncio.to_thread(
            self._without_calls, prompt, room - self._limits.reply_tokens
        )
        left = room - asked
        if self._calls > 1 and left < SMALLEST_REPLY_TOKENS:
            self.reason = "length"
            write(Token(NO_ROOM))
            return AIMessage(content=NO_ROOM)
        most = max(SMALLEST_REPLY_TOKENS, min(self._limits.reply_tokens, left))
        async with aclosing(self._chat.speak(flat, max_tokens=most)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Token):
                    write(piece)
                    continue
                self._pay(piece, write)
                self.reason = piece.reason
                if not piece.text.strip():  # it called a tool all the same
                    self.reason = "length"
                    write(Token(NO_ROOM))
        return AIMessage(content="")

    def _without_calls(self, prompt: Sequence[Say], most_tokens: int) -> tuple[list[Say], int]:
        """Return a prompt as for a model that knows no tools, and its tokens.

        What they told stands before the question; the oldest is left out where all of it together
        is too long.
        """
        flat = [
            Say(say.role, say.content)
            for say in prompt
            if say.role != "tool" and (say.content or not say.calls)
        ]
        left = most_tokens - self._tokens(flat) - self._limits.count(NO_MORE_TOOLS)
        results: list[str] = []
        asked = max((n for n, say in enumerate(prompt) if say.role == "user"), default=-1)
        for n, say in reversed(list(enumerate(prompt))):
            if say.role != "tool":
                continue
            # What clients tell of their own tools is in no block yet.
            told = say.content if n > asked else block("tool_result", say.content)
            if (left := left - self._limits.count(told)) >= 0:
                results.insert(0, told)
        at = max((n for n, say in enumerate(flat) if say.role == "user"), default=None)
        if results and at is not None:
            flat[at] = Say("user", "\n".join([*results, NO_MORE_TOOLS, flat[at].content]))
        return flat, self._tokens(flat)

    def _tokens(self, prompt: Sequence[Say]) -> int:
        calls = [call.text for say in prompt for call in say.calls]
        texts = [*(say.content for say in prompt), *calls]
        return FRAME_TOKENS + sum(self._limits.count(text) + MESSAGE_TOKENS for text in texts)

    def _pay(self, spoken: Spoken, write: Any) -> None:
        known, more = self.usage, spoken.usage
        self.usage = Usage(
            known.input_tokens + more.input_tokens,
            known.output_tokens + more.output_tokens,
            known.counted and more.counted,
        )
        write(ModelCalled(self._chat.name, more))


def _described(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _declared(tool: ToolSpec) -> StructuredTool:
    async def called(**_: Any) -> str:
        raise AssertionError("the loop calls the tools")

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=dict(tool.parameters),
        coroutine=called,
    )


def _said(message: BaseMessage) -> Say:
    calls = tuple(
        ToolCall(call["id"] or "", call["name"], call["args"])
        for call in getattr(message, "tool_calls", [])
    )
    role = cast("Any", _ROLES[message.type])
    return Say(role, str(message.text), calls, getattr(message, "tool_call_id", ""))


def _message(spoken: Spoken) -> AIMessage:
    calls = [{"name": c.name, "args": dict(c.arguments), "id": c.id} for c in spoken.calls]
    return AIMessage(content=spoken.text, tool_calls=calls)
