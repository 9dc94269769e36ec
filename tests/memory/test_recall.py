"""What of a user's other conversations is found, and what never is."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from app.index.base import Values, Vector
from app.memory.recall import Recalled
from app.wiring import Runtime
from tests.api.calls import chat, close
from tests.served import served

# In so many dimensions, texts that differ are nearly at right angles.
WIDE: dict[str, Any] = {"embedding_model": "mock:512"}


async def remember(client: httpx.AsyncClient, session_id: str, text: str, user: str = "ada") -> str:
    """Have a conversation of one message, and close it; returns its summary."""
    await chat(client, text, session_id=session_id, user_id=user)
    return str((await close(client, session_id))["summary"])


async def between(runtime: Runtime, **weights: float) -> Values:
    """Return a question whose cosine with the episode of each session is about its weight."""
    episodes = await runtime.episodes.load("default", list(weights))
    texts = [episodes[session_id].text for session_id in weights]
    vectors = await runtime.embedder.embed([*texts, "something else altogether"])
    rest = 1 - sum(weight**2 for weight in weights.values())
    mixed = np.array([*weights.values(), np.sqrt(max(rest, 0.0))], np.float32) @ vectors
    return np.asarray(mixed / np.linalg.norm(mixed), np.float32)


async def search(runtime: Runtime, question: Values, **options: Any) -> Recalled:
    user = options.pop("user", "ada")
    return await runtime.recall.search("default", user, question, **options)


def sessions(found: Recalled) -> list[str]:
    return [memory.session_id for memory in found.memories]


async def test_the_threshold_gates_and_the_nearest_miss_is_told() -> None:
    async with served(**WIDE) as (client, runtime):
        for name in ("far", "near", "nearest"):
            await remember(client, name, f"I keep a {name} thing.")
        question = await between(runtime, nearest=0.8, near=0.5, far=0.2)
        found = await search(runtime, question, threshold=0.35)
        all_of_them = await search(runtime, question, threshold=0.0)
        none = await search(runtime, question, threshold=0.95)
    scores = {m.session_id: m.score for m in all_of_them.memories}
    assert sessions(all_of_them) == ["nearest", "near", "far"]
    assert scores["nearest"] == pytest.approx(0.8, abs=0.12)
    assert sessions(found) == ["nearest", "near"]
    assert (found.threshold, found.best_below) == (0.35, scores["far"])
    assert (sessions(none), none.best_below) == ([], scores["nearest"])
    assert all_of_them.best_below is None


async def test_a_search_gives_at_most_top_k() -> None:
    async with served(**WIDE) as (client, runtime):
        for name in ("one", "two", "three"):
            await remember(client, name, f"I keep thing {name}.")
        question = await between(runtime, one=0.7, two=0.5, three=0.3)
        assert sessions(await search(runtime, question, top_k=2)) == ["one", "two"]
        assert await search(runtime, question, top_k=0) == Recalled((), 0.0, None)


async def test_the_settings_gate_a_turn_and_its_receipt_says_so() -> None:
    async with served(**WIDE, memory_threshold=0.9) as (client, _):
        await remember(client, "s1", "I moved to Porto.")
        body = await chat(client, "How is the weather?", session_id="s2", user_id="ada")
    told = body["receipt"]["memory"]
    assert body["memories"] == []
    assert told["threshold"] == 0.9
    assert 0 <= told["best_below"] < 0.9


async def test_the_session_itself_is_left_out_and_others_are_not() -> None:
    async with served() as (client, _):
        await remember(client, "s1", "I moved to Porto.")
        await chat(client, "I have a dog.", session_id="s1", user_id="ada")
        here = await chat(client, "Where do I live?", session_id="s1", user_id="ada")
        there = await chat(client, "Where do I live?", session_id="s2", user_id="ada")
    assert here["memories"] == []
    assert {(m["id"], m["memory_type"]) for m in there["memories"]} == {
        ("s1", "episode"),
        ("s1#m3", "message"),
    }


async def test_what_no_summary_covers_yet_is_recalled_at_once_and_once() -> None:
    async with served() as (client, _):
        await chat(client, "My dog is called Rex.", session_id="s1", user_id="ada")
        before = await chat(client, "And my dog?", session_id="s2", user_id="ada")
        await close(client, "s1")
        after = await chat(client, "And my dog?", session_id="s3", user_id="ada")
    (memory,) = before["memories"]
    assert (memory["id"], memory["memory_type"]) == ("s1#m1", "message")
    assert memory["text"] == "User: My dog is called Rex."
    assert "Rex" in before["reply"]
    assert [m["id"] for m in after["memories"]] == ["s1"]


@pytest.mark.parametrize(
    ("text", "is_recalled"),
    [
        ("What is my dog called?", False),
        ("犬の名前は何ですか？", False),
        ("ما اسم كلبي؟", False),
        ("What is it? Is it Rex?", False),
        ("Is it Rex? My dog is called Rex.", True),
        ("My dog is called Rex", True),
    ],
)
async def test_a_bare_question_is_no_memory(text: str, is_recalled: bool) -> None:
    async with served() as (client, _):
        await chat(client, text, session_id="s1", user_id="ada")
        body = await chat(client, "And?", session_id="s2", user_id="ada")
    assert [m["text"] for m in body["memories"]] == ([f"User: {text}"] if is_recalled else [])


@pytest.mark.parametrize("mode", ["read", "off"])
async def test_what_must_not_be_remembered_is_not_recalled(mode: str) -> None:
    async with served() as (client, _):
        await chat(client, "My dog is called Rex.", session_id="s1", user_id="ada", memory=mode)
        body = await chat(client, "And my dog?", session_id="s2", user_id="ada")
    assert body["memories"] == []


async def test_a_turn_without_memory_recalls_nothing_and_one_that_reads_does() -> None:
    async with served() as (client, _):
        await remember(client, "s1", "My dog is called Rex.")
        off = await chat(client, "And my dog?", session_id="s2", user_id="ada", memory="off")
        reads = await chat(client, "And my dog?", session_id="s3", user_id="ada", memory="read")
    assert off["memories"] == []
    assert off["receipt"]["memory"]["threshold"] is None
    assert [m["id"] for m in reads["memories"]] == ["s1"]


async def test_a_vector_that_the_database_does_not_know_is_not_returned() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "My dog is called Rex.")
        await remember(client, "theirs", "My cat is called Tom.", user="bo")
        question = (await runtime.embedder.embed(["secret"]))[0]
        for session_id in ("ghost", "theirs"):
            metadata = {"user_id": "ada", "session_id": session_id, "text": "secret"}
            await runtime.index.upsert("memory", [Vector(f"{session_id}#x1", question, metadata)])
        found = await search(runtime, question)
    assert sessions(found) == ["s1"]


async def test_nothing_of_another_user_is_ever_found() -> None:
    async with served() as (client, runtime):
        await remember(client, "s1", "My dog is called Rex.")
        await chat(client, "My cat is called Tom.", session_id="s2", user_id="ada")
        body = await chat(client, "And my dog?", session_id="s3", user_id="bo")
        question = (await runtime.embedder.embed(["User: My dog is called Rex."]))[0]
        found = await search(runtime, question, user="bo", words="dog Rex cat Tom")
        elsewhere = await runtime.recall.search("acme", "ada", question, words="dog Rex cat Tom")
    assert body["memories"] == []
    assert found.memories == elsewhere.memories == ()
    assert found.best_below is elsewhere.best_below is None


async def test_a_session_is_one_memory_however_many_vectors_it_has() -> None:
    async with served(**WIDE) as (client, runtime):
        text = "My dog is called Rex. I moved to Porto in May. My sister is Eva."
        whole = await remember(client, "s1", text)
        ids = [found async for found in runtime.index.list_ids("memory")]
        row = (await runtime.index.fetch("memory", ["s1#s2"]))["s1#s2"]
        found = await search(runtime, row.values)
    assert {"s1", "s1#s1", "s1#s2", "s1#s3", "s1#x1"} <= set(ids)
    assert "Porto" in str(row.metadata["text"])
    (memory,) = found.memories
    assert (memory.id, memory.text, memory.memory_type) == ("s1", whole, "episode")
    assert memory.score == pytest.approx(1.0)


async def test_the_vectors_of_one_session_do_not_crowd_out_another() -> None:
    async with served(**WIDE) as (client, runtime):
        await remember(client, "s1", "My dog is called Rex.")
        await remember(client, "s2", "My dog eats fish.")
        question = await between(runtime, s1=0.8, s2=0.5)
        metadata = {"user_id": "ada", "session_id": "s1", "text": "dog"}
        children = [Vector(f"s1#x{n}", question, metadata) for n in range(100)]
        await runtime.index.upsert("memory", children)
        found = await search(runtime, question, top_k=2)
    assert sessions(found) == ["s1", "s2"]


async def test_what_is_forgotten_or_deleted_is_not_recalled() -> None:
    async with served() as (client, _):
        await remember(client, "s1", "My dog is called Rex.")
        await chat(client, "My cat is called Tom.", session_id="s2", user_id="ada")
        await client.delete("/memories/s1")
        await client.delete("/sessions/s2")
        body = await chat(client, "And my dog, and my cat?", session_id="s3", user_id="ada")
    assert body["memories"] == []


async def test_a_repeated_reply_comes_with_the_memories_that_it_was_made_from() -> None:
    fields = {"session_id": "now", "user_id": "ada", "client_message_id": "c1"}
    async with served() as (client, _):
        await remember(client, "a b/ü", "My dog is called Rex.")
        await chat(client, "My cat is called Tom.", session_id="100%", user_id="ada")
        first = await chat(client, "And my dog, and my cat?", **fields)
        again = await chat(client, "And my dog, and my cat?", **fields)
    assert {m["session_id"] for m in first["memories"]} == {"a b/ü", "100%"}
    assert again["memories"] == first["memories"]
