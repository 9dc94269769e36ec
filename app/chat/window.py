"""What always stands in a prompt has to fit the model's window. Touches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from app.chat.budget import Budget
from app.chat.instructions import AGENT, CHAT
from app.errors import Misconfigured, PromptTooLarge
from app.llm.base import Say
from app.llm.blocks import block, defuse
from app.llm.tokens import MESSAGE_TOKENS

NOW_TOKENS = 24  # the date in the instructions
JOIN_TOKENS = 4  # a line between two blocks, and the tags around all blocks of a kind
SMALL_QUESTION_TOKENS = 100
BLOCK_CHARS_PER_TOKEN = 4  # of English


def check_window(budget: Budget, *, block_chars: int) -> None:
    """Raise `Misconfigured` for a window that can't hold what always stands in a prompt.

    block_chars: the most that one of the two blocks of core memory holds.
    """
    instructions = max(budget.count(CHAT), budget.count(AGENT))
    used = budget.context_tokens - budget.prompt_tokens + 2 * MESSAGE_TOKENS + NOW_TOKENS
    used += instructions + SMALL_QUESTION_TOKENS
    blocks = 2 * block_chars // BLOCK_CHARS_PER_TOKEN
    if used + blocks > budget.context_tokens:
        raise Misconfigured(
            f"CONTEXT_TOKENS={budget.context_tokens} is too small: the instructions, a small "
            f"question and REPLY_MAX_TOKENS={budget.reply_tokens} take {used} tokens, and two "
            f"blocks of BLOCK_MAX_CHARS={block_chars} about {blocks}. Set CONTEXT_TOKENS to "
            f"{used + blocks} at least, or the others lower.",
            param="CONTEXT_TOKENS",
        )


def check_size(
    question: str, budget: Budget, instructions: Sequence[str] = (), template: str = CHAT
) -> None:
    """Raise `PromptTooLarge` for a question that fits no prompt beside the instructions."""
    tokens_left(question, budget, instructions, template)


def tokens_of(say: Say, budget: Budget) -> int:
    """Return what a message takes, with its tool calls and its marks."""
    marks = MESSAGE_TOKENS + (MESSAGE_TOKENS if say.call_id else 0)
    for call in say.calls:
        marks += budget.count(call.text) + MESSAGE_TOKENS
    return budget.count(say.content) + marks


def tokens_left(question: str, budget: Budget, instructions: Sequence[str], template: str) -> int:
    """Return the tokens that are left beside the question and the instructions.

    Raises `PromptTooLarge` if they don't fit. A text that is far too long is not even counted.
    """
    marks = 2 * (MESSAGE_TOKENS + JOIN_TOKENS) + budget.count(block("question", ""))
    room = budget.prompt_tokens - budget.count(template) - NOW_TOKENS - marks
    left = room
    for text in instructions:
        left = left - budget.count(text) - JOIN_TOKENS if budget.holds(text, left) else -1
    if left < 0:
        raise PromptTooLarge(
            f"the instructions are longer than the model can take ({room} tokens)",
            param="instructions",
        )
    shown = defuse(question)
    if not budget.holds(shown, left):
        beside = " beside the instructions" if instructions else ""
        raise PromptTooLarge(
            f"the message is longer than the model can take{beside} ({left} tokens)",
            param="message",
        )
    return left - budget.count(shown)
