"""What a client asks for itself: a title, tags, follow-ups. Touches: the small model, the ledger.

Nobody said it, so it is neither stored nor remembered, and nothing is looked up for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from app.chat.budget import LONGEST_TOKEN_CHARS
from app.errors import PromptTooLarge, UpstreamError
from app.llm.base import ChatModel, Completion, Say
from app.llm.tokens import MESSAGE_TOKENS, estimate_tokens
from app.usage import Bill, Ledger


class Asides:
    """Answers asides. context_tokens: the model's window; reply_tokens: the longest reply."""

    def __init__(
        self,
        model: ChatModel,
        ledger: Ledger,
        *,
        context_tokens: int,
        reply_tokens: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._model = model
        self._ledger = ledger
        self._context_tokens = context_tokens
        self._reply_tokens = reply_tokens
        self._clock = clock

    async def answer(
        self, tenant_id: str, user_id: str, says: Sequence[Say], reply_tokens: int | None = None
    ) -> Completion:
        """Return what the model says to the messages as they are.

        Raises `PromptTooLarge`, `BudgetSpent`, `UpstreamError`.
        """
        most = min(
            self._reply_tokens, reply_tokens or self._reply_tokens, self._context_tokens // 2
        )
        room = self._context_tokens - most
        length = sum(len(say.content) for say in says)
        if length > room * LONGEST_TOKEN_CHARS:  # not even counted: that takes a second
            raise PromptTooLarge(
                f"the messages have {length} characters, the model can take {room} tokens",
                param="messages",
            )
        cost = await asyncio.to_thread(_cost, says)
        if cost > room:
            raise PromptTooLarge(
                f"the messages have about {cost} tokens, the model can take {room}",
                param="messages",
            )
        await self._ledger.check(tenant_id, self._clock())
        bill = Bill(tenant_id, user_id, began=self._clock())
        bill.begin()
        try:
            said = await self._model.complete(says, max_tokens=most)
            usage = said.usage
            bill.add("aside", said.model, usage.input_tokens, usage.output_tokens, usage.counted)
        except UpstreamError as error:
            bill.add_broken("aside", self._model.name, error, input_tokens=cost)
            raise
        finally:
            await self._ledger.record(bill, self._clock())
        return said


def _cost(says: Sequence[Say]) -> int:
    return sum(estimate_tokens(say.content) + MESSAGE_TOKENS for say in says)
