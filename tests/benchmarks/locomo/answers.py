"""The model that writes memory: it answers with the dataset's own summary and observations.

Touches nothing.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from app.llm.tokens import estimate_tokens
from tests.benchmarks.locomo.data import Conversation, Session

TELLING_CHARS = 20  # a shorter turn ("Thanks!") may be anybody's


class Answers:
    """Finds out from a prompt which session is asked for; counts what was asked."""

    def __init__(self, conversations: Sequence[Conversation]) -> None:
        self._sessions = [
            (conversation.name, session, _told(session))
            for conversation in conversations
            for session in conversation.sessions
        ]
        self.prompt_tokens: defaultdict[str, list[int]] = defaultdict(list)

    def __call__(self, body: dict[str, Any]) -> str:
        prompt = _plain(body["messages"][-1]["content"])
        name, session, told = max(self._sessions, key=lambda one: _share(one[2], prompt))
        if not _share(told, prompt):
            raise ValueError("the prompt holds no session of the dataset")
        self.prompt_tokens[name].append(prompt_tokens(body))
        return json.dumps(_memory(session, prompt), ensure_ascii=False)


def prompt_tokens(body: dict[str, Any]) -> int:
    """Estimate the tokens of a request's messages as the service does: rather too many."""
    return sum(estimate_tokens(str(message["content"])) for message in body["messages"])


def found_fact(subject: str, statement: str, seq: int, quote: str) -> dict[str, Any]:
    """Return a fact as the checkpoint's prompt asks for it."""
    return {
        "subject": subject,
        "predicate": "noted",
        "value": statement,
        "statement": statement,
        "kind": "fact",
        "many": True,
        "confidence": 0.9,
        "seq": seq,
        "quote": quote,
        "when": None,
    }


def _memory(session: Session, prompt: str) -> dict[str, Any]:
    """Return what is known of a session's part that a prompt shows."""
    facts = []
    for noted in session.observations:
        turn = session.turns[noted.turn - 1]
        quote = turn.text or turn.shown
        if _plain(quote) in prompt:
            facts.append(found_fact(noted.person, noted.text, noted.turn, quote))
    return {"summary": session.summary, "facts": facts, "entities": [], "relations": []}


def _told(session: Session) -> list[str]:
    told = [_plain(turn.content) for turn in session.turns]
    return [text for text in told if len(text) >= TELLING_CHARS] or told


def _share(told: Sequence[str], prompt: str) -> float:
    return sum(text in prompt for text in told) / len(told)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
