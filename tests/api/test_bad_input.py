"""What is wrong is refused with a clear error in the one shape, and nothing of it is stored."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.bad_bodies import CHATS, DOCUMENTS, HALF, PATHS
from tests.api.calls import Json, at, chat, put, read, refused, stats
from tests.served import served

JSON = {"Content-Type": "application/json"}
FLOOD: Json = {f"field_{number}": {} for number in range(5_000)}


async def post(
    client: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str] = JSON
) -> httpx.Response:
    """Post JSON as Python writes it, where half surrogates and NaN have a form."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.post(path, content=raw, headers=headers)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(message_max_chars=1_000) as (client, _):
        yield client


@pytest.mark.parametrize(("path", "cases"), [("/chat", CHATS), ("/documents", DOCUMENTS)])
async def test_bad_bodies_are_refused_whole(
    client: httpx.AsyncClient, path: str, cases: dict[str, tuple[Any, int, str, str | None]]
) -> None:
    before = await stats(client)
    found = {}
    for name, (body, status, _, _) in cases.items():
        error = refused(await post(client, path, body), status)
        found[name] = (body, status, error["code"], error["param"])
    assert {n: case[1:] for n, case in found.items()} == {n: case[1:] for n, case in cases.items()}
    assert await stats(client) == before


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_json_under_another_name_is_refused(
    client: httpx.AsyncClient, kind: str | None
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    error = refused(await post(client, "/chat", {"message": "hi"}, headers), 422)
    assert "Content-Type: application/json" in error["message"]
    assert (await stats(client))["sessions"]["messages"] == 0


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/chat", FLOOD, "the body has 5000 fields"),
        ("/chat", {"message": "hi", "history": FLOOD}, "history has 5000 fields"),
        ("/documents", {"documents": [{"text": "a"}, FLOOD]}, "documents.1 has 5000 fields"),
        (
            "/documents",
            {"documents": [{"text": "a", "metadata": FLOOD | {str(n): n for n in range(9_000)}}]},
            "documents.0.metadata has 14000 fields",
        ),
        (
            "/memories/import",
            {"conversations": [{"messages": [FLOOD]}]},
            "conversations.0.messages.0 has 5000 fields",
        ),
    ],
)
async def test_a_flood_of_fields_is_one_error_and_not_one_for_each(
    client: httpx.AsyncClient, path: str, body: Any, told: str
) -> None:
    """A body has room for a million, whose errors would keep everybody else waiting."""
    error = refused(await post(client, path, body), 422)
    assert error["message"].startswith(told)


async def test_a_part_of_a_body_that_is_no_object_is_named(client: httpx.AsyncClient) -> None:
    error = refused(await post(client, "/chat", {"message": "hi", "history": "window"}), 422)
    assert (error["message"], error["param"]) == ("history must be a JSON object", "history")


async def test_bad_paths_and_queries_are_refused(client: httpx.AsyncClient) -> None:
    for method, path, status, param in PATHS:
        error = refused(await client.request(method, path), status)
        assert (method, path, error["param"]) == (method, path, param)


async def test_an_empty_filter_is_no_filter(client: httpx.AsyncClient) -> None:
    await put(client, {"id": "d1", "text": "A text."})
    body = await chat(client, "hello?", filters={})
    assert [source["id"] for source in body["sources"]] == ["d1"]
    assert body["receipt"]["documents"]["filters"] is None


async def test_a_body_over_the_limit_is_refused_declared_or_not() -> None:
    async with served(max_body_bytes=2_000) as (client, _):
        large = json.dumps({"message": "x" * 2_000}).encode()
        fits = json.dumps({"message": "x" * 1_900}).encode()

        async def piecewise() -> AsyncIterator[bytes]:
            for start in range(0, len(large), 100):
                yield large[start : start + 100]

        odd_length = [(b"content-type", b"application/json"), (b"content-length", b"\xb2")]
        declared = await client.post("/chat", content=large, headers=JSON)
        chunked = await client.post("/chat", content=piecewise(), headers=JSON)
        documents = await client.post("/documents", content=piecewise(), headers=JSON)
        odd = await client.post("/chat", content=fits, headers=odd_length)
        assert "content-length" not in chunked.request.headers
        for response in (declared, chunked, documents):
            assert refused(response, 413)["code"] == "too_large"
        assert odd.status_code == 200
        assert (await client.post("/chat", content=fits, headers=JSON)).status_code == 200
        assert (await stats(client))["sessions"]["messages"] == 4


async def test_a_request_id_is_taken_over_where_it_is_a_proper_one(
    client: httpx.AsyncClient,
) -> None:
    for given_id in ("abc-1.2_3", "x" * 64):
        response = await client.get("/nope", headers={"X-Request-ID": given_id})
        assert refused(response, 404)["request_id"] == given_id
    for odd in (b"x" * 65, b"a b", b"a\xff", b"", b"<script>"):
        response = await client.get("/nope", headers=[(b"x-request-id", odd)])
        assert re.fullmatch("[0-9a-f]{32}", refused(response, 404)["request_id"])


