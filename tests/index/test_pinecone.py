"""What only Pinecone has: finding and making the index, faults on the way, limits of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from app.errors import (
    Misconfigured,
    TooLarge,
    UpstreamBusy,
    UpstreamError,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.index.base import Values, Vector
from app.index.pinecone import PineconeIndex
from tests.wire.pinecone import API_KEY, INDEX_NAME, Faults, PineconeServer, serving_pinecone

DIMENSION = 4


@pytest.fixture(scope="module")
def running() -> Iterator[PineconeServer]:
    with serving_pinecone(dimension=DIMENSION) as server:
        yield server


@pytest.fixture
def server(running: PineconeServer) -> PineconeServer:
    running.forget()
    return running


@asynccontextmanager
async def opened(server: PineconeServer, **options: Any) -> AsyncIterator[PineconeIndex]:
    """Open the index at the server's address; `host=""` looks it up by name."""
    settings: dict[str, Any] = {
        "api_key": API_KEY,
        "index_name": INDEX_NAME,
        "host": server.url,
        "dimension": DIMENSION,
        "controller_host": server.url,
        **options,
    }
    index = PineconeIndex(**settings)
    await index.open()
    try:
        yield index
    finally:
        await index.close()


def row(id: str, *numbers: float, **metadata: Any) -> Vector:
    return Vector(id, values(*numbers), metadata)


def values(*numbers: float) -> Values:
    return np.array((*numbers, 1.0, 0.0, 0.0, 0.0)[:DIMENSION], np.float32)


async def test_a_missing_index_is_created_and_awaited() -> None:
    with serving_pinecone(describes_until_ready=2) as server:
        async with opened(server, host="", create=True, cloud="gcp", region="eu-1") as index:
            await index.upsert("memory", [row("a")])
            assert await index.counts() == {"memory": 1}
    [created] = [call.body for call in server.calls if call.method == "POST"][:1]
    assert created == {
        "name": INDEX_NAME,
        "schema": {
            "fields": {
                "_values": {"type": "dense_vector", "dimension": DIMENSION, "metric": "cosine"}
            }
        },
        "deployment": {"deployment_type": "managed", "cloud": "gcp", "region": "eu-1"},
    }


async def test_a_missing_index_is_refused_without_leave_to_create_it() -> None:
    with serving_pinecone() as server:
        with pytest.raises(Misconfigured, match="PINECONE_CREATE_INDEX=true"):
            async with opened(server, host=""):
                pass
        assert {call.method for call in server.calls} == {"GET"}


async def test_replicas_that_start_together_share_the_index_they_create() -> None:
    with serving_pinecone(describes_until_ready=3) as server:
        async with (
            opened(server, host="", create=True) as one,
            opened(server, host="", create=True) as other,
        ):
            await asyncio.gather(one.ping(), other.ping())


async def test_creating_what_another_replica_has_just_created_is_fine(
    server: PineconeServer,
) -> None:
    server.faults = Faults(status=404, times=1)  # it is there, and this replica can't see it yet
    async with opened(server, host="", create=True) as index:
        await index.ping()
    assert ("POST", "/indexes") in [(call.method, call.path) for call in server.calls]


async def test_an_existing_index_is_used_and_not_created(server: PineconeServer) -> None:
    async with opened(server, host="", create=True) as index:
        await index.ping()
    assert [call.method for call in server.calls if call.path == "/indexes"] == []


@pytest.mark.parametrize("name", ["", "Has Capitals", "x" * 46, "-edge"])
async def test_a_name_that_no_index_can_have_is_refused(name: str) -> None:
    with serving_pinecone() as server, pytest.raises(Misconfigured, match="PINECONE_INDEX"):
        async with opened(server, host="", index_name=name, create=True):
            pass


async def test_an_index_that_never_gets_ready_is_given_up() -> None:
    with (
        serving_pinecone(dimension=DIMENSION, describes_until_ready=10_000) as server,
        pytest.raises(UpstreamUnavailable, match="Initializing"),
    ):
        async with opened(server, host="", ready_seconds=0.3):
            pass


async def test_an_index_that_is_going_away_is_not_waited_for() -> None:
    with (
        serving_pinecone(dimension=DIMENSION, state="Terminating") as server,
        pytest.raises(UpstreamUnavailable, match="Terminating"),
    ):
        async with opened(server, host=""):
            pass


