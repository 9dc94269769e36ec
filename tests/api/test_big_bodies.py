"""Large bodies are checked beside the event loop, with the same answers as small ones."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import AfterValidator, BaseModel

from app.api.big_bodies import BIG_BYTES, BigBodies
from tests.api.calls import answered, refused
from tests.served import served

BIG = "x" * BIG_BYTES
WAITS_SECONDS = 10


IS_CHECKING, MAY_END = threading.Event(), threading.Event()


def _slow(text: str) -> str:
    IS_CHECKING.set()
    assert MAY_END.wait(WAITS_SECONDS), "nobody else was answered meanwhile"
    return text


class Slow(BaseModel):
    text: Annotated[str, AfterValidator(_slow)]


class Other(BaseModel):
    text: str


async def test_other_requests_are_answered_while_a_large_body_is_checked() -> None:
    router = APIRouter(route_class=BigBodies)

    @router.post("/slow")
    async def post(body: Slow) -> int:
        return len(body.text)

    @router.get("/quick")
    async def get() -> str:
        return "here"

    app = FastAPI()
    app.include_router(router)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        large = asyncio.create_task(client.post("/slow", json={"text": BIG}))
        while not IS_CHECKING.is_set():
            assert not large.done()
            await asyncio.sleep(0.001)
        assert (await client.get("/quick")).json() == "here"
        assert not large.done()
        MAY_END.set()
        assert (await large).json() == BIG_BYTES


async def test_a_large_body_is_answered_as_a_small_one() -> None:
    documents: list[dict[str, Any]] = [{"text": "Refunds take 30 days."} for _ in range(2)]
    bad: list[dict[str, Any]] = [{"text": ""}, {"text": "a", "id": "b" * 2_000}, {"texts": "a"}]
    async with served() as (client, _):
        for filler in ("short", BIG):
            rest = [{"text": filler[at : at + 50_000]} for at in range(0, len(filler), 50_000)]
            told = answered(
                await client.post("/documents", json={"documents": [*documents, *rest]})
            )
            assert told["ids"]
        for wrong in bad:
            small = refused(await client.post("/documents", json={"documents": [wrong]}), 422)
            whole = [wrong, *rest]
            large = refused(await client.post("/documents", json={"documents": whole}), 422)
            assert (large["message"], large["param"]) == (small["message"], small["param"])
        for raw in (b'{"documents": [', b"[]", b'"text"', b"7"):
            given = {"content-type": "application/json"}
            small = refused(await client.post("/documents", content=raw, headers=given), 422)
            padded = raw + b" " * BIG_BYTES
            large = refused(await client.post("/documents", content=padded, headers=given), 422)
            assert (large["code"], large["param"]) == (small["code"], small["param"])


async def test_who_may_not_call_is_told_so_before_what_is_wrong_with_the_body() -> None:
    body = {"documents": [{"texts": BIG}]}
    async with served(address="10.0.0.7") as (client, _):
        assert refused(await client.post("/documents", json=body), 401)["code"] == "unauthenticated"


def test_a_route_with_two_bodies_is_refused_where_it_is_made() -> None:
    router = APIRouter(route_class=BigBodies)

    with pytest.raises(TypeError, match="one body"):

        @router.post("/two")
        async def two(one: Slow, other: Other) -> None: ...
