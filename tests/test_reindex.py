"""Another embedding model, or another index: refused until the index is filled anew."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli import _reindex
from app.errors import Misconfigured, UpstreamError
from app.index.base import vector_id
from app.stamp import Stamp, check_stamp
from app.wiring import Runtime, open_runtime
from ingest.document import Document
from tests.api.calls import chat, close, read
from tests.served import ROOT, served, settings
from tests.wire.pinecone import API_KEY, Faults, PineconeServer, serving_pinecone

TENANTS = ("default", "acme")
LONG = "Chapter one is about tea. " * 120


@pytest.fixture
def pinecone() -> Iterator[PineconeServer]:
    with serving_pinecone(dimension=32) as server:
        yield server


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, Any]:
    return {"database_url": f"sqlite:///{tmp_path / 'service.db'}", "embedding_model": "mock:32"}


def in_pinecone(pinecone: PineconeServer) -> dict[str, Any]:
    return {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}


async def fill(disk: dict[str, Any]) -> None:
    """Store two documents, one of them long, and an episode, for each of two tenants."""
    async with served(**disk) as (client, runtime):
        for tenant in TENANTS:
            _, key = await runtime.keys.create(
                role="admin", tenant_id=tenant, user_id=None, now=runtime.clock()
            )
            as_admin = {"headers": {"Authorization": f"Bearer {key}"}}
            await runtime.documents.put(
                tenant,
                [Document("d1", f"{tenant} sells tea.", "faq"), Document("d2", LONG, "book")],
            )
            said = f"I work for {tenant}."
            await chat(client, said, session_id="s1", user_id="ada", **as_admin)
            await close(client, "s1", **as_admin)


async def holds_everything(runtime: Runtime) -> bool:
    """Say whether each tenant's documents and memory are found, and nothing else is there."""
    for tenant in TENANTS:
        (vector,) = await runtime.embedder.embed([f"{tenant} sells tea."])
        found = await runtime.document_search.search(tenant, vector, top_k=1)
        if [(p.id, round(p.score, 3)) for p in found.passages] != [("d1", 1.0)]:
            return False
        episode = await runtime.episodes.get(tenant, "s1")
        assert episode is not None
        (vector,) = await runtime.embedder.embed([episode.text])
        recalled = await runtime.recall.search(tenant, "ada", vector)
        if [(m.text, round(m.score, 3)) for m in recalled.memories] != [(episode.text, 1.0)]:
            return False
    counts = await runtime.index.counts()  # of the memory: the episode and its exchange
    return counts == {"documents": 5, "memory": 2, "documents--acme": 5, "memory--acme": 2}


@pytest.mark.parametrize("model", ["mock:33", "mock:16"])
async def test_another_model_is_refused_with_both_names_and_the_way_out(
    disk: dict[str, Any], model: str
) -> None:
    await fill(disk)
    with pytest.raises(Misconfigured) as refusal:
        async with served(**{**disk, "embedding_model": model}):
            pass
    assert "mock:32" in refusal.value.message
    assert model in refusal.value.message
    assert "python -m app reindex" in refusal.value.message


@pytest.mark.parametrize("model", ["mock:33", "mock:16"])
async def test_after_a_reindex_everything_is_found_with_the_new_model(
    disk: dict[str, Any], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(disk)
    disk = {**disk, "embedding_model": model}
    assert await _reindex(settings(**disk)) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:4] == [
        "acme: 2 documents",
        "acme: 1 episodes",
        "default: 2 documents",
        "default: 1 episodes",
    ]
    assert model in printed[-1]
    async with served(**disk) as (_, runtime):
        assert await holds_everything(runtime)


async def test_another_index_is_refused_and_filled_by_a_reindex(
    disk: dict[str, Any], pinecone: PineconeServer
) -> None:
    await fill(disk)
    disk |= in_pinecone(pinecone)
    with pytest.raises(Misconfigured) as refusal:
        async with served(**disk):
            pass
    assert "embedded" in refusal.value.message
    assert f"pinecone:{pinecone.url}" in refusal.value.message
    await _reindex(settings(**disk))
    async with served(**disk) as (_, runtime):
        assert await holds_everything(runtime)


async def test_an_empty_store_may_change_its_model(disk: dict[str, Any]) -> None:
    for model in ("mock:32", "mock:16", "mock:64"):
        async with served(**{**disk, "embedding_model": model}) as (client, _):
            stats = await read(client, "/health/ready")
            assert model in stats["parts"]["index"]["detail"]
            await client.post(
                "/documents", json={"documents": [{"id": "d1", "text": "We sell tea."}]}
            )
            await client.delete("/documents/d1")


async def test_a_reindex_that_is_cut_off_is_run_again(
    disk: dict[str, Any], pinecone: PineconeServer
) -> None:
    await fill(disk)
    disk |= {**in_pinecone(pinecone), "pinecone_timeout_seconds": 1.0}
    running = asyncio.create_task(_reindex(settings(**disk)))
    while "/vectors/upsert" not in pinecone.paths():
        await asyncio.sleep(0.001)
    pinecone.faults = Faults(status=500)
    with pytest.raises(UpstreamError):
        await running
    with pytest.raises(Misconfigured):
        async with served(**disk):
            pass
    pinecone.faults = Faults()
    await _reindex(settings(**disk))
    async with served(**disk) as (_, runtime):
        assert await holds_everything(runtime)


async def test_a_reindex_removes_what_the_database_does_not_know(disk: dict[str, Any]) -> None:
    await fill(disk)
    async with open_runtime(settings(**disk)) as runtime:
        ghosts = await runtime.index.fetch("memory", [vector_id("s1")])
        ghost = next(iter(ghosts.values()))
        stray = [type(ghost)(f"ghost{n}", ghost.values, ghost.metadata) for n in range(3)]
        await runtime.index.upsert("memory", stray)
        await runtime.index.delete("documents", ["d1"])
        assert not await holds_everything(runtime)
    await _reindex(settings(**disk))
    async with served(**disk) as (_, runtime):
        assert await holds_everything(runtime)


async def test_replicas_that_open_an_empty_store_at_once_stamp_it_once(
    postgres_database: str,
) -> None:
    chosen = settings(database_url=postgres_database)
    async with open_runtime(chosen) as one, open_runtime(chosen) as other:
        for number in range(20):
            stamp = Stamp(f"model {number}", 32, "embedded")
            await asyncio.gather(
                *(check_stamp(r.database, stamp) for r in (one, other, one, other))
            )


def test_the_command_line_refuses_and_reindexes(disk: dict[str, Any], tmp_path: Path) -> None:
    asyncio.run(fill(disk))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DATABASE_URL": disk["database_url"],
        "DATA_DIR": str(tmp_path),
        "EMBEDDING_MODEL": "mock:16",
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    refused = run("serve", "--port", "0")
    assert refused.returncode != 0
    assert "python -m app reindex" in refused.stderr
    reindexed = run("reindex")
    assert reindexed.returncode == 0, reindexed.stderr
    assert "mock:16 (16 dimensions) in embedded" in reindexed.stdout