DOCUMENT_SCHEMA = {
    "embedding": {"type": "dense_vector", "dimension": DIMENSION, "metric": "cosine"},
    "content": {"type": "string", "full_text_search": {}},
}


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"dimension": 1536}, ["1536", str(DIMENSION), "EMBEDDING_MODEL"]),
        ({"dimension": DIMENSION, "metric": "dotproduct"}, ["dotproduct", "cosine"]),
        ({"schema": DOCUMENT_SCHEMA}, ["document index", "content, embedding", "PINECONE_INDEX"]),
        ({"schema": {"_sparse_values": {"type": "sparse_vector"}}}, ["no dense vectors"]),
    ],
    ids=["dimension", "metric", "document index", "sparse index"],
)
async def test_an_index_that_does_not_fit_is_refused_by_name(
    state: dict[str, Any], named: list[str]
) -> None:
    with serving_pinecone(**state) as server, pytest.raises(Misconfigured) as refused:
        async with opened(server, host="", create=True):
            pass
    for word in [*named, INDEX_NAME]:
        assert word in refused.value.message


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"dimension": 1536}, "1536"),
        ({"dimension": DIMENSION, "metric": "euclidean"}, "euclidean"),
        ({"schema": DOCUMENT_SCHEMA}, "no dense vectors"),
    ],
    ids=["dimension", "metric", "document index"],
)
async def test_an_index_that_does_not_fit_is_refused_by_address(
    state: dict[str, Any], word: str
) -> None:
    with serving_pinecone(**state) as server:
        with pytest.raises(Misconfigured, match=word):
            async with opened(server):
                pass
        assert server.paths() == ["/describe_index_stats"]


async def test_a_document_index_is_recognised_at_the_first_write(server: PineconeServer) -> None:
    async with opened(server) as index:
        server.dimension = None
        try:
            with pytest.raises(UpstreamRefused, match="document index"):
                await index.upsert("memory", [row("a")])
        finally:
            server.dimension = DIMENSION


