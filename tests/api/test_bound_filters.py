"""A key with a document filter: nothing of other documents reaches whoever holds it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from app.errors import InvalidFilter
from app.index.base import Filter
from app.wiring import Runtime
from tests.api.calls import Json, answered, at, chat, groq, key, put, read, refused
from tests.served import served
from tests.wire.openai import ModelServer, call, model_server
from tests.wire.pinecone import API_KEY, PineconeServer, serving_pinecone

SALES: Filter = {"department": "sales"}
DOCUMENTS: list[Json] = [
    {"id": "sales-1", "text": "The falcon discount is twelve percent.", "source": "handbook",
     "metadata": {"department": "sales"}},
    {"id": "hr-1", "text": "The falcon salary is ninety thousand.", "source": "handbook",
     "metadata": {"department": "hr"}},
    {"id": "nobodys-1", "text": "The falcon logo is turquoise.", "source": "handbook"},
]  # fmt: skip
FORBIDDEN = ("hr-1", "ninety", "nobodys-1", "turquoise")


@dataclass(frozen=True, slots=True)
class Opened:
    """A service with three documents; the keys of an admin and of ada, free and bound."""

    client: httpx.AsyncClient
    runtime: Runtime
    free: Json
    bound: Json
    ada: Json
    ada_bound: Json


@asynccontextmanager
async def opened(**chosen: Any) -> AsyncIterator[Opened]:
    async with served(**chosen) as (client, runtime):
        free = await key(runtime, "admin")
        await put(client, *DOCUMENTS, headers=free)
        yield Opened(
            client,
            runtime,
            free=free,
            bound=await key(runtime, "admin", document_filter=SALES),
            ada=await key(runtime, "user", user="ada"),
            ada_bound=await key(runtime, "user", user="ada", document_filter=SALES),
        )


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def pinecone() -> Iterator[PineconeServer]:
    with serving_pinecone(dimension=32) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of each database."""
    if request.param == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("postgres_state")}


def check_clean(response: httpx.Response) -> None:
    assert response.status_code < 300, response.text
    assert not [word for word in FORBIDDEN if word in response.text]


QUESTIONS = ("What is the falcon salary?", "What colour is the falcon logo?", "falcon")
WIDER: tuple[Json, ...] = (
    {"$or": [{"department": "hr"}, {"department": "sales"}]},
    {"department": {"$exists": False}},
    {"department": {"$ne": "sales"}},
    {"department": {"$in": ["hr", "sales"]}},
    {"$or": [{"$and": [{"department": "hr"}]}]},
    {"source": "handbook"},
)


@pytest.mark.parametrize("mode", ["chat", "agent"])
async def test_a_bound_user_is_answered_from_documents_that_pass(mode: str) -> None:
    async with opened() as it:
        for number, message in enumerate(QUESTIONS):
            body: Json = {"message": message, "mode": mode, "session_id": f"s{number}"}
            free = await it.client.post("/chat", json=body, headers=it.ada)
            assert any(word in free.text for word in FORBIDDEN)
            body["session_id"] = f"b{number}"
            check_clean(await it.client.post("/chat", json=body, headers=it.ada_bound))
            body |= {"stream": True, "session_id": f"t{number}"}
            check_clean(await it.client.post("/chat", json=body, headers=it.ada_bound))


async def test_a_filter_of_the_request_narrows_and_never_widens() -> None:
    async with opened() as it:
        for number, filters in enumerate(WIDER):
            body = {"message": "falcon", "filters": filters, "session_id": f"s{number}"}
            check_clean(await it.client.post("/chat", json=body, headers=it.ada_bound))
        twice = (
            '{"message": "falcon", "filters": {"department": "sales"}, '
            '"filters": {"department": "hr", "department": "hr"}}'
        )
        raw = {**it.ada_bound, "Content-Type": "application/json"}
        check_clean(await it.client.post("/chat", content=twice, headers=raw))


async def test_openai_clients_are_bound_as_well() -> None:
    async with opened() as it:
        for message in QUESTIONS:
            body = {
                "model": "conversational-rag",
                "messages": [{"role": "user", "content": message}],
            }
            url = "/v1/chat/completions"
            check_clean(await it.client.post(url, json=body, headers=it.ada_bound))
            check_clean(await it.client.post(url, json=body, headers=it.ada_bound))  # a retry


