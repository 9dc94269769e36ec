"""Without a user's consent nothing is recalled, and nothing stays of a conversation but itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from threading import Event
from typing import Any

import httpx
import pytest

from app.wiring import Runtime
from tests.api.calls import Json, answered, at, chat, close, groq, read, refused
from tests.api.test_consents import allow
from tests.chat.agents import ask, facts_of, in_turn
from tests.knowledge.calls import do_what_is_due, try_jobs
from tests.memory.stores import Clock, converse, every_row, of_user, serving, vectors
from tests.wire.memory import lives_in, remembering
from tests.wire.openai import ModelServer, call, model_server

REMEMBERED = (
    "episodes", "facts", "fact_sightings", "entities", "lexical_items", "lexical_postings",
    "memory_blocks", "store_items", "index_rows", "index_vectors",
)  # fmt: skip
PORTO = {"subject": "user", "predicate": "lives_in", "value": "Porto"}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(script=remembering(lives_in)) as server:
        yield server


@asynccontextmanager
async def reading(
    model: ModelServer, **chosen: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Serve with a model for checkpoints alone; turns are answered offline."""
    options = groq(model, chat_model="offline", summary_model="reader", question_rewriting=False)
    async with serving(Clock(), **options, **chosen) as service:
        yield service


async def talk(client: httpx.AsyncClient, *texts: str, session_id: str = "ada-1") -> list[Json]:
    return [await chat(client, text, session_id=session_id, user_id="ada") for text in texts]


def read_by(model: ModelServer) -> str:
    """Return all that the model of checkpoints was asked."""
    return "\n".join(said["content"] for request in model.requests for said in request["messages"])


async def test_nothing_is_left_of_a_conversation_and_no_model_reads_it(
    model: ModelServer, store: dict[str, Any]
) -> None:
    chosen = {**store, "summary_every_messages": 2, "stale_after_seconds": 60.0}
    async with reading(model, **chosen) as (client, runtime):
        await allow(client, "ada", memory_enabled=False)
        answers = await talk(client, "I live in Porto.", "My zither is called Rex.", "Where?")
        await do_what_is_due(runtime)
        closed = await close(client, "ada-1")
        await talk(client, "I moved to Faro.", session_id="ada-2")
        for days in (1, 2):
            await runtime.monitor.sweep(runtime.clock() + timedelta(days=days))
            await try_jobs(runtime)
        await runtime.checkpoints.refill("default")
        rows = of_user(await every_row(runtime), "ada")
        sessions = [await read(client, at("sessions", f"ada-{n}")) for n in (1, 2)]
    assert {name: len(rows[name]) for name in REMEMBERED} == dict.fromkeys(REMEMBERED, 0)
    assert model.requests == []
    assert (closed["state"], closed["summary"], closed["pending"]) == ("closed", None, None)
    assert [(s["state"], s["summary"]) for s in sessions] == [("closed", None)] * 2
    assert [s["summary_covers_seq"] for s in sessions] == [6, 2]
    assert [row["memory"] for row in rows["messages"]] == ["off"] * 8  # the session itself
    memory = [answer["receipt"]["memory"] for answer in answers]
    assert [(each["mode"], each["has_consent"]) for each in memory] == [("off", False)] * 3


async def test_what_was_remembered_stays_unused_until_it_is_allowed_again() -> None:
    clock = Clock()
    async with serving(clock, memory_threshold=0.0) as (client, _):
        await converse(client, clock, "ada-1", "My zither is called Rex.", days_ago=9)
        answered(await client.post("/memories/facts", json={"user_id": "ada", **PORTO}))
        block = {"value": "Ada, a nurse."}
        mine = {"user_id": "ada"}
        answered(await client.put("/memories/blocks/human", json=block, params=mine))
        here = {"session_id": "ada-2", "client_message_id": "one", **mine}
        before = await chat(client, "What is my zither called?", **here)
        await allow(client, "ada", memory_enabled=False)
        without = await chat(client, "What is my zither called?", session_id="ada-3", user_id="ada")
        repeat = await chat(client, "What is my zither called?", **here)
        found = await read(client, "/memories", params={**mine, "query": "zither"})
        facts = await read(client, "/memories/facts", params=mine)
        await allow(client, "ada")
        after = await chat(client, "What is my zither called?", session_id="ada-4", user_id="ada")
    assert [memory["session_id"] for memory in before["memories"]] == ["ada-1", ""]
    assert (without["memories"], without["receipt"]["memory"]["used"]) == ([], [])
    assert (without["receipt"]["profile"], without["receipt"]["blocks"]) == ([], [])
    assert (repeat["reply"], repeat["memories"]) == (before["reply"], [])
    assert "ada-1" in [memory["session_id"] for memory in found["memories"]]  # it is theirs to see
    assert [fact["value"] for fact in facts["facts"]] == ["Porto"]
    assert [memory["session_id"] for memory in after["memories"]] == ["ada-1", ""]
    assert after["receipt"]["profile"]
    assert after["receipt"]["blocks"]


