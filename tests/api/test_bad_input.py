"""What is wrong is refused with a clear error in the one shape, and nothing of it is stored."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db import Connection
from tests.api.calls import Json, answered, at, chat, put, read, refused, stats
from tests.served import served

HALF = "\ud800"
JSON = {"Content-Type": "application/json"}


async def post(
    client: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str] = JSON
) -> httpx.Response:
    """Post JSON as Python writes it, where half surrogates and NaN have a form."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.post(path, content=raw, headers=headers)


def _deep(levels: int) -> Json:
    found: Json = {"a": 1}
    for _ in range(levels):
        found = {"$and": [found]}
    return found


# what is posted to /chat, the status, the code, and the param that is named
CHATS: dict[str, tuple[Any, int, str, str | None]] = {
    "blank": ({"message": ""}, 422, "invalid_request", "message"),
    "white space": ({"message": " \n\t\u2003"}, 422, "invalid_request", "message"),
    "oversized": ({"message": "x" * 1001}, 413, "too_large", "message"),
    "no message": ({"session_id": "s1"}, 422, "invalid_request", "message"),
    "null": ({"message": None}, 422, "invalid_request", "message"),
    "a number": ({"message": 5}, 422, "invalid_request", "message"),
    "a list": ({"message": ["hi"]}, 422, "invalid_request", "message"),
    "unknown field": ({"message": "hi", "sesion_id": "s1"}, 422, "invalid_request", "sesion_id"),
    "odd unknown field": ({"message": "hi", HALF: 1}, 422, "invalid_request", None),
    "stream": ({"message": "hi", "stream": "perhaps"}, 422, "invalid_request", "stream"),
    "memory": ({"message": "hi", "memory": "sometimes"}, 422, "invalid_request", "memory"),
    "top_k below": ({"message": "hi", "top_k": -1}, 422, "invalid_request", "top_k"),
    "top_k above": ({"message": "hi", "top_k": 101}, 422, "invalid_request", "top_k"),
    "top_k huge": ({"message": "hi", "top_k": 10**30}, 422, "invalid_request", "top_k"),
    "top_k half": ({"message": "hi", "top_k": 1.5}, 422, "invalid_request", "top_k"),
    "top_k nan": ({"message": "hi", "top_k": float("nan")}, 422, "invalid_request", "top_k"),
    "array": ([], 422, "invalid_request", None),
    "string": ("hi", 422, "invalid_request", None),
    "nothing": (b"", 422, "invalid_request", None),
    "not JSON": (b'{"message": hi}', 422, "invalid_request", None),
    "cut off": (b'{"message": "hi"', 422, "invalid_request", None),
    "invalid UTF-8": (b'{"message": "\xff\xfe"}', 400, "bad_request", None),
    "very deep": (b'{"message":' + b"[" * 50_000, 400, "bad_request", None),
    "very long number": (b'{"message":' + b"9" * 5_000 + b"}", 400, "bad_request", None),
}
for _field in ("session_id", "user_id", "client_message_id"):
    for _name, _id in {
        "empty": "",
        "blank": "  ",
        "NUL": "a\x00b",
        "control": "a\x1bb",
        "newline": "a\nb",
        "half": HALF,
        "too long": "x" * 1025,
        "number": 5,
    }.items():
        CHATS[f"{_field} {_name}"] = (
            {"message": "hi", _field: _id},
            422,
            "invalid_request",
            _field,
        )
for _name, _text in {"NUL": "a\x00b", "half": f"a{HALF}b", "low half": "\udfff"}.items():
    CHATS[f"message {_name}"] = ({"message": _text}, 422, "invalid_request", "message")
    for _place, _filter in {
        "key": {_text: "x"},
        "value": {"a": _text},
        "list": {"a": {"$in": ["x", _text]}},
        "part": {"$or": [{"a": 1}, {"b": {"$eq": _text}}]},
    }.items():
        CHATS[f"filter {_place} {_name}"] = (
            {"message": "hi", "filters": _filter},
            422,
            "invalid_request",
            "filters",
        )
for _name, _wrong in {
    "list": [],
    "string": "a",
    "number": 1,
}.items():
    CHATS[f"filters a {_name}"] = (
        {"message": "hi", "filters": _wrong},
        422,
        "invalid_request",
        "filters",
    )
