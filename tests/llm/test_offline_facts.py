"""Facts without a model: what people surely say of themselves, and nothing else."""

from __future__ import annotations

import json

import pytest

from app.llm.base import Say
from app.llm.blocks import block
from app.llm.offline import offline_chat
from app.llm.offline.facts import facts
from tests.api.calls import chat, close, read
from tests.served import served


def found(sentence: str, speaker: str = "user") -> list[tuple[str, str, str]]:
    told, _ = facts(block("transcript", f"[1] {speaker}: {sentence}"))
    assert all(one["quote"] in sentence and one["seq"] == 1 for one in told)
    return [(one["predicate"], one["value"], one["statement"]) for one in told]


@pytest.mark.parametrize(
    ("sentence", "predicate", "value", "statement"),
    [
        ("My name is Ada Lovelace.", "name", "Ada Lovelace", "The user's name is Ada Lovelace."),
        ("Call me Ishmael.", "name", "Ishmael", "The user's name is Ishmael."),
        ("I live in Porto.", "lives_in", "Porto", "The user lives in Porto."),
        ("I now live in New York City!", "lives_in", "New York City", ""),
        ("I'm based in Rio de Janeiro, Brazil.", "lives_in", "Rio de Janeiro, Brazil", ""),
        ("I just moved from Lisbon to São Paulo.", "lives_in", "São Paulo", ""),
        ("I'm from the Netherlands.", "from", "the Netherlands", ""),
        ("I work at Acme Corp.", "works_at", "Acme Corp", "The user works at Acme Corp."),
        ("I recently started working at Globex.", "works_at", "Globex", ""),
        ("I work as a data scientist.", "job_title", "data scientist", ""),
        ("I'm a software engineer.", "job_title", "software engineer", ""),
        ("I'm severely allergic to peanuts.", "allergic_to", "peanuts", ""),
        ("I have a peanut allergy.", "allergic_to", "peanut", ""),
        ("I have an allergy to peanuts.", "allergic_to", "peanuts", ""),
        ("I'm vegetarian.", "diet", "vegetarian", "The user is vegetarian."),
        ("I love hiking in the Alps!", "likes", "hiking in the Alps", ""),
        (
            "I don't like loud music.",
            "dislikes",
            "loud music",
            "The user does not like loud music.",
        ),
        ("I prefer tea over coffee.", "prefers", "tea over coffee", ""),
        (
            "My favorite color is blue.",
            "favorite_color",
            "blue",
            "The user's favorite color is blue.",
        ),
        ("My email is ada@example.com.", "email", "ada@example.com", ""),
        ("My phone number is +351 912 345 678.", "phone", "+351 912 345 678", ""),
        ("My birthday is on May 7.", "birthday", "May 7", "The user's birthday is May 7."),
        ("I am 34 years old.", "age", "34", "The user is 34 years old."),
        ("My daughter's name is Mia.", "daughter", "Mia", "The user's daughter is called Mia."),
        ("My dog is called Rex.", "dog", "Rex", "The user's dog is called Rex."),
        ("I have a cat named Miso.", "cat", "Miso", ""),
        ("Remind me to call Bob on Friday.", "todo", "call Bob on Friday", ""),
        ("Ich wohne jetzt in Köln.", "lives_in", "Köln", "Ich wohne jetzt in Köln."),
        ("Ich arbeite bei Siemens.", "works_at", "Siemens", ""),
        ("Me llamo José.", "name", "José", ""),
        ("Soy alérgica a los cacahuetes.", "allergic_to", "cacahuetes", ""),
        ("J'habite à Lyon.", "lives_in", "Lyon", ""),
        ("私の名前は田中です。", "name", "田中", "私の名前は田中です。"),
        ("私は東京に住んでいます。", "lives_in", "東京", ""),
        ("ピーナッツアレルギーです。", "allergic_to", "ピーナッツ", ""),
        ("I have a sister called Eva.", "sister", "Eva", "The user's sister is called Eva."),
        ("I work at St. Mary's Hospital.", "works_at", "St. Mary's Hospital", ""),
        ("I love Italian food a lot and enjoy hiking.", "likes", "Italian food", ""),
        ("Ya no vivo en Lima, ahora vivo en Quito.", "lives_in", "Quito", ""),
        ("Ich bin Anna und wohne in Köln.", "lives_in", "Köln", ""),
    ],
)
def test_what_people_say_of_themselves_is_a_fact(
    sentence: str, predicate: str, value: str, statement: str
) -> None:
    ((name, what, told),) = found(sentence)
    assert (name, what) == (predicate, value)
    assert not statement or told == statement


