"""Items over HTTP: stored, searched by meaning, removed; chats recall what they say."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.calls import Json, answered, chat, read, refused, vectors
from tests.served import served
from tests.wire.openai import model_server

NOTES = ["notes", "ada"]


async def store(client: httpx.AsyncClient, key: str, says: str, **more: Any) -> Json:
    body = {"namespace": NOTES, "key": key, "value": {"text": says}, **more}
    return answered(await client.put("/store/items", json=body))


async def search(client: httpx.AsyncClient, query: str, **more: Any) -> Json:
    asked = {"op": "search", "namespace_prefix": ["notes"], "query": query, **more}
    response = await client.post("/store/batch", json={"operations": [asked]})
    found: Json = answered(response)["results"][0]
    return found


async def test_an_item_is_stored_read_and_removed() -> None:
    async with served() as (client, _):
        put = await store(client, "food", "Ada likes pizza.")
        place: dict[str, Any] = {"namespace": NOTES, "key": "food"}
        got = await read(client, "/store/items", params=place)
        removed = answered(await client.delete("/store/items", params=place))
        again = await client.delete("/store/items", params=place)
        gone = await client.get("/store/items", params=place)
    assert put == got
    assert got["value"] == {"text": "Ada likes pizza."}
    assert (got["namespace"], got["key"], got["score"]) == (NOTES, "food", None)
    assert removed == {"namespace": NOTES, "key": "food"}
    for response in (again, gone):
        assert refused(response, 404)["param"] == "key"


async def test_chats_recall_what_an_item_says_until_it_is_replaced_or_removed() -> None:
    async with served(embedding_model="local") as (client, runtime):
        await store(client, "allergy", "Ada is allergic to peanuts.")
        asked = "Which food is Ada allergic to?"
        assert "peanuts" in (await chat(client, asked))["reply"]
        assert len(await vectors(runtime, "memory")) == 1
        await store(client, "allergy", "Ada is allergic to shrimps.")
        reply = (await chat(client, asked))["reply"]
        assert "shrimps" in reply
        assert "peanuts" not in reply
        listed = await read(client, "/memories", params={"query": asked, "memory_type": "fact"})
        assert [memory["text"] for memory in listed["memories"]] == ["Ada is allergic to shrimps."]
        await client.delete("/store/items", params={"namespace": NOTES, "key": "allergy"})
        assert "shrimps" not in (await chat(client, asked))["reply"]
        assert await vectors(runtime, "memory") == []


async def test_a_search_ranks_by_meaning_and_what_is_not_indexed_comes_last() -> None:
    async with served(embedding_model="local") as (client, _):
        await store(client, "hidden", "Ada ate a pizza.", index=False)
        await store(client, "food", "Her favourite dish is pizza with mushrooms.")
        await store(client, "car", "The car is due for an inspection in May.")
        await store(client, "named", "A title.", text="The cat sleeps on the sofa.")
        found = await search(client, "What does she like to eat?")
        pets = await search(client, "Where does the cat sleep?", limit=1)
        second = await search(client, "What does she like to eat?", limit=1, offset=1)
        blank = await search(client, "  ")
    assert found["is_ranked"]
    keys = [item["key"] for item in found["items"]]
    assert (keys[0], keys[-1]) == ("food", "hidden")
    scores = [item["score"] for item in found["items"]]
    assert scores[-1] is None
    ranked = scores[:-1]
    assert ranked == sorted(ranked, reverse=True)
    assert [item["key"] for item in pets["items"]] == ["named"]
    assert pets["items"][0]["value"] == {"text": "A title."}
    assert [item["key"] for item in second["items"]] == [keys[1]]
    assert not blank["is_ranked"]


async def test_a_search_goes_on_without_meaning_while_the_embedder_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with model_server() as model:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        async with served(embedding_model="openai:text-embedding-3-small") as (client, _):
            await store(client, "food", "Ada likes pizza.")
            assert (await search(client, "pizza"))["is_ranked"]
            model.fault = "unauthorized"
            found = await search(client, "what to eat")
            await store(client, "drink", "Ada drinks tea.")
            got = await search(client, "tea")
    assert not found["is_ranked"]
    assert [(item["key"], item["score"]) for item in found["items"]] == [("food", None)]
    assert [item["key"] for item in got["items"]] == ["drink", "food"]


async def test_bad_input_is_refused_with_what_was_expected() -> None:
    deep: Json = {}
    for _ in range(101):
        deep = {"a": deep}
    good: Json = {"namespace": ["a"], "key": "k", "value": {}}
    bad: list[tuple[Json, str]] = [
        ({**good, "namespace": []}, "namespace"),
        ({**good, "namespace": "a"}, "namespace"),
        ({**good, "namespace": ["a.b"]}, "namespace.0"),
        ({**good, "value": []}, "value"),
        ({**good, "value": deep}, "value"),
        ({**good, "text": " "}, "text"),
        ({**good, "ttl": 5}, "ttl"),
    ]
    async with served() as (client, _):
        for body, param in bad:
            response = await client.put("/store/items", json=body)
            assert refused(response, 422)["param"] == param
        raw = b'{"namespace": ["a"], "key": "k", "value": {"n": NaN}}'
        sent = {"Content-Type": "application/json"}
        nan = await client.put("/store/items", content=raw, headers=sent)
        many = {"operations": [{"op": "get", "namespace": ["a"], "key": "k"}] * 101}
        unknown = {"operations": [{"op": "move", "namespace": ["a"], "key": "k"}]}
        far = {"operations": [{"op": "search", "offset": 2**31}]}  # beyond Postgres's integers
        odd = {"operations": [{"op": "x" * 100_000}]}
        assert len((await client.post("/store/batch", json=odd)).text) < 2_000
        for body, param in (
            (many, "operations"),
            (unknown, "operations.0"),
            (far, "operations.0.search.offset"),
            ({"operations": [{"op": "search", "limit": 1_000}] * 3}, "operations"),
            (
                {"operations": [{"op": "search", "query": "tea " * 2_001}]},
                "operations.0.search.query",
            ),
        ):
            response = await client.post("/store/batch", json=body)
            assert refused(response, 422)["param"] == param
        listed = await client.post("/store/batch", json={"operations": [{"op": "search"}]})
    assert "finite numbers" in refused(nan, 422)["message"]
    assert answered(listed)["results"] == [{"items": [], "is_ranked": False}]