@pytest.mark.parametrize("key", ["", " ", "key\n"])
async def test_a_key_that_can_not_be_sent_is_refused_at_start(
    server: PineconeServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PINECONE_API_KEY", raising=False)
    with pytest.raises(Misconfigured, match="PINECONE_API_KEY"):
        async with opened(server, api_key=key):
            pass
    assert server.calls == []


async def test_a_wrong_key_is_named_and_not_shown(server: PineconeServer) -> None:
    with pytest.raises(UpstreamRefused, match="PINECONE_API_KEY") as refused:
        async with opened(server, api_key="pcsk_wrong"):
            pass
    assert "pcsk_wrong" not in refused.value.message


async def test_a_host_that_the_sdk_can_not_use_is_refused_at_start(
    server: PineconeServer,
) -> None:
    with pytest.raises(Misconfigured, match="PINECONE_HOST"):
        async with opened(server, host="http://pinecone:5081"):
            pass


async def test_a_host_that_does_not_answer_is_unavailable(server: PineconeServer) -> None:
    with pytest.raises(UpstreamUnavailable, match="reached"):
        async with opened(server, host="http://127.0.0.1:9"):
            pass


async def test_a_rate_limit_ends_at_once_with_the_wait_it_asked_for(
    server: PineconeServer,
) -> None:
    async with opened(server, timeout_seconds=5) as index:
        server.faults = Faults(status=429, retry_after="40")
        with pytest.raises(UpstreamBusy) as busy:
            await index.query("memory", values(), top_k=1)
    assert (busy.value.retry_after, busy.value.part, busy.value.status) == (40.0, "index", 503)
    assert server.paths().count("/query") == 1


@pytest.mark.parametrize(
    "fault",
    [
        Faults(status=429, times=2),
        Faults(status=429, retry_after="0.1", times=2),
        Faults(status=500, times=2),
        Faults(status=503, retry_after="0", times=1),
        Faults(reset=True, times=2),
    ],
    ids=["429", "429 with a short wait", "500", "503", "reset"],
)
async def test_a_passing_fault_is_tried_again(server: PineconeServer, fault: Faults) -> None:
    async with opened(server) as index:
        server.faults = fault
        await index.upsert("memory", [row("a", n=1)])
        server.faults = fault
        [hit] = await index.query("memory", values(), top_k=1)
        server.faults = fault
        await index.delete("memory", ["a"])
        assert (hit.id, hit.metadata) == ("a", {"n": 1})
        assert await index.counts() == {}


@pytest.mark.parametrize(
    ("fault", "kind", "calls"),
    [
        (Faults(status=429), UpstreamBusy, 3),
        (Faults(status=500), UpstreamUnavailable, 3),
        (Faults(status=503, retry_after="30"), UpstreamUnavailable, 1),
        (Faults(reset=True), UpstreamUnavailable, 3),
        (Faults(garbage=True), UpstreamInvalid, 1),
        (Faults(status=400), UpstreamRefused, 1),
        (Faults(status=401), UpstreamRefused, 1),
        (Faults(status=403), UpstreamRefused, 1),
        (Faults(status=404), UpstreamRefused, 1),
        (Faults(status=413), TooLarge, 1),
        (Faults(latency_seconds=30), UpstreamTimeout, 1),
    ],
    ids=["429", "500", "503", "reset", "garbage", "400", "401", "403", "404", "413", "latency"],
)
async def test_a_lasting_fault_becomes_an_error_of_ours(
    server: PineconeServer, fault: Faults, kind: type[Exception], calls: int
) -> None:
    deadline = 1 if fault.latency_seconds else 10
    async with opened(server, timeout_seconds=deadline) as index:
        server.faults = fault
        with pytest.raises(kind) as failed:
            await index.query("memory", values(), top_k=1)
        assert server.paths().count("/query") == calls
        assert failed.value.__cause__ is not None
        assert "the test wants it so" not in str(failed.value)
        if isinstance(failed.value, UpstreamError):
            assert failed.value.part == "index"


async def test_the_deadline_covers_all_attempts_together(server: PineconeServer) -> None:
    async with opened(server, timeout_seconds=1) as index:
        server.faults = Faults(status=500, latency_seconds=0.6)
        with pytest.raises(UpstreamTimeout, match="within 1 s"):
            await index.query("memory", values(), top_k=1)
        assert server.paths().count("/query") < 3


async def test_many_failures_do_not_wear_the_index_out(server: PineconeServer) -> None:
    """The SDK would stop trying again after some fifty failures of a process, for all its calls."""
    async with opened(server) as index:
        for _ in range(15):
            server.faults = Faults(status=500, retry_after="0")
            with pytest.raises(UpstreamUnavailable):
                await index.ping()
        server.faults = Faults(status=500, times=1)
        await index.ping()


async def test_a_batch_that_fails_fails_the_upsert() -> None:
    # A server of its own, since the other batches may still be on their way to it afterwards.
    with serving_pinecone(dimension=DIMENSION) as server:
        async with opened(server) as index:
            server.faults = Faults(status=400, times=1)
            with pytest.raises(UpstreamRefused):
                await index.upsert("memory", [row(f"r{n}") for n in range(2_500)])


async def test_a_late_index_never_breaks_a_call(server: PineconeServer) -> None:
    async with opened(server) as index:
        server.faults = Faults(lag_seconds=float("inf"))
        await index.upsert("memory", [row("a"), row("b")])
        assert await index.query("memory", values(), top_k=5) == []
        assert await index.fetch("memory", ["a"]) == {}
        assert [id async for id in index.list_ids("memory")] == []
        assert await index.counts() == {}
        await index.delete("memory", ["a"])
        server.settle()
        [hit] = await index.query("memory", values(), top_k=5)
        assert hit.id == "b"
        await index.clear("memory")
        assert await index.query("memory", values(), top_k=5) == []


async def test_matches_are_sorted_here_because_the_server_may_not(server: PineconeServer) -> None:
    async with opened(server) as index:
        await index.upsert("memory", [row(f"r{n}", 1.0, float(n)) for n in range(6)])
        server.faults = Faults(unsorted=True)
        hits = await index.query("memory", values(1.0, 0.0), top_k=5)
    assert [hit.id for hit in hits] == ["r0", "r1", "r2", "r3", "r4"]


async def test_large_upserts_are_cut_by_bytes(server: PineconeServer) -> None:
    rows = [row(f"r{n:03}", text="é" * 19_000, quotes='"\\\n' * 300) for n in range(170)]
    async with opened(server) as index:
        await index.upsert("memory", rows)
        assert await index.counts() == {"memory": 170}
    sizes = [call.size for call in server.calls if call.path == "/vectors/upsert"]
    assert max(sizes) <= 2_000_000
    assert min(sorted(sizes)[1:]) > 1_900_000  # full ones, but for the last
    assert len(sizes) == 4


async def test_long_vectors_are_cut_by_bytes_too() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal((200, 1536)).astype(np.float32) * np.float32(1e-12)
    with serving_pinecone(dimension=1536) as server:
        async with opened(server, dimension=1536) as index:
            await index.upsert("memory", [Vector(f"r{n}", numbers[n]) for n in range(200)])
            assert await index.counts() == {"memory": 200}
    sizes = [call.size for call in server.calls if call.path == "/vectors/upsert"]
    assert max(sizes) <= 2_000_000
    assert len(sizes) == 4


async def test_small_rows_are_cut_by_count(server: PineconeServer) -> None:
    rows = [row(f"r{n}") for n in range(2_500)]
    async with opened(server) as index:
        await index.upsert("memory", rows)
        await index.delete("memory", [row.id for row in rows])
    stored = [len(call.body["vectors"]) for call in server.calls if "upsert" in call.path]
    removed = [len(call.body["ids"]) for call in server.calls if "delete" in call.path]
    assert sorted(stored) == sorted(removed) == [500, 1_000, 1_000]


async def test_every_call_names_its_namespace(server: PineconeServer) -> None:
    async with opened(server) as index:
        await index.upsert("memory--acme", [row("a")])
        await index.query("memory--acme", values(), top_k=1)
        await index.delete("memory--acme", ["a"])
        await index.clear("memory--acme")
    bodies = [call.body for call in server.calls if call.path != "/describe_index_stats"]
    assert [body["namespace"] for body in bodies] == ["memory--acme"] * 4
    assert {call.headers["x-pinecone-api-version"] for call in server.calls} == {"2026-07"}


async def test_an_index_that_could_not_be_reached_at_start_opens_with_its_first_use() -> None:
    with serving_pinecone(dimension=DIMENSION) as server:
        index = PineconeIndex(
            api_key=API_KEY, index_name=INDEX_NAME, dimension=DIMENSION, host=server.url
        )
        server.faults = Faults(status=500)
        with pytest.raises(UpstreamUnavailable):
            await index.open()
        server.faults = Faults()
        await index.ping()
        await index.close()
