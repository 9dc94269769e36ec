"""Which conversation a chat completion goes on with; what is a repeat; what nobody said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api import calls
from tests.api.calls import Json, read, refused
from tests.api.openai_calls import (
    PATH,
    ask,
    asked_of,
    chunks,
    messages,
    post,
    session_ids,
    stored,
    text,
)
from tests.served import listening, served, served_at
from tests.wire.openai import ModelServer, model_server

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
HISTORY = "<chat_history>\nUSER: Where is Porto?\nASSISTANT: In Portugal.\n</chat_history>"
TITLE = f'### Task:\nGenerate a title.\nJSON format: {{ "title": "a title" }}\n{HISTORY}'
TAGS = f'### Task:\nGenerate 1-3 tags.\nJSON format: {{ "tags": ["a", "b"] }}\n{HISTORY}'
FOLLOW_UPS = f'### Task:\nSuggest questions.\nJSON format: {{ "follow_ups": ["a?"] }}\n{HISTORY}'


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


def groq(model: ModelServer) -> Json:
    """Return the settings of a service that asks its model for replies and for nothing else."""
    return calls.groq(model, question_rewriting=False, summary_every_messages=1_000)


def _same(now: datetime) -> datetime:
    return now


async def test_a_client_without_ids_keeps_one_session_for_each_conversation(
    model: ModelServer,
) -> None:
    model.script = tuple(f"Reply {n}." for n in range(100))
    said: tuple[str, ...] = ("Hi",)
    async with served(**groq(model)) as (client, _):
        for _ in range(12):  # beyond what is read of a session
            body = await ask(client, said)
            said = (*said, text(body), f"And then, after {len(said)}?")
        ids = await session_ids(client)
        assert ids == [body["x_session_id"]]
        assert await stored(client, ids[0]) == list(said[:-1])


async def test_conversations_that_begin_alike_do_not_run_into_each_other(
    model: ModelServer,
) -> None:
    model.script = ("Hello!",)
    async with served(**groq(model)) as (client, _):
        one = await ask(client, "Hi")
        two = await ask(client, "Hi")
        one_b = await ask(client, ("Hi", "Hello!", "About Acme."))
        two_b = await ask(client, ("Hi", "Hello!", "About Globex."))
        again = ("Hi", "Hello!", "About Acme.", "Hello!", "When?")
        one_c = await ask(client, again)
        first = one_b["x_session_id"]
        assert await stored(client, first) == [*again, "Hello!"]
    assert {one["x_session_id"], two["x_session_id"]} == {first, two_b["x_session_id"]}
    assert one_c["x_session_id"] == first != two_b["x_session_id"]


async def test_conversations_that_come_to_say_the_same_stay_apart(model: ModelServer) -> None:
    model.script = ("Yes.",)
    told: dict[str, tuple[str, ...]] = {"Acme": ("Hi",), "Globex": ("Hi",)}
    async with served(**groq(model)) as (client, _):
        for question in ("About {}.", "Go on.", "Go on.", "And then?"):
            for name in told:
                await ask(client, told[name])
                told[name] = (*told[name], "Yes.", question.format(name))
        kept = {tuple(await stored(client, session)) for session in await session_ids(client)}
    assert kept == {said[:-1] for said in told.values()}


async def test_an_older_reply_to_a_question_that_was_asked_anew_may_be_gone_on_with(
    model: ModelServer,
) -> None:
    model.script = tuple(f"Reply {n}." for n in range(9))
    async with served(**groq(model)) as (client, _):
        first = await ask(client, "Hi")
        second = [await ask(client, ("Hi", text(first), "Which?")) for _ in range(2)]
        older = ("Hi", text(first), "Which?", text(second[0]), "That one.")
        third = await ask(client, older)
    assert [b["x_session_id"] for b in (*second, third)] == [first["x_session_id"]] * 3


async def test_a_conversation_that_was_edited_goes_on_in_a_session_of_its_own() -> None:
    async with served() as (client, _):
        first = await ask(client, "Hi")
        told = ("Hi", text(first))
        await ask(client, (*told, "One."))
        edited = await ask(client, (*told, "Another one."))
        more = await ask(client, (*told, "Another one.", text(edited), "Go on."))
        assert len(await stored(client, first["x_session_id"])) == 4
        assert len(await stored(client, edited["x_session_id"])) == 4
    assert edited["x_session_id"] == more["x_session_id"] != first["x_session_id"]


async def test_many_conversations_that_begin_alike_are_told_apart() -> None:
    async with served() as (client, _):
        bodies = [await ask(client, "Hi") for _ in range(21)]
        newest = bodies[-1]
        more = await ask(client, ("Hi", text(newest), "And now?"))
        ids = await session_ids(client)
    assert len(ids) == len({body["x_session_id"] for body in bodies}) == 21
    assert more["x_session_id"] == newest["x_session_id"]


async def test_users_that_begin_alike_have_sessions_of_their_own() -> None:
    async with served() as (client, _):
        ada = await ask(client, "Hi", user="ada")
        bob = await ask(client, "Hi", user="bob")
        assert await session_ids(client, params={"user_id": "ada"}) == [ada["x_session_id"]]
    assert ada["x_session_id"] != bob["x_session_id"]


async def test_a_reply_that_its_reader_stopped_is_still_the_session_s() -> None:
    async with served() as (client, _):
        first = await ask(client, "Tell me about Porto.")
        part = text(first)[:10]
        more = await ask(client, ("Tell me about Porto.", part, "Shorter!"))
    assert more["x_session_id"] == first["x_session_id"]


@pytest.mark.parametrize("session", [{}, {"session_id": "s1"}])
async def test_a_retry_of_an_sdk_is_stored_and_answered_once(
    model: ModelServer, session: dict[str, str]
) -> None:
    model.script = ("Hello!", "Fine.")
    async with served(**groq(model)) as (client, _):
        for said in ("Hi", ("Hi", "Hello!", "How are you?")):
            bodies = []
            for count in range(3):
                retried = {"x-stainless-retry-count": str(count or "0" * 5_000)}
                bodies.append(await ask(client, said, headers=retried, **session))
            assert len({body["x_message_id"] for body in bodies}) == 1
        assert await session_ids(client) == [bodies[0]["x_session_id"]]
        kept = await stored(client, bodies[0]["x_session_id"])
    assert kept == ["Hi", "Hello!", "How are you?", "Fine."]
    assert len(model.requests) == 2


async def test_a_retry_is_found_though_another_message_came_between(model: ModelServer) -> None:
    model.script = tuple(f"Reply {n}." for n in range(9))
    headers = {"X-OpenWebUI-Chat-Id": "c1"}
    async with served(**groq(model)) as (client, _):
        first = await ask(client, "Hi", headers=headers)
        await ask(client, ("Hi", text(first), "Which?"), headers=headers)
        again = await ask(client, "Hi", headers={**headers, "x-stainless-retry-count": "1"})
    assert again["x_message_id"] == first["x_message_id"]


async def test_a_retry_whose_first_try_never_came_is_not_an_older_message(
    model: ModelServer,
) -> None:
    model.script = tuple(f"Reply {n}." for n in range(9))
    newest_only = {"X-Session-Id": "s1"}
    retried = {**newest_only, "x-stainless-retry-count": "1"}
    async with served(**groq(model)) as (client, _):
        for said in ("Go on.", "Stop."):
            await ask(client, said, headers=newest_only)
        assert text(await ask(client, "Go on.", headers=retried)) == "Reply 2."
        kept = await stored(client, "s1")
    assert kept[::2] == ["Go on.", "Stop.", "Go on."]


async def test_a_retry_after_a_failure_takes_the_same_turn_up(model: ModelServer) -> None:
    model.fault, model.fault_times = "server_error", 2
    async with served(**groq(model)) as (client, _):
        for _ in range(2):
            assert (await post(client, "Hi")).status_code == 503
        body = await ask(client, "Hi")
        assert await session_ids(client) == [body["x_session_id"]]
        assert await stored(client, body["x_session_id"]) == ["Hi", "Hello there, friend."]


async def test_retries_while_the_first_is_answered_wait_for_its_reply(model: ModelServer) -> None:
    model.fault, model.latency_seconds = "slow", 0.4
    async with served(**groq(model)) as (client, _):
        bodies = await asyncio.gather(*(ask(client, "Hi") for _ in range(3)))
        ids = await session_ids(client)
    assert {body["x_session_id"] for body in bodies} == set(ids)
    assert len({body["x_message_id"] for body in bodies}) == 1
    assert len(model.requests) == 1


async def test_regenerate_asks_the_model_anew(model: ModelServer) -> None:
    model.script = tuple(f"Reply {n}." for n in range(9))
    headers = {"X-OpenWebUI-Chat-Id": "c1", "x-stainless-retry-count": "0"}
    async with served(**groq(model)) as (client, _):
        first = [text(await ask(client, "Hi", headers=headers)) for _ in range(3)]
        told = ("Hi", first[-1], "And?")
        more = [text(await ask(client, told, headers=headers)) for _ in range(3)]
        kept = await stored(client, "c1")
    assert (first, more) == (list(model.script[:3]), list(model.script[3:6]))
    assert kept[::2] == ["Hi"] * 3 + ["And?"] * 3
    # What was asked before is not told to the model as if it had been another question.
    assert asked_of(model.requests[2])[:-1] == []
    assert len(asked_of(model.requests[5])[:-1]) == 2


async def test_the_same_words_later_on_are_another_message(model: ModelServer) -> None:
    model.script = tuple(f"Reply {n}." for n in range(9))
    newest_only = {"X-Session-Id": "s1"}
    async with served(**groq(model)) as (client, _):
        for said in ("Tell me.", "Go on.", "Go on.", "Thanks.", "Go on."):
            await ask(client, said, headers=newest_only)
        kept = await stored(client, "s1")
    assert kept[::2] == ["Tell me.", "Go on.", "Go on.", "Thanks.", "Go on."]
    assert kept[1::2] == list(model.script[:5])
    assert [said for _, said in asked_of(model.requests[2])[:-1]] == kept[:4]


async def test_a_key_of_the_client_makes_a_repeat_return_the_stored_reply(
    model: ModelServer,
) -> None:
    model.script = ("One.", "Two.")
    headers = {"Idempotency-Key": "k1"}
    async with served(**groq(model)) as (client, _):
        bodies = [await ask(client, "Hi", headers=headers) for _ in range(3)]
        other = await post(client, "Bye", headers=headers, session_id=bodies[0]["x_session_id"])
        new = await ask(client, "Hi", headers={"Idempotency-Key": "k2"})
    assert {text(body) for body in bodies} == {"One."}
    assert len({body["x_session_id"] for body in bodies}) == 1
    assert refused(other, 409)["code"] == "conflict"
    assert text(new) == "Two."


async def test_a_reply_that_was_not_delivered_is_there_for_a_repeat_within_a_minute(
    model: ModelServer,
) -> None:
    model.script = ("One.", "Two.")
    model.fault, model.fault_times, model.latency_seconds = "slow", 1, 0.6
    async with listening(**groq(model)) as (client, _):
        with pytest.raises(httpx.ReadTimeout):
            await client.post(
                PATH, json={"model": "conversational-rag", "messages": messages("Hi")}, timeout=0.2
            )
        (session_id,) = await session_ids(client)
        while (await stored(client, session_id))[-1] != "One.":
            await asyncio.sleep(0.02)
        again = await ask(client, "Hi")
        anew = await ask(client, "Hi", session_id=session_id)
    assert (text(again), again["x_session_id"]) == ("One.", session_id)
    assert text(anew) == "Two."


async def test_a_process_that_did_not_send_the_reply_gives_it_for_a_minute(
    model: ModelServer, tmp_path: Path
) -> None:
    model.script = ("One.", "Two.")
    disk = {"database_url": f"sqlite:///{tmp_path / 'a.db'}"}
    said = []
    for minutes in (0, 0.5, 2):
        now = NOON + timedelta(minutes=minutes)
        async with served_at(partial(_same, now), **groq(model), **disk) as (client, _):
            said.append(text(await ask(client, "Hi", session_id="s1")))
    assert said == ["One.", "One.", "Two."]


async def test_a_reader_that_leaves_a_stream_does_not_lose_the_turn(model: ModelServer) -> None:
    model.fault, model.fault_times, model.latency_seconds = "stall", 1, 0.5
    asked = {"model": "conversational-rag", "messages": messages("Hi"), "stream": True}
    async with listening(**groq(model)) as (client, _):
        async with client.stream("POST", PATH, json=asked) as response:
            async for line in response.aiter_lines():
                if "Hello" in line:
                    break
        (session_id,) = await session_ids(client)
        while (await stored(client, session_id))[-1] != "Hello there, friend.":
            await asyncio.sleep(0.02)
        again = chunks(await post(client, "Hi", stream=True))
        assert await session_ids(client) == [session_id]
    said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in again)
    assert said == "Hello there, friend."
    assert len(model.requests) == 1


async def test_one_question_in_open_webui_is_one_stored_turn(model: ModelServer) -> None:
    """It sends four completions for it, with the same user and chat."""
    headers = {"X-OpenWebUI-Chat-Id": "c1", "X-OpenWebUI-User-Id": "ada"}
    async with served(**groq(model)) as (client, _):
        for said in ("Where is Porto?", FOLLOW_UPS, TITLE, TAGS):
            await ask(client, said, headers=headers)
        kept = await stored(client, "c1")
        used = await read(client, "/usage", params={"by": "purpose"})
        memories = await read(client, "/memories", params={"user_id": "ada"})
        assert await session_ids(client) == ["c1"]
    assert kept == ["Where is Porto?", "Hello there, friend."]
    assert {row["key"]: row["calls"] for row in used["rows"]} == {"chat": 1, "aside": 3}
    assert memories["memories"] == []
    assert model.requests[1]["messages"] == messages(FOLLOW_UPS)


async def test_a_question_about_files_in_open_webui_is_a_question() -> None:
    said = "### Task:\nRespond to the user query using the provided context.\nWhere is Porto?"
    async with served() as (client, _):
        body = await ask(client, said, headers={"X-OpenWebUI-Chat-Id": "c1"})
        assert (await stored(client, "c1"))[0] == said
    assert body["x_session_id"] == "c1"


@pytest.mark.parametrize(
    ("said", "headers", "fields"),
    [
        ("Name this chat.", {"X-Client-Task": "title_generation"}, {}),
        ("Name this chat.", {}, {"metadata": {"task": "tags_generation"}}),
        (
            "Provide a concise, 5-word-or-less title for the conversation, using title case "
            "conventions. Only return the title itself.\n\nConversation:\nUser: Where is Porto?",
            {},
            {},
        ),
        (
            "Please generate a concise, 5-word-or-less title for the conversation, using its same "
            "language.",
            {},
            {},
        ),
        (
            [
                {"role": "system", "content": "Write a concise title for this conversation."},
                *messages("Where is Porto?"),
            ],
            {},
            {},
        ),
        ([*messages("### Task:\nx"), {"role": "system", "content": "Only JSON."}], {}, {}),
    ],
)
async def test_nothing_of_an_aside_is_stored(
    said: Any, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    async with served() as (client, _):
        body = await ask(client, said, headers=headers, **fields)
        streamed = chunks(await post(client, said, headers=headers, stream=True, **fields))
        assert await session_ids(client) == []
    assert text(body)
    assert "x_session_id" not in body
    assert streamed[-1]["choices"][0]["finish_reason"] == "stop"


async def test_a_line_end_of_unicode_ends_no_event(model: ModelServer) -> None:
    said = "one\u2028two\u2029three\x85four"
    model.script = (said,)
    async with served(**groq(model)) as (client, _):
        openai = await post(client, "Hi", stream=True)
        ours = await client.post("/chat", json={"message": "Hi", "stream": True})
    for response in (openai, ours):
        lines = [line for line in response.text.splitlines() if line.startswith("data: {")]
        found = [json.loads(line.removeprefix("data: ")) for line in lines]
        pieces = [one["text"] for one in found if "text" in one]
        pieces += [str(c["delta"].get("content", "")) for o in found for c in o.get("choices", [])]
        assert "".join(pieces) == said


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_an_id_in_a_header_is_the_same_as_in_a_body_however_it_is_encoded(
    encoding: str,
) -> None:
    headers = [(name.encode(), "Zoë".encode(encoding)) for name in ("X-User-Id", "X-Session-Id")]
    async with served() as (client, _):
        body = {"model": "conversational-rag", "messages": messages("Hi")}
        asked = await client.post(PATH, json=body, headers=headers)
        assert asked.json()["x_session_id"] == "Zoë"
        assert await session_ids(client, params={"user_id": "Zoë"}) == ["Zoë"]


@pytest.mark.parametrize("value", ["", "None", "{{TASK}}"])
async def test_an_empty_task_is_none(value: str) -> None:
    async with served() as (client, _):
        await ask(client, "Hi", headers={"X-Client-Task": value})
        assert len(await session_ids(client)) == 1


async def test_an_aside_that_does_not_fit_the_model_says_so() -> None:
    async with served(summary_context_tokens=2_000, reply_max_tokens=500) as (client, _):
        error = refused(await post(client, "### Task:\n" + "word " * 5_000), 400)
        long = refused(await post(client, "### Task:\n" + "word " * 500_000), 400)
    assert error["code"] == "context_length_exceeded"
    assert "1500" in error["message"]
    assert (long["code"], "2500010 characters" in long["message"]) == (error["code"], True)


async def test_an_aside_whose_model_fails_is_a_clear_error(model: ModelServer) -> None:
    model.fault = "server_error"
    async with served(**groq(model)) as (client, _):
        response = await post(client, TITLE, stream=True)
    assert (response.status_code, response.json()["error"]["type"]) == (503, "upstream_error")


async def test_without_a_model_a_title_is_the_user_s_first_words() -> None:
    async with served() as (client, _):
        title = await ask(client, TITLE)
        tags = await ask(client, TAGS)
    assert json.loads(text(title)) == {"title": "Where is Porto"}
    assert json.loads(text(tags)) == {"tags": []}


async def test_nobody_is_in_the_way_of_another_user_s_conversation() -> None:
    """How a conversation without an id is named can be worked out, so anybody may take the name."""
    async with served() as (client, runtime):
        ada = await calls.key(runtime, "user", user="ada")
        bo = await calls.key(runtime, "user", user="bo")
        await ask(client, "Hi", headers=ada)
        (named,) = await session_ids(client, headers=ada)
        await client.delete(calls.at("sessions", named), headers=ada)
        await calls.chat(client, "Mine.", session_id=named, headers=bo)
        reply = text(await ask(client, "Hi", headers=ada))
        await ask(client, ("Hi", reply, "And now?"), headers=ada)
        (own,) = await session_ids(client, headers=ada)
        assert len(await stored(client, own, headers=ada)) == 4
        assert await session_ids(client, headers=bo) == [named]
    assert own != named
