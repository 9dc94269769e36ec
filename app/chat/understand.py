"""What a question means: on its own, and where its answer may stand. Touches: the small model.

Plain signs decide first (`signs`, `routes`, `timespan`); the model is asked only for a question
that depends on what was said before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from app.chat.ask import Ask
from app.chat.recalling import asks_about_user, asks_for_anything_said, topic_of
from app.chat.rewriting import Rewritten, rewrite
from app.chat.routes import Route as Route
from app.chat.routes import Ruled, is_of_the_user, ruled
from app.chat.signs import plain, sign_of
from app.chat.timespan import time_range
from app.llm.base import ChatModel, Say
from app.memory.base import Fact
from app.usage import Bill

BY_MODEL = "the model"
INLINE_CHARS = 2_000  # looked through for a time in less than that of a thread


@dataclass(frozen=True, slots=True)
class Understood:
    """`question` is what is searched for; the user's own words unless it was rewritten.

    why: what decided the route. sign: what tells that it depends on what was said before.
    trouble: why a rewrite that was due did not happen.
    since, until: the time that the question speaks of, for memory; since <= t < until.
    of_anything: it asks for all that was said then, whatever it was.
    topic: of what a question about what was said asks; memory is searched for these words.
    """

    question: str
    route: Route
    why: str
    is_rewritten: bool = False
    trouble: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    sign: str | None = None
    of_anything: bool = False
    topic: str = ""


class Understanding:
    """Reads questions. model: None leaves every question as it is."""

    def __init__(self, model: ChatModel | None) -> None:
        self._model = model

    async def of(
        self,
        ask: Ask,
        history: Sequence[Say],
        profile: Sequence[Fact],
        now: datetime,
        bill: Bill,
        summary: str = "",
    ) -> Understood:
        """Return what is meant; calls the model only for a question that depends on others.

        history: what was said before, oldest first. now: in the user's time zone.
        summary: of what was said before that.
        Never raises for the model: what fails falls back to the user's words.
        """
        has_answer = any(say.role == "assistant" for say in history)
        rule = ruled(ask.text, has_answer=has_answer)
        sign = _sign(ask.text, rule, history) if history or summary else None
        answer = Rewritten(None, None, None)
        if sign is not None and self._model is not None:
            answer = await rewrite(self._model, ask.text, history, summary, profile, now, bill)
            if answer.route == "clarification" and not has_answer:  # a summary holds no answer
                answer = replace(answer, route="hybrid")
        question = answer.question or ask.text
        is_rewritten = question != ask.text and _bare(question) != _bare(ask.text)
        rule = _decided(rule, sign, answer, question, is_rewritten)
        understood = Understood(
            question if is_rewritten else ask.text,
            *_permitted(rule, ask),
            is_rewritten=is_rewritten,
            trouble=answer.trouble,
            sign=sign,
        )
        if understood.route not in ("memory", "hybrid"):
            return understood
        if rule.of_then:
            if len(ask.text) + len(understood.question) <= INLINE_CHARS:
                return _with_range(understood, ask.text, now)
            return await asyncio.to_thread(_with_range, understood, ask.text, now)
        if rule.route == "memory" and not asks_about_user(plain(understood.question)):
            return replace(understood, topic=topic_of(understood.question, ""))
        return understood


def _sign(text: str, rule: Ruled, history: Sequence[Say]) -> str | None:
    if rule.route == "clarification":
        return None
    is_answered = bool(history) and history[-1].role == "assistant"
    sign = sign_of(text, history[-1].content if is_answered else "")
    # "Wie heiße ich?" is short, and yet says all that it asks.
    return None if rule.is_certain and sign == "very short" else sign


def _decided(
    rule: Ruled, sign: str | None, answer: Rewritten, question: str, is_rewritten: bool
) -> Ruled:
    """Return the route of the rules, or for a question that depends on others the model's.

    A model's mistake must not cost an answer: what was made to stand alone is searched for, and
    what speaks of the user is looked for in memory too.
    """
    if is_rewritten:
        again = ruled(question, has_answer=False)
        of_then = again.of_then or rule.of_then
        rule = replace(again if again.is_certain else rule, of_then=of_then)
    if sign is None or rule.route == "memory":
        return rule
    route = answer.route
    if route is None:
        return Ruled("hybrid", "unclear", is_certain=False, of_then=rule.of_then)
    if (route == "clarification" and is_rewritten) or (
        route == "knowledge" and (rule.of_then or is_of_the_user(question))
    ):
        route = "hybrid"
    return Ruled(route, BY_MODEL, of_then=rule.of_then)


def _permitted(rule: Ruled, ask: Ask) -> tuple[Route, str]:
    """Return the route that the caller's wishes leave, and why."""
    if ask.filters is not None and rule.route in ("memory", "clarification"):
        return ("knowledge" if ask.memory == "off" else "hybrid"), "filters were given"
    if ask.memory == "off" and rule.route in ("memory", "hybrid"):
        return "knowledge", "memory is off"
    return rule.route, rule.why


def _with_range(understood: Understood, text: str, now: datetime) -> Understood:
    found = time_range(understood.question, now)
    if found is None and understood.is_rewritten:
        found = time_range(text, now)
    if found is None:
        return replace(understood, topic=topic_of(understood.question, ""))
    return replace(
        understood,
        topic=topic_of(understood.question, found.words),
        since=found.since,
        until=found.until,
        of_anything=asks_for_anything_said(understood.question, found.words),
    )


def _bare(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" ?.!？。")