async def test_what_a_checkpoint_passed_over_is_never_read_again(model: ModelServer) -> None:
    async with reading(model, history_strategy="summary") as (client, runtime):
        await talk(client, "I live in Porto.")
        await close(client, "ada-1")
        await talk(client, "Before, my zither.")
        await allow(client, "ada", memory_enabled=False)
        await talk(client, "Meanwhile, my marmalade.")
        closed = await close(client, "ada-1")
        off = await read(client, at("sessions", "ada-1"))
        await allow(client, "ada")
        await talk(client, "Now, my pancake.")
        await close(client, "ada-1")
        on = await read(client, at("sessions", "ada-1"))
        await runtime.memory_words.all("default")
        await runtime.checkpoints.refill("default")
        await try_jobs(runtime)
        rows = await every_row(runtime)
        ids = await vectors(runtime)
    asked = read_by(model)
    assert len(model.requests) == 2
    assert "Porto" in asked
    assert "pancake" in asked
    assert not [word for word in ("zither", "marmalade") if word in asked]
    assert closed["state"] == "closed"
    assert off["context"]["summary"] is None  # it is memory, too
    assert [m["seq"] for m in off["context"]["messages"]] == [1, 2, 3, 4, 5, 6]
    assert on["summary_covers_seq"] == 8
    by_seq = sorted(rows["messages"], key=lambda row: row["seq"])
    assert [m["memory"] for m in by_seq] == ["on"] * 2 + ["off"] * 4 + ["on"] * 2
    kept = {name: str(rows[name]) for name in REMEMBERED}
    assert not [name for name, text in kept.items() if "zither" in text or "marmalad" in text]
    assert {id for id in ids if "#x" in id} == {"ada-1#x1", "ada-1#x4"}


async def test_a_withdrawal_while_the_model_reads_leaves_nothing_of_what_it_read(
    model: ModelServer, store: dict[str, Any]
) -> None:
    asked, said = Event(), Event()
    answer = remembering(lives_in)

    def slowly(body: dict[str, Any]) -> str:
        asked.set()
        assert said.wait(20)
        return answer(body)

    model.script = slowly
    async with reading(model, **store) as (client, runtime):
        await talk(client, "I live in Porto.")
        closing = asyncio.create_task(close(client, "ada-1"))
        assert await asyncio.to_thread(asked.wait, 20)
        await allow(client, "ada", memory_enabled=False)
        said.set()
        closed = await closing
        await try_jobs(runtime)
        rows = of_user(await every_row(runtime), "ada")
        session = await read(client, at("sessions", "ada-1"))
    assert (len(model.requests), closed["state"], closed["summary"]) == (1, "closed", None)
    assert {name: len(rows[name]) for name in REMEMBERED} == dict.fromkeys(REMEMBERED, 0)
    assert session["summary_covers_seq"] == 2