async def test_what_nobody_foresaw_is_a_500_in_the_same_shape() -> None:
    async with served() as (client, _):
        transport = client._transport
        assert isinstance(transport, httpx.ASGITransport)
        app = transport.app
        assert isinstance(app, FastAPI)

        @app.get("/fails")
        async def fails() -> None:
            raise RuntimeError("the password is hunter2")

        response = await client.get("/fails", headers={"X-Request-ID": "abc"})
        error = refused(response, 500)
    assert (error["code"], error["request_id"]) == ("internal_error", "abc")
    assert "hunter2" not in response.text


async def test_of_two_documents_with_one_id_the_last_is_kept(client: httpx.AsyncClient) -> None:
    stored = await put(client, {"id": "d", "text": "first"}, {"id": "d", "text": "second"})
    nothing: Json = {"left_out": [], "redacted": {}}
    assert stored == {"stored": 1, "unchanged": 0, "ids": ["d"], **nothing}
    assert (await read(client, at("documents", "d")))["text"] == "second"
    assert (await stats(client))["vectors"]["documents"] == 1


async def test_metadata_under_our_own_names_changes_nothing_of_ours(
    client: httpx.AsyncClient,
) -> None:
    names = {"text": "t", "tenant_id": "globex", "source": "s", "chunk": 7}
    metadata = {**names, "document_id": "other", "user_id": "ada"}
    await put(client, {"id": "d", "text": "A text.", "source": "handbook", "metadata": metadata})
    stored = await read(client, at("documents", "d"))
    (source,) = (await chat(client, "hello?"))["sources"]
    assert (stored["text"], stored["source"], stored["metadata"]) == (
        "A text.",
        "handbook",
        metadata,
    )
    assert (source["id"], source["text"]) == ("d", "A text.")
    shown = source["metadata"]
    assert (shown["source"], shown["doc_type"]) == ("handbook", "document")
    assert (shown["document_id"], shown["chunk"]) == ("d", 0)
    assert {name: shown[f"{name}_"] for name in names} == names
    assert (await read(client, "/stats"))["tenant_id"] == "default"


async def test_a_column_named_like_ours_pushes_out_no_other(client: httpx.AsyncClient) -> None:
    await put(client, {"id": "d", "text": "A text.", "metadata": {"text_": "one", "text": "two"}})
    (source,) = (await chat(client, "hello?"))["sources"]
    assert {"one", "two"} <= set(source["metadata"].values())


async def test_extreme_but_good_input_is_taken(client: httpx.AsyncClient) -> None:
    metadata: Json = {f"k{n}": n for n in range(1_100)}
    metadata |= {"big": 2**53, "float": 1e308, "none": None, "list": ["ü", "𝄞"], "": None}
    del metadata[""]
    await put(client, {"id": "i" * 512, "text": "\u202e𝄞 text", "metadata": metadata})
    stored = await read(client, at("documents", "i" * 512))
    del metadata["none"]
    assert stored["metadata"] == metadata
    body = await chat(client, "𝄞\x07\u202e?", session_id="é" * 256, user_id="\u3000x", top_k=0)
    assert body["sources"] == []
    detail = await read(client, at("sessions", "é" * 256))
    assert (detail["user_id"], detail["messages"][0]["content"]) == ("\u3000x", "𝄞\x07\u202e?")


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(HALF),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
fields_of_chat = st.fixed_dictionaries(
    {"message": st.text(max_size=40) | any_json},
    optional={
        "session_id": st.text(max_size=20) | any_json,
        "user_id": st.text(max_size=20) | any_json,
        "client_message_id": any_json,
        "memory": st.sampled_from(["on", "off", "read"]) | any_json,
        "filters": st.dictionaries(st.sampled_from(["a", "$and", "user_id"]), any_json, max_size=2)
        | any_json,
        "top_k": st.integers(-1, 5) | any_json,
        "stream": st.booleans(),
    },
)
fields_of_document = st.fixed_dictionaries(
    {"text": st.text(max_size=40) | any_json},
    optional={
        "id": st.text(max_size=20) | any_json,
        "source": any_json,
        "metadata": st.dictionaries(st.text(max_size=5), any_json, max_size=3) | any_json,
    },
)


fuzz = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@fuzz
@given(body=fields_of_chat | any_json)
async def test_no_body_makes_chat_fail(client: httpx.AsyncClient, body: Any) -> None:
    await assert_taken_or_refused(client, "/chat", body)


@fuzz
@given(document=fields_of_document | any_json)
async def test_no_body_makes_documents_fail(client: httpx.AsyncClient, document: Any) -> None:
    await assert_taken_or_refused(client, "/documents", {"documents": [document]})


async def assert_taken_or_refused(client: httpx.AsyncClient, path: str, body: Any) -> None:
    response = await post(client, path, body)
    if response.status_code != 200:
        assert 400 <= response.status_code < 500, response.text
        refused(response, response.status_code)


async def test_a_405_names_every_method_that_the_path_has() -> None:
    async with served() as (client, _):
        for path, methods in {
            "/chat": "POST",
            "/keys": "GET, POST",
            "/documents/d1": "GET, DELETE",
            "/sessions/s1": "GET, PATCH, DELETE",
        }.items():
            assert (await client.request("TRACE", path)).headers["allow"] == methods
