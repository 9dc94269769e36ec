"""What a browser may do: other origins, safe headers, and the door without keys."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from app.errors import Misconfigured
from app.main import create_app
from tests.api.calls import Json, answered, groq, key, read, refused
from tests.served import served, settings
from tests.wire.openai import model_server

REMOTE = "203.0.113.9"
PAGE = "https://app.example"
EVIL = "https://evil.example"
SAID: Json = {"message": "hello"}


async def test_a_page_of_a_known_origin_may_call_and_read_every_answer_also_a_refusal() -> None:
    chosen: dict[str, Any] = {"cors_origins": f"{PAGE}, http://localhost:3000", "api_key": "k"}
    known, key_ = {"Origin": PAGE}, {"Authorization": "Bearer k"}
    async with served(address=REMOTE, max_body_bytes=100, **chosen) as (client, runtime):
        plan = {"Access-Control-Request-Method": "PUT"}
        plan["Access-Control-Request-Headers"] = "authorization, content-type, x-memory"
        leave = await client.options("/chat", headers={**known, **plan})  # without a key
        assert leave.status_code == 200
        assert leave.headers["access-control-allow-origin"] == PAGE
        assert "PUT" in leave.headers["access-control-allow-methods"]
        assert "x-memory" in leave.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in leave.headers
        answers = {
            200: await client.get("/sessions", headers={**known, **key_}),
            401: await client.post("/chat", json=SAID, headers=known),
            404: await client.get("/nope", headers=known),
            413: await client.post("/chat", content=b"x" * 200, headers={**known, **key_}),
            422: await client.post("/chat", json={}, headers={**known, **key_}),
        }
        await runtime.database.close()
        answers[503] = await client.get("/sessions", headers={**known, **key_})
    for status, answer in answers.items():
        assert answer.status_code == status, answer.text
        assert answer.headers["access-control-allow-origin"] == PAGE
        exposed = answer.headers["access-control-expose-headers"]
        assert {"X-Request-ID", "Retry-After"} <= set(exposed.split(", "))


async def test_a_page_of_another_origin_gets_no_leave() -> None:
    for chosen in ({}, {"cors_origins": PAGE}):
        async with served(address=REMOTE, api_key="k", **chosen) as (client, _):
            plan = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
            leave = await client.options("/chat", headers=plan)
            told = await client.get("/sessions", headers={"Origin": EVIL, "X-API-Key": "k"})
        assert leave.status_code in (400, 405)
        for answer in (leave, told):
            assert "access-control-allow-origin" not in answer.headers


async def test_any_origin_may_be_let_in_but_never_with_cookies() -> None:
    async with served(address=REMOTE, api_key="k", cors_origins="*") as (client, _):
        told = await client.get("/sessions", headers={"Origin": EVIL, "X-API-Key": "k"})
    assert told.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in told.headers


@pytest.mark.parametrize(
    "wrong",
    ["app.example", f"{PAGE}/", "https://App.example", "https://", "null", "*.a"],
)
def test_what_is_no_origin_is_refused_at_start(wrong: str) -> None:
    with pytest.raises(Misconfigured, match="CORS_ORIGINS"):
        create_app(settings(cors_origins=f"{PAGE},{wrong}"))


SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


async def test_every_answer_has_safe_headers() -> None:
    with model_server(fault="server_error") as model:
        async with served(**groq(model), max_body_bytes=1_000, cors_origins=PAGE) as (client, _):
            plan = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
            answers = [
                await client.get("/health/live"),
                await client.get("/openapi.json"),
                await client.get("/sessions"),
                await client.get("/metrics"),
                await client.get("/nope"),
                await client.put("/chat"),
                await client.post("/chat", json={}),
                await client.post("/chat", json=SAID),
                await client.post("/chat", json={**SAID, "stream": True}),
                await client.post("/chat", content=b"x" * 2_000),
                await client.options("/chat", headers=plan),
            ]
    found = {answer.status_code for answer in answers}
    assert {200, 404, 405, 413, 422, 503} <= found
    for answer in answers:
        assert {name: answer.headers[name] for name in SAFE} == SAFE
        assert answer.headers["content-security-policy"].startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "script-src" not in answer.headers["content-security-policy"]
        assert "strict-transport-security" not in answer.headers
    (stream,) = (a for a in answers if a.headers.get("content-type", "").startswith("text/event"))
    assert stream.headers["cache-control"] == "no-cache"


async def test_https_is_kept_where_the_service_is_reached_by_it() -> None:
    async with served(public_base_url="https://rag.example") as (client, _):
        answer = await client.get("/health/live")
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


async def test_the_pages_of_documentation_may_load_what_they_need() -> None:
    async with served() as (client, _):
        for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
            _check_page(await client.get(path))


def _check_page(page: httpx.Response) -> None:
    policy = dict(
        part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";")
    )
    assert page.status_code == 200
    for tag, kind in (("script", "script-src"), ("link", "style-src"), ("img", "img-src")):
        for url in re.findall(rf'<{tag}\b[^>]*(?:src|href)="(https?://[^"]+)"', page.text):
            rule = "img-src" if "favicon" in url else kind
            assert httpx.URL(html.unescape(url)).host in policy[rule]
    if re.search(r"<script>", page.text):
        assert "'unsafe-inline'" in policy["script-src"]
    assert "'self'" in policy["connect-src"]  # /openapi.json


async def test_without_keys_this_machine_is_answered_by_its_own_names() -> None:
    hosts = ("localhost", "localhost:8000", "127.0.0.1", "127.8.8.8:1", "[::1]:1", "LOCALHOST")
    async with served() as (client, _):
        for host in hosts:
            answered(await client.get("/sessions", headers={"Host": host}))
            same = {"Host": host, "Origin": f"http://{host}"}
            answered(await client.post("/chat", json=SAID, headers=same))


async def test_a_name_that_was_pointed_at_this_machine_opens_nothing() -> None:
    pointed = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "203.0.113.9")
    async with served() as (client, runtime):
        for host in (*pointed, "::", ""):
            for method, path, body in (("POST", "/chat", SAID), ("GET", "/sessions", None)):
                answer = await client.request(method, path, json=body, headers={"Host": host})
                assert "PUBLIC_BASE_URL" in refused(answer, 403)["message"]
        assert (await runtime.sessions.counts("default"))["messages"] == 0
        # With a key, and where nobody has to say who asks, the name does not matter.
        answered(await client.get("/health/live", headers={"Host": "evil.example"}))
        named = {**await key(runtime, "admin"), "Host": "evil.example"}
        answered(await client.get("/sessions", headers=named))


async def test_our_own_name_counts_as_this_machine() -> None:
    async with served(public_base_url="https://rag.example/v1") as (client, _):
        for host in ("rag.example", "localhost"):
            answered(await client.post("/chat", json=SAID, headers={"Host": host}))


@pytest.mark.parametrize("chosen", [{}, {"cors_origins": "*"}, {"allow_anonymous": True}])
async def test_a_foreign_page_opens_nothing_without_a_key(chosen: dict[str, Any]) -> None:
    pages = (EVIL, "null", "http://localhost:3000", "http://localhost.evil.example", "localhost")
    async with served(**chosen) as (client, runtime):
        for origin in (*pages, ""):
            answer = await client.post("/chat", json=SAID, headers={"Origin": origin})
            assert "CORS_ORIGINS" in refused(answer, 403)["message"]
        counts = await runtime.sessions.counts("default")
        assert counts["messages"] == 0


async def test_a_page_that_is_named_may_come_in_without_a_key() -> None:
    page = "http://localhost:3000"
    async with served(cors_origins=page) as (client, _):
        answer = await client.post("/chat", json=SAID, headers={"Origin": page})
    assert answered(answer)["reply"]
    assert answer.headers["access-control-allow-origin"] == page


async def test_other_machines_that_are_let_in_may_use_any_name() -> None:
    async with served(address=REMOTE, allow_anonymous=True) as (client, _):
        answered(await client.get("/sessions", headers={"Host": "rag.internal:8000"}))


async def test_a_form_of_a_page_is_no_json() -> None:
    """What a page may send without asking is not read as JSON."""
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None)
    documents = b'{"documents": [{"text": "planted"}]}'
    async with served() as (client, runtime):
        for kind in kinds:
            headers = {} if kind is None else {"Content-Type": kind}
            answer = await client.post("/chat", content=b'{"message": "hi"}', headers=headers)
            assert "application/json" in refused(answer, 422)["message"]
            refused(await client.post("/documents", content=documents, headers=headers), 422)
        assert (await read(client, "/documents"))["documents"] == []
        assert (await runtime.sessions.counts("default"))["messages"] == 0


def test_a_test_client_of_starlette_comes_in_as_before() -> None:
    with TestClient(create_app(settings())) as client:
        assert client.post("/chat", json=SAID).status_code == 200
