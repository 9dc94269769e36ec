"""Webhooks as their senders send them, signed by code of its own. For tests."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

import httpx
from standardwebhooks.webhooks import Webhook

from app.wiring import Runtime
from tests.served import served_at

NOW = datetime.fromtimestamp(1795996800, UTC)
BASE = "https://crm.example/v1"
HUBSPOT_SECRET = "hs-client-secret-123"
PIPEDRIVE_LOGIN = "pd:s3cret"
SALESFORCE_TOKEN = "TOKEN"
ORGANIZATION = "00D5g000004XyZaEAK"
STANDARD_SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
GENERIC_TOKEN = "gen-token"

SECRETS: dict[str, Any] = {
    "public_base_url": BASE,
    "hubspot_client_secret": HUBSPOT_SECRET,
    "pipedrive_webhook_login": PIPEDRIVE_LOGIN,
    "salesforce_webhook_token": SALESFORCE_TOKEN,
    "salesforce_organization_id": ORGANIZATION,
    "webhook_secret": STANDARD_SECRET,
    "webhook_token": GENERIC_TOKEN,
    "webhook_coalesce_seconds": 0.0,
}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a sender."""

    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    async def to(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.post(self.path, content=self.body, headers=self.headers)


@asynccontextmanager
async def receiving(**chosen: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Serve an app that knows all senders, at the moment at which they sign."""
    async with served_at(lambda: NOW, **{**SECRETS, **chosen}) as (client, runtime):
        yield client, runtime


async def accept(client: httpx.AsyncClient, *requests: Sent) -> None:
    for request in requests:
        response = await request.to(client)
        assert response.is_success, response.text


async def worked_off(runtime: Runtime) -> None:
    """Do all that waits and what that leaves behind, beside the service's own workers."""
    async with asyncio.timeout(60):
        while await runtime.jobs.pending():
            await runtime.worker.drain()
            await asyncio.sleep(0.005)


async def told(client: httpx.AsyncClient, source: str) -> dict[str, str]:
    """Return the documents of a source, by id."""
    response = await client.get("/documents", params={"source": source, "limit": 500})
    assert response.is_success, response.text
    return {document["id"]: document["text"] for document in response.json()["documents"]}


def hubspot(
    *events: Json, secret: str = HUBSPOT_SECRET, base: str = BASE, now: datetime = NOW
) -> Sent:
    body = json.dumps(list(events)).encode()
    stamp = str(int(now.timestamp() * 1000))
    signed = b"POST" + f"{base}/webhooks/hubspot".encode() + body + stamp.encode()
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    headers = {
        "content-type": "application/json",
        "x-hubspot-signature-v3": base64.b64encode(digest).decode(),
        "x-hubspot-request-timestamp": stamp,
    }
    return Sent("/webhooks/hubspot", body, headers)


def hubspot_event(type: str, object_id: int, second: int, **more: Any) -> Json:
    return {
        "eventId": more.pop("eventId", 1000 + second),
        "subscriptionId": 1,
        "portalId": 4455667,
        "appId": 9,
        "occurredAt": int(NOW.timestamp() - 3600 + second) * 1000,
        "subscriptionType": type,
        "attemptNumber": 0,
        "objectId": object_id,
        **more,
    }


def property_change(object_id: int, second: int, name: str, value: str) -> Json:
    named = {"propertyName": name, "propertyValue": value}
    return hubspot_event("company.propertyChange", object_id, second, **named)


def pipedrive(action: str, id: int, second: int, data: Json | None, /, **meta: Any) -> Sent:
    at = datetime.fromtimestamp(NOW.timestamp() - 3600 + second, UTC)
    stamp = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    whole = None if data is None else {"id": id, **data, "update_time": stamp}
    about = {
        "action": action,
        "entity": meta.pop("entity", "deal"),
        "company_id": "123456",
        "entity_id": str(id),
        "id": f"{action}-{id}-{second}",
        "timestamp": stamp,
        "version": "2.0",
        "attempt": 1,
        **meta,
    }
    body = json.dumps({"meta": about, "data": whole, "previous": None}).encode()
    login = base64.b64encode(PIPEDRIVE_LOGIN.encode()).decode()
    headers = {"content-type": "application/json", "authorization": f"Basic {login}"}
    return Sent("/webhooks/pipedrive", body, headers)


def salesforce(*notifications: tuple[str, str, dict[str, str]], action: str = "04k1") -> Sent:
    """notifications: id, type, and the fields of the object, its `Id` among them."""
    said = "".join(
        f'<Notification><Id>{id}</Id><sObject xsi:type="sf:{type}" '
        'xmlns:sf="urn:sobject.enterprise.soap.sforce.com">'
        + "".join(f"<sf:{name}>{escape(text)}</sf:{name}>" for name, text in fields.items())
        + "</sObject></Notification>"
        for id, type, fields in notifications
    )
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>'
        '<notifications xmlns="http://soap.sforce.com/2005/09/outbound">'
        f"<OrganizationId>{ORGANIZATION}</OrganizationId><ActionId>{action}</ActionId>"
        f"{said}</notifications></soapenv:Body></soapenv:Envelope>"
    ).encode()
    headers = {"content-type": "text/xml; charset=utf-8", "soapaction": '""'}
    return Sent(f"/webhooks/salesforce/{SALESFORCE_TOKEN}", body, headers)


def standard(id: str, event: Json, path: str = "/webhooks/standard") -> Sent:
    body = json.dumps(event)
    signature = Webhook(STANDARD_SECRET).sign(id, NOW, body)
    headers = {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": str(int(NOW.timestamp())),
        "webhook-signature": signature,
    }
    return Sent(path, body.encode(), headers)


def generic(body: Any, **headers: str) -> Sent:
    sent = {
        "content-type": "application/json",
        "authorization": f"Bearer {GENERIC_TOKEN}",
        **headers,
    }
    return Sent("/webhooks/generic", json.dumps(body).encode(), sent)
