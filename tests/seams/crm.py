"""Every CRM with its test server, and a fetcher for it through the real wiring. For tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app.crm.base import Fetcher
from app.picks import pick_fetchers
from ingest.providers.base import Change, ObjectKey
from tests.served import settings
from tests.wire import crm_hubspot, crm_pipedrive, crm_salesforce
from tests.wire.crm import CrmServer, serving_crm

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@dataclass
class Crm:
    """A CRM's server, a fetcher that is configured for it, and objects as it has them.

    samples: a type -> the fields of an object of it; the first field is its name, which comes back
    as it is. secrets: what must not be told.
    """

    server: CrmServer
    fetcher: Fetcher
    account: str
    samples: Mapping[str, Mapping[str, Any]]
    secrets: tuple[str, ...]

    @property
    def main_type(self) -> str:
        return next(iter(self.samples))

    def id(self, number: int) -> str:
        """Return the id of an object, in the CRM's form; those of greater numbers are greater."""
        return (
            f"0015g00000{number:05d}AAV" if self.fetcher.provider == "salesforce" else f"{number}"
        )

    def key(self, type: str = "", number: int = 1) -> ObjectKey:
        return ObjectKey(self.account, type or self.main_type, self.id(number))

    def put(self, time: datetime, *, type: str = "", number: int = 1, **fields: Any) -> ObjectKey:
        type = type or self.main_type
        key = self.key(type, number)
        self.server.put(type, key.id, time, **{**self.samples[type], **fields})
        return key

    async def changed(self, since: datetime, **known: Any) -> list[Change]:
        return [change async for change in self.fetcher.changed_since(since, **known)]


MAKERS: Mapping[str, Callable[[], CrmServer]] = {
    "hubspot": crm_hubspot.HubSpotServer,
    "pipedrive": crm_pipedrive.PipedriveServer,
    "salesforce": crm_salesforce.SalesforceServer,
}


@contextmanager
def served_crms() -> Iterator[Mapping[str, CrmServer]]:
    """Serve every CRM, by provider."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving_crm(make())) for name, make in MAKERS.items()}


@asynccontextmanager
async def opened_crm(server: CrmServer, **chosen: Any) -> AsyncIterator[Crm]:
    """Open the fetcher that settings like `chosen` ask for, for a server that is as new."""
    server.forget()
    provider, account, samples, secrets, setting = _about(server)
    fetchers = pick_fetchers(settings(**setting, **chosen), lambda: NOW)
    fetcher = fetchers[provider]
    yield Crm(server, fetcher, account, samples, secrets)
    await fetcher.close()


def _about(server: CrmServer) -> _Made:
    match server:
        case crm_hubspot.HubSpotServer():
            return _hubspot(server.url)
        case crm_pipedrive.PipedriveServer():
            return _pipedrive(server.url)
        case _:
            return _salesforce(server.url)


_Made = tuple[str, str, dict[str, dict[str, Any]], tuple[str, ...], dict[str, str]]


def _hubspot(url: str) -> _Made:
    samples: dict[str, dict[str, Any]] = {
        "deal": {"dealname": "Acme renewal", "amount": "120000", "description": None},
        "contact": {"lastname": "Lovelace"},
        "company": {"name": "Acme Corp"},
        "ticket": {"subject": "Printer on fire"},
        "product": {"name": "Widget"},
        "owner": {"firstName": "Grace", "lastName": "Hopper", "email": "grace@example.com"},
        "2-7654321": {"name": "Black Pearl"},
    }
    token = crm_hubspot.TOKEN
    setting = {"hubspot_access_token": token, "hubspot_api_base": url}
    return "hubspot", str(crm_hubspot.PORTAL), samples, (token,), setting


def _pipedrive(url: str) -> _Made:
    samples: dict[str, dict[str, Any]] = {
        "deal": {"title": "Acme renewal", "value": 120000, "currency": "USD", "lost_reason": None},
        "person": {"name": "Ada Lovelace"},
        "organization": {"name": "Acme Corp"},
        "activity": {"subject": "Call Acme"},
        "product": {"name": "Widget"},
        "pipeline": {"name": "Sales"},
        "stage": {"name": "Won"},
        "note": {"content": "Called twice"},
        "lead": {"title": "Beta LLC"},
        "user": {"name": "Grace Hopper", "email": "grace@example.com"},
    }
    token = crm_pipedrive.TOKEN
    setting = {"pipedrive_api_token": token, "pipedrive_api_base": url}
    return "pipedrive", str(crm_pipedrive.COMPANY), samples, (token,), setting


def _salesforce(url: str) -> _Made:
    samples: dict[str, dict[str, Any]] = {
        "Account": {"Name": "Acme Corp", "AnnualRevenue": 120000.0, "Industry": None},
        "Contact": {"Name": "Ada Lovelace"},
        "Opportunity": {"Name": "Acme renewal"},
        "Lead": {"Name": "Beta LLC"},
        "Case": {"Name": "Printer on fire"},
        "Product2": {"Name": "Widget"},
        "User": {"Name": "Grace Hopper"},
    }
    secret = crm_salesforce.CLIENT_SECRET
    setting = {
        "salesforce_instance_url": url,
        "salesforce_client_id": crm_salesforce.CLIENT_ID,
        "salesforce_client_secret": secret,
    }
    return "salesforce", crm_salesforce.ORGANIZATION, samples, (secret, "00D5g!token"), setting
