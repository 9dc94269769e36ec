"""Bodies that are too large, too deep or not what they say, on every route that reads one."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from tests.api.calls import Json, read, refused
from tests.served import served

LIMIT = 2_000
LIMITS: dict[str, Any] = {
    "max_body_bytes": LIMIT,
    "max_upload_bytes": LIMIT * 2,
    "max_webhook_bytes": LIMIT * 3,
    "webhook_token": "t",
}
LEVELS = (500, 950, 100_000)  # Python's own limit lies at 1,000
JSON = {"Content-Type": "application/json"}
THEIRS = '"model": "conversational-rag", "messages": [{"role": "user", "content": "hi"}]'


def _part(name: str, value: bytes = b"x", extra: bytes = b"") -> bytes:
    head = f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n'.encode()
    return head + extra + b"\r\n" + value + b"\r\n"


FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nText.\r\n'


async def bodies_of(client: httpx.AsyncClient) -> list[tuple[str, str, Json]]:
    """Return each operation that reads a body: its method, a path, and the body's schema."""
    document = await read(client, "/openapi.json")
    found: list[tuple[str, str, Json]] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            filled = path
            for parameter in operation.get("parameters", ()):
                filled = filled.replace(f"{{{parameter['name']}}}", "1")
            if path.startswith("/webhooks/{provider}"):
                filled = "/webhooks/generic" + ("/t" if "token" in path else "")
                found.append((method.upper(), filled, {}))
            elif body := operation.get("requestBody"):
                (content,) = body["content"].values()
                name = content["schema"].get("$ref", "").rpartition("/")[2]
                schema = document["components"]["schemas"].get(name, {})
                found.append((method.upper(), filled, schema))
    assert len(found) > 15
    return found


async def _chunks(begun: bytes, size: int) -> AsyncIterator[bytes]:
    yield begun
    for _ in range(size // 100 + 1):
        yield b" " * 100


async def test_every_route_refuses_a_body_over_its_limit_whether_its_size_is_said_or_not() -> None:
    async with served(**LIMITS) as (client, _):
        for method, path, _schema in await bodies_of(client):
            is_upload = path in ("/documents/table", "/documents/file")
            is_large = is_upload or path == "/users/1/import"
            times = 2 if is_large else 3 if path.startswith("/webhooks/") else 1
            kind = "multipart/form-data; boundary=b" if is_upload else "application/json"
            headers = {"Content-Type": kind}
            begun = FILE[:-2] if is_upload else b" "
            for body in (b" " * (LIMIT * times + 1), _chunks(begun, LIMIT * times)):
                answer = await client.request(method, path, content=body, headers=headers)
                told = refused(answer, 413)
                assert (told["code"], str(LIMIT * times) in told["message"]) == ("too_large", True)


async def test_a_length_that_is_a_lie_does_not_raise_the_limit() -> None:
    async with served(**LIMITS) as (client, _):
        headers = {"Content-Length": "10", "Content-Type": "application/json"}
        answer = await client.post("/chat", content=_chunks(b" ", LIMIT), headers=headers)
    refused(answer, 413)


def _nested(levels: int) -> list[str]:
    return ["[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels]


async def test_json_of_any_depth_is_answered_on_every_route() -> None:
    async with served(webhook_token="t") as (client, _):
        for method, path, schema in await bodies_of(client):
            if path in ("/documents/table", "/documents/file"):
                continue
            for deep in (d for levels in LEVELS for d in _nested(levels)):
                fields = [f'{{"{name}": {deep}}}' for name in schema.get("properties", {})]
                for body in (deep, *fields):
                    answer = await client.request(method, path, content=body, headers=JSON)
                    assert answer.status_code < 500, (path, len(deep), body[:60])


async def test_depth_where_any_json_is_welcome_is_kept_or_refused() -> None:
    """In places that take JSON as it is: what is taken can be read again."""
    async with served() as (client, _):
        for deep in (d for levels in LEVELS for d in _nested(levels)):
            where = {"namespace": "n", "key": f"k{len(deep)}{deep[0]}"}
            item = f'"namespace": ["n"], "key": "{where["key"]}", "value": {{"deep": {deep}}}'
            for method, path, body in (
                ("PUT", "/store/items", f"{{{item}}}"),
                ("POST", "/store/batch", f'{{"operations": [{{"op": "put", {item}}}]}}'),
                ("POST", "/documents", f'{{"documents": [{{"text": "a", "metadata": {deep}}}]}}'),
                ("POST", "/chat", f'{{"message": "hi", "filters": {{"a": {deep}}}}}'),
                ("POST", "/v1/chat/completions", f'{{{THEIRS}, "metadata": {{"a": {deep}}}}}'),
            ):
                answer = await client.request(method, path, content=body, headers=JSON)
                assert answer.status_code < 500, (path, len(deep), deep[:60])
            kept = await client.get("/store/items", params=where)
            if kept.status_code == 200:
                assert kept.json()["value"]["deep"] == json.loads(deep)
            else:
                refused(kept, 404)


async def test_what_is_packed_is_not_unpacked() -> None:
    packed = gzip.compress(json.dumps({"message": "x" * 10_000_000}).encode())
    async with served() as (client, _):
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        answer = await client.post("/chat", content=packed, headers=headers)
    assert answer.status_code in (400, 422)
    assert len(answer.content) < 2_000


FORMS = {
    "many fields": b"".join(_part(f"f{n}") for n in range(1_000)) + FILE,
    "many files": FILE * 20,
    "a long field": _part("source", b"x" * 1_000_000) + FILE,
    "a long header": _part("source", extra=b"X-Long: " + b"x" * 1_000_000 + b"\r\n") + FILE,
    "many headers": _part("source", extra=b"X-More: x\r\n" * 50_000) + FILE,
    "a long name": _part("n" * 500_000) + FILE,
    "no end": _part("source"),
    "no part": b"",
    "no boundary at all": b"x" * 100_000,
}


async def test_an_odd_form_is_refused() -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    async with served() as (client, _):
        for form, parts in FORMS.items():
            body = parts + (b"" if form.startswith("no ") else b"--b--\r\n")
            for path in ("/documents/file", "/documents/table"):
                answer = await client.post(path, content=body, headers=headers)
                assert 400 <= answer.status_code < 500, (form, path, answer.text)
                assert len(answer.content) < 3_000
        assert (await read(client, "/documents"))["documents"] == []
