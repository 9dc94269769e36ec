"""Questions that a store's own rows give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.calibrate.chance import drawn, mixed
from app.calibrate.places import Places
from app.calibrate.questions import question_about, quotes


def row(text: str, **metadata: Any) -> Any:
    return SimpleNamespace(
        document_id="d1", text=text, source="s", doc_type="document", metadata=metadata
    )


def test_a_record_is_asked_for_a_field_that_its_text_tells() -> None:
    asked = question_about(
        row(
            "Company Acme Corp has a renewal date of 2026-10-15.",
            company="Acme Corp",
            renewal_date="2026-10-15",
            row=3,
        )
    )
    assert asked is not None
    assert (asked.text, asked.rest) == ("Acme Corp: renewal date?", None)


def test_a_text_is_asked_with_one_of_its_sentences_and_the_rest_without_it() -> None:
    asked = question_about(
        row(
            "Refunds take thirty working days altogether. Batteries are covered for twelve months.",
            title="Handbook",
        )
    )
    assert asked is not None
    assert asked.rest is not None
    assert {asked.text, asked.rest} == {
        "Refunds take thirty working days altogether.",
        "Batteries are covered for twelve months.",
    }


@pytest.mark.parametrize("text", ["", "One sentence that stands here all alone.", "Yes. No. Hm."])
def test_a_text_that_gives_no_question_is_left_out(text: str) -> None:
    assert question_about(row(text)) is None


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("User: I moved to Porto.", "I moved to Porto.", True),
        ("User: i  moved to\nporto, yes", "I moved to Porto!", True),
        ("User lives in Porto.", "I moved to Porto.", False),
        ("I keep bees. And more.", "Hello there! I keep bees. Bye.", True),
        ("Hi.", "Hi. I keep bees.", False),
    ],
)
def test_what_quotes_a_message_is_known(text: str, message: str, expected: bool) -> None:
    assert quotes(text, message) is expected


def test_the_unrelated_is_somebody_elses_and_the_same_each_time() -> None:
    places = Places.of([("ada", "a1"), ("ada", "a2"), ("bob", "b1"), ("cyd", "c1")])
    questions = [f"question {n}" for n in range(50)]
    drawn_for_ada = [places.another_owner("ada", question) for question in questions]
    assert set(drawn_for_ada) == {"bob", "cyd"}
    assert drawn_for_ada == [places.another_owner("ada", question) for question in questions]
    assert {places.another_place("ada", "a1", question) for question in questions} == {"a2"}
    assert places.another_place("bob", "b1", "question") is None
    assert Places.of([("ada", "a1")]).another_owner("ada", "question") is None


def test_chance_falls_the_same_way_and_reaches_everything() -> None:
    lots = [str(n) for n in range(200)]
    assert {drawn("abc", lot) for lot in lots} == set("abc")
    assert mixed(lots, str) == mixed(lots[::-1], str) != lots
