"""Ids of any kind, on every route that takes one; and nothing moves by what metadata claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app.db.tables import index_rows, lexical_items
from app.index.base import vector_id
from app.wiring import Runtime
from tests.api.calls import Json, answered, at, chat, close, key, put, read, refused
from tests.served import served

IDS = (
    *("a:b", "a/b", "a%2Fb", "a%252Fb", "a--b", "documents--acme", "memory", "default", "é✓"),
    *("e\u0301✓", "日本/🦊", "../etc", "...", "a b?c=d", "a#m1", "facts", "import", "x/export"),
    *(
        "x/consent",
        "delete",
        "inbox",
        "null",
        "x" * 200,
        "ü" * 200,
        "sha256-" + "a" * 64,
        "%",
        '"\\',
    ),
)
UNADDRESSABLE = (".", "..", "", " ", "a\nb", "\x7f", "x" * 513, "ü" * 257)
LOOK: Json = {"query": "Where do I live?", "top_k": 100, "min_score": 0}
SHOWN: Json = {"memory_top_k": 100, "document_top_k": 100}


def words(ids: Iterable[str]) -> dict[str, str]:
    """Return a word for each id, that none of the others' texts has."""
    letters = str.maketrans("0123456789", "abcdefghij")
    return {id: f"quux{str(n).translate(letters)}zz" for n, id in enumerate(ids)}


async def test_sessions_of_any_id_are_kept_apart_read_named_closed_exported_and_deleted() -> None:
    said = words(IDS)
    async with served(**SHOWN) as (client, runtime):
        for id, word in said.items():
            await chat(client, f"I live in {word}.", session_id=id)
        for id, word in said.items():
            answered(await client.patch(at("sessions", id), json={"title": f"On {word}"}))
            detail = await read(client, at("sessions", id))
            assert (detail["session_id"], detail["title"]) == (id, f"On {word}")
            assert f"I live in {word}." in [m["content"] for m in detail["messages"]]
            whole = await client.get(at("sessions", id, "export"))
            assert whole.json()["session"]["session_id"] == id
            assert (await close(client, id))["state"] == "closed"
        answered(await client.post(at("sessions", IDS[0], "reopen")))
        listed = await read(client, "/sessions?limit=500")
        assert {s["session_id"] for s in listed["sessions"]} == set(IDS)
        for id in IDS:
            where = at("memories", vector_id(id))
            marked = answered(await client.patch(where, json={"mark": "pinned"}))
            assert marked == {"id": vector_id(id), "mark": "pinned"}
        await assert_goes_one_by_one(client, runtime)


async def assert_goes_one_by_one(client: httpx.AsyncClient, runtime: Runtime) -> None:
    """Delete every second memory, then every session; each time the others stay."""
    left = set(IDS)
    for id in IDS[::2]:
        answered(await client.delete(at("memories", vector_id(id))))
        left.discard(id)
    listed = await read(client, "/memories?top_k=100&memory_type=episode")
    assert {memory["session_id"] for memory in listed["memories"]} == left
    left = set(IDS)
    for id in IDS:
        answered(await client.delete(at("sessions", id)))
        left.discard(id)
        listed = await read(client, "/sessions?limit=500")
        assert {s["session_id"] for s in listed["sessions"]} == left, id
    assert not [id async for id in runtime.index.list_ids("memory")]


async def test_users_of_any_id_have_what_is_theirs_and_lose_nothing_with_another() -> None:
    said = words(IDS)
    async with served(**SHOWN) as (client, _):
        for id, word in said.items():
            who: Json = {"params": {"user_id": id}}
            await chat(client, f"I live in {word}.", session_id=f"of {id}"[:500], user_id=id)
            fact = {"predicate": "likes", "value": word, "user_id": id}
            answered(await client.post("/memories/facts", json=fact))
            answered(await client.put("/memories/blocks/human", json={"value": word}, **who))
            item = {"namespace": ["notes"], "key": "one", "value": {"text": word}}
            answered(await client.put("/store/items", json=item, **who))
            consent = {"memory_enabled": True, "pii_storage_allowed": True}
            put_one = await client.put(at("users", id, "consent"), json=consent)
            assert answered(put_one)["user_id"] == id
        for id in IDS[::3]:
            assert answered(await client.delete(at("users", id)))["verified"]
        for n, (id, word) in enumerate(said.items()):
            told = await everything_of(client, id)
            others = [other for other in said.values() if other != word and other in told]
            assert (word in told, others) == (n % 3 != 0, []), id


async def everything_of(client: httpx.AsyncClient, user: str) -> str:
    paths = ("sessions", "memories", "memories/facts", "memories/profile", "memories/blocks")
    who = {"user_id": user}
    texts = [(await client.get(f"/{path}", params=who)).text for path in paths]
    texts.append((await client.get("/memories", params={**who, **LOOK})).text)
    texts.append((await client.get("/store/items?namespace=notes&key=one", params=who)).text)
    texts.append((await client.get(at("users", user, "export"))).text)
    return "\n".join(texts)


async def test_a_key_of_a_user_of_any_id_sees_that_user_only() -> None:
    said = words(IDS)
    async with served(**SHOWN) as (client, runtime):
        admin = await key(runtime, "admin")
        keys = {}
        for id, word in said.items():
            made = await client.post("/keys", json={"role": "user", "user_id": id}, headers=admin)
            keys[id] = {"Authorization": f"Bearer {answered(made)['key']}"}
            await chat(client, f"I live in {word}.", headers=keys[id])
        for id, word in said.items():
            listed = await client.get("/memories", params=LOOK, headers=keys[id])
            assert [w for w in said.values() if w in listed.text] == [word]
            own = await client.get(at("users", id, "consent"), headers=keys[id])
            assert answered(own)["user_id"] == id
            other = IDS[(IDS.index(id) + 1) % len(IDS)]
            refused(await client.get(at("users", other, "consent"), headers=keys[id]), 404)


