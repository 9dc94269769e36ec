"""Health, statistics, and what OpenAPI says of it all."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.api.calls import at, chat, close, groq, key, put, read
from tests.served import served
from tests.wire.openai import model_server


async def test_statistics_count_what_the_tenant_has() -> None:
    async with served() as (client, runtime):
        empty = await read(client, "/stats")
        admin = await key(runtime, "admin")
        globex = await key(runtime, "admin", tenant="globex")
        await put(client, {"id": "d1", "text": "A text."}, {"text": "B."}, headers=admin)
        for session_id in ("s1", "s2"):
            said = {"session_id": session_id, "user_id": "ada", "headers": admin}
            await chat(client, "I moved to Porto.", **said)
        await close(client, "s1", headers=admin)
        counted = await read(client, "/stats", headers=admin)
        other = await read(client, "/stats", headers=globex)
    assert empty == {
        "tenant_id": "default",
        "sessions": {"open": 0, "closed": 0, "messages": 0},
        "episodes": {"episodes": 0, "dropped_sentences": 0, "refused_facts": 0},
        "documents": {"documents": 0, "pending": 0},
        "vectors": {"documents": 0, "memory": 0},
        "forgotten": {"evicted_episodes": 0, "evicted_facts": 0, "removed_messages": 0},
        "thresholds": {
            kind: {"value": 0.0, "origin": "default"} for kind in ("memory", "facts", "documents")
        },
    }
    assert counted["sessions"] == {"open": 1, "closed": 1, "messages": 4}
    assert counted["episodes"] == {"episodes": 1, "dropped_sentences": 0, "refused_facts": 0}
    assert counted["documents"] == {"documents": 2, "pending": 0}
    # Of one conversation: its episode, its exchange, its fact.
    assert counted["vectors"] == {"documents": 2, "memory": 3}
    assert other == {**empty, "tenant_id": "globex"}


async def test_a_healthy_service_says_so_of_each_part() -> None:
    async with served() as (client, _):
        ready = await read(client, "/health/ready")
    assert ready["status"] == "ok"
    assert set(ready["parts"]) == {
        "database",
        "index",
        "session_store",
        "chat_model",
        "summary_model",
        "embedder",
        "limits",
    }
    assert {part["status"] for part in ready["parts"].values()} == {"ok"}
    assert ready["summaries"] == {"pending": 0, "failed": 0, "last_error": None}
    assert (ready["jobs"], ready["loops"], ready["problems"]) == ({}, {}, [])


async def test_a_process_without_a_database_lives_but_is_not_ready() -> None:
    async with served() as (client, runtime):
        await runtime.database.close()
        live = await client.get("/health/live")
        ready = await client.get("/health/ready")
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert ready.status_code == 503
    body = ready.json()
    assert (body["status"], body["parts"]["database"]["status"]) == ("failing", "failing")
    assert "database: the database is closed" in body["problems"]


async def test_a_part_that_hangs_is_named_and_holds_up_nobody() -> None:
    """A writer in memory, which reads wait for as well, is kept busy for as long as we ask."""
    is_over = threading.Event()
    async with served() as (client, runtime):
        busy = asyncio.create_task(runtime.database.write(lambda _: is_over.wait(60)))
        live, ready = await asyncio.gather(client.get("/health/live"), client.get("/health/ready"))
        assert not busy.done()
        is_over.set()
        await busy
        after = await read(client, "/health/ready")
    assert live.status_code == 200
    assert ready.status_code == 503
    body = ready.json()
    assert body["parts"]["database"] == {"status": "failing", "detail": "no answer within 2 s"}
    assert body["parts"]["chat_model"]["status"] == "ok"
    assert after["status"] == "ok"


async def test_what_is_wrong_is_told_in_a_line_each_without_a_secret() -> None:
    with model_server() as model:
        model.fault = "unauthorized"
        async with served(**groq(model)) as (client, runtime):
            asked = {"message": "hello", "session_id": "s1"}
            assert (await client.post("/chat", json=asked)).status_code == 502
            runtime.background.failures["monitor"] = "ValueError"
            response = await client.get("/health/ready")
    body = response.json()
    assert (response.status_code, body["status"]) == (200, "degraded")
    model_line, loop_line = body["problems"]
    assert model_line.startswith("chat_model: groq:")
    assert loop_line == "the last pass of monitor failed: ValueError"
    assert "gsk_" not in response.text


async def test_openapi_describes_every_operation_with_its_errors() -> None:
    async with served() as (client, _):
        schema = await read(client, "/openapi.json")
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            if path.startswith("/health"):
                continue
            responses = operation["responses"]
            assert {"401", "500", "503"} <= set(responses), (method, path)
            for status, response in responses.items():
                if status >= "400":
                    reference = response["content"]["application/json"]["schema"]["$ref"]
                    assert reference.endswith("/ErrorBody"), (method, path, status)
            if operation.get("requestBody"):
                assert {"400", "413", "422", "507"} <= set(responses), (method, path)
    assert schema["components"]["securitySchemes"]


async def test_openapi_has_examples_that_work() -> None:
    async with served() as (client, _):
        schemas = (await read(client, "/openapi.json"))["components"]["schemas"]
        for name, route in {"DocumentIn": "/documents", "ChatRequest": "/chat"}.items():
            properties = schemas[name]["properties"]
            example: dict[str, Any] = {
                field: about["examples"][0]
                for field, about in properties.items()
                if "examples" in about
            }
            assert len(example) >= 2
            body = {"documents": [example]} if name == "DocumentIn" else example
            response = await client.post(route, json=body)
            assert response.status_code == 200, response.text
        assert len((await read(client, "/sessions"))["sessions"]) == 1
        assert (await read(client, at("documents")))["documents"]


async def test_the_examples_of_bodies_are_accepted_as_they_stand() -> None:
    """What a page of documentation fills in for who tries it out."""
    routes: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("POST", "/chat", {}),
        ("POST", "/v1/chat/completions", {}),
        ("PATCH", "/sessions/{session_id}", {"session_id": "friday"}),
        ("PUT", "/memories/blocks/{label}", {"label": "human"}),
        ("PUT", "/store/items", {}),
        ("POST", "/store/batch", {}),
    )
    async with served() as (client, _):
        document = await read(client, "/openapi.json")
        # Two bodies of one name are told by their modules, to whoever generates a client.
        assert [name for name in document["components"]["schemas"] if "__" in name] == []
        for method, path, filled in routes:
            content = document["paths"][path][method.lower()]["requestBody"]["content"]
            name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
            body = _example(document["components"]["schemas"][name])
            answer = await client.request(method, path.format(**filled), json=body)
            assert answer.is_success, (path, body, answer.text)


def _example(schema: dict[str, Any]) -> Any:
    if whole := schema.get("examples"):
        return whole[0]
    named = {name: field.get("examples") for name, field in schema["properties"].items()}
    assert set(schema.get("required", ())) <= {name for name, shown in named.items() if shown}
    return {name: shown[0] for name, shown in named.items() if shown}
