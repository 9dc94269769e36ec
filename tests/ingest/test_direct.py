"""The whole way of a file: read, told, stored, found; without a server and through one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ingest.cli import main
from tests.served import listening, served

CUSTOMERS = """company,industry,contract_value,renewal_date,account_manager
Acme Corp,Manufacturing,120000,2026-10-15,Alice Vance
Globex,Energy,,,Bob Stone
"""
ACME = (
    "Company Acme Corp operates in the Manufacturing industry. The account contract value is "
    "$120,000 with a renewal date of 2026-10-15. The assigned account manager is Alice Vance."
)


@pytest.fixture
def customers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in a folder of its own, which is also where a direct run keeps its data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBEDDING_MODEL", "mock:32")
    path = tmp_path / "customers.csv"
    path.write_text(CUSTOMERS)
    return path


async def stored(**chosen: Any) -> list[str]:
    async with served(**chosen) as (client, _):
        listed = (await client.get("/documents")).json()["documents"]
    return sorted(document["text"] for document in listed)


def test_a_second_run_changes_nothing(customers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(customers), "--kind", "customer"]) == 0
    assert "2 stored, 0 unchanged" in capsys.readouterr().out
    assert main([str(customers), "--kind", "customer"]) == 0
    assert "0 stored, 2 unchanged" in capsys.readouterr().out


async def test_what_was_stored_directly_is_what_the_service_reads(customers: Path) -> None:
    assert await asyncio.to_thread(main, [str(customers), "--kind", "customer"]) == 0
    texts = await stored(database_url=f"sqlite:///{customers.parent / 'data' / 'service.db'}")
    assert texts == [
        ACME,
        "Company Globex operates in the Energy industry. "
        "The assigned account manager is Bob Stone.",
    ]


async def test_a_file_goes_through_a_running_service_and_is_found(customers: Path) -> None:
    async with listening(embedding_model="local") as (client, _):
        url = str(client.base_url)
        assert await asyncio.to_thread(main, [str(customers), "--to", url]) == 0
        body = (await client.post("/chat", json={"message": "When does Acme renew?"})).json()
    assert body["sources"][0]["text"] == ACME
    assert body["sources"][0]["metadata"]["contract_value"] == 120000
    assert "2026-10-15" in body["reply"]


def test_a_wrong_setting_or_tenant_is_said_and_fails(
    customers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(customers), "--tenant", "no such name"]) == 1
    monkeypatch.setenv("MEMORY_TOP_K", "many")
    assert main([str(customers)]) == 1
    assert "MEMORY_TOP_K" in capsys.readouterr().out
