"""What a model or a user may write to harm a service: read to its end, and nothing comes of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db import Connection
from app.errors import UpstreamInvalid
from app.lexical.terms import name_terms
from app.memory.base import FoundEntity
from app.memory.believing import believe
from app.memory.entities import MOST_ALIASES, merge, take
from app.memory.output import read
from app.memory.reading import Reading
from app.memory.timeline import A_CHANGE, Point, periods
from app.memory.written import WrittenFact
from app.sessions.base import Message
from tests.served import served

NOW = datetime(2026, 11, 30, tzinfo=UTC)
FACT = {
    "subject": "user",
    "predicate": "likes",
    "value": "tea",
    "statement": "The user likes tea.",
    "seq": 1,
    "quote": "I like tea",
}


def answer(**fact: Any) -> str:
    return json.dumps({"summary": "The user likes tea.", "facts": [{**FACT, **fact}]})


@pytest.mark.parametrize(
    "text",
    [
        "{" + "//" * 50_000 + "x",
        "{ " + "/* " * 50_000 + "x",
        "{//" * 30_000,
        "{/*" * 30_000,
        '{summary: ["tea", ' + "/* " * 50_000,
        "tea" + " " * 100_000 + '{"a": {"b": 1}}',
        "```\n" + " " * 100_000 + '{"x": ["y"]}',
    ],
    ids=["slashes", "comments", "braces", "open comments", "in a list", "spaces", "fence"],
)
def test_what_looks_like_endless_json_is_read_to_its_end(text: str) -> None:
    """With a search that goes back and forth, each of these takes longer than anybody waits."""
    try:
        written = read(text)
    except UpstreamInvalid:
        return
    assert not written.facts


def test_a_confidence_beyond_all_numbers_costs_no_answer() -> None:
    text = answer(confidence=0.5).replace("0.5", "1" + "0" * 400)
    (fact,) = read(text).facts
    assert 0 <= fact.confidence <= 1


def test_values_in_a_list_are_cleaned_as_any_text_is() -> None:
    (fact,) = read(answer(value=["te\x00a", "cof\ud800fee"])).facts
    assert fact.value == "tea, cof\ufffdfee"


def test_a_time_of_any_length_is_cut() -> None:
    (fact,) = read(answer(when="\ufdfa" * 10_000)).facts
    assert len(fact.when) == 300


def message(seq: int, content: str) -> Message:
    role: Any = "user" if seq % 2 else "assistant"
    at = NOW + timedelta(minutes=seq)
    return Message(f"m{seq}", "t", "s", seq, role, content, "complete", "on", None, at)


def stated(seq: int, statement: str, value: str, quote: str) -> WrittenFact:
    return WrittenFact(predicate="likes", value=value, statement=statement, seq=seq, quote=quote)


def test_a_long_conversation_with_as_many_facts_is_held_against_itself() -> None:
    """Each fact against all of it, read anew, would be a matter of minutes."""
    told = "we talked of tomatoes and the long walk home. " * 5
    said = [message(n, f"I like apples{n}. {told}") for n in range(1, 401)]
    facts = [
        stated(n, f"The user likes apples{n}.", f"apples{n}", f"I like apples{n}.")
        for n in range(1, 401)
    ]
    found = believe(Reading("", facts=facts), said, {}, "", UTC)
    assert [fact.seq for fact in found.facts] == list(range(1, 401, 2))
    assert found.refused == {"only the assistant said it": 200}


def test_a_later_reply_is_no_ground_though_its_own_fact_is_written_first() -> None:
    said = [message(1, "I like tea."), message(2, "So does Pelmuth, I hear.")]
    facts = [
        WrittenFact(
            predicate="advice",
            value="Pelmuth",
            statement="Pelmuth likes tea.",
            kind="recommendation",
            seq=2,
            quote="So does Pelmuth",
        ),
        stated(1, "The user likes tea with Pelmuth.", "tea", "I like tea"),
    ]
    found = believe(Reading("", facts=facts), said, {}, "", UTC)
    assert [fact.seq for fact in found.facts] == [2]
    assert found.refused == {"it states what was not said": 1}


def test_a_name_is_found_at_the_end_of_a_very_long_question() -> None:
    found = name_terms("What of " + "Thing1 lake " * 20_000 + "and Pelmuth. Where was that?")
    assert "pelmuth" in found
    assert "where" not in found


def point(value: str, heard: int, since: int, seq: int) -> Point:
    return Point(
        fact_id=f"{seq}",
        value_key=value,
        session_id="",
        seq=seq,
        quote="",
        said_by="user",
        said_at=NOW + timedelta(days=heard),
        value=value,
        statement="",
        valid_from=NOW + timedelta(days=since),
        ends_at=None,
    )


POINTS = st.lists(
    st.builds(
        lambda value, heard, ago, seq: point(value, heard, heard - ago, seq),
        st.sampled_from(["Lisbon", "Porto", "Braga"]),
        st.integers(0, 100),
        st.sampled_from([0, 0, 3, 40, 61, 62, 63, -2]),
        st.integers(1, 10**6),
    ),
    max_size=12,
    unique_by=lambda p: p.seq,
)


@given(POINTS)
def test_what_was_overtaken_begins_with_the_first_change_told_after_it(said: list[Point]) -> None:
    begins = {
        id(point): min(
            (
                later.at
                for later in said
                if later.value_key != point.value_key
                and point.valid_from == point.said_at <= later.said_at
                and timedelta(0) < point.at - later.at <= A_CHANGE
            ),
            default=point.at,
        )
        for point in said
    }
    for period in periods(said):
        assert period.valid_from == min(begins[id(point)] for point in period.points)


def test_ten_thousand_values_of_one_predicate_are_put_in_order() -> None:
    said = [point(f"v{n}", n % 50, n % 50 - n % 3, n) for n in range(1, 10_001)]
    assert len(periods(said)) == 10_000


def named(session_id: str, found: list[FoundEntity], connection: Connection) -> None:
    take(connection, "default", "ada", session_id, found, NOW)


async def test_an_entity_with_very_many_names_is_asked_about() -> None:
    """All of them in one statement would be more than SQLite takes."""
    async with served() as (client, runtime):
        for n in range(40):
            aliases = tuple(f"Al{n}x{m}" for m in range(MOST_ALIASES))
            found = [FoundEntity("Ana", "person", aliases)]
            await runtime.database.write(partial(named, f"s{n}", found))
        body = {"message": "How is Ana?", "user_id": "ada"}
        assert (await client.post("/chat", json=body)).status_code == 200
        params = {"user_id": "ada", "query": "How is Ana?"}
        assert (await client.get("/memories", params=params)).status_code == 200


async def test_the_names_that_a_conversation_gives_an_entity_are_bounded() -> None:
    async with served() as (client, runtime):
        for n in range(10):
            aliases = tuple(f"Al{n}x{m}" for m in range(20))
            found = [FoundEntity("Ana", "person", aliases, {f"a{n}x{m}": "b" for m in range(20)})]
            await runtime.database.write(partial(named, "s", found))
        listed = (await client.get("/memories/entities", params={"user_id": "ada"})).json()
    (ana,) = listed["entities"]
    assert len(ana["aliases"]) == MOST_ALIASES == len(ana["attributes"])
    assert "Al9x19" in ana["aliases"]


def test_a_chain_of_aliases_is_one_entity() -> None:
    class Row:
        def __init__(self, n: int) -> None:
            self.key, self.name, self.type = f"name{n}", f"Name{n}", "person"
            self.aliases = [f"Name{n + 1}"]
            self.attributes: dict[str, str] = {}
            self.session_id, self.seen_at = "s", NOW - timedelta(seconds=n)

    (one,) = merge([Row(n) for n in reversed(range(5_000))])
    assert len(one.keys) == 5_001
