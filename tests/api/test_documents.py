"""Documents: put, read, list, remove, and found by chat."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.calls import answered, at, chat, key, put, read, refused, stats, vectors
from tests.served import served

LONG = "A sentence of some length about refunds and returns. " * 100


async def sources(client: httpx.AsyncClient, **fields: Any) -> set[str]:
    body = await chat(client, "Which one?", **{"top_k": 100, **fields})
    return {source["metadata"]["document_id"] for source in body["sources"]}


async def test_a_document_is_stored_once_changed_and_read_back() -> None:
    given: dict[str, Any] = {
        "id": "refunds/1",
        "text": "Refunds take 30 days.",
        "source": "handbook",
        "doc_type": "policy",
        "metadata": {"department": "sales", "year": 2026, "tags": ["a", "b"], "none": None},
    }
    async with served() as (client, _):
        stored = await put(client, given)
        assert stored == {
            "stored": 1, "unchanged": 0, "ids": ["refunds/1"], "left_out": [], "redacted": {},
        }  # fmt: skip
        first = await read(client, at("documents", "refunds/1"))
        again = await put(client, given)
        assert (again["stored"], again["unchanged"]) == (0, 1)
        assert (await read(client, at("documents", "refunds/1"))) == first
        await put(client, {**given, "text": "Refunds take 14 days."})
        changed = await read(client, at("documents", "refunds/1"))
        (found,) = (await chat(client, "How long?"))["sources"]
    assert first["is_current"] is True
    assert first["metadata"] == {"department": "sales", "year": 2026, "tags": ["a", "b"]}
    assert (first["source"], first["doc_type"]) == ("handbook", "policy")
    assert changed["text"] == found["text"] == "Refunds take 14 days."
    assert changed["created_at"] == first["created_at"]
    assert changed["updated_at"] > first["updated_at"]


async def test_a_document_without_an_id_gets_the_same_one_each_time() -> None:
    async with served() as (client, _):
        first = await put(client, {"text": "A text."}, {"text": "A text.", "source": "other"})
        again = await put(client, {"text": "A text."})
    assert len(set(first["ids"])) == 2
    assert (again["stored"], again["unchanged"], again["ids"]) == (0, 1, first["ids"][:1])


async def test_documents_are_listed_by_pages_and_by_source() -> None:
    async with served() as (client, _):
        await put(
            client,
            *({"id": f"d{n}", "text": f"Text {n}.", "source": f"s{n % 2}"} for n in range(5)),
        )
        pages: list[list[str]] = []
        after: dict[str, Any] = {}
        while True:
            page = await read(client, "/documents", params={"limit": 2, **after})
            pages.append([document["id"] for document in page["documents"]])
            if page["next_after"] is None:
                break
            after = {"after": page["next_after"]}
        odd = await read(client, "/documents", params={"source": "s1"})
    assert pages == [["d0", "d1"], ["d2", "d3"], ["d4"]]
    assert [document["id"] for document in odd["documents"]] == ["d1", "d3"]


async def test_filters_and_top_k_choose_among_documents() -> None:
    async with served() as (client, _):
        await put(
            client,
            {"id": "a", "text": "One.", "metadata": {"department": "sales", "value": 10}},
            {"id": "b", "text": "Two.", "metadata": {"department": "sales", "value": 20}},
            {"id": "c", "text": "Three.", "doc_type": "policy", "metadata": {"tags": ["x", "y"]}},
        )
        everything = await sources(client)
        assert everything == {"a", "b", "c"}
        assert await sources(client, filters={"department": "sales"}) == {"a", "b"}
        assert await sources(client, filters={"value": {"$gt": 10}}) == {"b"}
        assert await sources(client, filters={"tags": {"$in": ["y"]}}) == {"c"}
        assert await sources(client, filters={"doc_type": "policy"}) == {"c"}
        assert await sources(client, filters={"document_id": {"$in": ["a", "c"]}}) == {"a", "c"}
        assert await sources(client, filters={"department": "hr"}) == set()
        assert len(await sources(client, top_k=1)) == 1
        assert await sources(client, top_k=0) == set()


async def test_a_long_document_goes_with_all_its_chunks() -> None:
    async with served() as (client, runtime):
        await put(client, {"id": "long", "text": LONG}, {"id": "short", "text": "A text."})
        chunks = await vectors(runtime, "documents")
        assert len([chunk for chunk in chunks if chunk.startswith("long")]) > 3
        await put(client, {"id": "long", "text": LONG[:1_200]})
        assert len(await vectors(runtime, "documents")) < len(chunks)
        assert answered(await client.delete(at("documents", "long"))) == {"deleted": 1}
        assert await vectors(runtime, "documents") == ["short"]
        refused(await client.get(at("documents", "long")), 404)
        assert (await stats(client))["documents"] == {"documents": 1, "pending": 0}


async def test_a_source_goes_with_all_its_documents() -> None:
    async with served() as (client, runtime):
        await put(
            client,
            {"id": "a", "text": LONG, "source": "crm"},
            {"id": "b", "text": "Two.", "source": "crm"},
            {"id": "c", "text": "Three.", "source": "crm2"},
        )
        gone = await client.delete("/documents", params={"source": "crm"})
        assert answered(gone) == {"deleted": 2}
        again = await client.delete("/documents", params={"source": "crm"})
        assert answered(again) == {"deleted": 0}
        assert await vectors(runtime, "documents") == ["c"]
        assert await sources(client) == {"c"}


async def test_source_and_kind_may_stand_in_the_metadata() -> None:
    metadata = {"source": "handbook", "doc_type": "policy", "department": "sales"}
    async with served() as (client, _):
        await put(client, {"id": "d", "text": "A text.", "metadata": metadata})
        (source,) = (await chat(client, "hello?", filters={"doc_type": "policy"}))["sources"]
        deleted = await client.delete("/documents", params={"source": "handbook"})
    assert source["metadata"]["source"] == "handbook"
    assert deleted.json() == {"deleted": 1}


async def test_many_documents_are_removed_at_once_by_id() -> None:
    async with served() as (client, runtime):
        await put(client, *({"id": f"d/{n}", "text": LONG} for n in range(4)))
        gone = await client.post(
            "/documents/delete", json={"ids": ["d/0", "d/2", "d/2", "unknown"]}
        )
        assert answered(gone) == {"deleted": 2}
        assert {chunk.partition("#")[0] for chunk in await vectors(runtime, "documents")} == {
            "d%2F1",
            "d%2F3",
        }
        for ids in ([], ["x"] * 1001, [""], [1], "d/1"):
            error = refused(await client.post("/documents/delete", json={"ids": ids}), 422)
            assert str(error["param"]).startswith("ids")
        assert (await stats(client))["documents"]["documents"] == 2


async def test_documents_are_removed_from_the_callers_tenant_only() -> None:
    async with served() as (client, runtime):
        ours = await key(runtime, "admin", tenant="acme")
        theirs = await key(runtime, "admin", tenant="bolt")
        user = await key(runtime, "user", user="ada", tenant="acme")
        await put(client, {"id": "d1", "text": "A text."}, headers=ours)
        ids = {"ids": ["d1"]}
        refused(await client.post("/documents/delete", json=ids, headers=user), 403)
        other = await client.post("/documents/delete", json=ids, headers=theirs)
        assert answered(other) == {"deleted": 0}
        own = await client.post("/documents/delete", json=ids, headers=ours)
        assert answered(own) == {"deleted": 1}