for _name, _bad in {
    "unknown operator": {"a": {"$like": "x"}},
    "operator as field": {"$not": {"a": 1}},
    "empty condition": {"a": {}},
    "empty and": {"$and": []},
    "and of no object": {"$and": [1]},
    "empty part": {"$or": [{}]},
    "null": {"a": None},
    "list": {"a": [1, 2]},
    "empty in": {"a": {"$in": []}},
    "in of objects": {"a": {"$in": [{}]}},
    "gt of a string": {"a": {"$gt": "x"}},
    "gt of true": {"a": {"$gt": True}},
    "exists of a string": {"a": {"$exists": "yes"}},
    "nan": {"a": float("nan")},
    "infinite": {"a": {"$lt": float("inf")}},
    "beyond floats": {"a": 10**400},
    "empty field": {"": 1},
    "too deep": _deep(17),
    "far too deep": _deep(200),
    "too many": {f"k{n}": n for n in range(1001)},
}.items():
    CHATS[f"filter {_name}"] = ({"message": "hi", "filters": _bad}, 422, "invalid_filter", None)

DOCUMENTS: dict[str, tuple[Any, int, str, str | None]] = {
    "none": ({"documents": []}, 422, "invalid_request", "documents"),
    "too many": ({"documents": [{"text": "x"}] * 1001}, 422, "invalid_request", "documents"),
    "no list": ({"documents": {"text": "x"}}, 422, "invalid_request", "documents"),
    "missing": ({}, 422, "invalid_request", "documents"),
    "unknown": ({"documents": [{"text": "x"}], "upsert": 1}, 422, "invalid_request", "upsert"),
    "invalid UTF-8": (b'{"documents": [{"text": "\xc3\x28"}]}', 400, "bad_request", None),
}
for _name, _document, _param in (
    ("blank", {"text": "  "}, "text"),
    ("no text", {"id": "d"}, "text"),
    ("text too long", {"text": "x" * 500_001}, "text"),
    ("NUL", {"text": "a\x00"}, "text"),
    ("half", {"text": HALF}, "text"),
    ("unknown", {"text": "x", "title": "y"}, "title"),
    ("empty id", {"text": "x", "id": ""}, "id"),
    ("id with NUL", {"text": "x", "id": "\x00"}, "id"),
    ("id with half", {"text": "x", "id": HALF}, "id"),
    ("id too long", {"text": "x", "id": "i" * 1025}, "id"),
    ("source with control", {"text": "x", "source": "\x07"}, "source"),
    ("source with half", {"text": "x", "source": HALF}, "source"),
    ("type with NUL", {"text": "x", "doc_type": "\x00"}, "doc_type"),
    ("metadata a list", {"text": "x", "metadata": []}, "metadata"),
    ("nested", {"text": "x", "metadata": {"a": {"b": 1}}}, "metadata.a"),
    ("list of numbers", {"text": "x", "metadata": {"a": [1]}}, "metadata.a"),
    ("list of lists", {"text": "x", "metadata": {"a": [["b"]]}}, "metadata.a"),
    ("metadata NUL", {"text": "x", "metadata": {"a": "\x00"}}, "metadata"),
    ("metadata NUL in a list", {"text": "x", "metadata": {"a": ["\x00"]}}, "metadata"),
    ("metadata NUL in a key", {"text": "x", "metadata": {"\x00": "a"}}, "metadata"),
    ("metadata half", {"text": "x", "metadata": {"a": HALF}}, "metadata"),
    ("metadata half in a list", {"text": "x", "metadata": {"a": [HALF]}}, "metadata"),
    ("metadata half in a key", {"text": "x", "metadata": {HALF: "a"}}, "metadata"),
):
    DOCUMENTS[_name] = (
        {"documents": [{"text": "a good one"}, _document]},
        422,
        "invalid_request",
        f"documents.1.{_param}",
    )
