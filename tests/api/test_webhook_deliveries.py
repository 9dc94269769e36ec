"""Recorded deliveries of real senders, each with the outcome it must have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from app.wiring import Runtime
from tests.senders import BASE, SECRETS, Sent, receiving, told, worked_off

FOLDER = Path(__file__).parents[3] / "shared" / "webhooks"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"SKIPPED: the recorded deliveries are not there ({FOLDER})"
)


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def request_of(delivery: dict[str, Any]) -> Sent:
    request = delivery["request"]
    url = urlsplit(request["url"])
    path = url.path.removeprefix(urlsplit(BASE).path) + (f"?{url.query}" if url.query else "")
    return Sent(path, request["body"].encode(), request["headers"])


async def deliver(client: httpx.AsyncClient, runtime: Runtime, name: str) -> httpx.Response:
    response = await request_of(recorded(name)).to(client)
    await worked_off(runtime)
    return response


def about(documents: dict[str, str], id: str) -> str:
    """Return the document of an object, "" if there is none."""
    return next((text for name, text in documents.items() if name.endswith(f":{id}")), "")


def test_each_delivery_is_looked_at_here() -> None:
    names = {path.stem for path in FOLDER.glob("*.json")}
    looked_at = set(REFUSED) | {name for log in LOGS for name in log} | set(OTHERS)
    assert names == looked_at


REFUSED = {
    "hubspot_10_bad_signature": 401,
    "hubspot_11_stale": 401,
    "standard_05_malformed_0": 401,
    "standard_05_malformed_1": 401,
    "standard_05_malformed_2": 401,
}
LOGS = [
    ["hubspot_01_batch_out_of_order", "hubspot_02_late_older_change", "hubspot_04_clear_property"],
    ["pipedrive_01_create", "pipedrive_02_change", "pipedrive_03_delete"],
    ["standard_01_upsert", "standard_02_replay_same_id"],
]
OTHERS = [
    "hubspot_06_delete_then_late_change",
    "hubspot_09_object_format",
    "hubspot_13_hundred",
    "n8n_01_array",
    "salesforce_01_outbound",
    "zapier_01_json",
]


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_not_signed_is_refused(name: str) -> None:
    async with receiving() as (client, runtime):
        response = await deliver(client, runtime, name)
        assert response.status_code == REFUSED[name]
        assert (await client.get("/webhooks/inbox")).json()["deliveries"] == []


async def test_a_batch_out_of_order_then_an_older_change_then_a_cleared_field() -> None:
    async with receiving() as (client, runtime):
        response = await deliver(client, runtime, "hubspot_01_batch_out_of_order")
        assert response.json() == {"events": 5, "stored": 4, "duplicates": 1, "skipped": 0}
        text = about(await told(client, "hubspot"), "7001")
        assert "135,000" in text
        assert "55" in text
        await deliver(client, runtime, "hubspot_02_late_older_change")
        assert about(await told(client, "hubspot"), "7001") == text
        await deliver(client, runtime, "hubspot_04_clear_property")
        text = about(await told(client, "hubspot"), "7001")
        assert "135,000" in text
        assert "55" not in text


async def test_a_deletion_beats_an_older_change() -> None:
    async with receiving() as (client, runtime):
        response = await deliver(client, runtime, "hubspot_06_delete_then_late_change")
        assert response.status_code == 202
        assert await told(client, "hubspot") == {}


async def test_the_object_format_of_hubspot() -> None:
    async with receiving() as (client, runtime):
        await deliver(client, runtime, "hubspot_09_object_format")
        documents = await told(client, "hubspot")
        assert "Zürich AG" in about(documents, "7010")
        assert list(documents) == ["hubspot:4455667:company:7010"]


async def test_a_hundred_events_at_once() -> None:
    async with receiving() as (client, runtime):
        response = await deliver(client, runtime, "hubspot_13_hundred")
        assert response.json()["stored"] == 100
        documents = await told(client, "hubspot")
        cities = [about(documents, str(7100 + last)) for last in range(10)]
        assert cities == [f"City: City {90 + last}." for last in range(10)]


async def test_a_deal_is_created_changed_and_deleted() -> None:
    async with receiving() as (client, runtime):
        await deliver(client, runtime, "pipedrive_01_create")
        (text,) = (await told(client, "pipedrive")).values()
        assert "120,000" in text
        assert "Gold" in text
        await deliver(client, runtime, "pipedrive_02_change")
        (text,) = (await told(client, "pipedrive")).values()
        assert "135,000" in text
        await deliver(client, runtime, "pipedrive_03_delete")
        assert await told(client, "pipedrive") == {}
        assert (await runtime.index.counts()).get("documents", 0) == 0


async def test_a_deal_whose_events_come_the_other_way_round_is_deleted_too() -> None:
    async with receiving() as (client, runtime):
        for name in ("pipedrive_03_delete", "pipedrive_02_change", "pipedrive_01_create"):
            await deliver(client, runtime, name)
        assert await told(client, "pipedrive") == {}


async def test_an_outbound_message_of_salesforce() -> None:
    expected = recorded("salesforce_01_outbound")["expect"]
    async with receiving() as (client, runtime):
        response = await deliver(client, runtime, "salesforce_01_outbound")
        assert response.status_code == expected["status"]
        assert response.headers["content-type"].startswith(expected["content_type"])
        assert response.text == expected["body"]
        documents = await told(client, "salesforce")
        assert len(documents) == expected["documents"]
        assert 'Acme & Söhne "West"' in about(documents, "0015g00000AbCdEAAV")


async def test_an_outbound_message_of_another_organization_is_refused() -> None:
    async with receiving(salesforce_organization_id="00D000000000000AAA") as (client, runtime):
        assert (await deliver(client, runtime, "salesforce_01_outbound")).status_code == 401


async def test_a_standard_webhook_and_its_replay() -> None:
    async with receiving() as (client, runtime):
        assert (await deliver(client, runtime, "standard_01_upsert")).status_code == 202
        replayed = await deliver(client, runtime, "standard_02_replay_same_id")
        assert replayed.json()["duplicates"] == 1
        (text,) = (await told(client, "generic")).values()
        assert "Acme Corp" in text
        assert "Alice Vance" in text


async def test_an_array_of_records() -> None:
    async with receiving() as (client, runtime):
        await deliver(client, runtime, "n8n_01_array")
        texts = " ".join((await told(client, "generic")).values())
        assert "Acme Corp" in texts
        assert "Beta LLC" in texts


async def test_flat_strings_of_a_zap() -> None:
    async with receiving() as (client, runtime):
        await deliver(client, runtime, "zapier_01_json")
        (text,) = (await told(client, "generic")).values()
        assert "Company Acme Corp operates in the Manufacturing industry" in text
        assert "$120,000" in text


async def test_nothing_is_accepted_without_a_secret() -> None:
    unset = {name: "" for name in SECRETS if name.endswith(("secret", "login", "token"))}
    async with receiving(**unset) as (client, runtime):
        for name in [*REFUSED, *OTHERS]:
            assert (await deliver(client, runtime, name)).status_code == 503
