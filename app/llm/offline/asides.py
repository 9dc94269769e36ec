"""What a chat client asks for itself, a title or tags, made of the user's first words.

Touches nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from app.text.tasks import TASK

TITLE_WORDS, TITLE_CHARS = 6, 60  # the second, for scripts without spaces

_TITLE = re.compile(r"\btitle for (?:the|this) conversation\b", re.IGNORECASE)
_CONVERSATION = re.compile(r"<chat_history>(.*?)(?:</chat_history>|$)|Conversation:\s*(.*)", re.S)
_SPEAKER = re.compile(r"^\W*(user|human|assistant|ai)\W*:[\s\"*]*", re.IGNORECASE)
_WANTED = re.compile(r"\{\s*\"(title|tags|follow_ups|queries|text)\"\s*:")


def aside(message: str) -> str | None:
    """Return what a client's own request asks for; None for a message that is none.

    A title is the user's first words. Of tags, questions to go on with and the like it makes none,
    in the JSON that was asked for.
    """
    if not TASK.match(message) and not _TITLE.search(message[:300]):
        return None
    shapes = [name for name in _WANTED.findall(message) if name in _MADE]
    if not shapes:
        return _title(message)
    return json.dumps({shapes[0]: _MADE[shapes[0]](message)}, ensure_ascii=False)


def _title(message: str) -> str:
    words = _first_words(message)
    return " ".join(words[:TITLE_WORDS])[:TITLE_CHARS].rstrip(".,;:!?¿¡ ") or "New conversation"


def _first_words(message: str) -> list[str]:
    told = _CONVERSATION.search(message)
    spoken = (told[1] or told[2] or "") if told else ""
    for line in spoken.strip().splitlines():
        if words := _SPEAKER.sub("", line).strip().split():
            return words
    return []


_MADE: dict[str, Callable[[str], Any]] = {
    "title": _title,
    "tags": lambda _: [],
    "follow_ups": lambda _: [],
    "queries": lambda _: [],
    "text": lambda _: "",
}
