"""The whole service on Postgres: the main job, and two replicas at once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx

from app.index.base import vector_id
from tests.served import served


async def chat(client: httpx.AsyncClient, message: str, **fields: Any) -> dict[str, Any]:
    response = await client.post("/chat", json={"message": message, "user_id": "ada", **fields})
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_a_later_session_remembers(postgres_state: str) -> None:
    async with served(database_url=postgres_state, embedding_model="local") as (client, _):
        text = "Refunds are possible within 30 days of the purchase."
        await client.post("/documents", json={"documents": [{"id": "refunds", "text": text}]})
        first = await chat(client, "I prefer to be contacted by e-mail.", session_id="monday")
        known = await chat(client, "How long are refunds possible?", session_id="monday")
        closed = (await client.post("/sessions/monday/close")).json()
        later = await chat(client, "How do I prefer to be contacted?", session_id="friday")
        ready = (await client.get("/health/ready")).json()
    assert first["memories"] == []
    assert known["sources"][0]["id"] == "refunds"
    assert closed["state"] == "closed"
    assert "e-mail" in closed["summary"]
    assert [m["session_id"] for m in later["memories"]] == ["monday"]
    assert "e-mail" in later["reply"]
    assert (ready["status"], ready["parts"]["database"]["detail"]) == ("ok", "postgresql")


async def test_two_replicas_keep_one_session_in_order(postgres_state: str) -> None:
    chosen: dict[str, Any] = {"database_url": postgres_state, "turn_wait_seconds": 60.0}
    async with served(**chosen) as (one, _), served(**chosen) as (other, _):
        replies = await asyncio.gather(
            *(chat((one, other)[n % 2], f"message {n}", session_id="s") for n in range(20))
        )
        history = (await one.get("/sessions/s", params={"limit": 100})).json()["messages"]
    assert len({reply["message_id"] for reply in replies}) == 20
    assert [m["seq"] for m in history] == list(range(1, 41))
    assert [m["role"] for m in history] == ["user", "assistant"] * 20
    assert {m["status"] for m in history} == {"complete"}
    moments = [m["created_at"] for m in history if m["role"] == "assistant"]
    assert moments == sorted(moments)


async def test_the_longest_ids_of_each_kind_are_taken(postgres_state: str) -> None:
    chance = random.Random(1)  # Postgres packs what repeats

    def longest() -> str:
        return "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(170)) + "id"

    async with served(database_url=postgres_state) as (client, _):
        document = {"id": longest(), "text": "A text.", "source": longest(), "doc_type": longest()}
        stored = await client.post("/documents", json={"documents": [document]})
        fields = {"user_id": longest(), "session_id": longest(), "client_message_id": longest()}
        reply = await chat(client, "I live in Porto.", **fields)
        whose = {"user_id": fields["user_id"]}
        path = f"/sessions/{fields['session_id']}"
        closed = await client.post(f"{path}/close", params=whose)
        memories = (await client.get("/memories", params=whose)).json()["memories"]
        deleted = await client.delete(path, params=whose)
    assert stored.json()["ids"] == [document["id"]]
    assert [source["id"] for source in reply["sources"]] == [vector_id(document["id"])]
    assert closed.json()["state"] == "closed"
    assert [memory["session_id"] for memory in memories] == [fields["session_id"]]
    assert deleted.json()["vectors"] == "removed"
