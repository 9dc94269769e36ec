"""Webhooks over HTTP: who may send, what is stored before the answer, the inbox."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.errors import Misconfigured
from app.knowledge.senders import MAX_EVENTS
from tests.api.calls import answered
from tests.senders import (
    NOW,
    SECRETS,
    Sent,
    accept,
    generic,
    hubspot,
    hubspot_event,
    pipedrive,
    property_change,
    receiving,
    salesforce,
    standard,
    told,
    worked_off,
)
from tests.served import served

ACME = property_change(7, 1, "name", "Acme Corp")


async def inbox(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    body = answered(await client.get("/webhooks/inbox", params=query))
    listed: list[dict[str, Any]] = body["deliveries"]
    return listed


async def test_events_are_in_the_inbox_before_they_are_acknowledged() -> None:
    async with receiving() as (client, _):
        response = await hubspot(ACME, hubspot_event("company.fancied", 7, 2)).to(client)
        assert response.status_code == 202
        assert response.json() == {"events": 2, "stored": 2, "duplicates": 0, "skipped": 1}
        skipped, waiting = await inbox(client)
        assert (waiting["state"], waiting["object_id"]) == ("pending", "7")
        assert waiting["body"]["propertyValue"] == "Acme Corp"
        assert (skipped["state"], skipped["type"]) == ("skipped", "company.fancied")
        assert skipped["last_error"]


async def test_an_event_that_is_delivered_again_is_known() -> None:
    async with receiving() as (client, _):
        again = {**ACME, "attemptNumber": 3}
        await accept(client, hubspot(ACME))
        response = await hubspot(again, again, property_change(7, 2, "city", "Bonn")).to(client)
        assert response.json() == {"events": 3, "stored": 1, "duplicates": 2, "skipped": 0}


async def test_a_record_is_told_whole_and_searchable() -> None:
    async with receiving() as (client, runtime):
        await accept(client, hubspot(ACME, property_change(7, 2, "industry", "Manufacturing")))
        await worked_off(runtime)
        (text,) = (await told(client, "hubspot")).values()
        assert "Acme Corp operates in the Manufacturing industry" in text
        question = (await runtime.embedder.embed([text]))[0]
        found = await runtime.document_search.search("default", question)
        assert found.passages[0].text == text
        assert found.passages[0].metadata["object_id"] == "7"


@pytest.mark.parametrize(
    "request_",
    [
        hubspot(ACME, secret="another"),
        hubspot(ACME, base="https://elsewhere.example"),
        Sent("/webhooks/hubspot", b"[]", {"content-type": "application/json"}),
        Sent("/webhooks/hubspot/guessed", b"[]"),
        Sent("/webhooks/salesforce/guessed", b"<x/>", {"content-type": "text/xml"}),
        Sent("/webhooks/salesforce", b"<x/>", {"content-type": "text/xml"}),
        generic({"id": "1"}, authorization="Bearer wrong"),
        Sent("/webhooks/pipedrive", b"{}", {"authorization": "Basic xyz"}),
    ],
)
async def test_nobody_else_may_send(request_: Sent) -> None:
    async with receiving() as (client, _):
        response = await request_.to(client)
        assert response.status_code == 401, response.text
        assert response.json()["error"]["code"] == "unauthenticated"
        assert await inbox(client) == []


@pytest.mark.parametrize("provider", ["hubspot", "pipedrive", "salesforce", "standard", "generic"])
async def test_without_a_secret_nothing_is_accepted(provider: str) -> None:
    async with served() as (client, _):
        response = await client.post(f"/webhooks/{provider}", json=[])
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "not_configured"


async def test_hubspot_needs_to_know_how_it_is_reached() -> None:
    async with receiving(public_base_url="") as (client, _):
        response = await hubspot(ACME).to(client)
        assert response.status_code == 503
        assert "PUBLIC_BASE_URL" in response.json()["error"]["message"]


async def test_an_unknown_provider_is_not_found() -> None:
    async with receiving() as (client, _):
        response = await client.post("/webhooks/nobody", json={})
        assert response.status_code == 404
        assert "hubspot" in response.json()["error"]["message"]


async def test_a_delivery_that_is_too_large_is_refused() -> None:
    async with receiving(max_webhook_bytes=1000) as (client, _):
        response = await generic({"id": "1", "note": "x" * 2000}).to(client)
        assert response.status_code == 413
        assert await inbox(client) == []


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{", 400),
        ("application/json", b"\xff", 400),
        ("image/png", b"\x89PNG", 415),
    ],
)
async def test_what_is_no_event_is_told(content_type: str, body: bytes, status: int) -> None:
    sent = generic({}, **{"content-type": content_type})
    async with receiving() as (client, _):
        response = await Sent(sent.path, body, sent.headers).to(client)
        assert response.status_code == status, response.text


async def test_salesforce_gets_its_ack() -> None:
    async with receiving() as (client, runtime):
        acme = {"Id": "0015g00000AbCdEAAV", "Name": "Acme & Co"}
        response = await salesforce(("04l1", "Account", acme)).to(client)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/xml")
        assert "<Ack>true</Ack>" in response.text
        await worked_off(runtime)
        assert "Acme & Co" in "".join((await told(client, "salesforce")).values())


XML_BOMB = b"""<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/">&b;</soapenv:Envelope>"""
XML_FILE = b"""<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/">&a;</soapenv:Envelope>"""