async def test_what_a_free_key_asked_is_told_to_a_bound_one_without_other_documents() -> None:
    async with opened() as it:
        asked = {"session_id": "s1", "client_message_id": "m1"}
        said = await chat(it.client, "falcon", headers=it.ada, **asked)
        receipt = at("messages", said["message_id"], "receipt")
        free = (await read(it.client, receipt, headers=it.ada))["receipt"]["documents"]
        assert {one["id"] for one in free["used"]} == {"sales-1", "hr-1", "nobodys-1"}

        told = await read(it.client, receipt, headers=it.ada_bound)
        documents = told["receipt"]["documents"]
        assert [one["id"] for one in documents["used"]] == ["sales-1"]
        assert documents["withheld"] == 2
        assert (documents["best_below"], documents["dropped"]) == (None, None)

        again = await chat(it.client, "falcon", headers=it.ada_bound, **asked)
        assert [one["id"] for one in again["sources"]] == ["sales-1"]
        assert again["receipt"]["documents"] == documents
        assert again["receipt"]["repeated"] is True

        export = at("sessions", "s1", "export")
        exported = await read(it.client, export, params={"receipts": "true"}, headers=it.ada_bound)
        assert exported["messages"][1]["receipt"]["documents"] == documents
        whole = await read(it.client, export, params={"receipts": "true"}, headers=it.ada)
        assert whole["messages"][1]["receipt"]["documents"]["used"] == free["used"]


async def test_a_document_that_passes_no_more_is_withheld_from_the_own_receipt_too() -> None:
    async with opened() as it:
        said = await chat(it.client, "falcon discount", headers=it.ada_bound)
        moved = {**DOCUMENTS[0], "metadata": {"department": "hr"}}
        await put(it.client, moved, headers=it.free)
        told = await read(
            it.client, at("messages", said["message_id"], "receipt"), headers=it.ada_bound
        )
    assert [one["id"] for one in said["receipt"]["documents"]["used"]] == ["sales-1"]
    assert told["receipt"]["documents"]["used"] == []
    assert told["receipt"]["documents"]["withheld"] == 1


async def test_the_steps_of_an_agent_name_no_documents(model: ModelServer) -> None:
    async with opened(**groq(model)) as it:
        model.script = lambda body: (
            "Done."
            if body["messages"][-1]["role"] == "tool"
            else call("search_documents", query="falcon salary")
        )
        body = {"message": "falcon", "mode": "agent", "session_id": "s1"}
        answered(await it.client.post("/chat", json=body, headers=it.ada))
        check_clean(await it.client.get(at("sessions", "s1"), headers=it.ada_bound))
        check_clean(await it.client.get(at("sessions", "s1", "export"), headers=it.ada_bound))


async def test_a_bound_admin_lists_reads_and_deletes_what_passes(database: dict[str, Any]) -> None:
    async with opened(**database) as it:
        client, bound = it.client, it.bound
        check_clean(await client.get("/documents", headers=bound))
        check_clean(await client.get(at("documents", "sales-1"), headers=bound))
        for id in ("hr-1", "nobodys-1", "not-there"):
            hidden = refused(await client.get(at("documents", id), headers=bound), 404)
            assert hidden["message"] == "there is no such document"
            refused(await client.delete(at("documents", id), headers=bound), 404)
        some = {"ids": ["hr-1", "nobodys-1", "not-there"]}
        gone = await client.post("/documents/delete", json=some, headers=bound)
        assert answered(gone) == {"deleted": 0}
        source = {"source": "handbook"}
        gone = await client.delete("/documents", params=source, headers=bound)
        assert answered(gone) == {"deleted": 1}
        left = await read(client, "/documents", headers=it.free)
    assert [one["id"] for one in left["documents"]] == ["hr-1", "nobodys-1"]


