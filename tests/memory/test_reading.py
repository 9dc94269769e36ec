"""Readings of conversations: what is sent to the model, and what is kept of what it writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest

from app.errors import UpstreamInvalid
from app.llm.groq import groq_chat
from app.llm.tokens import estimate_tokens
from app.memory.base import Fact
from app.memory.reading import Reader, Reading
from app.sessions.base import Message
from app.usage import Bill
from tests.api.calls import chat, close
from tests.served import served
from tests.wire.memory import summed_up
from tests.wire.openai import ModelServer, model_server

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TRANSCRIPT = re.compile(r"<transcript date=[^>]*>\n(.*)\n</transcript>", re.DOTALL)
PREFIX = re.compile(r"^\[\d+\] (?:user|assistant|Ada Lovelace): ", re.MULTILINE)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(script=(summed_up("The user likes tea."),)) as server:
        yield server


def message(
    content: str, seq: int = 1, role: Literal["user", "assistant"] = "user", **changed: Any
) -> Message:
    fields: dict[str, Any] = {
        "id": f"m{seq}",
        "tenant_id": "default",
        "session_id": "s1",
        "status": "complete",
        "memory": "on",
        "client_message_id": None,
        "created_at": NOON,
        **changed,
    }
    return Message(seq=seq, role=role, content=content, **fields)


async def read(
    model: ModelServer,
    *messages: Message,
    previous: str = "",
    known: Sequence[Fact] = (),
    max_tokens: int = 100,
    context_tokens: int = 16_000,
    zone: str = "UTC",
) -> Reading:
    chat_model = groq_chat(
        api_key="gsk_test_key_of_these_tests",
        model="summariser",
        base_url=model.url,
        timeout_seconds=5,
        max_retries=0,
    )
    try:
        reader = Reader(chat_model, max_tokens=max_tokens, context_tokens=context_tokens)
        return await reader.read(previous, messages, known, ZoneInfo(zone), Bill("default", "ada"))
    finally:
        await chat_model.close()


def transcripts(model: ModelServer) -> list[str]:
    found = [TRANSCRIPT.search(request["messages"][-1]["content"]) for request in model.requests]
    return [match[1] for match in found if match]


def letters(text: str) -> str:
    """Return a text without white space and without the marks of speakers."""
    return re.sub(r"\s", "", PREFIX.sub("", text))


async def test_a_long_transcript_is_summarised_in_parts_that_fit_the_window(
    model: ModelServer,
) -> None:
    said = [message(f"In week {n} we met. " + "We spoke of tea. " * 30, n) for n in range(1, 21)]
    await read(model, *said, context_tokens=2_500)
    assert 1 < len(model.requests) < 20
    for request in model.requests:
        sent = sum(estimate_tokens(one["content"]) for one in request["messages"])
        assert sent + request["max_tokens"] <= 2_500
    first, *later = [request["messages"][-1]["content"] for request in model.requests]
    assert "previous_summary" not in first
    assert all("<previous_summary>\nThe user likes tea." in one for one in later)
    assert letters("\n".join(transcripts(model))) == letters("\n".join(m.content for m in said))


@pytest.mark.parametrize(
    "text",
    [
        "We met again. We spoke of tea! Did we agree? " * 200,
        "one sentence without an end " * 400,
        "x" * 20_000,
        "これは長い会話です。" * 400,
        "終わりのない文" * 600,
        "a line\n" * 1_500,
        "👩‍👩‍👧 " * 1_000,
        f"Short. {'y' * 9_000}   {'middle ' * 900}. The end.",
    ],
    ids=["sentences", "words", "a word", "Japanese", "no stop", "lines", "emoji", "mixed"],
)
async def test_a_message_longer_than_the_window_is_cut_and_nothing_of_it_is_lost(
    model: ModelServer, text: str
) -> None:
    await read(model, message("Before."), message(text, 2), context_tokens=2_500)
    assert len(model.requests) > 1
    for request in model.requests:
        sent = sum(estimate_tokens(one["content"]) for one in request["messages"])
        assert sent + request["max_tokens"] <= 2_500
    parts = [PREFIX.sub("", one) for one in transcripts(model)]
    assert letters("\n".join(parts)) == letters(f"Before.\n{text}")
    long_words = {word for word in text.split() if len(word) < 200}
    assert long_words <= {word for part in parts for word in part.split()}


async def test_a_summary_is_bounded(model: ModelServer) -> None:
    model.script = (summed_up(" ".join(f"The user likes tea number {n}." for n in range(100))),)
    numbers = " ".join(str(n) for n in range(100))
    kept = await read(model, message(f"I like tea: {numbers}"), max_tokens=80)
    assert 60 < estimate_tokens(kept.summary) <= 80
    assert kept.summary.startswith("The user likes tea number 0.")
    assert kept.summary.endswith(".")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("The user likes tea. The user also wan", "The user likes tea."),
        (
            "The user likes tea. The user likes coffee.",
            "The user likes tea. The user likes coffee.",
        ),
        ("The user pays 2.50 for tea. It costs 2.", "The user pays 2.50 for tea."),
        ("उसे चाय पसंद है। उसे कॉफ़ी", "उसे चाय पसंद है।"),
        ("お茶が好きです。コーヒー", "お茶が好きです。"),
    ],
)
async def test_a_summary_that_was_cut_off_loses_its_half_sentence(
    model: ModelServer, written: str, kept: str
) -> None:
    model.script, model.fault = (written,), "length"
    found = await read(
        model, message("I like tea and coffee; tea is 2.50; चाय, कॉफ़ी पसंद है; お茶が好きです。")
    )
    assert found.summary == kept


def finding(*values: str) -> str:
    """Return an answer that finds what the user likes."""
    facts = [
        {"predicate": "likes", "value": value, "statement": f"The user likes {value}.",
         "seq": 1, "quote": f"like {value}"}
        for value in values
    ]  # fmt: skip
    return json.dumps({"summary": "The user likes tea.", "facts": facts})


CUT_OFF = finding("tea")[:-30]


async def test_a_short_answer_that_was_cut_off_is_asked_for_again(model: ModelServer) -> None:
    model.script = (CUT_OFF, finding("tea"))
    found = await read(model, message("I like tea."))
    assert ([fact.value for fact in found.facts], found.skipped) == (["tea"], 0)
    assert "it was cut off" in model.requests[1]["messages"][1]["content"]


@pytest.mark.parametrize("second", [CUT_OFF, "Sorry, no.", "The user likes tea."])
async def test_what_is_whole_of_two_broken_answers_is_kept_and_the_rest_counted(
    model: ModelServer, second: str
) -> None:
    first = finding("tea", "green tea")[:-30]
    model.script = (first, second)
    found = await read(model, message("I like tea."))
    assert (found.summary, [fact.value for fact in found.facts]) == ("The user likes tea.", ["tea"])
    assert (found.skipped, len(model.requests)) == (1, 2)


async def test_a_summary_that_was_cut_off_in_its_first_sentence_is_a_failure(
    model: ModelServer,
) -> None:
    model.script, model.fault = ("The user likes",), "length"
    with pytest.raises(UpstreamInvalid):
        await read(model, message("I like tea."))


@pytest.mark.parametrize(
    "invented",
    [
        "The order costs 500 euros.",
        "It is due on 2031-05-17.",
        "She asked Bob Miller to help.",
        "The office of Globex is near.",
    ],
)
async def test_an_invented_sentence_is_dropped_and_counted(
    model: ModelServer, invented: str
) -> None:
    model.script = (summed_up(f"The user likes tea. {invented} The user likes coffee."),)
    found = await read(model, message("I like tea and coffee."))
    assert (found.summary, found.dropped) == ("The user likes tea. The user likes coffee.", 1)


async def test_a_summary_of_nothing_but_inventions_is_a_failure(model: ModelServer) -> None:
    model.script = ("Bob Miller paid 500 euros.",)
    with pytest.raises(UpstreamInvalid, match="no sentence that the messages support"):
        await read(model, message("I like tea."))


async def test_the_summary_before_and_the_day_are_sources_too(model: ModelServer) -> None:
    written = "On 2026-11-30 the user asked Bob Miller for 12 boxes of tea."
    model.script = (summed_up(written),)
    before = "Bob Miller sells boxes of 12."
    found = await read(model, message("I asked him for tea."), previous=before)
    assert (found.summary, found.dropped) == (written, 0)


async def test_inventions_of_all_parts_are_counted(model: ModelServer) -> None:
    model.script = (summed_up("The user likes tea. It costs 500 euros."),)
    said = [message("We spoke of tea. " * 40, n) for n in range(1, 5)]
    found = await read(model, *said, context_tokens=2_000)
    assert len(model.requests) > 1
    assert (found.summary, found.dropped) == ("The user likes tea.", len(model.requests))


async def test_the_instructions_name_what_matters_the_length_and_the_language(
    model: ModelServer,
) -> None:
    await read(model, message("I like tea."), max_tokens=200)
    system = model.requests[0]["messages"][0]
    assert system["role"] == "system"
    for wanted in ("decisions", "preferences", "open actions", "changed requirements"):
        assert wanted in system["content"].replace("\n", " ")
    assert "language of the conversation, at most 140 words" in system["content"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("会議は12月3日に変更しました。担当は田中さんです。", "12月3日"),
        (
            "Wir haben entschieden, den Vertrag bis zum 15. Oktober 2027 zu verlängern.",
            "15. Oktober 2027",
        ),
        ("قررنا تأجيل الاجتماع إلى 5 مارس 2027.", "5 مارس 2027"),
        ("Решили перенести встречу с Анной на 5 марта.", "5 марта"),
        ("I decided on 12 plates of 🍣 for Friday 🎉!", "12 plates of 🍣"),
        ("👍👍👍", ""),
    ],
    ids=["Japanese", "German", "Arabic", "Russian", "emoji", "emoji only"],
)
async def test_without_a_model_the_summary_keeps_the_words_of_the_conversation(
    text: str, kept: str
) -> None:
    async with served() as (client, _):
        await chat(client, text, session_id="s1", user_id="ada")
        closed = await close(client, "s1")
    assert closed["state"] == "closed", closed
    assert kept in closed["summary"]
