"""Our messages as LangChain's, and what is in an answer of LangChain's. Touches nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.llm.base import Say, ToolCall, Usage
from app.llm.tokens import estimate_tokens
from app.text.clean import clean, cleaned, is_shallow

if TYPE_CHECKING:
    from langchain_core.messages import AIMessageChunk, BaseMessage

_FINISH_KEYS = ("finish_reason", "stop_reason", "done_reason")
_FINISH_NAMES = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}


def langchain_messages(prompt: Sequence[Say]) -> list[BaseMessage]:
    """Return a prompt as LangChain's messages."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    def message(say: Say) -> BaseMessage:
        match say.role:
            case "system":
                return SystemMessage(content=say.content)
            case "user":
                return HumanMessage(content=say.content)
            case "tool":
                return ToolMessage(content=say.content, tool_call_id=say.call_id)
            case "assistant":
                calls = [
                    {"name": call.name, "args": dict(call.arguments), "id": call.id}
                    for call in say.calls
                ]
                return AIMessage(content=say.content, tool_calls=calls)

    return [message(say) for say in prompt]


def read_calls(chunks: Sequence[AIMessageChunk]) -> tuple[tuple[ToolCall, ...], frozenset[str]]:
    """Return the calls that came in pieces, and the ids of those that can't be read."""
    if not chunks:
        return (), frozenset()
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    calls: dict[str, ToolCall] = {}
    unreadable: set[str] = set()
    for asked in whole.tool_call_chunks:
        id = asked["id"] or ""
        id = id if id and id not in calls else uuid.uuid4().hex
        arguments = _arguments(asked["args"])
        if arguments is None:
            unreadable.add(id)
        calls[id] = ToolCall(id, clean(asked["name"] or ""), arguments or {})
    return tuple(calls.values()), frozenset(unreadable)


def _arguments(written: str | None) -> dict[str, Any] | None:
    """Return the arguments of a call; None for what is no JSON object that can be stored.

    LangChain would complete an object that was cut off: half a value is not what was meant.
    """
    try:
        found = json.loads(written or "{}")
        if not isinstance(found, dict) or not is_shallow(found):
            return None
        json.dumps(found, allow_nan=False)  # not every database takes NaN
    except (ValueError, RecursionError):
        return None
    return cleaned(found)


def finish_reason(message: BaseMessage) -> str:
    """Return why an answer ended, in OpenAI's words; "" where nothing says so."""
    for key in _FINISH_KEYS:
        if reason := message.response_metadata.get(key):
            name = str(reason).lower()
            return _FINISH_NAMES.get(name, name)
    return ""


def usage_of(message: BaseMessage) -> Usage | None:
    """Return the tokens that a provider counted."""
    found = getattr(message, "usage_metadata", None)
    return Usage(found["input_tokens"], found["output_tokens"]) if found else None


def estimated(
    prompt: Sequence[Say],
    reply: str,
    calls: Sequence[ToolCall] = (),
    tools: Sequence[Mapping[str, Any]] = (),
) -> Usage:
    """Return about how many tokens a call took, for a provider that does not say."""
    asked = sum(_say_tokens(say) for say in prompt) + sum(estimate_tokens(str(t)) for t in tools)
    return Usage(asked, _say_tokens(Say("assistant", reply, tuple(calls))), counted=False)


def _say_tokens(say: Say) -> int:
    return estimate_tokens(" ".join([say.content, *(call.text for call in say.calls)]))


def added(sum_: Usage | None, more: Usage | None) -> Usage | None:
    """Return both together: the prompt may be reported with the first chunk, the reply at last."""
    if sum_ is None or more is None:
        return sum_ or more
    return Usage(sum_.input_tokens + more.input_tokens, sum_.output_tokens + more.output_tokens)
