"""A model for `ModelServer` that keeps memory: it reads a transcript by rules that a test gives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Read = Callable[[str], list[dict[str, Any]]]

_LINE = re.compile(r"\[(\d+)\] ([^:\n]+): (.+)")


def remembering(read: Read, *, reply: str = "Hello there, friend.") -> Callable[[Any], str]:
    """Return a script: chats get `reply`; a checkpoint gets what `read` finds in each message.

    read: what a person said -> facts, without `seq` and `quote`, which are that message's.
    """

    def script(body: dict[str, Any]) -> str:
        messages = body["messages"]
        if '"facts"' not in messages[0]["content"]:
            return reply
        lines = _LINE.findall(messages[-1]["content"])
        said = [(int(seq), text) for seq, speaker, text in lines if speaker != "assistant"]
        found = [
            {"seq": seq, "quote": text, "confidence": 0.9, **fact}
            for seq, text in said
            for fact in read(text)
        ]
        summary = " ".join(f"The user said: {text}" for _, text in said) or "Nothing was said."
        return json.dumps({"summary": summary, "facts": found, "entities": [], "relations": []})

    return script


def summed_up(summary: str) -> str:
    """Return an answer to a checkpoint that finds no facts."""
    return json.dumps({"summary": summary, "facts": []}, ensure_ascii=False)


def lives_in(text: str) -> list[dict[str, Any]]:
    """Read where somebody lives out of "I live in X." and "I moved to X."."""
    found = re.search(r"I (?:live in|moved to) (\w+)", text)
    if found is None:
        return []
    statement = f"The user lives in {found[1]}."
    fact = {"subject": "user", "predicate": "lives_in", "value": found[1], "statement": statement}
    return [{**fact, "kind": "fact", "many": False, "when": None}]
