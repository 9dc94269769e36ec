"""`python -m app costs`: its arguments and what it prints. Touches: what a rehearsal touches."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

from app.costs.month import month, rehearsed, table
from app.costs.rehearsal import rehearse
from app.costs.workload import Length, Workload
from app.picks import pick_embedder, pick_models
from app.settings import Settings

ABOUT = """Estimate what a month takes before it is spent: calls, tokens and US dollars, by purpose.
A user's conversations are played through the service as it is set up, in memory and without any
network, with texts of the sizes that you tell, and scaled up. Lengths are in words (40), or in
tokens (50t). Prices come from the built-in table and MODEL_PRICES; embeddings are not counted."""

_LENGTH = re.compile(r"(\d+)(t?)")
MOST_LENGTH = 20_000


def add_command(commands: Any) -> None:
    """Add `costs` to the commands of an `ArgumentParser`."""
    parser = commands.add_parser(
        "costs", help="estimate what a month of conversations costs", description=ABOUT
    )
    add = parser.add_argument
    default = Workload(1, Length(1))
    add("--messages-per-day", type=_number(0.01, 1e9), required=True, metavar="N",
        help="questions of all users together")  # fmt: skip
    add("--length", type=_length, required=True, help="of a question")
    add("--every", type=_whole(1, 10_000), metavar="MESSAGES",
        help="messages between two summaries (default: SUMMARY_EVERY_MESSAGES)")  # fmt: skip
    for name, about in (("reply", "a reply"), ("summary", "a summary"), ("document", "a passage")):
        add(f"--{name}", type=_length, default=getattr(default, name), metavar="LENGTH",
            help=f"length of {about} (default: %(default)s)")  # fmt: skip
    for name, low, high, about in (
        ("users", 1, 10**9, "who share the messages; each begins without memories"),
        ("days", 1, 366, "in the month"),
        ("session-messages", 1, 200, "questions in a conversation"),
        ("facts", 0, 20, "that a summary learns"),
    ):
        add(f"--{name}", type=_whole(low, high), default=getattr(default, name.replace("-", "_")),
            metavar="N", help=f"{about} (default: %(default)s)")  # fmt: skip
    add("--documents", type=_whole(0, 100), metavar="N",
        help="passages found for a question (default: DOCUMENT_TOP_K)")  # fmt: skip
    add("--memories", type=_whole(0, 100), metavar="N",
        help="memories found for a question (default: MEMORY_TOP_K)")  # fmt: skip
    add("--follow-ups", type=_number(0, 1), default=default.follow_ups, metavar="SHARE",
        help="of questions that refer to what was said before (default: %(default)s)")  # fmt: skip
    add("--agent-share", type=_number(0, 1), default=default.agents, metavar="SHARE",
        help="of questions that an agent answers (default: %(default)s)")  # fmt: skip
    add("--agent-calls", type=_whole(1, 50), default=default.agent_calls, metavar="N",
        help="model calls of an agent's answer, all but the last for a tool (default: %(default)s)",
        )  # fmt: skip
    add("--model", help="that answers, by the name it has in a price table (default: CHAT_MODEL)")
    add("--summary-model", metavar="MODEL", help="(default: SUMMARY_MODEL)")
    parser.set_defaults(run=estimate)


def estimate(settings: Settings, arguments: argparse.Namespace) -> int:
    """Print the table of a month."""
    if arguments.every is not None:
        settings = settings.model_copy(update={"summary_every_messages": arguments.every})
    load = _workload(settings, arguments)
    chat, summary = _names(settings, arguments.model, arguments.summary_model)
    played = rehearsed(load)
    taken = asyncio.run(rehearse(settings, load, chat=chat, summary=summary, conversations=played))
    parts = month(load, taken)
    for line in (*table(parts), "", *_assumptions(settings, load, chat, summary)):
        print(line)
    if any(part.usd is None for part in parts):
        print("Unknown: neither the built-in table nor MODEL_PRICES has a price of that model.")
    return 0


def _workload(settings: Settings, given: argparse.Namespace) -> Workload:
    return Workload(
        messages_per_day=given.messages_per_day,
        question=given.length,
        reply=given.reply,
        summary=given.summary,
        document=given.document,
        users=given.users,
        days=given.days,
        session_messages=given.session_messages,
        documents=settings.document_top_k if given.documents is None else given.documents,
        memories=settings.memory_top_k if given.memories is None else given.memories,
        facts=given.facts,
        follow_ups=given.follow_ups,
        agents=given.agent_share,
        agent_calls=given.agent_calls,
    )


def _names(settings: Settings, chat: str | None, summary: str | None) -> tuple[str, str]:
    """Return the models' names as the service has them; none is loaded or called."""
    answers, sums_up = pick_models(settings, pick_embedder(settings))
    return chat or answers.name, summary or sums_up.name


def _assumptions(settings: Settings, load: Workload, chat: str, summary: str) -> Iterator[str]:
    yield (
        f"Assumed: {load.messages_per_day:g} questions a day for {load.days} days, by "
        f"{load.users} users who begin without memories, {load.session_messages} to a "
        f"conversation; a question has {load.question}, a reply {load.reply}, a summary "
        f"{load.summary} and {load.facts} facts, every {settings.summary_every_messages} messages "
        f"and at the end; each question finds {load.documents} passages of {load.document} and up "
        f"to {load.memories} memories; {load.follow_ups:.0%} are follow-ups"
        + (f"; agents answer {load.agents:.0%}" if load.agents else "")
        + f". Answers by {chat}, all else by {summary}."
    )


def _length(text: str) -> Length:
    found = _LENGTH.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= MOST_LENGTH:
        raise argparse.ArgumentTypeError(
            f"expected words as in 40 or tokens as in 50t, at most {MOST_LENGTH}, got {text!r}"
        )
    return Length(int(found[1]), "tokens" if found[2] else "words")


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"expected {low} to {high}, got {text!r}")
        return int(text)

    return read


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"expected {low:g} to {high:g}, got {text!r}")
        return number

    return read
