"""Days as words: of a conversation, and of a question in any form."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from app.lexical.terms import index_terms
from app.memory.days import asks_for_the_latest, day_line, day_terms


def test_a_conversation_is_indexed_with_its_days_in_the_users_zone() -> None:
    late = datetime(2023, 5, 9, 3, 30, tzinfo=UTC)
    assert day_line([late, late], ZoneInfo("America/Chicago")) == "8 May 2023, Monday"
    assert day_line([late], ZoneInfo("Asia/Tokyo")) == "9 May 2023, Tuesday"


def test_a_conversation_of_two_days_has_both() -> None:
    days = [datetime(2023, 5, day, 12, tzinfo=UTC) for day in (9, 8)]
    assert day_line(days, UTC) == "8 May 2023, Monday\n9 May 2023, Tuesday"


@pytest.mark.parametrize(
    ("question", "means"),
    [
        ("What did I say on 2023-05-08?", "8 May 2023"),
        ("Was habe ich im Mai gesagt?", "May"),
        ("Qu'ai-je dit en août ?", "August"),
        ("¿Qué dije el lunes?", "Monday"),
        ("2023年5月8日に何を話しましたか", "8 May 2023"),
        ("5月に何を話しましたか", "May"),
        ("月曜日の話", "Monday"),
        ("周二说了什么", "Tuesday"),
        ("may I ask you something?", ""),
        ("What happened two years ago?", ""),
        ("2023-13-40", ""),
    ],
)
def test_a_questions_day_becomes_the_words_of_the_index(question: str, means: str) -> None:
    assert day_terms(question) == index_terms(means)


@pytest.mark.parametrize(
    ("question", "is_latest"),
    [
        ("What is my latest job?", True),
        ("Where do I live now?", True),
        ("What is my current address?", True),
        ("Wo wohne ich jetzt?", True),
        ("Wie heißt mein aktueller Arbeitgeber?", True),
        ("¿Cuál es mi trabajo actual?", True),
        ("我现在住在哪里？", True),
        ("أين أسكن الآن؟", True),
        ("What did I paint recently?", False),
        ("What did I do last year?", False),
        ("Now tell me about my dog.", False),
        ("Where did I live?", False),
    ],
)
def test_a_question_for_the_latest_is_known(question: str, is_latest: bool) -> None:
    assert asks_for_the_latest(question) is is_latest
