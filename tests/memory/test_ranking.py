"""Which memories a question finds, in which order, and why: by words, time, names and meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.db import Connection
from app.memory.fact_rows import take
from app.memory.lexicon import index_notes
from app.wiring import Runtime
from tests.api.calls import Json, answered, chat, close, read, refused
from tests.knowledge.calls import do_what_is_due
from tests.memory.telling import said
from tests.served import served, served_at
from tests.wire.pinecone import API_KEY, Faults, PineconeServer, serving_pinecone

# Vectors tell nothing, and nothing passes by them: words alone find.
BY_WORDS: dict[str, Any] = {"embedding_model": "mock:256", "memory_threshold": 0.95}
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


async def remember(client: httpx.AsyncClient, session_id: str, text: str, **fields: Any) -> None:
    await chat(client, text, session_id=session_id, **{"user_id": "ada", **fields})
    await close(client, session_id)


async def ask(client: httpx.AsyncClient, query: str | None = None, **params: Any) -> list[Json]:
    given = {"user_id": "ada", **({} if query is None else {"query": query}), **params}
    memories: list[Json] = (await read(client, "/memories", params=given))["memories"]
    return memories


def ids(memories: list[Json]) -> list[str]:
    return [memory["id"] for memory in memories]


async def tell(client: httpx.AsyncClient, predicate: str, value: str, **fields: Any) -> Json:
    body = {"user_id": "ada", "predicate": predicate, "value": value, **fields}
    return answered(await client.post("/memories/facts", json=body))


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("私は犬を二匹飼っています。", "犬"),
        ("私は犬を二匹飼っています。", "二匹の犬"),
        ("我养了一只猫，名字叫豆豆。", "猫"),
        ("저는 고양이를 키워요.", "고양이"),
        ("أنا أسكن في لشبونة منذ عام.", "لشبونة"),
        ("We had 🍕 at Luigi's.", "🍕"),
        ("My order is ORD-2026-0311.", "ORD-2026-0311"),
        ("Ich heiße Jörg Müller.", "muller"),
    ],
)
async def test_words_of_any_script_find_what_was_said(said: str, question: str) -> None:
    async with served(**BY_WORDS) as (client, _):
        await remember(client, "s1", said)
        await remember(client, "s2", "The trams are late today.")
        (memory,) = await ask(client, question)
    assert (memory["id"], "lexical" in memory["why"]) == ("s1", True)


async def test_a_question_about_something_else_finds_nothing() -> None:
    async with served(**BY_WORDS) as (client, _):
        await remember(client, "s1", "My dog is called Rex and he eats fish.")
        await remember(client, "s2", "I moved to Porto and I work for a bank.")
        found = await read(
            client, "/memories", params={"user_id": "ada", "query": "Explain quantum tunnelling"}
        )
    assert found["memories"] == []
    assert found["best_below"] < found["threshold"] == 0.95


async def test_a_minimal_score_is_asked_of_the_cosine_alone() -> None:
    async with served(**BY_WORDS) as (client, _):
        await remember(client, "s1", "My dog is called Rex.")
        by_words = await ask(client, "dog Rex")
        by_score = await ask(client, "dog Rex", min_score=0.9)
        all_of_it = await ask(client, "dog Rex", min_score=0)
    assert (ids(by_words), ids(by_score), ids(all_of_it)) == (["s1"], [], ["s1"])
    assert by_words[0]["score"] < 0.9


async def test_other_users_neither_show_nor_move_a_rank() -> None:
    async with served(embedding_model="mock:256") as (client, _):
        await remember(client, "s1", "My dog is called Rex.")
        await remember(client, "s2", "My cat is called Tom, and the dog next door barks.")
        before = await ask(client, "What is my dog called?", recency=0)
        for number in range(5):
            await remember(client, f"b{number}", "My dog is called Max.", user_id="bob")
        after = await ask(client, "What is my dog called?", recency=0)
        theirs = await ask(client, "What is my dog called?", user_id="bob")
    assert before == after
    assert {memory["session_id"] for memory in theirs} == {f"b{n}" for n in range(5)}


async def test_the_day_of_a_conversation_finds_it() -> None:
    clock = Clock()
    async with served_at(clock, **BY_WORDS, timezone="Asia/Tokyo") as (client, _):
        clock.now = datetime(2026, 3, 2, 20, tzinfo=UTC)  # the 3rd, in Tokyo
        await remember(client, "s1", "The trams are late.")
        clock.now = datetime(2026, 4, 10, 12, tzinfo=UTC)
        await remember(client, "s2", "The trams are late, too.")
        asked = [
            ids(await ask(client, question, top_k=1))
            for question in ("3 March 2026", "2026-04-10", "im April", "3月3日")
        ]
    assert asked == [["s1"], ["s2"], ["s2"], ["s1"]]


async def test_what_was_said_later_counts_only_from_then_on() -> None:
    clock = Clock()
    async with served_at(clock, embedding_model="mock:256") as (client, _):
        await remember(client, "s1", "I live in Lisbon.")
        between = (clock.now + timedelta(days=1)).isoformat()
        clock.now += timedelta(days=10)
        await remember(client, "s2", "I live in Porto.")
        now = await ask(client, "Where do I live?")
        then = await ask(client, "Where do I live?", as_of=between)
        listed_then = await ask(client, as_of=between)
        since = await ask(client, "Where do I live?", since=between)
        until = await ask(client, "Where do I live?", until=between)
        facts = await ask(client, "Where do I live?", memory_type="fact")
        facts_then = await ask(client, "Where do I live?", memory_type="fact", as_of=between)
    assert {memory["id"] for memory in now} == {"s1", "s2"}
    assert ids(then) == ids(listed_then) == ids(until) == ["s1"]
    assert ids(since) == ["s2"]
    told = {memory["id"]: [fact["value"] for fact in memory["facts"]] for memory in now}
    assert told == {"s1": [], "s2": ["Porto"]}
    assert [fact["value"] for fact in then[0]["facts"]] == ["Lisbon"]
    assert [memory["facts"][0]["value"] for memory in facts] == ["Porto"]
    assert [memory["facts"][0]["value"] for memory in facts_then] == ["Lisbon"]


async def test_age_counts_by_its_weight_and_fully_where_the_latest_is_asked_for() -> None:
    clock = Clock()
    async with served_at(clock, **BY_WORDS) as (client, _):
        await remember(client, "old", "My flight to Rome is booked. The flight is at nine.")
        clock.now += timedelta(days=60)
        await remember(client, "new", "A flight to Oslo was mentioned, among many other things.")
        clock.now += timedelta(days=1)
        plain = await ask(client, "flight", recency=0)
        by_weight = await ask(client, "flight", recency=1)
        latest = await ask(client, "What is my latest flight?")
    assert ids(plain) == ["old", "new"]
    assert ids(by_weight) == ids(latest) == ["new", "old"]
    assert plain[0]["relevance"] == 1.0
    assert by_weight[0]["relevance"] < plain[1]["relevance"]
    assert "recency" in latest[0]["why"]
    assert "recency" not in plain[0]["why"]


async def test_where_an_answer_is_over_the_conversation_with_the_new_one_comes_first() -> None:
    async with served(embedding_model="") as (client, _):
        await remember(client, "old", "My name is Ada and I live in Lisbon.")
        await remember(client, "new", "I moved to Porto, which is by the sea.")
        now = datetime.now(UTC)
        found = await ask(client, "Where do I live?")
        assert ids(found) == ["new", "old"]
        assert "current" in found[0]["why"]
        assert ids(await ask(client, "When did I live in Lisbon?"))[0] == "old"
        (lisbon,) = [
            fact
            for fact in (
                await read(
                    client, "/memories/facts", params={"user_id": "ada", "include_past": True}
                )
            )["facts"]
            if fact["value"] == "Lisbon"
        ]
        assert lisbon["valid_to"] is not None
        assert datetime.fromisoformat(lisbon["valid_to"]) <= now


async def test_three_about_the_same_do_not_crowd_out_the_rest() -> None:
    same = "I asked why invoice 77 about the garden fence is not paid yet"
    async with served(**BY_WORDS) as (client, _):
        for number in range(3):
            await remember(client, f"s{number}", f"{same}, and called {number + 2} times.")
        await remember(client, "other", "The garden fence is green and the invoice is on the desk.")
        question = "Is invoice 77 for the garden fence paid?"
        found = await ask(client, question, top_k=2)
        every = await ask(client, question, top_k=4)
    assert ids(found)[1] == ids(every)[1] == "other"
    assert every[1]["relevance"] < every[2]["relevance"]
    assert len(set(ids(every))) == 4


async def test_a_question_about_a_person_finds_what_is_related_to_them() -> None:
    async with served(**BY_WORDS) as (client, runtime):
        for session_id, text in (("s1", "My sister is Eva."), ("s2", "Trams!"), ("s3", "Rain.")):
            await remember(client, session_id, text)
        await learn(runtime, "s1", said("Eva", 1, "sister"))
        await learn(runtime, "s2", said("Siemens", 1, "works_for", subject="Eva"))
        await learn(runtime, "s3", said("tea", 1, "likes", is_many=True))
        found = {memory["id"]: memory["why"] for memory in await ask(client, "How is Eva doing?")}
    assert set(found) == {"s1", "s2"}


async def test_a_question_that_names_the_user_finds_what_the_user_said() -> None:
    async with served(**BY_WORDS) as (client, _):
        await remember(client, "s1", "Please call me Ann Lee.")
        await remember(client, "s2", "I work at Globex as an accountant.")
        await remember(client, "s3", "The trams are late today.")
        work = await ask(client, "Where does Ann Lee work?")
        who = await ask(client, "Who is Ann Lee?")
    assert (ids(work), ids(who)) == (["s2"], ["s1"])


async def learn(runtime: Runtime, session_id: str, *found: Any) -> None:
    """Have facts be read in a conversation that is closed."""
    now = runtime.clock()
    await runtime.database.write(lambda c: take(c, "default", "ada", session_id, found, now))
    await runtime.database.write(lambda c: index_notes(c, "default", "ada", session_id))


async def test_a_fact_told_by_itself_is_found_forgotten_and_listed() -> None:
    async with served(**BY_WORDS) as (client, _):
        fact = await tell(client, "allergic_to", "peanuts")
        await remember(client, "s1", "The trams are late today.")
        id = f"facts#{fact['fact_id']}"
        (found,) = await ask(client, "peanuts")
        listed = await ask(client)
        as_fact = await ask(client, "peanuts", memory_type="fact")
        as_episode = await ask(client, "peanuts", memory_type="episode")
        gone = answered(await client.delete(f"/memories/{id.replace('#', '%23')}"))
        after = await ask(client, "peanuts")
    assert (found["id"], found["memory_type"], found["session_id"]) == (id, "fact", "")
    assert found["facts"][0]["value"] == "peanuts"
    assert set(ids(listed)) == {id, "s1"}
    assert (ids(as_fact), as_episode) == ([id], [])
    assert gone == {"id": id, "vectors": "removed"}
    assert after == []


async def test_messages_that_no_summary_covers_are_a_type_of_their_own() -> None:
    async with served(**BY_WORDS) as (client, _):
        await remember(client, "s1", "My dog is called Rex.")
        await chat(client, "My dog eats fish.", session_id="s2", user_id="ada")
        every = await ask(client, "dog")
        messages = await ask(client, "dog", memory_type="message")
        listed = await ask(client, memory_type="message")
    assert set(ids(every)) == {"s1", "s2#m1"}
    assert ids(messages) == ids(listed) == ["s2#m1"]


async def test_any_vector_of_a_session_names_its_memory() -> None:
    async with served(**BY_WORDS) as (client, runtime):
        await remember(client, "s1", "My dog is called Rex.")
        assert answered(await client.delete("/memories/s1%23x1"))["vectors"] == "removed"
        left = [id async for id in runtime.index.list_ids("memory")]
        assert (await ask(client, "dog"), left) == ([], [])


async def test_of_ten_thousand_facts_the_right_one_is_found() -> None:
    async with served(**BY_WORDS) as (client, runtime):
        await remember(client, "s1", "The trams are late today.")
        many = [said(f"thing number {n}", 1, "likes", is_many=True, seq=n) for n in range(10_000)]
        many[7_777] = said("thing named zanzibar", 1, "likes", is_many=True, seq=7_777)
        await learn(runtime, "s1", *many)
        (session,) = await ask(client, "Do I like zanzibar?")
        (fact,) = await ask(client, "Do I like zanzibar?", memory_type="fact")
        nothing = await ask(client, "Who wrote Hamlet?")
    assert session["id"] == "s1"
    assert [one["value"] for one in session["facts"]] == ["thing named zanzibar"]
    assert fact["facts"] == session["facts"]
    assert nothing == []


@pytest.fixture
def pinecone() -> Iterator[PineconeServer]:
    with serving_pinecone(dimension=256) as server:
        yield server


async def test_what_was_just_written_is_found_while_the_index_catches_up(
    pinecone: PineconeServer,
) -> None:
    chosen = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
    async with served(**{**BY_WORDS, **chosen}) as (client, runtime):
        pinecone.faults = Faults(lag_seconds=float("inf"))
        await remember(client, "s1", "My dog is called Rex.")
        await tell(client, "likes", "tea", statement="Ada likes green tea.")
        episode = (await runtime.episodes.load("default", ["s1"]))["s1"]
        by_meaning, by_fact = await asyncio.gather(
            ask(client, episode.text, min_score=0.99),
            ask(client, "Ada likes green tea.", min_score=0.99),
        )
        pinecone.settle()
        later = await ask(client, episode.text, min_score=0.99)
    assert ids(by_meaning) == ids(later) == ["s1"]
    assert [memory["text"] for memory in by_fact] == ["Ada likes green tea."]


async def test_many_conversations_are_found_while_the_index_catches_up(
    pinecone: PineconeServer,
) -> None:
    chosen = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
    async with served(**{**BY_WORDS, **chosen}) as (client, runtime):
        pinecone.faults = Faults(lag_seconds=float("inf"))
        for number in range(12):
            await remember(client, f"s{number}", f"My parcel {number} weighs {number + 40} kilos.")
        first = (await runtime.episodes.load("default", ["s0"]))["s0"]
        found = await ask(client, first.text, min_score=0.99)
    assert ids(found) == ["s0"]


async def test_a_fact_told_by_itself_that_falls_short_is_named_as_the_nearest() -> None:
    async with served(memory_threshold=0.999) as (client, _):
        await tell(client, "likes", "tea", statement="Ada likes green tea.")
        params = {"user_id": "ada", "query": "How late are trams?"}
        body = answered(await client.get("/memories", params=params))
    assert body["memories"] == []
    assert body["best_below"] is not None
    assert body["best_below"] < body["threshold"]


async def test_what_pinecone_still_shows_of_a_forgotten_fact_tells_nothing(
    pinecone: PineconeServer,
) -> None:
    chosen = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
    async with served(**{**BY_WORDS, **chosen}) as (client, _):
        fact = await tell(client, "likes", "tea", statement="Ada likes green tea.")
        pinecone.settle()
        pinecone.faults = Faults(lag_seconds=float("inf"))
        await client.delete(f"/memories/facts/{fact['fact_id']}")
        assert await ask(client, "Ada likes green tea.") == []


def empty(table: str, connection: Connection) -> None:
    connection.exec_driver_sql(f"DELETE FROM {table}")


async def test_the_words_of_an_older_store_are_indexed_when_it_opens(tmp_path: Path) -> None:
    disk = {**BY_WORDS, "database_url": f"sqlite:///{tmp_path / 'service.db'}"}
    async with served(**disk) as (client, runtime):
        await remember(client, "s1", "My dog is called Rex.")
        await tell(client, "allergic_to", "peanuts")
        for table in ("lexical_postings", "lexical_items", "about_store"):
            await runtime.database.write(partial(empty, table))
        before = [await ask(client, "dog"), await ask(client, "peanuts")]
    async with served(**disk) as (client, runtime):
        while "reindex_memory_words" in await runtime.jobs.pending():  # each leaves the next one
            await do_what_is_due(runtime)
        after = [await ask(client, "dog"), await ask(client, "peanuts")]
    assert before == [[], []]
    assert [len(found) for found in after] == [1, 1]


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"as_of": "2026-01-01T00:00:00"}, "as_of"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "since"),
        ({"memory_type": "dream"}, "memory_type"),
        ({"recency": "-1"}, "recency"),
        ({"recency": "nan"}, "recency"),
    ],
)
async def test_what_makes_no_sense_is_refused(params: dict[str, str], param: str) -> None:
    async with served() as (client, _):
        error = refused(await client.get("/memories", params={"query": "dog", **params}), 422)
    assert error["param"] == param
