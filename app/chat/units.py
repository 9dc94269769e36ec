"""Messages that stay together, and where the last of them begin. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from app.llm.base import Say, ToolCall
from app.llm.tokens import estimate_tokens
from app.sessions.base import Message

Unit = tuple[Say, ...]
"""Messages that stay together: one, or an assistant's tool calls with results and reply."""


def unit_of(message: Message) -> Unit:
    """Return a stored message; an agent's reply comes after its tool calls and their results."""
    reply = Say(message.role, message.content)
    if not message.steps:
        return (reply,)
    calls = tuple(ToolCall(s["id"], s["name"], s["arguments"]) for s in message.steps)
    results = [Say("tool", step["result"], call_id=step["id"]) for step in message.steps]
    return (Say("assistant", "", calls), *results, reply)


def units_of(says: Iterable[Say]) -> tuple[list[Unit], int]:
    """Return the units of a conversation as a client tells it, and how many messages had no place.

    A client may have cut its history anywhere: a result whose call is gone, and a call that has
    no result, would break the prompt, and are left out.
    """
    runs: list[list[Say]] = []
    dropped = 0
    is_open = False  # a run of tool calls that has no reply yet
    asked: set[str] = set()  # the ids of its latest calls that have no result yet
    for say in says:
        if say.role == "tool":
            if is_open and say.call_id in asked:
                asked.remove(say.call_id)
                runs[-1].append(say)
            else:
                dropped += 1
            continue
        if is_open and say.role == "assistant":
            runs[-1].append(say)
        else:
            runs.append([say])
        is_open = say.role == "assistant" and bool(say.calls)
        asked = {call.id for call in say.calls}
    whole = [_answered(run) for run in runs]
    dropped += sum(len(run) for run in runs) - sum(len(unit) for unit in whole)
    return [unit for unit in whole if unit], dropped


def is_pinned(unit: Unit) -> bool:
    """Say whether a unit stays, whatever is cut."""
    return unit[0].role == "system"


def tokens_of(unit: Unit) -> int:
    """Return about how many tokens a unit costs."""
    called = (call.text for say in unit for call in say.calls)
    return sum(map(estimate_tokens, (*(say.content for say in unit), *called)))


def last_exchanges(units: Sequence[Unit], most: int) -> int:
    """Return where the last exchanges begin: a user's message and all that follows it."""
    for at in reversed(range(len(units))):
        if units[at][0].role == "user":
            most -= 1
            if most == 0:
                return at
    return 0


def last_tokens(units: Sequence[Unit], most: int) -> int:
    """Return where the last units begin that hold `most` tokens; the newest is among them."""
    return _last(units, most, tokens_of)


def last_messages(units: Sequence[Unit], most: int) -> int:
    """Return where the last units begin that are `most` messages; the newest is among them."""
    return _last(units, most, len)


def last_units(units: Sequence[Unit], most: int) -> int:
    """Return where the last units begin."""
    return _last(units, most, lambda _: 1) if most else len(units)


def _last(units: Sequence[Unit], most: int, cost: Callable[[Unit], int]) -> int:
    start = len(units)
    for at in reversed(range(len(units))):
        if is_pinned(units[at]):
            continue
        most -= cost(units[at])
        if most < 0 and start < len(units):
            break
        start = at
    return start


def _answered(run: Sequence[Say]) -> Unit:
    """Return a run without the calls that nothing answers."""
    unit: list[Say] = []
    results: set[str] = set()  # the ids of those that follow at once
    for say in reversed(run):
        if say.role == "tool":
            results.add(say.call_id)
            unit.append(say)
            continue
        whole = replace(say, calls=tuple(call for call in say.calls if call.id in results))
        if whole.calls or whole.content or not say.calls:
            unit.append(whole)
        results = set()
    return tuple(reversed(unit))
