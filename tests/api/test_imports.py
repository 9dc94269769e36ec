"""Old conversations with their own dates become sessions, and memory like any other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.imports import MAX_CONVERSATIONS, MAX_MESSAGES, MAX_MESSAGES_OF_ONE
from app.wiring import Runtime
from tests.api.calls import Json, at, chat, close, groq, key, read, refused, stats
from tests.knowledge.calls import do_what_is_due, try_jobs
from tests.served import served, served_at
from tests.served import service as service_of
from tests.wire.openai import model_server

JSON = {"Content-Type": "application/json"}
NOON = "2023-05-08T12:00:00Z"
LISBON = [
    {"role": "user", "speaker": "Caroline", "content": "I moved to Lisbon in 2022."},
    {"role": "user", "speaker": "Melanie", "content": "I painted a lake with 3 boats."},
    {"role": "assistant", "content": "Noted."},
]


def lines(said: list[Json], first: str = NOON, minutes: int = 1) -> list[Json]:
    """Give what was said its times."""
    began = datetime.fromisoformat(first)
    return [
        {"created_at": (began + timedelta(minutes=n * minutes)).isoformat(), **line}
        for n, line in enumerate(said)
    ]


def conversation(said: list[Json] = LISBON, **fields: Any) -> Json:
    return {"messages": lines(said), **fields}


async def take(client: httpx.AsyncClient, *conversations: Json, **fields: Any) -> list[Json]:
    headers = fields.pop("headers", None)
    body = {"user_id": "ada", "conversations": list(conversations), **fields}
    response = await client.post("/memories/import", json=body, headers=headers)
    assert response.status_code == 202, response.text
    answer = response.json()
    assert answer["user_id"] == body["user_id"]
    found: list[Json] = answer["conversations"]
    return found


async def refusal(client: httpx.AsyncClient, status: int, *conversations: Json, **f: Any) -> Json:
    body = {"user_id": "ada", "conversations": list(conversations), **f}
    return refused(await client.post("/memories/import", json=body), status)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    return str(request.getfixturevalue("postgres_state"))


@pytest.fixture
async def service() -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    async with served() as (client, runtime):
        yield client, runtime


async def test_an_import_becomes_a_session_with_its_own_dates_and_a_memory(
    database_url: str,
) -> None:
    async with served(database_url=database_url) as (client, runtime):
        (said,) = await take(client, conversation(session_id="old/1"))
        await do_what_is_due(runtime)
        session = await read(client, said["href"])
        memories = (await read(client, "/memories", params={"user_id": "ada"}))["memories"]
        ready = await read(client, "/health/ready")
    assert said == {
        "session_id": "old/1",
        "state": "imported",
        "messages": 3,
        "added": 3,
        "href": "/sessions/old%2F1",
    }
    assert (session["user_id"], session["state"], session["message_count"]) == ("ada", "closed", 3)
    assert (session["created_at"], session["last_message_at"]) == (NOON, "2023-05-08T12:02:00Z")
    assert (session["summary_covers_seq"], ready["summaries"]["pending"]) == (3, 0)
    assert "Lisbon" in session["summary"]
    assert [
        (m["seq"], m["role"], m["content"], m["created_at"], m["status"])
        for m in session["messages"]
    ] == [
        (1, "user", "I moved to Lisbon in 2022.", NOON, "complete"),
        (2, "user", "I painted a lake with 3 boats.", "2023-05-08T12:01:00Z", "complete"),
        (3, "assistant", "Noted.", "2023-05-08T12:02:00Z", "complete"),
    ]
    assert [(m["session_id"], m["created_at"][:10]) for m in memories] == [("old/1", "2023-05-08")]


async def test_the_same_import_again_changes_nothing(database_url: str) -> None:
    other = [{"role": "user", "content": "I moved to Porto in 2024."}]
    both = (conversation(), conversation(other, session_id="s2"))
    async with served(database_url=database_url) as (client, runtime):
        first = await take(client, *both)
        await do_what_is_due(runtime)
        before = await stats(client)
        again = await take(client, *both)
        elsewhere = await take(client, conversation(), user_id="bob")
        await do_what_is_due(runtime)
        after = await stats(client)
    assert [one["state"] for one in first] == ["imported", "imported"]
    assert [(one["state"], one["added"]) for one in again] == [("unchanged", 0)] * 2
    assert [one["session_id"] for one in again] == [one["session_id"] for one in first]
    assert elsewhere[0]["state"] == "imported"  # another user's memory, though the text is the same
    assert elsewhere[0]["session_id"] != first[0]["session_id"]
    assert (before["sessions"]["messages"], after["sessions"]["messages"]) == (4, 7)
    assert after["episodes"]["episodes"] == 3


async def test_the_same_conversation_twice_in_one_request_is_stored_once(
    service: tuple[httpx.AsyncClient, Runtime],
) -> None:
    client, _ = service
    said = await take(client, conversation(), conversation())
    assert sorted(one["state"] for one in said) == ["imported", "unchanged"]
    assert (await stats(client))["sessions"]["messages"] == 3


async def test_a_conversation_that_has_become_longer_is_gone_on_with(database_url: str) -> None:
    longer = [*LISBON, {"role": "user", "speaker": "Caroline", "content": "I left for Faro."}]
    async with served(database_url=database_url) as (client, runtime):
        await take(client, conversation(session_id="s1"))
        await do_what_is_due(runtime)
        (extended,) = await take(client, conversation(longer, session_id="s1"))
        await do_what_is_due(runtime)
        (shorter,) = await take(client, conversation(session_id="s1"))
        session = await read(client, at("sessions", "s1"))
    assert (extended["state"], extended["messages"], extended["added"]) == ("extended", 4, 1)
    assert (shorter["state"], shorter["messages"]) == ("unchanged", 4)
    assert (session["state"], session["summary_covers_seq"]) == ("closed", 4)
    assert "Faro" in session["summary"]
    assert session["last_message_at"] == "2023-05-08T12:03:00Z"


@pytest.mark.parametrize(
    "change",
    [
        {"content": "I painted a lake with 4 boats."},
        {"speaker": "Mel"},
        {"role": "assistant"},
        {"created_at": "2023-05-08T12:01:30Z"},
    ],
)
async def test_another_conversation_under_a_taken_id_is_a_conflict_and_stores_nothing(
    service: tuple[httpx.AsyncClient, Runtime], change: Json
) -> None:
    client, runtime = service
    await take(client, conversation(session_id="s1"))
    await do_what_is_due(runtime)
    other = conversation(session_id="s1")
    other["messages"][1] |= change
    before = await stats(client)
    error = await refusal(client, 409, conversation(session_id="new"), other)
    assert (error["code"], error["param"]) == ("conflict", "session_id")
    assert "s1" in error["message"]
    assert "message 2" in error["message"]
    assert await stats(client) == before


async def test_another_user_s_session_is_not_found_and_nothing_is_stored(
    service: tuple[httpx.AsyncClient, Runtime],
) -> None:
    client, _ = service
    await take(client, conversation(session_id="s1"))
    error = await refusal(
        client, 404, conversation(session_id="new"), conversation(session_id="s1"), user_id="bob"
    )
    assert error["param"] == "session_id"
    assert (await stats(client))["sessions"]["messages"] == 3


async def test_a_turn_goes_on_with_an_imported_session(database_url: str) -> None:
    with model_server(script=("Hello again.",)) as model:
        chosen = groq(model, chat_model="talker", summary_model="offline")
        async with served(database_url=database_url, **chosen) as (client, runtime):
            await take(client, conversation(session_id="s1"))
            await do_what_is_due(runtime)
            said = await chat(client, "Where do I live?", session_id="s1", user_id="ada")
            (again,) = await take(client, conversation(session_id="s1"))
            session = await read(client, at("sessions", "s1"))
            closed = await close(client, "s1")
        sent = json.dumps(model.requests[0]["messages"])
    assert said["reply"] == "Hello again."
    assert "I moved to Lisbon in 2022." in sent
    assert "I painted a lake with 3 boats." in sent
    assert [m["seq"] for m in session["messages"]] == [1, 2, 3, 4, 5]
    assert (session["state"], session["created_at"]) == ("open", NOON)
    assert (again["state"], again["messages"]) == ("unchanged", 5)
    assert (closed["state"], closed["pending"]) == ("closed", None)


async def test_times_without_an_offset_are_read_in_the_time_zone_that_is_named() -> None:
    said = [{"role": "user", "content": f"I moved to house {n}."} for n in range(3)]
    # Summer time ends on 5 November 2023 at 2: the clocks go back to 1.
    clock = ["2023-11-05T01:30:00", "2023-11-05T01:10:00", "2023-11-05T03:00:00"]
    messages = [{**line, "created_at": moment} for line, moment in zip(said, clock, strict=True)]
    async with served(timezone="Asia/Tokyo") as (client, runtime):
        await take(
            client, {"session_id": "named", "messages": messages}, timezone="America/Chicago"
        )
        await take(client, {"session_id": "setting", "messages": [messages[0]]})
        offset = {**messages[0], "created_at": "2023-11-05T01:30:00-06:00"}
        await take(client, {"session_id": "offset", "messages": [offset]})
        times = {
            name: [
                message["created_at"]
                for message in (await read(client, at("sessions", name)))["messages"]
            ]
            for name in ("named", "setting", "offset")
        }
        zones = {
            name: (await runtime.sessions.get("default", name, None)).timezone
            for name in ("named", "setting", "offset")
        }
    assert times == {
        "named": ["2023-11-05T06:30:00Z", "2023-11-05T07:10:00Z", "2023-11-05T09:00:00Z"],
        "setting": ["2023-11-04T16:30:00Z"],
        "offset": ["2023-11-05T07:30:00Z"],
    }
    assert zones == {"named": "America/Chicago", "setting": None, "offset": "Etc/GMT+6"}


async def test_a_speaker_s_name_is_kept_with_the_message(
    service: tuple[httpx.AsyncClient, Runtime],
) -> None:
    client, _ = service
    await take(client, conversation(session_id="s1"))
    session = await read(client, at("sessions", "s1"))
    assert [message["speaker"] for message in session["messages"]] == ["Caroline", "Melanie", None]


def changed(field: str, value: Any, message: int = 1) -> Json:
    """Return a good conversation and one with something wrong in one of its messages."""
    bad = conversation()
    bad["messages"][message][field] = value
    return {"conversations": [conversation(), bad]}


HERE = "conversations.1.messages.1"
BAD: dict[str, tuple[Any, int, str | None]] = {
    "none": ({"conversations": []}, 422, "conversations"),
    "missing": ({}, 422, "conversations"),
    "no object": ([], 422, None),
    "not JSON": (b"{", 422, None),
    "no message": ({"conversations": [{"messages": []}]}, 422, "conversations.0.messages"),
    "unknown field": ({"conversations": [conversation(title="x")]}, 422, "conversations.0.title"),
    "session id": (
        {"conversations": [conversation(session_id="a\x00")]},
        422,
        "conversations.0.session_id",
    ),
    "time zone": ({"conversations": [conversation()], "timezone": "Mars/One"}, 422, "timezone"),
    "blank": (changed("content", " "), 422, f"{HERE}.content"),
    "NUL": (changed("content", "a\x00"), 422, f"{HERE}.content"),
    "half": (changed("content", "\ud800"), 422, f"{HERE}.content"),
    "too long": (changed("content", "x" * 1001), 413, f"{HERE}.content"),
    "role": (changed("role", "system"), 422, f"{HERE}.role"),
    "speaker": (changed("speaker", ""), 422, f"{HERE}.speaker"),
    "no time": (changed("created_at", None), 422, f"{HERE}.created_at"),
    "no date": (changed("created_at", "yesterday"), 422, f"{HERE}.created_at"),
    "before time": (changed("created_at", "0001-01-01T00:00:00+14:00"), 422, f"{HERE}.created_at"),
    "after time": (changed("created_at", "9999-12-31T23:59:59-14:00"), 422, f"{HERE}.created_at"),
    "goes back": (changed("created_at", "2023-05-08T11:59:59Z"), 422, f"{HERE}.created_at"),
    "in the future": (changed("created_at", "2026-11-30T12:00:01Z"), 422, f"{HERE}.created_at"),
}


async def test_what_is_wrong_is_refused_whole_and_named() -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    async with served_at(lambda: now, message_max_chars=1_000) as (client, _):
        found = {}
        for name, (body, status, _) in BAD.items():
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            response = await client.post("/memories/import", content=raw, headers=JSON)
            found[name] = (status, refused(response, status)["param"])
        stored = (await stats(client))["sessions"]["messages"]
        last = [{**line, "created_at": now.isoformat()} for line in LISBON]
        (taken,) = await take(client, {"messages": last})  # at the same time, and not before now
    assert found == {name: (status, param) for name, (_, status, param) in BAD.items()}
    assert (stored, taken["added"]) == (0, 3)


@pytest.mark.parametrize(
    ("conversations", "messages", "param"),
    [
        (MAX_CONVERSATIONS + 1, 1, "conversations"),
        (5, MAX_MESSAGES // 5 + 1, "conversations"),
        (1, MAX_MESSAGES_OF_ONE + 1, "conversations.0.messages"),
    ],
)
async def test_an_import_over_the_limits_is_refused(
    service: tuple[httpx.AsyncClient, Runtime], conversations: int, messages: int, param: str
) -> None:
    client, _ = service
    one = {"messages": [{"role": "user", "content": "hi", "created_at": NOON}] * messages}
    error = await refusal(client, 413, *[one] * conversations)
    assert (error["code"], error["param"]) == ("too_large", param)
    assert str(messages if "messages" in param else conversations) in error["message"]


async def test_whose_memory_it_is_follows_from_the_key() -> None:
    async with served(address="203.0.113.9") as (client, runtime):
        ada = await key(runtime, "user", user="ada")
        gateway = await key(runtime, "gateway")
        await take(client, conversation(session_id="s1"), headers=ada)
        body = {"conversations": [conversation()]}
        unnamed = await client.post("/memories/import", json=body, headers=gateway)
        other = {**body, "user_id": "bob"}
        foreign = await client.post("/memories/import", json=other, headers=ada)
        await take(client, conversation(), user_id="bob", headers=gateway)
        seen = (await read(client, "/sessions", headers=ada))["sessions"]
    assert refused(unnamed, 422)["param"] == "user_id"
    assert refused(foreign, 403)["param"] == "user_id"
    assert [session["session_id"] for session in seen] == ["s1"]


async def test_a_restart_before_the_checkpoint_loses_nothing(database_url: str) -> None:
    old = [conversation(session_id=f"s{n}") for n in range(3)]
    with model_server(fault="server_error") as model:
        chosen = groq(model, chat_model="offline", summary_model="summariser")
        async with served(database_url=database_url, **chosen) as (client, runtime):
            await take(client, *old)
            await do_what_is_due(runtime)
            failing = await read(client, "/health/ready")
    async with served(database_url=database_url) as (client, runtime):
        async with asyncio.timeout(60):
            while await runtime.jobs.pending():
                await try_jobs(runtime)
        await runtime.monitor.sweep(runtime.clock())  # long quiet, but closed already
        ready = await read(client, "/health/ready")
        sessions = [await read(client, at("sessions", f"s{n}")) for n in range(3)]
    assert (failing["summaries"]["pending"], failing["summaries"]["failed"]) == (3, 3)
    assert (ready["status"], ready["summaries"]["pending"]) == ("ok", 0)
    for session in sessions:
        assert (session["state"], session["summary_covers_seq"]) == ("closed", 3)
        assert "Lisbon" in session["summary"]


async def test_a_kill_after_the_answer_loses_nothing(tmp_path: Path) -> None:
    old = [conversation(session_id=f"s{n}") for n in range(3)]
    plain = {"EMBEDDING_MODEL": "mock:32", "PINECONE_API_KEY": "", "JOB_LEASE_SECONDS": "1"}
    with model_server(fault="slow", latency_seconds=60) as model:
        asking = {"GROQ_API_KEY": "gsk_test", "GROQ_API_BASE": model.url, "SUMMARY_MODEL": "slow"}
        with service_of(tmp_path, **plain, **asking) as process:
            async with httpx.AsyncClient(base_url=process.url, timeout=30) as client:
                await take(client, *old)
            process.kill()
    with service_of(tmp_path, **plain, GROQ_API_KEY="", JOB_POLL_SECONDS="0.1") as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=30) as client:
            async with asyncio.timeout(120):
                while (await read(client, "/health/ready"))["summaries"]["pending"]:
                    await asyncio.sleep(0.1)
            sessions = [await read(client, at("sessions", f"s{n}")) for n in range(3)]
    for session in sessions:
        assert (session["state"], session["summary_covers_seq"]) == ("closed", 3)
        assert [message["content"] for message in session["messages"]] == [
            line["content"] for line in LISBON
        ]


async def test_the_monitor_asks_for_no_second_checkpoint() -> None:
    with model_server(fault="server_error") as model:
        chosen = groq(model, chat_model="offline", summary_model="summariser")
        async with served(**chosen) as (client, runtime):
            await take(client, conversation(session_id="s1"))
            await do_what_is_due(runtime)
            swept = await runtime.monitor.sweep(runtime.clock())
            pending = await runtime.jobs.pending()
    assert swept.quiet == 1  # by its own dates it has been quiet for long
    assert pending["close"]["pending"] == 1


async def test_what_is_no_longer_kept_word_for_word_is_not_stored_again() -> None:
    async with served(message_retention_days=30.0) as (client, runtime):
        await take(client, conversation(session_id="s1"))
        await do_what_is_due(runtime)
        removed = await runtime.retention.sweep(runtime.clock())
        (again,) = await take(client, conversation(session_id="s1"))
        session = await read(client, at("sessions", "s1"))
    assert removed.messages > 0
    assert (again["state"], again["messages"]) == ("unchanged", 3)
    assert "Lisbon" in session["summary"]


async def test_what_was_forgotten_is_not_remembered_again(
    service: tuple[httpx.AsyncClient, Runtime],
) -> None:
    client, runtime = service
    await take(client, conversation(session_id="s1"))
    await do_what_is_due(runtime)
    forgotten = await client.delete(at("memories", "s1"), params={"user_id": "ada"})
    (again,) = await take(client, conversation(session_id="s1"))
    await do_what_is_due(runtime)
    listed = await read(client, "/memories", params={"user_id": "ada"})
    assert forgotten.status_code == 200
    assert (again["state"], listed["memories"]) == ("unchanged", [])
