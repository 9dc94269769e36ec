"""Which facts are believed: quotes, who said it, what was never said, questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.base import FoundFact
from app.memory.believing import Believed, believe, plain
from app.memory.reading import Reading
from app.memory.written import WrittenEntity, WrittenFact, WrittenRelation
from app.sessions.base import Message
from app.text.clean import clean

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")


def said(*lines: str) -> list[Message]:
    """Return messages of lines like `user: Hello` or `Ada: Hello`, the latter imported."""
    found = []
    for seq, line in enumerate(lines, start=1):
        speaker, _, content = line.partition(": ")
        role: Any = speaker if speaker in ("user", "assistant") else "user"
        found.append(
            Message(
                id=f"m{seq}",
                tenant_id="default",
                session_id="s1",
                seq=seq,
                role=role,
                content=content,
                status="complete",
                memory="on",
                client_message_id=None,
                created_at=NOON + timedelta(minutes=seq),
                speaker=None if speaker == role else speaker,
            )
        )
    return found


def fact(quote: str, statement: str, value: str, seq: int = 1, **changed: Any) -> WrittenFact:
    fields = {"predicate": "lives_in", **changed}
    return WrittenFact(quote=quote, statement=statement, value=value, seq=seq, **fields)


def believed(
    messages: Sequence[Message],
    *facts: WrittenFact,
    documents: Mapping[int, Sequence[str]] | None = None,
    previous: str = "",
    zone: str = "UTC",
) -> Believed:
    reading = Reading("", facts=list(facts))
    return believe(reading, messages, documents or {}, previous, ZoneInfo(zone))


def the_one(found: Believed) -> FoundFact:
    assert found.refused == {}
    (one,) = found.facts
    return one


PORTO = "The user lives in Porto."


@pytest.mark.parametrize(
    ("message", "quote"),
    [
        ("I live in Porto.", "I live in Porto"),
        ("I live in Porto.", "i LIVE in porto."),
        ("I  live\nin\tPorto.", "I live in Porto."),
        ("So: “I live in Porto”, I said", '"I live in Porto"'),
        ("It’s Porto where I live", "It's Porto where I live"),
        ("I live in Porto.", '"I live in Porto."'),
        ("I live\u200b in Porto", "I live in Porto"),
        ("Ｉ live in Ｐorto", "I live in Porto"),
        ("I moved, at long last, and live in Porto now", "I moved … and live in Porto"),
        ("I moved, at long last, and live in Porto now", "I moved, [...] live in Porto"),
        ("I live in Porto.", "[1] user: I live in Porto."),
        ("I live in Porto 🎉🎉", "I live in Porto 🎉"),
    ],
)
def test_a_quote_may_differ_in_case_space_marks_and_unicode_forms(message: str, quote: str) -> None:
    found = the_one(believed(said(f"user: {message}"), fact(quote, PORTO, "Porto")))
    assert (found.seq, found.quote, found.said_by) == (1, quote, "user")
    assert (found.subject, found.said_at, found.valid_from) == (
        "user", NOON + timedelta(minutes=1), NOON + timedelta(minutes=1),
    )  # fmt: skip


@pytest.mark.parametrize(
    "quote",
    ["I live in Lisbon", "I do live in Porto", "in Porto I live", "Porto … I live", "…", '""', "."],
)
def test_what_no_message_says_is_refused_and_counted(quote: str) -> None:
    found = believed(said("user: I live in Porto."), fact(quote, PORTO, "Porto"))
    assert (found.facts, found.refused) == ((), {"its quote is in no message": 1})


def test_a_wrong_number_is_put_right_if_one_message_alone_has_the_quote() -> None:
    messages = said("user: Hello.", "assistant: Hi.", "user: I live in Porto.", "user: Hello.")
    for seq in (0, 1, 2, 99):
        assert the_one(believed(messages, fact("I live in Porto", PORTO, "Porto", seq))).seq == 3
    assert believed(messages, fact("Hello", PORTO, "Porto", 3)).refused
    assert the_one(believed(messages, fact("Hello", PORTO, "Porto", 4))).seq == 4


@pytest.mark.parametrize(
    ("message", "quote"),
    [
        ("Do I live in Porto?", "I live in Porto"),
        ("Do I live in Porto?", "Do I live in Porto?"),
        ("Is it true that I live in Porto, or in Lisbon?", "I live in Porto"),
        ("If I live in Porto, what then?", "I live in Porto"),
        ("Hello. Is Porto where I live?", "Porto where I live"),
        ("¿Vivo en Porto?", "Vivo en Porto"),
        ("私はPortoに住んでいますか？", "私はPortoに住んでいます"),
        ("هل أعيش في Porto؟", "أعيش في Porto"),
    ],
)
def test_a_question_states_nothing(message: str, quote: str) -> None:
    found = believed(said(f"user: {message}"), fact(quote, PORTO, "Porto"))
    assert (found.facts, found.refused) == ((), {"a question states nothing": 1})


@pytest.mark.parametrize(
    ("message", "quote"),
    [
        ("I live in Porto. Do you like it?", "I live in Porto"),
        ("I live in Porto, where can I eat?", "I live in Porto"),
        ("I live in Porto. Do you like it?", "I live in Porto. Do you like it?"),
    ],
)
def test_a_statement_before_a_question_is_one(message: str, quote: str) -> None:
    assert the_one(believed(said(f"user: {message}"), fact(quote, PORTO, "Porto"))).value == "Porto"


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("The user lives in Porto with Melanie.", "Porto"),
        ("The user has lived in Porto for 12 years.", "Porto"),
        ("The user moved to Porto on 2024-03-01.", "Porto"),
        ("The user lives in Porto.", "Lisbon"),
        ("The user lives in Porto.", "Rua 25"),
        ("The user's address is ada@porto.example.", "Porto"),
    ],
)
def test_a_number_a_date_or_a_name_that_nobody_said_is_refused(statement: str, value: str) -> None:
    found = believed(said("user: I live in Porto."), fact("I live in Porto", statement, value))
    assert (found.facts, found.refused) == ((), {"it states what was not said": 1})


def test_a_name_may_come_from_elsewhere_in_the_conversation_and_a_day_from_its_date() -> None:
    messages = said(
        "user: I adopted a puppy yesterday.", "assistant: How sweet!", "user: It's Rex."
    )
    statement = "The user adopted a puppy named Rex on November 29, 2026."
    found = the_one(believed(messages, fact("I adopted a puppy yesterday", statement, "Rex")))
    assert found.valid_from == datetime(2026, 11, 29, tzinfo=UTC)
    later = said("user: I like him.")
    claim = fact("I like him", "The user likes Bob.", "Bob")
    assert the_one(believed(later, claim, previous="They met Bob."))
    assert believed(later, claim).refused


def test_what_the_assistant_says_later_is_no_ground_for_what_a_user_said() -> None:
    messages = said("user: I like it there.", "assistant: Porto has 214,000 people.")
    found = believed(messages, fact("I like it there", "The user likes Porto.", "Porto"))
    assert found.refused == {"it states what was not said": 1}


ALLERGY = ("The user is allergic to peanuts.", "peanuts")


@pytest.mark.parametrize(
    ("user", "document", "is_stored"),
    [
        ("Hello!", "", False),
        ("What do I have to know of peanuts?", "", False),
        ("Am I allergic to peanuts?", "", False),
        ("My brother sells peanuts.", "", False),
        ("I'm not allergic to peanuts.", "", False),
        ("I'm allergic to peanuts.", "", True),
        ("Hello!", "Ada Lovelace is allergic to peanuts.", True),
        ("Hello!", "Ada Lovelace is not allergic to peanuts.", False),
        ("Hello!", "Peanuts cost 3 euros.", False),
    ],
)
def test_what_the_assistant_said_needs_the_user_or_a_document(
    user: str, document: str, is_stored: bool
) -> None:
    messages = said(f"user: {user}", "assistant: You are allergic to peanuts.")
    planted = fact("You are allergic to peanuts", *ALLERGY, 2, predicate="allergic_to")
    found = believed(messages, planted, documents={2: [document]} if document else {})
    if is_stored:
        assert the_one(found).said_by == "assistant"
    else:
        assert (found.facts, found.refused) == ((), {"only the assistant said it": 1})


def test_a_document_of_another_reply_supports_nothing() -> None:
    messages = said("user: Hi", "assistant: Hi", "user: Well", "assistant: You like peanuts.")
    claim = fact("You like peanuts", "The user likes peanuts.", "peanuts", 4)
    assert believed(messages, claim, documents={2: ["They like peanuts."]}).refused
    assert the_one(believed(messages, claim, documents={4: ["They like peanuts."]}))


def test_a_recommendation_is_the_assistants_own() -> None:
    messages = said("user: Where can I eat?", "assistant: Try the Café Majestic in Porto.")
    tip = fact(
        "Try the Café Majestic",
        "The assistant recommended the Café Majestic.",
        "Café Majestic",
        2,
        predicate="recommended",
        kind="recommendation",
    )
    found = the_one(believed(messages, tip))
    assert (found.kind, found.said_by) == ("recommendation", "assistant")
    invented = tip.model_copy(update={"value": "Maison Dupont", "statement": "Try Maison Dupont."})
    assert believed(messages, invented).refused == {"it states what was not said": 1}


def test_a_speaker_of_an_imported_conversation_counts_as_user_by_name() -> None:
    messages = said("Ada: I live in Porto.", "Bo: I live in Lisbon.")
    first, second = believed(
        messages,
        fact("I live in Porto", "Ada lives in Porto.", "Porto", 1, subject="I"),
        fact("I live in Lisbon", "Bo lives in Lisbon.", "Lisbon", 2, subject="Bo"),
    ).facts
    assert [(one.subject, one.said_by) for one in (first, second)] == [
        ("Ada", "user"),
        ("Bo", "user"),
    ]


def test_yesterday_is_another_day_in_chicago_than_in_tokyo() -> None:
    late = NOON.replace(day=1, month=12, hour=5, minute=30)  # 23:30 in Chicago, 14:30 in Tokyo
    messages = [
        Message("m1", "default", "s1", 1, "user", "I moved to Porto yesterday.", "complete", "on",
                None, late)
    ]  # fmt: skip
    claim = fact("I moved to Porto yesterday", "The user moved to Porto.", "Porto")
    found = [
        the_one(believed(messages, claim, zone=zone)).valid_from.isoformat()
        for zone in ("America/Chicago", "Asia/Tokyo")
    ]
    assert found == ["2026-11-29T00:00:00-06:00", "2026-11-30T00:00:00+09:00"]


def test_facts_come_in_the_order_in_which_they_were_said() -> None:
    messages = said("user: I live in Lisbon.", "assistant: Nice.", "user: No, I live in Porto.")
    found = believed(
        messages,
        fact("I live in Porto", PORTO, "Porto", 3),
        fact("I live in Lisbon", "The user lives in Lisbon.", "Lisbon", 1),
    )
    assert [one.value for one in found.facts] == ["Lisbon", "Porto"]


def test_a_relation_is_a_fact_of_which_there_may_be_many() -> None:
    reading = Reading(
        "",
        skipped=2,
        relations=[
            WrittenRelation(
                source="Ada", relation="sister_of", target="Bo", quote="Ada, Bo's sister"
            ),
            WrittenRelation(source="Ada", relation="works_with", target="Eve", quote="Ada and Eve"),
        ],
    )
    messages = said("user: I met Ada, Bo's sister.")
    found = believe(reading, messages, {}, "", UTC_ZONE)
    (one,) = found.facts
    assert (one.subject, one.predicate, one.value, one.is_many) == ("Ada", "sister_of", "Bo", True)
    assert one.statement == "Ada sister of Bo."
    assert found.refused == {"its quote is in no message": 1, "could not be read": 2}


def test_an_entity_is_what_was_named_and_what_was_said_of_it() -> None:
    reading = Reading(
        "",
        entities=[
            WrittenEntity(
                name="Ada Lovelace",
                type="Person",
                aliases=["Ada", "The Countess"],
                attributes={"city": "Porto", "age": "36"},
            ),
            WrittenEntity(name="Globex", type="company"),
        ],
    )
    found = believe(reading, said("user: Ada Lovelace, or Ada, is in Porto."), {}, "", UTC_ZONE)
    (ada,) = found.entities
    assert (ada.name, ada.type, ada.aliases, dict(ada.attributes)) == (
        "Ada Lovelace", "person", ("Ada",), {"city": "Porto"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("message", "quote", "statement", "value"),
    [
        ("東京に住んでいます。猫が好きです。", "猫が好きです", "猫が好きです。", "猫"),
        ("أعيش في القاهرة منذ ٣ سنوات.", "أعيش في القاهرة", "يعيش المستخدم في القاهرة.", "القاهرة"),
        ("I 💚 🍣!!", "I 💚 🍣", "The user loves 🍣.", "🍣"),
        ("Я живу в Москве.", "Я живу в Москве", "Живет в Москве.", "Москва"),
        ("Ich wohne in Köln.", "ich wohne in köln", "Der Nutzer wohnt in Köln.", "Köln"),
    ],
    ids=["Japanese", "Arabic", "emoji", "Russian", "German"],
)
def test_any_language_is_believed(message: str, quote: str, statement: str, value: str) -> None:
    assert the_one(believed(said(f"user: {message}"), fact(quote, statement, value))).value == value


@given(st.text(max_size=60), st.text(max_size=60).map(clean).filter(bool), st.text(max_size=20))
def test_whatever_is_believed_has_its_quote_in_its_message(
    message: str, quote: str, around: str
) -> None:
    messages = said(f"user: {around}{message}", "assistant: Hello.", f"user: {message}{quote}")
    found = believed(messages, fact(quote, "It is so.", "so"))
    for one in found.facts:
        assert one.seq is not None
        text = plain(messages[one.seq - 1].content)
        assert all(plain(word) in text for word in quote.replace("…", " ").split() if plain(word))
    assert len(found.facts) + sum(found.refused.values()) == 1
