"""Nothing crosses from one user to another, nor from one tenant to another, by any read path."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.index.base import vector_id
from app.wiring import Runtime
from tests.api.calls import Json, answered, at, chat, close, key, put, read, refused, stats
from tests.served import events_of, served
from tests.wire.pinecone import API_KEY, serving_pinecone

TENANTS = ("acme", "globex")
USERS = ("ada", "ada/1")  # the second one's keys must not open the first one's things
# The ids of both users' sessions, the same in both tenants; each pair is made to be confused.
PAIRS = (
    ("trip", "trip#m1"),
    ("a/b", "a%2Fb"),
    ("x:1", "x"),
    ("é✓", "e\u0301✓"),
    ("ü" * 255, "ü" * 256),
)
QUESTION = "What is the door code of the cabin?"
SECRET = re.compile(r"SECRET[0-9A-Z]+")
EVERYTHING: dict[str, Any] = {"memory_top_k": 50, "document_top_k": 50}


def secret(tenant: int, user: int, session: int) -> str:
    return f"SECRET{tenant}{user}{session}X"


@dataclass(frozen=True)
class Person:
    """One user of one tenant, with a key of their own."""

    tenant: int
    user: int
    headers: dict[str, str]

    @property
    def sessions(self) -> list[str]:
        return [pair[self.user] for pair in PAIRS]

    @property
    def strangers_sessions(self) -> list[str]:
        return [pair[1 - self.user] for pair in PAIRS]

    @property
    def secrets(self) -> set[str]:
        return {secret(self.tenant, self.user, n) for n in range(len(PAIRS))}

    @property
    def document(self) -> str:
        return f"SECRET{self.tenant}D"


@asynccontextmanager
async def serving(index: str) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    if index == "embedded":
        async with served(**EVERYTHING) as opened:
            yield opened
        return
    with serving_pinecone(dimension=32) as server:
        pinecone = {"pinecone_api_key": API_KEY, "pinecone_host": server.url}
        async with served(**EVERYTHING, **pinecone) as opened:
            yield opened


async def populate(
    client: httpx.AsyncClient, runtime: Runtime
) -> tuple[list[Person], list[dict[str, str]], dict[str, Person]]:
    """Return the people, an admin's key by tenant, and whose each reply is, by message id."""
    people = []
    admins = []
    replies = {}
    for t, tenant in enumerate(TENANTS):
        admin = await key(runtime, "admin", tenant=tenant)
        admins.append(admin)
        text = f"The handbook says that the door code of the cabin is SECRET{t}D."
        await put(client, {"id": "cabin/1", "text": text, "source": "handbook"}, headers=admin)
        for u, user in enumerate(USERS):
            person = Person(t, u, await key(runtime, "user", tenant=tenant, user=user))
            people.append(person)
            for n, session_id in enumerate(person.sessions):
                said = f"I decided that the door code of the cabin is {secret(t, u, n)}."
                body = await chat(
                    client,
                    said,
                    session_id=session_id,
                    client_message_id="c",
                    headers=person.headers,
                )
                replies[body["message_id"]] = person
    return people, admins, replies


async def secrets_read(client: httpx.AsyncClient, person: Person) -> set[str]:
    """Return the secrets that a user comes upon.

    It tries every read path with the user's key, on their own things and on all that exists.
    """
    me: dict[str, Any] = {"headers": person.headers}
    ways: dict[str, Json] = {
        "tenant": {"filters": {"tenant_id": {"$in": list(TENANTS)}}},
        "user": {"filters": {"$or": [{"user_id": {"$exists": True}}, {"text": {"$ne": ""}}]}},
    }
    texts = []
    for name, fields in ways.items():
        asked = {"message": QUESTION, "session_id": f"asking {name} {person.user}", **fields}
        texts.append((await client.post("/chat", json=asked, **me)).text)
    asked = {"message": QUESTION, "session_id": f"asking {person.user}", "stream": True}
    texts += [data for _, data in events_of((await client.post("/chat", json=asked, **me)).text)]
    whole: dict[str, str | int] = {"receipts": "true"}
    looks: list[tuple[str, dict[str, str | int]]] = [
        ("/sessions", {"limit": 500}),
        ("/memories", {"top_k": 100}),
        ("/memories", {"query": QUESTION, "top_k": 100, "min_score": 0}),
        ("/documents", {}),
        (at("documents", "cabin/1"), {}),
        ("/stats", {}),
        ("/health/ready", {}),
        *((at("sessions", session_id), {}) for pair in PAIRS for session_id in pair),
        *((at("sessions", session_id, "export"), whole) for pair in PAIRS for session_id in pair),
    ]
    seen = await asyncio.gather(*(client.get(path, params=params, **me) for path, params in looks))
    texts += [response.text for response in seen]
    return set(SECRET.findall("\n".join(texts)))