for _name, _metadata in {
    "nan": {"a": float("nan")},
    "infinity": {"a": float("-inf")},
    "beyond 2**53": {"a": 2**53 + 1},
    "beyond floats": {"a": 10**400},
    "too large": {"a": "x" * 41_000},
    "too large in all": {f"k{n}": "x" * 30 for n in range(1_200)},
    "operator": {"$eq": "a"},
    "empty key": {"": "a"},
}.items():
    DOCUMENTS[f"metadata {_name}"] = (
        {"documents": [{"text": "a good one"}, {"text": "x", "metadata": _metadata}]},
        422,
        "invalid_request",
        None,
    )


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
    ("method", "path", "status", "param"),
    [
        ("GET", "/sessions?limit=0", 422, "limit"),
        ("GET", "/sessions?limit=501", 422, "limit"),
        ("GET", "/sessions?limit=ten", 422, "limit"),
        ("GET", "/sessions?before=yesterday", 422, "before"),
        ("GET", "/sessions?before=2026-01-01T00:00:00", 422, "before"),
        ("GET", "/sessions?user_id=", 422, "user_id"),
        ("GET", "/sessions?user_id=%00", 422, "user_id"),
        ("GET", "/sessions/s1?after_seq=-1", 422, "after_seq"),
        ("GET", f"/sessions/s1?after_seq={10**30}", 422, "after_seq"),
        ("GET", "/sessions/s1?limit=1001", 422, "limit"),
        ("GET", "/sessions/", 422, "session_id"),
        ("GET", "/sessions/a%00b", 422, "session_id"),
        ("GET", "/sessions/a%0Ab", 422, "session_id"),
        ("GET", f"/sessions/{'x' * 1025}", 422, "session_id"),
        ("GET", "/sessions/%ED%A0%80", 404, "session_id"),
        ("GET", "/sessions/%FF", 404, "session_id"),
        ("DELETE", "/sessions/nope", 404, "session_id"),
        ("POST", "/sessions/nope/close", 404, "session_id"),
        ("GET", "/memories?query=", 422, "query"),
        ("GET", "/memories?query=%20", 422, "query"),
        ("GET", "/memories?query=a%00", 422, "query"),
        ("GET", "/memories?top_k=0", 422, "top_k"),
        ("GET", "/memories?top_k=101", 422, "top_k"),
        ("GET", "/memories?query=a&min_score=nan", 422, "min_score"),
        ("GET", "/memories?query=a&min_score=2", 422, "min_score"),
        ("DELETE", "/memories/nope", 404, "memory_id"),
        ("DELETE", "/memories/a%2500", 404, "memory_id"),
        ("DELETE", f"/memories/sha256-{'0' * 64}", 404, "memory_id"),
        ("GET", "/messages/nope/receipt", 404, "message_id"),
        ("GET", "/documents?limit=0", 422, "limit"),
        ("GET", "/documents?after=", 422, "after"),
        ("GET", "/documents?source=%00", 422, "source"),
        ("GET", "/documents/nope", 404, "document_id"),
        ("DELETE", "/documents/nope", 404, "document_id"),
        ("DELETE", "/documents", 422, "source"),
        ("DELETE", "/documents?source=", 422, "source"),
        ("GET", "/nope", 404, None),
        ("GET", "/", 404, None),
        ("GET", "/messages/nope", 404, None),
        ("PUT", "/chat", 405, None),
        ("GET", "/chat", 405, None),
        ("PATCH", "/sessions/s1", 405, None),
        ("POST", "/stats", 405, None),
    ],
)
async def test_bad_paths_and_queries_are_refused(
    client: httpx.AsyncClient, method: str, path: str, status: int, param: str | None
) -> None:
    error = refused(await client.request(method, path), status)
    assert error["param"] == param


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

        declared = await client.post("/chat", content=large, headers=JSON)
        chunked = await client.post("/chat", content=piecewise(), headers=JSON)
        documents = await client.post("/documents", content=piecewise(), headers=JSON)
        odd = await client.post("/chat", content=fits, headers={**JSON, "Content-Length": "\xb2"})
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
    for odd in ("x" * 65, "a b", "a\xff", "", "<script>"):
        response = await client.get("/nope", headers={"X-Request-ID": odd})
        assert refused(response, 404)["request_id"] != odd


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
    assert stored == {"stored": 1, "unchanged": 0, "ids": ["d"]}
    assert (await read(client, at("documents", "d")))["text"] == "second"
    assert (await stats(client))["vectors"]["documents"] == 1