@pytest.mark.parametrize("body", [XML_BOMB, XML_FILE])
async def test_hostile_xml_is_refused(body: bytes) -> None:
    async with receiving() as (client, _):
        response = await Sent(salesforce().path, body, salesforce().headers).to(client)
        assert response.status_code == 400
        assert await inbox(client) == []


async def test_a_source_of_its_own_fixes_the_tenant() -> None:
    sources = [
        {"tenant": "acme", "provider": "generic", "token": "for-acme", "account": "zap-1"},
    ]
    async with receiving(webhook_sources=json.dumps(sources), api_key="admin") as (client, runtime):
        response = await client.post("/webhooks/generic/for-acme", json={"id": "1", "name": "Bo"})
        assert response.status_code == 202
        await worked_off(runtime)
        assert (await runtime.documents.counts("acme"))["documents"] == 1
        assert (await runtime.documents.counts("default"))["documents"] == 0
        listed = await client.get("/webhooks/inbox", headers={"authorization": "Bearer admin"})
        assert listed.json()["deliveries"] == []


async def test_two_senders_of_a_tenant_need_accounts_that_keep_their_records_apart() -> None:
    one: dict[str, str] = {"tenant": "acme", "provider": "generic", "token": "one"}
    other = {**one, "token": "other"}
    with pytest.raises(Misconfigured, match="account"):
        async with receiving(webhook_sources=json.dumps([one, other])):
            pass
    named = json.dumps([one, {**other, "account": "shop"}])
    async with receiving(webhook_sources=named) as (client, runtime):
        for token, name in (("one", "Acme"), ("other", "Beta")):
            body = {"id": "1", "name": name}
            assert (await client.post(f"/webhooks/generic/{token}", json=body)).is_success
        await worked_off(runtime)
        assert (await runtime.documents.counts("acme"))["documents"] == 2


