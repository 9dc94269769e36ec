"""A chat model that calls tools, through LangChain's `create_agent`. Touches: the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from app.llm.base import Say
from app.llm.chat import LangChainChat
from app.llm.tools import Acted, AgentLimits, ToolSpec


class LangChainAgent:
    """An `AgentModel` over a chat model: its deadline, retries and errors hold for each call."""

    def __init__(self, chat: LangChainChat) -> None:
        self.name = chat.name
        self._chat = chat

    async def run(
        self, prompt: Sequence[Say], tools: Sequence[ToolSpec], limits: AgentLimits
    ) -> AsyncGenerator[Acted, None]:
        """Yield what happens, and last a `Finish`. See `AgentModel.run`."""
        await self._chat.warm()
        loop = await asyncio.to_thread(_imported)  # takes two seconds the first time
        async with aclosing(loop(self._chat, prompt, tools, limits)) as happened:
            async for event in happened:
                yield event


def _imported() -> Callable[..., AsyncGenerator[Acted, None]]:
    from app.llm.agent_loop import act

    return act
