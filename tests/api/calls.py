"""Calls of the HTTP surface that its tests share."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import httpx

from app.identity import Role
from app.wiring import Runtime
from tests.wire.openai import ModelServer

Json = dict[str, Any]

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    503: "server_error",
    507: "server_error",
    500: "server_error",
}


def at(*parts: str) -> str:
    """Return a path of segments, each escaped whole: an id may hold any character."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


async def chat(client: httpx.AsyncClient, message: str, **fields: Any) -> Json:
    headers = fields.pop("headers", None)
    response = await client.post("/chat", json={"message": message, **fields}, headers=headers)
    return answered(response)


async def close(client: httpx.AsyncClient, session_id: str, **options: Any) -> Json:
    return answered(await client.post(at("sessions", session_id, "close"), **options))


async def put(client: httpx.AsyncClient, *documents: Json, **options: Any) -> Json:
    return answered(await client.post("/documents", json={"documents": list(documents)}, **options))


async def read(client: httpx.AsyncClient, path: str, **options: Any) -> Json:
    return answered(await client.get(path, **options))


async def stats(client: httpx.AsyncClient, **options: Any) -> Json:
    return await read(client, "/stats", **options)


def answered(response: httpx.Response) -> Json:
    """Return the body of a success."""
    assert response.status_code == 200, response.text
    body: Json = response.json()
    return body


def refused(response: httpx.Response, status: int) -> Json:
    """Return the error of a refusal, which has the one shape, and nothing of our insides."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    error: Json = body["error"]
    assert set(error) == {"code", "message", "type", "param", "request_id"}
    assert error["type"] == TYPES.get(status, "invalid_request_error")
    assert error["code"]
    assert error["message"]
    assert error["request_id"] == response.headers["x-request-id"]
    for inside in ("Traceback", "Error:", "Error(", "Value error", "sqlite", "sqlalchemy", "0x"):
        assert inside not in error["message"]
    return error


def names(text: str, user: str) -> bool:
    """Say whether a user's id stands in a text as a word; within random ids it may by chance."""
    return re.search(rf"\b{re.escape(user)}\b", text) is not None


async def key(
    runtime: Runtime,
    role: Role,
    *,
    tenant: str = "default",
    user: str | None = None,
    **fields: Any,
) -> dict[str, str]:
    """Create a key and return the header that presents it."""
    chosen = {"now": runtime.clock(), **fields}
    _, secret = await runtime.keys.create(role=role, tenant_id=tenant, user_id=user, **chosen)
    return {"Authorization": f"Bearer {secret}"}


def groq(model: ModelServer, **chosen: Any) -> Json:
    """Return the settings of a service whose model is `model`, asked once."""
    return {
        "groq_api_key": "gsk_test_key_of_these_tests",
        "groq_api_base": model.url,
        "groq_max_retries": 0,
        "model_timeout_seconds": 5.0,
        **chosen,
    }


async def vectors(runtime: Runtime, kind: str) -> list[str]:
    """Return the ids that the index holds in a namespace."""
    return [vector async for vector in runtime.index.list_ids(kind)]
