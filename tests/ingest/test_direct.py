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


def write(file: Path, text: str) -> None:
    file.write_text(text)


async def stored(**chosen: Any) -> list[str]:
    async with served(**chosen) as (client, _):
        listed = (await client.get("/documents")).json()["documents"]
    return sorted(it["text"] for it in listed if it["doc_type"] != "table_summary")


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


async def test_questions_about_the_whole_are_answered_by_its_summary(customers: Path) -> None:
    lines = [f"Company {n},Mining,{1000 + n},2027-01-01,Bob Stone\n" for n in range(40)]
    write(customers, CUSTOMERS + "".join(lines))
    async with listening(embedding_model="local") as (client, _):
        assert await asyncio.to_thread(main, [str(customers), "--to", str(client.base_url)]) == 0
        for question, told in (
            ("Which industries are there?", "counted by Industry: Mining (40), Energy (1)"),
            ("What is the total contract value?", "the total Contract value is $160,780."),
            ("How many customers renew in 2027?", "2027 (40), 2026 (1)"),
            ("How many customers are there?", "there are 42 customers in all"),
        ):
            body = (await client.post("/chat", json={"message": question})).json()
            assert told in body["sources"][0]["text"]


@pytest.mark.parametrize("directly", [True, False])
async def test_what_is_left_out_or_redacted_is_told_by_either_way(
    directly: bool, customers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(customers, "id,user_id,note\n1,zoe,Likes rum.\n2,bo,The card 4111 1111 1111 1111.\n")
    path, url = customers, f"sqlite:///{customers.parent / 'data' / 'service.db'}"
    async with listening(database_url=url) as (client, _):
        assert (await client.delete("/users/zoe")).is_success
        to = [] if directly else ["--to", str(client.base_url)]
        assert await asyncio.to_thread(main, [str(path), "--key", "id", *to]) == 0
        told = capsys.readouterr().out
        listed = (await client.get("/documents")).json()["documents"]
    assert [it["text"] for it in listed] == ["Id: 2. User id: bo. Note: The card [CARD_1]."]
    assert "2 documents (1 stored, 0 unchanged)" in told
    assert "left out, for they name a user who was erased: 1" in told
    assert "redacted: 1 CARD" in told
    assert "summary" not in told


async def test_what_left_the_file_leaves_the_service_by_either_way(
    customers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = "".join(CUSTOMERS.splitlines(keepends=True)[:2])
    async with listening() as (client, _):
        for way in ([], ["--to", str(client.base_url)]):
            write(customers, CUSTOMERS)
            arguments = [str(customers), "--mode", "replace", *way]
            assert await asyncio.to_thread(main, arguments) == 0
            write(customers, shorter)
            assert await asyncio.to_thread(main, arguments) == 0
            assert "1 document (0 stored, 1 unchanged, 1 removed)" in capsys.readouterr().out
        listed = (await client.get("/documents")).json()["documents"]
    assert sorted(it["doc_type"] for it in listed) == ["customer", "table_summary"]
    assert await stored(database_url=f"sqlite:///{customers.parent / 'data' / 'service.db'}") == [
        ACME
    ]


def test_a_reconciliation_without_access_to_the_crm_is_told(
    customers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reconcile", "--provider", "hubspot", "--since", "24h"]) == 1
    assert "FAILED: no access to hubspot is configured" in capsys.readouterr().out


def test_a_wrong_setting_or_tenant_is_said_and_fails(
    customers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(customers), "--tenant", "no such name"]) == 1
    monkeypatch.setenv("MEMORY_TOP_K", "many")
    assert main([str(customers)]) == 1
    assert "MEMORY_TOP_K" in capsys.readouterr().out
