"""Events that say too little, and owners: what is missing comes from the CRM itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.errors import Misconfigured
from app.wiring import Runtime
from tests.knowledge.calls import do_what_is_due
from tests.senders import (
    NOW,
    accept,
    hubspot,
    hubspot_event,
    property_change,
    receiving,
    told,
    worked_off,
)
from tests.wire import crm_hubspot
from tests.wire.crm import Faults, serving_crm
from tests.wire.crm_hubspot import HubSpotServer

PORTAL = {"portalId": crm_hubspot.PORTAL}
CREATED = hubspot_event("company.creation", 7, 1, **PORTAL)
BEFORE = NOW - timedelta(days=1)


@pytest.fixture
def crm() -> Iterator[HubSpotServer]:
    with serving_crm(HubSpotServer()) as server:
        yield server


def with_access(
    server: HubSpotServer, **chosen: Any
) -> AbstractAsyncContextManager[tuple[httpx.AsyncClient, Runtime]]:
    return receiving(hubspot_access_token=crm_hubspot.TOKEN, hubspot_api_base=server.url, **chosen)


async def test_a_thin_event_is_filled_in_and_its_owner_named(crm: HubSpotServer) -> None:
    crm.put("company", "7", BEFORE, name="Acme Corp", hubspot_owner_id="55")
    crm.put("owner", "55", BEFORE, firstName="Alice", lastName="Vance", email="a@example.com")
    async with with_access(crm) as (client, runtime):
        await accept(client, hubspot(CREATED))
        await worked_off(runtime)
        (text,) = (await told(client, "hubspot")).values()
        assert "Acme Corp" in text
        assert "Alice Vance" in text
        ready = (await client.get("/health/ready")).json()
        assert ready["stale_records"] == {}
        assert ready["status"] == "ok"


async def test_what_is_not_there_any_more_is_deleted(crm: HubSpotServer) -> None:
    async with with_access(crm) as (client, runtime):
        await accept(client, hubspot(property_change(7, 0, "name", "Acme") | PORTAL))
        await worked_off(runtime)
        assert len(await told(client, "hubspot")) == 1
        await accept(client, hubspot(CREATED))
        await worked_off(runtime)
        assert await told(client, "hubspot") == {}


async def test_an_event_whose_fetch_keeps_failing_is_put_aside_and_can_be_replayed(
    crm: HubSpotServer,
) -> None:
    crm.put("company", "7", BEFORE, name="Acme Corp")
    crm.faults = Faults(status=403, other={"status": "error", "category": "MISSING_SCOPES"})
    async with with_access(crm, webhook_attempts=1) as (client, runtime):
        await accept(client, hubspot(CREATED))
        await worked_off(runtime)
        ready = (await client.get("/health/ready")).json()
        assert ready["deliveries"] == {"pending": 0, "failed": 1}
        assert ready["stale_records"] == {"hubspot": 1}
        assert ready["status"] == "degraded"
        listed = await client.get("/webhooks/inbox", params={"state": "failed"})
        (failed,) = listed.json()["deliveries"]
        assert failed["last_error"]
        assert failed["attempts"] == 1
        crm.faults = Faults()
        assert (await client.post(f"/webhooks/inbox/{failed['id']}/replay")).status_code == 200
        await worked_off(runtime)
        (text,) = (await told(client, "hubspot")).values()
        assert "Acme Corp" in text
        assert (await client.get("/health/ready")).json()["deliveries"]["failed"] == 0


async def test_an_event_whose_fetch_fails_is_tried_again(crm: HubSpotServer) -> None:
    crm.put("company", "7", BEFORE, name="Acme Corp")
    crm.faults = Faults(status=401, times=2)
    async with with_access(crm) as (client, runtime):
        await accept(client, hubspot(CREATED))
        await worked_off(runtime)
        assert "Acme Corp" in "".join((await told(client, "hubspot")).values())


async def test_a_failing_fetch_does_not_hold_back_what_the_events_said(
    crm: HubSpotServer,
) -> None:
    crm.faults = Faults(status=403)
    async with with_access(crm, webhook_attempts=1) as (client, runtime):
        await accept(client, hubspot(CREATED, property_change(7, 2, "name", "Acme") | PORTAL))
        await worked_off(runtime)
        (text,) = (await told(client, "hubspot")).values()
        assert "Acme" in text


async def test_a_failed_fetch_does_not_hold_back_what_comes_later(crm: HubSpotServer) -> None:
    crm.faults = Faults(status=429, retry_after="3000")
    async with with_access(crm) as (client, runtime):
        await accept(client, hubspot(CREATED))
        await do_what_is_due(runtime)
        await accept(client, hubspot(property_change(7, 2, "name", "Acme") | PORTAL))
        await do_what_is_due(runtime)
        (text,) = (await told(client, "hubspot")).values()
        assert "Acme" in text


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_comes_during_the_last_try_is_not_put_aside_with_it(
    crm: HubSpotServer, kind: str, request: pytest.FixtureRequest
) -> None:
    where = {} if kind == "sqlite" else {"database_url": request.getfixturevalue("postgres_state")}
    crm.faults = Faults(status=403, latency_seconds=0.3)
    chosen = {"webhook_attempts": 1, "webhook_coalesce_seconds": 0.8, **where}
    async with with_access(crm, **chosen) as (client, runtime):
        await accept(client, hubspot(CREATED))
        while not crm.calls:
            await asyncio.sleep(0.005)
        await accept(client, hubspot(property_change(7, 2, "name", "Acme") | PORTAL))
        await worked_off(runtime)
        (text,) = (await told(client, "hubspot")).values()
        assert "Acme" in text
        listed = (await client.get("/webhooks/inbox")).json()["deliveries"]
        assert [row["state"] for row in listed] == ["done", "failed"]


async def test_an_owner_may_get_an_earlier_name_again(crm: HubSpotServer) -> None:
    owned = property_change(7, 2, "hubspot_owner_id", "55") | PORTAL
    async with with_access(crm) as (client, runtime):
        for name in ("Vance", "Moore", "Vance"):
            crm.put("owner", "55", BEFORE, firstName="Alice", lastName=name, email="a@example.com")
            await accept(client, hubspot(owned))
            await worked_off(runtime)
            await runtime.records.reconcile("default", "hubspot", BEFORE)
            await worked_off(runtime)
            (text,) = (await told(client, "hubspot")).values()
            assert f"Alice {name}" in text


async def test_what_was_missed_is_reconciled(crm: HubSpotServer) -> None:
    crm.put("company", "7", NOW - timedelta(hours=1), name="Acme Corp")
    crm.put("company", "8", NOW - timedelta(days=9), name="Old")
    async with with_access(crm) as (client, runtime):
        since = NOW - timedelta(days=2)
        assert await runtime.records.reconcile("default", "hubspot", since) >= 1
        assert await runtime.records.reconcile("default", "hubspot", since) == 0
        await worked_off(runtime)
        texts = await told(client, "hubspot")
        assert [text for text in texts.values() if "Acme Corp" in text]
        assert not [text for text in texts.values() if "Old" in text]


async def test_a_missed_deletion_is_reconciled(crm: HubSpotServer) -> None:
    async with with_access(crm) as (client, runtime):
        await accept(client, hubspot(property_change(7, 0, "name", "Acme") | PORTAL))
        await worked_off(runtime)
        crm.put("company", "7", BEFORE, name="Acme")
        crm.remove("company", "7", NOW - timedelta(minutes=1))
        await runtime.records.reconcile("default", "hubspot", NOW - timedelta(days=2))
        await worked_off(runtime)
        assert await told(client, "hubspot") == {}


async def test_reconciling_needs_access() -> None:
    async with receiving() as (_, runtime):
        with pytest.raises(Misconfigured):
            await runtime.records.reconcile("default", "hubspot", NOW)


async def test_access_is_of_one_tenant(crm: HubSpotServer) -> None:
    async with with_access(crm) as (_, runtime):
        with pytest.raises(Misconfigured):
            await runtime.records.reconcile("another", "hubspot", NOW)
