"""The OpenAI-compatible endpoint: its shapes, its errors, whose conversation it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai.types import Model

from tests.api.calls import Json, chat, groq, key, put, read, refused
from tests.api.openai_calls import (
    MODEL,
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
from tests.served import served
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, ModelServer, model_server

REMOTE = "203.0.113.9"
USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


async def test_models_are_the_chat_and_the_agent_under_the_name_of_the_settings() -> None:
    async with served(served_model_name="acme/assistant") as (client, _):
        listed = await read(client, "/v1/models")
        one = await read(client, "/v1/models/acme/assistant-agent")
        unknown = await client.get("/v1/models/gpt-5")
    assert listed["object"] == "list"
    names = [Model.model_validate(model, strict=True).id for model in listed["data"]]
    assert names == ["acme/assistant", "acme/assistant-agent"]
    assert one == listed["data"][1]
    error = refused(unknown, 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert all(name in error["message"] for name in names)


async def test_a_completion_has_openais_shape_and_ours_beside_it(model: ModelServer) -> None:
    model.script = ("Refunds take 30 days [1], as [7] says.",)
    async with served(**groq(model), public_base_url="https://rag.example/") as (client, _):
        await put(client, {"id": "a/b", "text": "Refunds take 30 days.", "source": "faq"})
        body = await ask(client, "How long do refunds take?", session_id="s1")
        receipt = await read(client, f"/messages/{body['x_message_id']}/receipt")
    assert body["id"].startswith("chatcmpl-")
    assert (body["object"], body["model"], body["usage"]) == ("chat.completion", MODEL, USAGE)
    (choice,) = body["choices"]
    assert (choice["finish_reason"], choice["message"]["role"]) == ("stop", "assistant")
    cited = {"url": "https://rag.example/documents/a%2Fb", "title": "faq"}
    (mark,) = choice["message"]["annotations"]  # nothing is the seventh document
    place = {"start_index": 21, "end_index": 24}
    assert mark == {"type": "url_citation", "url_citation": {**cited, **place}}
    assert text(body)[21:24] == "[1]"
    (source,) = body["x_sources"]
    assert {name: source[name] for name in cited} == cited
    assert (source["metadata"]["document_id"], source["text"]) == ("a/b", "Refunds take 30 days.")
    assert (body["x_session_id"], receipt["receipt"]["mode"]) == ("s1", "chat")


async def test_a_stream_has_the_same_in_chunks(model: ModelServer) -> None:
    model.script = ("Refunds take 30 days [1].",)
    async with served(**groq(model)) as (client, _):
        await put(
            client,
            {
                "id": "d1",
                "text": "Refunds take 30 days.",
                "metadata": {"url": "https://faq.example/7"},
            },
        )
        asked: Json = {"stream": True, "session_id": "s1"}
        response = await post(client, "How long do refunds take?", **asked)
        plain = chunks(response)
        counted = chunks(
            await post(client, "Really?", stream_options={"include_usage": True}, **asked)
        )
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert "event:" not in response.text
    assert len({chunk["id"] for chunk in plain}) == 1
    deltas = [chunk["choices"][0]["delta"] for chunk in plain]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == model.script[0]
    assert [set(delta) for delta in deltas[-2:]] == [{"annotations"}, set()]
    (mark,) = deltas[-2]["annotations"]
    assert mark["url_citation"] == {
        "url": "https://faq.example/7",
        "title": "api",
        "start_index": 21,
        "end_index": 24,
    }
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in plain]
    assert reasons == [None] * (len(plain) - 1) + ["stop"]
    assert plain[-1]["x_session_id"] == "s1"
    assert [chunk["choices"] for chunk in counted].count([]) == 1
    assert (counted[-1]["choices"], counted[-1]["usage"]) == ([], USAGE)


async def test_a_memory_that_is_cited_leads_to_its_conversation(model: ModelServer) -> None:
    model.script = ("Noted.", "In Porto [m1].")
    async with served(**groq(model)) as (client, _):
        await chat(client, "I moved to Porto.", session_id="old")
        body = await ask(client, "Where did I move to?")
    (mark,) = body["choices"][0]["message"]["annotations"]
    assert mark["url_citation"]["url"] == "/sessions/old"
    assert mark["url_citation"]["title"].startswith("Memory of 20")
    assert [memory["session_id"] for memory in body["x_memories"]] == ["old"]


async def test_the_agent_is_a_model_of_its_own() -> None:
    async with served() as (client, _):
        body = await ask(client, "hello", model=f"{MODEL}-agent")
        last = chunks(await post(client, "hello", model=f"{MODEL}-agent", stream=True))[-1]
        for message_id in (body["x_message_id"], last["x_message_id"]):
            receipt = await read(client, f"/messages/{message_id}/receipt")
            assert receipt["receipt"]["mode"] == "agent"


@pytest.mark.parametrize(("reason", "told"), [("length", "length"), (None, "stop")])
async def test_a_finish_reason_is_always_there(model: ModelServer, reason: Any, told: str) -> None:
    model.fault = reason
    async with served(**groq(model)) as (client, _):
        body = await ask(client, "hi")
        last = chunks(await post(client, "hi", stream=True))[-1]
    assert body["choices"][0]["finish_reason"] == told
    assert last["choices"][0]["finish_reason"] == told


async def test_a_failure_in_mid_stream_is_an_error_in_the_stream(model: ModelServer) -> None:
    model.fault = "stream_error"
    async with served(**groq(model)) as (client, _):
        response = await post(client, "hi", stream=True)
    *_, last = response.text.strip().split("\n\n")
    assert response.status_code == 200
    assert last.startswith('data: {"error": {')
    assert "[DONE]" not in response.text


async def test_pauses_are_filled_with_comments(model: ModelServer) -> None:
    model.fault, model.latency_seconds = "stall", 0.4
    async with served(**groq(model), heartbeat_seconds=0.05) as (client, _):
        response = await post(client, "hi", stream=True)
    assert ": still here\n\n" in response.text
    assert chunks(response)[-1]["choices"][0]["finish_reason"] == "stop"


async def test_what_we_do_not_know_is_ignored(model: ModelServer) -> None:
    odd: Json = {
        "temperature": 7,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "n": 1,
        "seed": None,
        "shoe_size": 43,
    }
    async with served(**groq(model)) as (client, _):
        body = await ask(client, [{"role": "user", "content": "hi", "mood": "good"}], **odd)
    assert text(body) == "Hello there, friend."
    assert "tools" not in model.requests[-1]


async def test_the_parts_of_a_message_are_one_text_and_images_are_left_out(
    model: ModelServer,
) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = [{"type": "text", "text": "What is"}, image, {"type": "text", "text": "this?"}]
    async with served(**groq(model)) as (client, _):
        body = await ask(client, [{"role": "user", "content": parts}])
        assert (await stored(client, body["x_session_id"]))[0] == "What is\nthis?"
        only = await post(client, [{"role": "user", "content": [image]}])
    error = refused(only, 400)
    assert error["param"] == "messages.0.content"
    assert "image_url" in error["message"]


async def test_the_client_s_instructions_and_limits_reach_the_model(model: ModelServer) -> None:
    said = [
        {"role": "system", "content": "Answer like a pirate."},
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": "Be brief."},
    ]
    async with served(**groq(model)) as (client, _):
        await ask(client, said, max_tokens=17)
        await ask(client, said, max_completion_tokens=18, max_tokens=17)
        body = await ask(client, said, max_tokens=10_000_000)
        assert len(await stored(client, body["x_session_id"])) == 2
    whole = str(model.requests[0]["messages"])
    assert "Answer like a pirate." in whole
    assert "Be brief." in whole
    assert [request["max_tokens"] for request in model.requests] == [17, 18, 1024]


BAD: dict[str, tuple[Json, str | None]] = {
    "no messages": ({"messages": []}, "messages"),
    "far too many messages": ({"messages": messages(("hi",) * 10_001)}, "messages"),
    "messages of another kind": ({"messages": "hi"}, "messages"),
    "only instructions": ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
    "an unknown role": ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
    "content of another kind": (
        {"messages": [{"role": "user", "content": 5}]},
        "messages.0.content",
    ),
    "no content": ({"messages": [{"role": "user"}]}, "messages.0.content"),
    "blank": ({"messages": [{"role": "user", "content": " \n"}]}, "messages.0.content"),
    "NUL": ({"messages": [{"role": "user", "content": "a\x00"}]}, "messages.0.content"),
    "NUL in a part": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "\x00"}]}]},
        "messages.0.content",
    ),
    "an assistant's message last": (
        {"messages": messages(("hi", "Hello, I"))},
        "messages.1.role",
    ),
    "a tool's result last": (
        {"messages": [*messages("hi"), {"role": "tool", "content": "4", "tool_call_id": "c"}]},
        "messages.1.role",
    ),
    "two replies": ({"n": 2}, "n"),
    "no reply": ({"n": 0}, "n"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "stream": ({"stream": "perhaps"}, "stream"),
    "metadata": ({"metadata": []}, "metadata"),
    "session id": ({"session_id": "a\x00b"}, "session_id"),
    "session id of another kind": ({"session_id": 5}, "session_id"),
    "session id in metadata": ({"metadata": {"session_id": "x" * 600}}, "metadata.session_id"),
    "user": ({"user": "a\nb"}, "user"),
    "no model": ({"model": None}, "model"),
}


async def test_what_is_wrong_is_a_400_that_names_it_and_stores_nothing() -> None:
    found = {}
    async with served() as (client, _):
        for name, (wrong, _param) in BAD.items():
            body = {"model": MODEL, "messages": messages("hi"), **wrong}
            error = refused(await client.post(PATH, json=body), 400)
            found[name] = (wrong, error["param"])
        for header in ("X-Session-Id", "X-User-Id", "Idempotency-Key"):
            error = refused(await post(client, "hi", headers={header: "x" * 600}), 400)
            assert error["param"] == header
        error = refused(await post(client, "hi", headers={"X-Memory": "maybe"}), 400)
        assert error["param"] == "X-Memory"
        refused(
            await client.post(PATH, content=b"{", headers={"Content-Type": "application/json"}), 400
        )
        assert await session_ids(client) == []
    assert found == BAD


async def test_a_message_that_is_too_long_is_told_in_openais_words() -> None:
    async with served(message_max_chars=100, max_body_bytes=5_000) as (client, _):
        error = refused(await post(client, "x" * 101), 400)
        refused(await post(client, "x" * 6_000), 413)
        assert await session_ids(client) == []
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert "100" in error["message"]


async def test_a_question_that_fits_no_prompt_is_told_so_too() -> None:
    async with served(context_tokens=2_000, reply_max_tokens=100) as (client, _):
        error = refused(await post(client, "one two three four " * 1_500, stream=True), 400)
        assert await session_ids(client) == []
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


async def test_other_errors_are_in_openais_words_too(model: ModelServer) -> None:
    model.fault = "rate_limit"
    async with served(address=REMOTE, **groq(model)) as (client, runtime):
        nobody = await post(client, "hi")
        admin = await key(runtime, "admin")
        unknown = await client.post(
            PATH, json={"model": "gpt-5", "messages": messages("hi")}, headers=admin
        )
        busy = await post(client, "hi", headers=admin, user="ada")
        for path in ("/chat/completions", "/v1/completions", "/models", "/v1/v1/models", "/v1/"):
            missing = refused(await client.post(path, json={}, headers=admin), 404)
            assert missing["message"]
            assert "/v1/chat/completions" in missing["message"] or path == "/v1/"
    assert refused(nobody, 401)["code"] == "invalid_api_key"
    assert nobody.headers["www-authenticate"] == "Bearer"
    assert refused(unknown, 404)["code"] == "model_not_found"
    assert busy.status_code == 503
    assert busy.headers["retry-after"] == "7"
    assert busy.json()["error"]["type"] == "upstream_error"


async def test_the_tokens_of_the_day_are_a_429_also_here() -> None:
    async with served(daily_token_budget=1) as (client, _):
        await ask(client, "hi")
        spent = await post(client, "hello")
        aside = await post(client, "### Task:\nGenerate tags")
    assert refused(spent, 429)["code"] == refused(aside, 429)["code"] == "token_budget_spent"
    assert int(spent.headers["retry-after"]) > 0


async def test_a_user_s_own_key_is_not_asked_whose_memory_it_is() -> None:
    async with served(address=REMOTE) as (client, runtime):
        ada = await key(runtime, "user", user="ada")
        pretended = {"X-User-Id": "bob", "X-OpenWebUI-User-Id": "bob", "X-Session-Id": "s1"}
        await ask(client, "hi", headers={**ada, **pretended}, user="bob", safety_identifier="\x00")
        session = await read(client, "/sessions/s1", headers=ada)
    assert session["user_id"] == "ada"


@pytest.mark.parametrize("role", ["gateway", "admin"])
async def test_a_trusted_key_names_the_user_in_this_order(role: Any) -> None:
    named: list[tuple[dict[str, str], Json]] = [
        ({"X-User-Id": "one"}, {}),
        ({"X-OpenWebUI-User-Id": "two"}, {}),
        ({}, {"safety_identifier": "three"}),
        ({}, {"user": "four"}),
    ]
    async with served(address=REMOTE) as (client, runtime):
        trusted = await key(runtime, role)
        users = []
        for at in range(len(named)):
            headers = dict(trusted)
            fields: Json = {"session_id": f"s{at}"}
            for header, field in named[at:]:
                headers, fields = headers | header, fields | field
            await ask(client, "hi", headers=headers, **fields)
            admin = await key(runtime, "admin")
            users.append((await read(client, f"/sessions/s{at}", headers=admin))["user_id"])
        unnamed = await post(client, "hi", headers={**trusted, "X-User-Id": " "})
    assert users == ["one", "two", "three", "four"]
    assert "X-User-Id" in refused(unnamed, 400)["message"]


async def test_a_session_is_named_in_this_order_and_never_another_user_s() -> None:
    async with served(address=REMOTE) as (client, runtime):
        ada, bob = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bob")
        named: list[tuple[dict[str, str], Json]] = [
            ({"X-Session-Id": "one"}, {}),
            ({"X-OpenWebUI-Chat-Id": "two"}, {}),
            ({}, {"metadata": {"session_id": "three"}}),
            ({}, {"session_id": "four"}),
        ]
        found = []
        for at in range(len(named)):
            headers = dict(ada)
            fields: Json = {}
            for header, field in named[at:]:
                headers, fields = headers | header, fields | field
            found.append((await ask(client, "hi", headers=headers, **fields))["x_session_id"])
        other = await post(client, "hi", headers=bob, session_id="one")
    assert found == ["one", "two", "three", "four"]
    assert refused(other, 404)["param"] == "session_id"


async def test_a_history_that_is_told_is_not_doubled_by_the_stored_one(
    model: ModelServer,
) -> None:
    model.script = ("Hello!", "Fine.", "Yes.")
    asked: Json = {"session_id": "s1"}
    async with served(**groq(model, question_rewriting=False)) as (client, _):
        await ask(client, "Hi", **asked)
        await ask(client, ("Hi", "Hello!", "How are you?"), **asked)
        await ask(client, "Sure?", **asked)  # a client that sends the newest message only
        kept = await stored(client, "s1")
    assert kept == ["Hi", "Hello!", "How are you?", "Fine.", "Sure?", "Yes."]
    told = asked_of(model.requests[1])
    assert told[:-1] == [("user", "Hi"), ("assistant", "Hello!")]
    assert [content for _, content in asked_of(model.requests[2])[:-1]] == kept[:4]


async def test_memory_is_read_or_left_alone_as_a_header_says() -> None:
    async with served() as (client, _):
        await chat(client, "I moved to Porto.", session_id="old")
        off = await ask(client, "Where did I move to?", headers={"X-Memory": "off"})
        only = await ask(client, "And where did I move to?", headers={"X-Memory": "READ"})
        memories = await read(client, "/memories", params={"query": "where did I move"})
    assert off["x_memories"] == []
    assert [memory["session_id"] for memory in only["x_memories"]] == ["old"]
    assert {memory["session_id"] for memory in memories["memories"]} == {"old"}