@pytest.mark.parametrize(
    "sentence",
    [
        "Do I live in Porto?",
        "If I lived in Porto, I would be glad.",
        "If I live in Porto, it is warm.",
        "I no longer live in Porto.",
        "I used to live in Porto.",
        "I live in a small house.",
        "I moved to the marketing team.",
        "I work for a bank.",
        "I'm a bit tired.",
        "I like it.",
        "I'd like to go to Porto.",
        "I love you.",
        "My boss is Italian.",
        'She said "I live in Porto".',
        "He told me I work at Acme.",
        "Maybe I prefer tea.",
        "Call me tomorrow.",
        "母は東京に住んでいます。",
        "東京に住んでいますか？",
        "You live in Porto.",
        "I'm moving to New York or Boston.",
        "I'm moving to Rome soon.",
        "I moved to Spain for a year in 2019.",
        "I moved to Marketing team.",
        "I was born in May 1990.",
        "Call me Friday.",
        "My favorite color is not blue.",
        "I love my wife Maria.",
        "My dog Rex died.",
        "My dog Rex's birthday is today.",
        "Ich wohne nicht in Berlin.",
        "Ich bin noch nicht nach Berlin gezogen.",
        "Ich bin nicht allergisch gegen Nüsse.",
        "No vivo en Madrid.",
        "Nunca trabajo en Acme.",
        "No soy alérgica al polen.",
        "Me encanta la música en vivo en Madrid.",
        "東京に住んでいる友達がいます。",
        "ソニーで働いている兄がいます。",
        "卵アレルギーがありません。",
        "犬が好きだった。",
    ],
)
def test_what_is_not_surely_said_is_none(sentence: str) -> None:
    assert found(sentence) == []


def test_a_list_is_a_fact_each() -> None:
    assert [value for _, value, _ in found("I'm allergic to peanuts, shellfish and milk.")] == [
        "peanuts", "shellfish", "milk",
    ]  # fmt: skip
    assert [value for _, value, _ in found("I like tea and my sister hates it.")] == ["tea"]


@pytest.mark.parametrize(
    ("sentence", "when"),
    [
        ("I'm moving to Berlin on 15 March 2027.", "on 15 March 2027"),
        ("I moved from Austin to Denver in 2022.", "in 2022"),
        ("I moved to Oslo on March 3rd, 2025, by train.", "on March 3rd, 2025"),
        ("I'm working for Sony Music until June.", "until June"),
        ("I live in Rome with 2022 books.", None),
        ("I have lived; I live in Rome.", None),
    ],
)
def test_a_day_that_is_named_behind_a_place_is_when_it_begins(
    sentence: str, when: str | None
) -> None:
    told, _ = facts(block("transcript", f"[1] user: {sentence}"))
    assert [one["when"] for one in told] == [when]


def test_what_is_said_of_a_named_relative_or_friend_is_a_fact_about_them() -> None:
    told, named = facts(block("transcript", "[1] user: My sister Ana works at Acme Corp."))
    assert [(one["subject"], one["statement"]) for one in told] == [
        ("user", "The user's sister is called Ana."),
        ("Ana", "Ana works at Acme Corp."),
    ]
    assert [one["name"] for one in named] == ["Ana", "Acme Corp"]
    _, named = facts(block("transcript", "[1] user: My friend Tom lives in Oslo."))
    assert [one["name"] for one in named] == ["Tom", "Oslo"]
    assert found("My friend Tom lives in Oslo.") == [("lives_in", "Oslo", "Tom lives in Oslo.")]
    assert found("My friend Tom no longer lives in Oslo.") == []


def test_a_sentence_may_state_two_of_a_kind() -> None:
    told = found("My cat is called Tom and my dog is called Jerry.")
    assert [value for _, value, _ in told] == ["Tom", "Jerry"]


def test_the_assistant_states_nothing_and_a_speaker_is_the_subject() -> None:
    assert found("I live in Porto.", speaker="assistant") == []
    assert found("I live in Porto.", speaker="Bo") == [("lives_in", "Porto", "Bo lives in Porto.")]
    told, named = facts(block("transcript", "[4] Bo Diddley: I live in Porto."))
    assert (told[0]["subject"], told[0]["seq"]) == ("Bo Diddley", 4)
    assert named == [{"name": "Porto", "type": "place"}]


async def test_the_reply_to_a_transcript_is_the_json_that_was_asked_for() -> None:
    says = [
        Say("system", "at most 210 words in all"),
        Say("user", block("transcript", "[1] Ada: I live in Porto.\n(Monday 2026-11-30 09:00)")),
    ]
    reply = json.loads((await offline_chat().complete(says, max_tokens=500)).text)
    assert reply["summary"] == "Ada: I live in Porto."
    assert [fact["value"] for fact in reply["facts"]] == ["Porto"]


async def test_without_any_key_a_user_has_facts_and_a_profile_at_once() -> None:
    async with served() as (client, _):
        for text in ("My name is Ada and I live in Lisbon.", "I moved to Porto.", "Am I vegan?"):
            await chat(client, text, session_id="s1", user_id="ada")
        await close(client, "s1")
        whose = {"user_id": "ada"}
        told = (await read(client, "/memories/facts", params=whose))["facts"]
        profile = await read(client, "/memories/profile", params=whose)
    assert {(one["predicate"], one["value"]) for one in told} == {
        ("name", "Ada"), ("lives_in", "Porto"),
    }  # fmt: skip
    assert sorted(one["statement"] for one in profile["facts"]) == [
        "The user lives in Porto.",
        "The user's name is Ada.",
    ]