async def test_a_bound_admin_stores_only_what_it_may_read_and_replaces_nothing_else(
    database: dict[str, Any],
) -> None:
    async with opened(**database) as it:
        other = {"id": "new", "text": "Falcons moult.", "metadata": {"department": "hr"}}
        bare = {"id": "new", "text": "Falcons moult."}
        mine = {"id": "new", "text": "Falcons moult.", "metadata": {"department": "sales"}}
        for refusable in (other, bare):
            both = {"documents": [mine | {"id": "fine"}, refusable]}
            response = await it.client.post("/documents", json=both, headers=it.bound)
            assert "'new' does not pass" in refused(response, 403)["message"]
        taken = {"documents": [mine, mine | {"id": "hr-1"}]}
        response = await it.client.post("/documents", json=taken, headers=it.bound)
        assert "'hr-1' is taken" in refused(response, 403)["message"]
        ids = [
            one["id"] for one in (await read(it.client, "/documents", headers=it.free))["documents"]
        ]
        assert ids == ["hr-1", "nobodys-1", "sales-1"]

        assert (await put(it.client, mine, headers=it.bound))["stored"] == 1
        assert (await put(it.client, mine | {"text": "They do."}, headers=it.bound))["stored"] == 1
        found = await read(it.client, at("documents", "new"), headers=it.bound)
    assert found["text"] == "They do."


OF_ALL = (
    ("POST", "/documents/table"),
    ("POST", "/documents/file"),
    ("GET", "/jobs"),
    ("GET", "/jobs/1"),
    ("GET", "/webhooks/inbox"),
    ("POST", "/webhooks/inbox/1/replay"),
    ("GET", "/stats"),
    ("GET", "/audit"),
    ("GET", "/keys"),
    ("GET", "/quarantine"),
)


async def test_what_is_about_all_documents_is_refused_to_a_bound_admin() -> None:
    async with served() as (client, runtime):
        bound = await key(runtime, "admin", document_filter=SALES)
        for method, path in OF_ALL:
            response = await client.request(method, path, headers=bound)
            assert "without a document filter" in refused(response, 403)["message"], path


async def test_a_filtered_listing_pages_through_what_passes_and_only_that() -> None:
    many: list[Json] = [
        {
            "id": f"d{n:04}",
            "text": f"Text {n}.",
            "metadata": {"department": "sales" if n % 7 == 0 else "hr"},
        }
        for n in range(1_100)
    ]
    async with opened() as it:
        for start in (0, 550):
            await put(it.client, *many[start : start + 550], headers=it.free)
        seen, after = [], None
        while True:
            params = {"limit": 30, "source": "api"} | ({} if after is None else {"after": after})
            page = await read(it.client, "/documents", params=params, headers=it.bound)
            seen += [one["id"] for one in page["documents"]]
            after = page["next_after"]
            if after is None:
                break
            assert (len(page["documents"]), after) == (30, seen[-1])
    assert seen == [one["id"] for one in many if one["metadata"]["department"] == "sales"]


@pytest.mark.parametrize("filter", [{"chunk": 0}, {"$or": [{"text": "x"}, SALES]}, {}, {"$x": 1}])
async def test_a_filter_that_can_not_bind_documents_makes_no_key(filter: Filter) -> None:
    async with served() as (_, runtime):
        with pytest.raises(InvalidFilter):
            await key(runtime, "admin", document_filter=filter)


async def test_scores_are_told_of_documents_that_pass_as_if_there_were_no_others() -> None:
    texts = [f"Falcon {word} report {n}" for n, word in enumerate(["red", "blue", "green"] * 8)]
    documents: list[Json] = [
        {"id": f"d{n}", "text": text, "metadata": {"department": "sales" if n % 2 else "hr"}}
        for n, text in enumerate(texts)
    ]
    async with served() as (client, runtime), served() as (alone, runtime_alone):
        await put(client, *documents)
        await put(alone, *[one for one in documents if one["metadata"]["department"] == "sales"])
        for text in (*texts[:6], "green", "nothing of the kind"):
            question = (await runtime.embedder.embed([text], kind="query"))[0]
            bound = await runtime.document_search.search("default", question, filter=SALES)
            expected = await runtime_alone.document_search.search("default", question)
            assert bound == expected


async def test_the_index_is_asked_with_both_filters(pinecone: PineconeServer) -> None:
    chosen = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
    async with opened(**chosen) as it:
        pinecone.calls.clear()
        wanted = {"source": "handbook"}
        said = await chat(it.client, "falcon", filters=wanted, headers=it.ada_bound)
        check_clean(await it.client.post("/chat", json={"message": "falcon"}, headers=it.ada_bound))
    asked = [
        c.body for c in pinecone.calls if c.path == "/query" and c.body["namespace"] == "documents"
    ]
    assert [body.get("filter") for body in asked] == [{"$and": [SALES, wanted]}, SALES]
    assert json.dumps(said["receipt"]["documents"]["bound"]) == json.dumps(SALES)
