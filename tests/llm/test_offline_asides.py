"""What the offline answerer gives a chat client for itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.llm.offline.asides import aside

SAID = "USER: Where is Porto, and what does a week there cost?\nASSISTANT: In Portugal."
CHAT = f"### Chat History:\n<chat_history>\n{SAID}\n</chat_history>"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ('{ "title": "your title" }', {"title": "Where is Porto, and what does"}),
        ('{ "tags": ["one", "two"] }', {"tags": []}),
        ('{ "follow_ups": ["One?"] }', {"follow_ups": []}),
        ('{ "queries": ["one"] }', {"queries": []}),
        ('`{ "text": "<more>" }`', {"text": ""}),
    ],
)
def test_it_comes_in_the_json_that_was_asked_for(shape: str, expected: Any) -> None:
    made = aside(f"### Task:\nDo it.\n### Output:\nJSON format: {shape}\n{CHAT}")
    assert made is not None
    assert json.loads(made) == expected


@pytest.mark.parametrize(
    ("conversation", "title"),
    [
        ("User: Where is Porto?\nAI: In Portugal.", "Where is Porto"),
        ("user: ¿Dónde está Oporto?", "¿Dónde está Oporto"),
        ("ポルトはどこですか" * 20, ("ポルトはどこですか" * 20)[:60]),
        ("", "New conversation"),
    ],
)
def test_a_title_alone_is_the_user_s_first_words(conversation: str, title: str) -> None:
    asked = "Provide a concise title for the conversation. Only return the title itself."
    assert aside(f"{asked}\n\nConversation:\n{conversation}") == title


@pytest.mark.parametrize(
    "message",
    [
        "<question>\nWhere is Porto?\n</question>",
        "### Task:\nRespond to the user query using the provided context.\nWhere is Porto?",
        "What is the title of the book?",
    ],
)
def test_a_question_is_no_aside(message: str) -> None:
    assert aside(message) is None