@pytest.mark.parametrize("path", ["/webhooks/generic/hush", "/v1/webhooks/generic/hush/"])
async def test_the_token_of_a_url_is_in_no_log(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with receiving() as (client, _):
        assert (await client.post(path, json={})).is_client_error
    lines = [record.getMessage() for record in caplog.records if record.name == "app.access"]
    assert lines
    assert not [line for line in lines if "hush" in line]


async def test_the_inbox_is_for_admins() -> None:
    async with receiving(api_key="admin") as (client, _):
        assert (await client.get("/webhooks/inbox")).status_code == 401
        assert (await client.post("/webhooks/inbox/1/replay")).status_code == 401


async def test_a_delivery_can_be_worked_on_again() -> None:
    async with receiving() as (client, runtime):
        await accept(client, hubspot(ACME))
        await worked_off(runtime)
        (done,) = await inbox(client, state="done")
        again = answered(await client.post(f"/webhooks/inbox/{done['id']}/replay"))
        assert again["state"] == "pending"
        await worked_off(runtime)
        assert [row["state"] for row in await inbox(client)] == ["done"]
        assert (await client.post("/webhooks/inbox/999/replay")).status_code == 404


async def test_what_nobody_understands_can_not_be_replayed() -> None:
    async with receiving() as (client, _):
        await accept(client, hubspot(hubspot_event("company.fancied", 7, 1)))
        (skipped,) = await inbox(client, state="skipped")
        response = await client.post(f"/webhooks/inbox/{skipped['id']}/replay")
        assert response.status_code == 409


async def test_the_inbox_is_listed_in_pages() -> None:
    async with receiving() as (client, _):
        await accept(client, hubspot(*(property_change(n, n, "name", "x") for n in range(1, 6))))
        seen: list[str] = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            page = answered(await client.get("/webhooks/inbox", params=query))
            seen += [row["object_id"] for row in page["deliveries"]]
            if page["next_after"] is None:
                break
            query["after"] = page["next_after"]
        assert seen == ["5", "4", "3", "2", "1"]


async def test_stale_records_are_shown() -> None:
    async with receiving() as (client, runtime):
        await accept(client, hubspot(hubspot_event("company.creation", 7, 1)))
        await worked_off(runtime)
        ready = answered(await client.get("/health/ready"))
        assert ready["stale_records"] == {"hubspot": 1}
        assert ready["deliveries"] == {"pending": 0, "failed": 0}
        assert await told(client, "hubspot") == {}


async def test_a_zap_and_a_row_say_the_same() -> None:
    flat = {
        "company_name": "Acme Corp",
        "industry": "Manufacturing",
        "contract_value": "120000",
        "renewal_date": "2026-10-15",
        "account_manager": "Alice Vance",
    }
    async with receiving() as (client, runtime):
        await accept(client, generic(flat))
        await worked_off(runtime)
        assert list((await told(client, "generic")).values()) == [
            "Company Acme Corp operates in the Manufacturing industry. The account contract value"
            " is $120,000 with a renewal date of 2026-10-15. The assigned account manager is"
            " Alice Vance."
        ]


async def test_the_same_content_again_is_a_duplicate_until_something_else_was_said() -> None:
    async with receiving() as (client, runtime):
        is_open, is_closed = ({"id": "1", "status": status} for status in ("open", "closed"))
        await accept(client, generic(is_open))
        assert (await generic(is_open).to(client)).json()["duplicates"] == 1
        await accept(client, generic(is_closed), generic(is_open))
        await worked_off(runtime)
        (text,) = (await told(client, "generic")).values()
        assert "open" in text


async def test_an_idempotency_key_is_believed() -> None:
    async with receiving() as (client, _):
        key = {"idempotency-key": "one"}
        await accept(client, generic({"id": "1", "status": "open"}, **key))
        response = await generic({"id": "1", "status": "closed"}, **key).to(client)
        assert response.json()["duplicates"] == 1


async def test_standard_webhooks_are_accepted_by_the_generic_url_too() -> None:
    event = {"type": "account.updated", "timestamp": NOW.isoformat(), "data": {"id": "acme"}}
    event["data"] = {"id": "acme", "name": "Acme Corp"}
    async with receiving() as (client, runtime):
        await accept(client, standard("msg_1", event, "/webhooks/generic"))
        assert (await standard("msg_1", event).to(client)).status_code == 202
        await worked_off(runtime)
        assert "Acme Corp" in "".join((await told(client, "generic")).values())


async def test_pipedrive_deals_come_and_go() -> None:
    deal = {"title": "Acme renewal", "value": 120000, "currency": "USD", "status": "open"}
    async with receiving() as (client, runtime):
        await accept(client, pipedrive("create", 42, 1, deal))
        await worked_off(runtime)
        (text,) = (await told(client, "pipedrive")).values()
        assert "Acme renewal" in text
        assert "$120,000" in text or "120,000 USD" in text
        await accept(client, pipedrive("delete", 42, 2, None))
        await worked_off(runtime)
        assert await told(client, "pipedrive") == {}
        assert (await runtime.index.counts()).get("documents", 0) == 0


async def test_secrets_stay_out_of_the_settings_complaint() -> None:
    with pytest.raises(Misconfigured) as caught:
        async with receiving(webhook_sources='[{"provider": "hubspot", "secret": "hush"}]'):
            pass
    assert "hush" not in str(caught.value)
    assert SECRETS["webhook_token"] not in str(caught.value)


async def test_an_array_without_keys_is_stored_once_each_and_an_object_may_come_twice_in_it() -> (
    None
):
    rows = [{"id": n, "status": "open"} for n in range(600)]
    back = [{"id": 1, "status": "closed"}, {"id": 1, "status": "open"}]
    async with receiving() as (client, _):
        first = (await generic([*rows, *back]).to(client)).json()
        assert first == {"events": 602, "stored": 602, "duplicates": 0, "skipped": 0}
        again = (await generic(rows).to(client)).json()
        assert again == {"events": 600, "stored": 0, "duplicates": 600, "skipped": 0}


async def test_more_events_than_one_transaction_should_hold_are_refused_whole() -> None:
    async with receiving(webhook_coalesce_seconds=3600.0) as (client, _):
        most = [{"id": n} for n in range(MAX_EVENTS)]
        response = await generic([*most, {"id": MAX_EVENTS}]).to(client)
        assert response.status_code == 413
        assert "5000" in response.json()["error"]["message"]
        assert await inbox(client) == []
        assert (await generic(most).to(client)).json()["stored"] == MAX_EVENTS
