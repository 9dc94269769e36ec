"""What tells facts apart: the normal forms of subject, predicate and value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.keys import (
    MAX_KEY_CHARS,
    fact_key,
    is_many,
    predicate_key,
    predicate_name,
    subject_name,
    value_key,
)

TEXT = st.text(max_size=300)


@pytest.mark.parametrize(
    ("given_as", "expected"),
    [
        ("I", "user"),
        ("me", "user"),
        ("The User", "user"),
        ("USER", "user"),
        ("私", "user"),
        ("Ada Lovelace", "user"),
        ("ada  lovelace", "user"),
        ("Ada", "Ada"),
        ("Melanie", "Melanie"),
        ("my wife", "wife"),
        ("The user's wife", "wife"),
        ("user’s wife", "wife"),
        ("the office", "office"),
        ("Theodor", "Theodor"),
    ],
)
def test_a_subject_is_the_user_or_keeps_its_name(given_as: str, expected: str) -> None:
    assert subject_name(given_as, ["Ada Lovelace"]) == expected


def test_a_name_that_is_not_known_as_the_user_s_is_somebody_else_s() -> None:
    assert subject_name("Ada Lovelace") == "Ada Lovelace"


@pytest.mark.parametrize(
    ("name", "others"),
    [
        (
            "lives_in",
            "lives in|livesIn|LivesIn|lives-in|resides_in|home_city|homeCity|moved_to|city",
        ),
        ("works_at", "worksAt|employer|works_for|employed_by|is employed by|currently works at"),
        ("allergic_to", "has_allergy|allergy|is allergic to|Food Allergy|has_allergy_to"),
        ("name", "full_name|is called|fullName"),
        ("email", "e-mail|email_address|eMail"),
        ("phone", "phone_number|mobile|cell_phone"),
        ("birthday", "date_of_birth|born_on|dob|birthDate"),
        ("job_title", "occupation|works_as|jobTitle|title"),
        ("likes", "enjoys|loves|likes|interested in"),
        ("dislikes", "hates|does not like|doesn't like|doesn’t like"),
        ("prefers", "preference|prefer"),
    ],
)
def test_the_usual_predicates_have_one_name_each(name: str, others: str) -> None:
    for other in others.split("|"):
        assert predicate_name(other) == name


@pytest.mark.parametrize("other", ["plays instrument", "playsInstrument", "plays-instruments"])
def test_other_predicates_are_equal_by_their_words(other: str) -> None:
    assert fact_key("user", predicate_name(other)) == fact_key("user", "plays_instrument")


def test_what_means_something_else_of_a_thing_is_left_as_it_is() -> None:
    assert predicate_name("title", of_user=True) == "job_title"
    assert predicate_name("title", of_user=False) == "title"
    assert predicate_name("resides_in", of_user=False) == "lives_in"


@pytest.mark.parametrize(
    ("one", "other"), [("lives_in", "moved_from"), ("likes", "dislikes"), ("name", "nickname")]
)
def test_opposites_are_told_apart(one: str, other: str) -> None:
    assert fact_key("user", predicate_name(one)) != fact_key("user", predicate_name(other))


@pytest.mark.parametrize(
    ("one", "other", "predicate"),
    [
        ("peanuts", "a peanut", "allergic_to"),
        ("peanuts", "Peanut allergy", "has_allergy"),
        ("peanuts", "severe peanut allergy.", "allergic_to"),
        ("Porto", "  PORTO. ", "lives_in"),
        ("Zoë", "zoe", "name"),
        ("the window seat", "window seats", "prefers"),
        ("lives in Porto", "Porto", "lives_in"),
        ("dogs and cats", "dogs, cats", "likes"),
        ("ピーナッツ", "ピーナッツ", "allergic_to"),
    ],
)
def test_equal_values_have_one_key(one: str, other: str, predicate: str) -> None:
    assert value_key(one, predicate) == value_key(other, predicate)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lisbon", "Porto"),
        ("C++", "C#"),
        ("C", "C++"),
        ("yes", "no"),
        ("vegetarian", "not vegetarian"),
        ("sugar", "no sugar"),
        ("A-", "A+"),
        ("before 9", "after 9"),
        ("lights on", "lights off"),
        ("🐶", "🐱"),
        ("東京", "京都"),
        ("Porto to Lisbon", "Lisbon to Porto"),
        ("x" * 400 + "a", "x" * 400 + "b"),
    ],
)
def test_other_values_have_another(one: str, other: str) -> None:
    assert value_key(one) != value_key(other)


@pytest.mark.parametrize(
    ("predicate", "said", "expected"),
    [
        ("likes", None, True),
        ("enjoys", False, True),
        ("has_allergy", False, True),
        ("home_city", True, False),
        ("works_at", None, False),
        ("works_at", True, True),
        ("blood_type", None, False),
        ("certificates", True, True),
    ],
)
def test_several_values_may_hold_by_nature_or_because_it_was_said(
    predicate: str, said: bool | None, expected: bool
) -> None:
    assert is_many(predicate, said) is expected


@given(TEXT)
def test_a_name_is_its_own_normal_form(text: str) -> None:
    predicate = predicate_name(text)
    assert predicate_name(predicate) == predicate
    assert predicate_key(predicate_name(predicate)) == predicate_key(predicate)


@given(TEXT, TEXT, TEXT)
def test_a_key_fits_into_an_index_and_has_two_halves(
    subject: str, predicate: str, value: str
) -> None:
    key = fact_key(subject_name(subject), predicate_name(predicate))
    assert key.count("|") == 1
    assert all(len(half) <= MAX_KEY_CHARS for half in key.split("|"))
    assert len(value_key(value, predicate)) <= MAX_KEY_CHARS


@given(st.from_regex(r"[A-Za-zÀ-ž0-9]+( [A-Za-zÀ-ž0-9]+){0,5}", fullmatch=True))
def test_spaces_and_marks_around_a_value_do_not_matter(text: str) -> None:
    assert value_key(f"  {text}.  ") == value_key(text)