async def test_every_write_of_memory_is_refused_and_every_deletion_is_done(
    store: dict[str, Any],
) -> None:
    clock = Clock()
    ada = {"user_id": "ada"}
    line = {"role": "user", "content": "My zither.", "created_at": "2026-01-01T00:00:00Z"}
    item = {"namespace": ["notes"], "key": "k", "value": {"text": "A zither."}}
    async with serving(clock, **store) as (client, runtime):
        await converse(client, clock, "ada-1", "My dog is called Rex.", days_ago=9)
        fact = answered(await client.post("/memories/facts", json={**ada, **PORTO}))
        answered(await client.put("/memories/blocks/human", json={"value": "Ada."}, params=ada))
        answered(await client.put("/store/items", json=item, params=ada))
        await allow(client, "ada", memory_enabled=False)
        before = await every_row(runtime)
        path = f"/memories/facts/{fact['fact_id']}"
        put = {"op": "put", "namespace": ["notes"], "key": "other", "value": {"text": "A lyre."}}
        deleted = {"op": "delete", "namespace": ["notes"], "key": "k"}
        writes: list[tuple[str, str, Json]] = [
            ("POST", "/memories/facts", {**ada, **PORTO, "value": "Faro"}),
            ("PATCH", path, {"value": "Faro"}),
            ("PATCH", path, {"mark": "pinned"}),
            ("PATCH", "/memories/ada-1", {"mark": "pinned"}),
            ("PUT", "/memories/blocks/human", {"value": "Ada, a nurse."}),
            ("PUT", "/store/items", {**item, "key": "other"}),
            ("POST", "/store/batch", {**ada, "operations": [deleted, put]}),
            ("POST", "/memories/import", {**ada, "conversations": [{"messages": [line]}]}),
        ]
        for method, where, body in writes:
            params = ada if method != "POST" else None
            error = refused(await client.request(method, where, json=body, params=params), 403)
            assert (error["code"], error["type"]) == ("memory_disabled", "permission_error")
            assert "GET /users/{user_id}/consent" in error["message"]
        assert await every_row(runtime) == before
        batch = {**ada, "operations": [deleted, {"op": "get", "namespace": ["notes"], "key": "k"}]}
        there = answered(await client.post("/store/batch", json=batch))
        for where in (path, "/memories/blocks/human", "/memories/ada-1"):
            answered(await client.delete(where, params=ada))
        rows = of_user(await every_row(runtime), "ada")
    assert there["results"][1]["item"]["value"] == {"text": "A zither."}
    assert {name: len(rows[name]) for name in REMEMBERED} == dict.fromkeys(REMEMBERED, 0)


async def test_an_agent_without_consent_has_no_tools_of_memory_and_is_told_why() -> None:
    remember = call("remember", **PORTO, statement="x", kind="fact", many=False, quote="Porto")
    with model_server(script=in_turn(remember, "I can't.")) as model:
        async with serving(Clock(), **groq(model)) as (client, runtime):
            await allow(client, "ada", memory_enabled=False)
            answer = await ask(client, "Please remember that I live in Porto.")
            rows = of_user(await every_row(runtime), "ada")
    first = model.requests[0]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["search_documents"]
    assert "does not allow that anything is remembered" in first["messages"][0]["content"]
    assert answer["reply"] == "I can't."
    assert {name: len(rows[name]) for name in REMEMBERED} == dict.fromkeys(REMEMBERED, 0)


@pytest.mark.parametrize("mode", ["chat", "agent"])
async def test_the_offline_answerer_does_not_promise_what_it_may_not_do(mode: str) -> None:
    async with serving(Clock()) as (client, _):
        for allowed in (True, False):
            await allow(client, "ada", memory_enabled=allowed)
            asked = {"mode": mode, "user_id": "ada", "session_id": f"s-{allowed}"}
            answer = await chat(client, "Please remember that I prefer aisle seats.", **asked)
            assert ("you don't allow that I remember" in answer["reply"]) is not allowed


async def test_an_agent_whose_user_withdraws_in_mid_turn_writes_nothing_more() -> None:
    asked, said = Event(), Event()
    told: list[str] = []
    remember = call(
        "remember", **PORTO, statement="The user lives in Porto.", kind="fact", many=False,
        quote="I live in Porto",
    )  # fmt: skip

    def script(body: dict[str, Any]) -> Any:
        results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        if results:
            told.extend(results)
            return "It can't be kept."
        asked.set()
        assert said.wait(20)
        return remember

    with model_server(script=script) as model:
        async with serving(Clock(), **groq(model)) as (client, _):
            turn = asyncio.create_task(ask(client, "Remember: I live in Porto."))
            assert await asyncio.to_thread(asked.wait, 20)
            await allow(client, "ada", memory_enabled=False)
            said.set()
            answer = await turn
            facts = await facts_of(client)
    assert [(s["name"], s["is_error"]) for s in answer["receipt"]["steps"]] == [("remember", True)]
    assert "does not allow that anything is remembered" in told[0]
    assert facts == []
