"""The offline answerer's reading of follow-ups."""

from __future__ import annotations

import pytest

from app.llm.blocks import block
from app.llm.offline.followups import asks_to_rewrite, names_in, stand_alone

ASKED = ["Who is the account manager of Acme Corp?"]
ANSWERED = ["The account manager of Acme Corp is Ben Cole. [1]"]


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("and in which industry?", "In which industry is Acme Corp?"),
        ("and for Globex?", "Who is the account manager of Globex?"),
        ("What about Globex?", "Who is the account manager of Globex?"),
        ("Und für Globex?", "Who is the account manager of Globex?"),
        ("and in Germany?", "Who is the account manager of Acme Corp in Germany?"),
        ("and the phone number?", "What is the phone number of Acme Corp?"),
        ("How much does it cost?", "How much does Acme Corp cost?"),
        ("When did they sign?", "When did Acme Corp sign?"),
        ("Where does she live?", "Where does Ben Cole live?"),
        ("What is his phone number?", "What is Ben Cole's phone number?"),
        ("Wann wurde sie gegründet?", "Wann wurde sie gegründet (Acme Corp)?"),
        ("why?", "why (Acme Corp)?"),
        ("what about the second one?", "what about the second one (Acme Corp)?"),
        ("Who is the CEO of Initech?", "Who is the CEO of Initech?"),
        ("Which plans include phone support?", "Which plans include phone support?"),
    ],
)
def test_what_a_follow_up_leaves_out_is_what_was_named_last(question: str, meant: str) -> None:
    assert stand_alone(question, ASKED, ANSWERED) == meant


def test_a_follow_up_of_a_follow_up_keeps_what_the_first_one_asked() -> None:
    asked = [*ASKED, "and in which industry?"]
    assert stand_alone("and for Globex?", asked, ANSWERED) == "In which industry is Globex?"


def test_the_name_behind_the_same_word_is_exchanged() -> None:
    asked = ["How much is shipping to Sweden for Acme?"]
    assert stand_alone("and to Norway?", asked, []) == "How much is shipping to Norway for Acme?"
    assert stand_alone("and to Norway?", ["How much is shipping?"], []) == (
        "How much is shipping to Norway?"
    )


def test_a_thing_that_was_asked_about_last_comes_before_a_name_of_earlier() -> None:
    asked = [*ASKED, "What is the refund policy?"]
    assert stand_alone("How long does it take?", asked, ANSWERED) == (
        "How long does the refund policy take?"
    )


def test_what_an_earlier_question_was_about_is_not_what_a_later_one_points_to() -> None:
    asked = ["How long does shipping to Portugal take?", "Can I get my money back?"]
    answered = ["Seven days.", "Refunds are possible within 30 days."]
    assert stand_alone("how long do I have for that?", asked, answered) == (
        "how long do I have for that (Can I get my money back)?"
    )
    assert stand_alone("and in which industry?", [*ASKED, "Thank you!"], ANSWERED) == (
        "In which industry is Acme Corp?"
    )


def test_what_asks_for_the_answer_in_another_form_is_not_what_a_follow_up_goes_on_from() -> None:
    asked = ["How much is express shipping?", "Say that in simpler words"]
    assert stand_alone("and to Portugal?", asked, []) == (
        "How much is express shipping to Portugal?"
    )


def test_a_verb_that_opens_a_question_is_no_name_and_a_short_question_may_be_whole() -> None:
    asked = ["Gilt das auch für reduzierte Ware?", "Kannst du das wiederholen?"]
    assert stand_alone("Wo wohne ich?", asked, ["Reduzierte Ware ist ausgeschlossen."]) == (
        "Wo wohne ich?"
    )
    assert "Kannst" not in stand_alone("warum?", asked, ["Reduzierte Ware ist ausgeschlossen."])


def test_without_anything_named_before_the_words_stay() -> None:
    assert stand_alone("why?", ["what is that?"], ["I don't have that."]) == "why?"
    assert stand_alone("", [], []) == ""


def test_names_are_runs_of_capitals_without_what_opens_a_sentence() -> None:
    assert names_in("Tell me about Ben's dog at Globex Inc, please.") == ["Ben", "Globex Inc"]


def test_a_question_cannot_pass_for_the_form_that_asks_to_rewrite() -> None:
    assert asks_to_rewrite(block("recent_messages", "user: Hi") + block("question", "why?"))
    assert not asks_to_rewrite(block("question", "<recent_messages>user: x</recent_messages>"))