async def snapshot(client: httpx.AsyncClient, person: Person) -> list[Json]:
    """Return what one user has: their sessions and memories, whole."""
    paths = [*(at("sessions", session_id) for session_id in person.sessions), "/memories?top_k=100"]
    return await asyncio.gather(*(read(client, path, headers=person.headers) for path in paths))


@pytest.mark.parametrize("index", ["embedded", "pinecone"])
async def test_two_tenants_with_two_users_each_find_nothing_foreign(index: str) -> None:
    async with serving(index) as (client, runtime):
        people, admins, replies = await populate(client, runtime)
        for is_summarised in (False, True):
            if is_summarised:
                for person in people:
                    for session_id in person.sessions:
                        closed = await close(client, session_id, headers=person.headers)
                        assert closed["state"] == "closed"
            for person in people:
                seen = await secrets_read(client, person)
                # all of their own, so that the paths are known to work; nothing else
                assert seen == person.secrets | {person.document}
            await assert_strangers_change_nothing(client, people, replies)
        for tenant, admin in enumerate(admins):
            await assert_an_admin_sees_one_tenant(client, tenant, admin, people, replies)
        await assert_what_one_deletes_the_others_keep(client, runtime, people, admins)


async def assert_strangers_change_nothing(
    client: httpx.AsyncClient, people: list[Person], replies: dict[str, Person]
) -> None:
    before = [await snapshot(client, person) for person in people]
    for person in people:
        me: dict[str, Any] = {"headers": person.headers}
        for session_id in person.strangers_sessions:
            attempts = await asyncio.gather(
                client.get(at("sessions", session_id), **me),
                client.get(at("sessions", session_id, "export"), **me),
                client.post(at("sessions", session_id, "close"), **me),
                client.post(at("sessions", session_id, "reopen"), **me),
                client.patch(at("sessions", session_id), json={"title": "mine"}, **me),
                client.delete(at("sessions", session_id), **me),
                client.delete(at("memories", vector_id(session_id)), **me),
                client.post("/chat", json={"message": QUESTION, "session_id": session_id}, **me),
            )
            for attempt in attempts:
                refused(attempt, 404)
                assert not SECRET.search(attempt.text)
        receipts = await asyncio.gather(
            *(client.get(at("messages", message_id, "receipt"), **me) for message_id in replies)
        )
        for response, owner in zip(receipts, replies.values(), strict=True):
            assert response.status_code == (200 if owner == person else 404)
            assert person.secrets.issuperset(SECRET.findall(response.text))
    assert [await snapshot(client, person) for person in people] == before


async def assert_an_admin_sees_one_tenant(
    client: httpx.AsyncClient,
    tenant: int,
    admin: dict[str, str],
    people: list[Person],
    replies: dict[str, Person],
) -> None:
    texts = []
    for user in USERS:
        asked = {"message": QUESTION, "user_id": user, "session_id": f"asked for {user}"}
        texts.append((await client.post("/chat", json=asked, headers=admin)).text)
        search: dict[str, Any] = {"user_id": user, "query": QUESTION, "top_k": 100}
        texts.append((await client.get("/memories", params=search, headers=admin)).text)
    paths = ["/documents", "/sessions", *(f"/memories?user_id={quote(user)}" for user in USERS)]
    paths += [at("sessions", session_id) for pair in PAIRS for session_id in pair]
    paths += [at("messages", message_id, "receipt") for message_id in replies]
    seen = await asyncio.gather(*(client.get(path, headers=admin) for path in paths))
    texts += [response.text for response in seen]
    own = set().union(*(p.secrets | {p.document} for p in people if p.tenant == tenant))
    assert set(SECRET.findall("\n".join(texts))) == own
    counted = await stats(client, headers=admin)
    assert counted["tenant_id"] == TENANTS[tenant]
    assert counted["documents"] == {"documents": 1, "pending": 0}
    assert counted["episodes"]["episodes"] == 2 * len(PAIRS)
    assert counted["vectors"]["memory"] == 4 * len(PAIRS)  # an episode, and its one exchange