async def test_metadata_under_our_own_names_changes_nothing_of_ours(
    client: httpx.AsyncClient,
) -> None:
    names = {"text": "t", "tenant_id": "globex", "source": "s", "doc_type": "y", "chunk": 7}
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


async def test_extreme_but_good_input_is_taken(client: httpx.AsyncClient) -> None:
    metadata: Json = {f"k{n}": n for n in range(1_100)}
    metadata |= {"big": 2**53, "float": 1e308, "none": None, "list": ["ü", "𝄞"], "": None}
    del metadata[""]
    await put(client, {"id": "i" * 1024, "text": "\u202e𝄞 text", "metadata": metadata})
    stored = await read(client, at("documents", "i" * 1024))
    del metadata["none"]
    assert stored["metadata"] == metadata
    body = await chat(client, "𝄞\x07\u202e?", session_id="é" * 1024, user_id="\u3000x", top_k=0)
    assert body["sources"] == []
    detail = await read(client, at("sessions", "é" * 1024))
    assert (detail["user_id"], detail["history"][0]["content"]) == ("\u3000x", "𝄞\x07\u202e?")


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


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies=st.lists(fields_of_chat | any_json, min_size=1, max_size=4))
def test_no_body_makes_chat_fail(bodies: list[Any]) -> None:
    asyncio.run(_never_fails("/chat", bodies))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents=st.lists(fields_of_document | any_json, min_size=1, max_size=4))
def test_no_body_makes_documents_fail(documents: list[Any]) -> None:
    asyncio.run(_never_fails("/documents", [{"documents": [one]} for one in documents]))


async def _never_fails(path: str, bodies: list[Any]) -> None:
    async with served() as (client, _):
        for body in bodies:
            response = await post(client, path, body)
            if response.status_code != 200:
                assert 400 <= response.status_code < 500, (body, response.text)
                refused(response, response.status_code)


async def test_a_database_that_another_writer_holds_is_a_503_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    path = tmp_path / "service.db"
    quick = {"database_url": f"sqlite:///{path}", "database_timeout_seconds": 0.3}
    async with served(**quick) as (client, _):
        await put(client, {"id": "d1", "text": "A text."})
        await chat(client, "hello", session_id="s1")
        before = await stats(client)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        responses = await asyncio.gather(
            client.post("/chat", json={"message": "hi", "session_id": "s2"}),
            client.post("/chat", json={"message": "hi", "session_id": "s3", "stream": True}),
            client.post("/documents", json={"documents": [{"id": "d2", "text": "B text."}]}),
            client.delete(at("documents", "d1")),
            client.delete(at("sessions", "s1")),
            client.post(at("sessions", "s1", "close")),
        )
        for response in responses:
            assert refused(response, 503)["code"] == "storage_unavailable"
            assert int(response.headers["retry-after"]) > 0
        assert await stats(client) == before
        other.execute("ROLLBACK")
        other.close()
        await chat(client, "hi", session_id="s2")
        assert (await read(client, at("sessions", "s2")))["messages"] == 2


async def test_a_full_disk_is_a_507_and_nothing_is_half_stored(tmp_path: Path) -> None:
    async with served(database_url=f"sqlite:///{tmp_path / 'service.db'}") as (client, runtime):
        await put(client, {"id": "d1", "text": "A text."})
        await chat(client, "hello", session_id="s1")
        before = await stats(client)
        await runtime.database.write(_allow_pages)
        text = "a long text " * 3_000
        many = [{"id": f"n{n}", "text": text} for n in range(20)]
        document = await client.post("/documents", json={"documents": many})
        plain = await client.post("/chat", json={"message": text[:30_000], "session_id": "s2"})
        assert refused(document, 507)["code"] == "storage_full"
        assert refused(plain, 507)["code"] == "storage_full"
        assert await stats(client) == before
        assert (await read(client, at("documents", "d1")))["text"] == "A text."
        refused(await client.get(at("sessions", "s2")), 404)
        refused(await client.get(at("documents", "n0")), 404)
        assert answered(await client.get("/health/live"))


def _allow_pages(connection: Connection) -> None:
    """Set SQLite's own limit, on the connection that writes; beyond it the disk counts as full."""
    pages = connection.execute(sa.text("PRAGMA page_count")).scalar_one()
    connection.execute(sa.text(f"PRAGMA max_page_count={pages}"))
