"""A database that can't write, or a model that fails, from outside: a clear error, nothing half
stored."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from app.db import Connection
from tests.api.calls import answered, at, chat, groq, put, read, refused, stats
from tests.served import events_of, served
from tests.wire.openai import model_server


async def test_a_database_that_another_writer_holds_is_a_503_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    path = tmp_path / "service.db"
    quick: dict[str, Any] = {"database_url": f"sqlite:///{path}", "database_timeout_seconds": 0.3}
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
        assert (await read(client, at("sessions", "s2")))["message_count"] == 2


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
        item = {"namespace": ["n"], "key": "k", "value": {"text": text}}
        writes: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("POST", "/documents/file", {"files": {"file": ("a.txt", text.encode())}}),
            ("PUT", "/store/items", {"json": item}),
        )
        for method, path, body in writes:
            told = refused(await client.request(method, path, **body), 507)
            assert told["code"] == "storage_full"
        assert await stats(client) == before
        assert (await read(client, at("documents", "d1")))["text"] == "A text."
        refused(await client.get(at("sessions", "s2")), 404)
        refused(await client.get(at("documents", "n0")), 404)
        assert answered(await client.get("/health/live"))
        await runtime.database.write(_allow_all)
        for method, path, body in writes:
            answered(await client.request(method, path, **body))
        answered(await client.post("/documents", json={"documents": many}))
        with closing(sqlite3.connect(tmp_path / "service.db")) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def _allow_pages(connection: Connection) -> None:
    """Set SQLite's own limit, on the connection that writes; beyond it the disk counts as full."""
    pages = connection.execute(sa.text("PRAGMA page_count")).scalar_one()
    connection.execute(sa.text(f"PRAGMA max_page_count={pages}"))


def _allow_all(connection: Connection) -> None:
    connection.execute(sa.text("PRAGMA max_page_count=1000000"))


async def test_an_error_within_a_stream_carries_the_request_s_id() -> None:
    with model_server(fault="server_error") as model:
        async with served(**groq(model)) as (client, _):
            response = await client.post("/chat", json={"message": "hi", "stream": True})
    name, data = events_of(response.text)[-1]
    assert (response.status_code, name) == (200, "error")
    error = json.loads(data)["error"]
    assert error["request_id"] == response.headers["x-request-id"]
    assert "secret upstream text" not in data