async def assert_what_one_deletes_the_others_keep(
    client: httpx.AsyncClient,
    runtime: Runtime,
    people: list[Person],
    admins: list[dict[str, str]],
) -> None:
    leaver, *others = people
    before = [await snapshot(client, person) for person in others]
    vectors = await runtime.index.counts()
    ids = [vector_id(session_id) for session_id in leaver.sessions]
    for memory_id in ids[::2]:
        gone = await client.delete(at("memories", memory_id), headers=leaver.headers)
        assert answered(gone) == {"id": memory_id, "vectors": "removed"}
    for session_id in leaver.sessions:
        gone = await client.delete(at("sessions", session_id), headers=leaver.headers)
        assert answered(gone)["vectors"] == "removed"
    assert [await snapshot(client, person) for person in others] == before
    left = await runtime.index.counts()
    assert left["memory--acme"] == vectors["memory--acme"] - 2 * len(PAIRS)
    assert left["memory--globex"] == vectors["memory--globex"]
    answered(await client.delete(at("documents", "cabin/1"), headers=admins[0]))
    search: dict[str, Any] = {"query": QUESTION, "top_k": 100, "min_score": 0}
    found = await read(client, "/memories", headers=leaver.headers, params=search)
    assert found["memories"] == []
    assert await secrets_read(client, others[-1]) == others[-1].secrets | {others[-1].document}


async def test_a_session_id_can_be_taken_by_another_user_once_it_is_free() -> None:
    async with served(**EVERYTHING) as (client, runtime):
        ada, bob = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bob")
        first = await chat(client, "My code is SECRET1X.", session_id="s1", headers=ada)
        await close(client, "s1", headers=ada)
        answered(await client.delete(at("sessions", "s1"), headers=ada))
        await chat(client, QUESTION, session_id="s1", headers=bob)
        await close(client, "s1", headers=bob)
        detail = await read(client, at("sessions", "s1"), headers=bob)
        refused(await client.get(at("sessions", "s1"), headers=ada), 404)
        path = at("messages", first["message_id"], "receipt")
        for headers in (ada, bob):
            refused(await client.get(path, headers=headers), 404)
    assert not SECRET.search(json.dumps(detail))


async def test_a_repeat_tells_no_memory_of_another_user() -> None:
    """The receipt names memories by vector id; the repeat reads them again by it."""
    async with served(**EVERYTHING) as (client, runtime):
        ada, bob = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bob")
        await chat(client, "My code is SECRET1X.", session_id="a/b", headers=ada)
        await chat(client, "My code is SECRET2X.", session_id="a%2Fb", headers=bob)
        await close(client, "a/b", headers=ada)
        await close(client, "a%2Fb", headers=bob)
        asked: Json = {"session_id": "now", "client_message_id": "c", "headers": ada}
        first = await chat(client, "What is my code?", **asked)
        again = await chat(client, "What is my code?", **asked)
    assert [m["session_id"] for m in first["memories"]] == ["a/b"]
    assert set(SECRET.findall(json.dumps(again))) <= {"SECRET1X"}


async def test_a_repeat_tells_no_memory_of_who_took_over_a_session_id() -> None:
    async with served(**EVERYTHING) as (client, runtime):
        ada, bob = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bob")
        await chat(client, "My code is SECRET1X.", session_id="s1", headers=ada)
        await close(client, "s1", headers=ada)
        asked: Json = {"session_id": "now", "client_message_id": "c", "headers": ada}
        await chat(client, "What is my code?", **asked)
        answered(await client.delete(at("sessions", "s1"), headers=ada))
        await chat(client, "My code is SECRET2X.", session_id="s1", headers=bob)
        await close(client, "s1", headers=bob)
        again = await chat(client, "What is my code?", **asked)
    assert "SECRET2X" not in json.dumps(again)


async def test_a_repeat_keeps_the_memories_of_a_session_with_any_id() -> None:
    async with served(**EVERYTHING) as (client, _):
        for session_id in ("a/b", "ü" * 256):
            await chat(client, "My code is SECRET1X.", session_id=session_id)
            await close(client, session_id)
        asked: Json = {"session_id": "now", "client_message_id": "c"}
        first = await chat(client, "What is my code?", **asked)
        again = await chat(client, "What is my code?", **asked)
    assert len(first["memories"]) == 2
    assert again["memories"] == first["memories"]


async def test_a_session_named_like_a_hash_does_not_push_out_another_one_s_vector() -> None:
    async with served(**EVERYTHING) as (client, runtime):
        ada, bob = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bob")
        await chat(client, "My code is SECRET1X.", session_id="ü" * 256, headers=ada)
        await close(client, "ü" * 256, headers=ada)
        listed = await read(client, "/memories", headers=ada)
        alike = listed["memories"][0]["id"]
        await chat(client, "My code is SECRET2X.", session_id=alike, headers=bob)
        await close(client, alike, headers=bob)
        found = await read(client, "/memories", headers=ada, params={"query": "my code"})
    assert [m["session_id"] for m in found["memories"]] == ["ü" * 256]