async def test_documents_of_any_id_are_kept_apart_read_and_deleted() -> None:
    said = words(IDS)
    async with served(**SHOWN) as (client, _):
        batch = [{"id": id, "text": f"{word} is open.", "source": id} for id, word in said.items()]
        await put(client, *batch)
        for id, word in said.items():
            assert (await read(client, at("documents", id)))["text"] == f"{word} is open."
            listed = await read(client, "/documents", params={"source": id})
            assert [document["id"] for document in listed["documents"]] == [id]
        for n, id in enumerate(IDS):
            if n % 3 == 0:
                answered(await client.delete(at("documents", id)))
            elif n % 3 == 1:
                gone = await client.post("/documents/delete", json={"ids": [id]})
                assert answered(gone) == {"deleted": 1}
            else:
                gone = await client.delete("/documents", params={"source": id})
                assert answered(gone) == {"deleted": 1}
            listed = await read(client, "/documents?limit=500")
            assert {document["id"] for document in listed["documents"]} == set(IDS[n + 1 :]), id


@pytest.mark.parametrize("id", UNADDRESSABLE)
async def test_an_id_that_no_url_can_carry_is_refused_where_it_would_be_made(id: str) -> None:
    async with served() as (client, _):
        made = (
            await client.post("/chat", json={"message": "hi", "session_id": id}),
            await client.post("/chat", json={"message": "hi", "user_id": id}),
            await client.post("/documents", json={"documents": [{"id": id, "text": "A text."}]}),
            await client.post("/keys", json={"role": "user", "user_id": id}),
            await client.get("/memories", params={"user_id": id}),
        )
        for response in made:
            refused(response, 422)


async def test_one_session_id_in_two_tenants_is_two_sessions_in_every_store() -> None:
    async with served(**SHOWN) as (client, runtime):
        admins = {t: await key(runtime, "admin", tenant=t) for t in ("default", "acme")}
        for tenant, headers in admins.items():
            own: Json = {"session_id": "s1", "user_id": "ada", "headers": headers}
            await chat(client, f"I live in quux{tenant}.", **own)
            await close(client, "s1", headers=headers)

        def held(connection: sa.Connection) -> tuple[list[Any], list[Any]]:
            rows = connection.execute(sa.select(index_rows.c.namespace, index_rows.c.metadata))
            scopes = connection.execute(sa.select(lexical_items.c.scope).distinct())
            return list(rows), list(scopes.scalars())

        rows, scopes = await runtime.database.read(held)
        for tenant, space in (("default", "memory"), ("acme", "memory--acme")):
            told = [str(row.metadata) for row in rows if row.namespace == space]
            assert told
            assert all(f"quux{tenant}" in one.lower() or "quux" not in one for one in told)
        assert len(scopes) == len(set(scopes)) >= 2
        answered(await client.delete(at("sessions", "s1"), headers=admins["acme"]))
        refused(await client.get(at("sessions", "s1"), headers=admins["acme"]), 404)
        kept = await client.get(at("sessions", "s1"), headers=admins["default"])
        assert "quuxdefault" in kept.text
        found = await client.get("/memories?user_id=ada", headers=admins["default"])
        assert "quuxdefault" in found.text


BOS = (
    *("/sessions", "/memories?top_k=100", "/memories/facts", "/memories/entities"),
    *("/memories?query=live&top_k=100&min_score=0", "/store/items?namespace=bo&key=bo"),
    *("/users/bo/export", "/memories/profile"),
)


async def test_metadata_that_names_another_user_or_tenant_moves_nothing() -> None:
    claims = {"user_id": "bo", "session_id": "of bo", "memory_type": "episode", "owner": "bo"}
    async with served(**SHOWN) as (client, runtime):
        admin = await key(runtime, "admin")
        ada, bo = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bo")
        far = await key(runtime, "admin", tenant="acme")
        await chat(client, "I live in Porto.", session_id="of bo", headers=bo)
        text = "quuxdocument: I live in Paris."
        await put(client, {"id": "d1", "text": text, "metadata": claims}, headers=admin)
        titled = {"metadata": {**claims, "tenant_id": "acme"}, "title": "quuxtitle"}
        await chat(client, "I live in Rome.", session_id="of ada", headers=ada)
        answered(await client.patch(at("sessions", "of ada"), json=titled, headers=ada))
        value = {**claims, "tenant_id": "acme", "text": "quuxitem"}
        item = {"namespace": ["bo"], "key": "bo", "value": value}
        answered(await client.put("/store/items", json=item, headers=ada))
        fact = {"subject": "bo", "predicate": "likes", "value": "quuxfact bo"}
        answered(await client.post("/memories/facts", json=fact, headers=ada))
        for path in BOS:
            told = (await client.get(path, headers=bo)).text
            is_export = path.startswith("/users")  # which has documents that name the user
            assert ("quuxdocument" in told) is is_export, path
            assert not [w for w in ("quuxtitle", "quuxitem", "quuxfact") if w in told], path
            assert "quuxitem" not in (await client.get(path, headers=far)).text
        refused(await client.get("/memories", params={"user_id": "bo"}, headers=ada), 403)
