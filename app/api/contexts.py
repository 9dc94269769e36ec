"""What a model would see of a session, as a reader of it is told. Touches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from itertools import zip_longest
from typing import Any, Literal

from pydantic import BaseModel

from app.chat.ask import Strategy
from app.chat.history import History


class SeenOut(BaseModel):
    """A message of the prompt. `seq`: of the stored message that it belongs to.

    calls: the tools that an agent called there; each is followed by its result, of the role `tool`.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    seq: int | None
    calls: list[Mapping[str, Any]] = []


class Context(BaseModel):
    """What the model would see of the session at the next question, by the default strategy.

    The prompt's budget is not counted in: a long question, and what is found for it, may leave room
    for fewer of the messages; and of tools and their results only agents are told. `left_out`:
    earlier messages that are not shown; `outgrown`: the limits that the session is beyond;
    `tokens`: of summary and messages, by estimate.
    """

    strategy: Strategy
    summary: str | None
    messages: list[SeenOut]
    left_out: int
    outgrown: list[str]
    tokens: int


async def context_of(history: History) -> Context:
    return Context(
        strategy=history.strategy,
        summary=history.summary or None,
        messages=[
            SeenOut(
                role=say.role, content=say.content, seq=seq, calls=[asdict(c) for c in say.calls]
            )
            for unit, seq in zip_longest(history.units, history.seqs)
            for say in unit
        ],
        left_out=history.left_out,
        outgrown=list(history.outgrown),
        tokens=await asyncio.to_thread(history.tokens),
    )
