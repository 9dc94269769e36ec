"""HubSpot's objects and owners, over its CRM API v3. Touches: HubSpot, over HTTPS.

Only properties that are asked for are told, so what comes of an object is no snapshot: it has the
usual properties of its type, those that are stored of it already, and nothing is said of others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from app.crm.calls import (
    PART,
    Calls,
    Refusal,
    check_account,
    mapping_of,
    part_of,
    path_of,
    rows_of,
    time_of,
)
from app.errors import UpstreamInvalid, UpstreamRefused
from ingest.providers.base import Change, ObjectKey
from ingest.providers.hubspot import fields_of

log = logging.getLogger(__name__)

NAME = "HubSpot"
OWNER = "owner"
PLURALS: Mapping[str, str] = {
    "contact": "contacts",
    "company": "companies",
    "deal": "deals",
    "ticket": "tickets",
    "product": "products",
    "line_item": "line_items",
    "quote": "quotes",
    "call": "calls",
    "email": "emails",
    "meeting": "meetings",
    "note": "notes",
    "task": "tasks",
}
USUAL: Mapping[str, tuple[str, ...]] = {
    "contact": (
        *("firstname", "lastname", "email", "phone", "mobilephone", "jobtitle", "company"),
        *("city", "country", "lifecyclestage", "hs_lead_status", "hubspot_owner_id"),
        *("associatedcompanyid", "createdate"),
    ),
    "company": (
        *("name", "domain", "industry", "annualrevenue", "numberofemployees", "city", "country"),
        *("phone", "website", "description", "lifecyclestage", "hubspot_owner_id", "createdate"),
    ),
    "deal": (
        *("dealname", "amount", "deal_currency_code", "dealstage", "pipeline", "dealtype"),
        *("closedate", "description", "hubspot_owner_id", "createdate"),
    ),
    "ticket": (
        *("subject", "content", "hs_pipeline", "hs_pipeline_stage", "hs_ticket_priority"),
        *("hs_ticket_category", "hubspot_owner_id", "createdate"),
    ),
    "product": ("name", "description", "price", "hs_sku", "createdate"),
}
PAGE_ROWS = 200  # the most that a search gives at once
LIST_ROWS = 100  # the most that a list gives at once
SEARCH_REACH = 10_000  # rows of one search that HubSpot lets be paged through
PROPERTIES_AT_ONCE = 150  # in one URL: names may have a hundred characters

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}|[0-9]{1,4}-[0-9]{1,20}")
_ID = re.compile(r"[0-9]{1,20}")
_PROPERTY = re.compile(r"[A-Za-z0-9_]{1,100}")


class HubSpotFetcher:
    """Reads the account that an access token belongs to. See `Fetcher`."""

    provider = "hubspot"

    def __init__(self, *, token: str, root: str, timeout_seconds: float) -> None:
        self._calls = Calls(
            NAME,
            root,
            setting="HUBSPOT_API_BASE",
            credentials="HUBSPOT_ACCESS_TOKEN",
            headers={"Authorization": f"Bearer {token}"},
            timeout_seconds=timeout_seconds,
        )
        self._portal: str | None = None

    async def fetch(self, key: ObjectKey, known: Collection[str]) -> Change:
        """Return the object under its id; one that was merged into another is deleted."""
        kind = key.type
        if not _TYPE.fullmatch(kind) or not _ID.fullmatch(key.id):
            raise UpstreamRefused(
                PART, f"{NAME} has no object {key.id[:40]!r} of type {kind[:40]!r}."
            )
        check_account(NAME, await self._account(), key)
        if kind == OWNER:
            return await self._owner(key)
        path = _objects(kind, key.id)
        found: dict[str, str] = {}
        times: list[datetime] = []
        for some in _groups(_asked(kind, known)):
            params = {"archived": "false"} | ({"properties": ",".join(some)} if some else {})
            answer = await self._found(path, params)
            if answer is None or str(answer.get("id")) != key.id or answer.get("archived") is True:
                return Change(key, "delete")
            found |= _fields(answer, some)
            times.append(time_of(NAME, answer.get("updatedAt")))
        return Change(key, "create", min(times), found)

    async def changed_since(
        self, since: datetime, known: Mapping[str, Collection[str]] | None = None
    ) -> AsyncIterator[Change]:
        """Yield changed objects, archived ones as deleted, and every owner."""
        account = await self._account()
        stored = known or {}
        others = [kind for kind in stored if kind != OWNER and _TYPE.fullmatch(kind)]
        for kind in dict.fromkeys([*USUAL, *others]):
            properties = _asked(kind, stored.get(kind, ()))
            try:
                async for change in self._changed(account, kind, properties, since):
                    yield change
                async for change in self._archived(account, kind, since):
                    yield change
            except Refusal as error:
                _left_out(kind, error)
        try:
            async for change in self._owners(account):
                yield change
        except Refusal as error:
            _left_out(OWNER, error)

    async def close(self) -> None:
        await self._calls.close()

    async def _account(self) -> str:
        if self._portal is None:
            details = await self._calls.get("/account-info/v3/details")
            portal = part_of(details, "portalId")
            if not isinstance(portal, int | str):
                raise UpstreamInvalid(PART, f"{NAME} did not say which account the token is for.")
            self._portal = str(portal)
        return self._portal

    async def _found(self, path: str, params: Mapping[str, str]) -> Mapping[str, Any] | None:
        """Return an object, None where HubSpot itself says that it isn't there."""
        try:
            return mapping_of(NAME, await self._calls.get(path, params))
        except Refusal as error:
            if error.http_status == 404 and part_of(error.answer, "status") == "error":
                return None
            raise

    async def _owner(self, key: ObjectKey) -> Change:
        path = path_of("crm", "v3", "owners", key.id)
        for archived in ("false", "true"):  # who has left still owns things, and has a name
            owner = await self._found(path, {"archived": archived})
            if owner is not None:
                return _owner_change(key, owner)
        return Change(key, "delete")

    async def _owners(self, account: str) -> AsyncIterator[Change]:
        for archived in ("false", "true"):
            async for owner in self._listed("/crm/v3/owners", archived):
                yield _owner_change(ObjectKey(account, OWNER, str(owner.get("id"))), owner)

    async def _archived(self, account: str, kind: str, since: datetime) -> AsyncIterator[Change]:
        async for row in self._listed(_objects(kind), "true"):
            gone = time_of(NAME, row.get("archivedAt") or row.get("updatedAt"))
            if gone >= since:
                yield Change(ObjectKey(account, kind, str(row.get("id"))), "delete", gone)

    async def _listed(self, path: str, archived: str) -> AsyncIterator[Mapping[str, Any]]:
        params = {"archived": archived, "limit": str(LIST_ROWS)}
        while True:
            page = await self._calls.get(path, params)
            for row in rows_of(NAME, page, "results"):
                yield row
            after = part_of(page, "paging", "next", "after")
            if after is None:
                return
            params = {**params, "after": str(after)}

    async def _changed(
        self, account: str, kind: str, properties: tuple[str, ...], since: datetime
    ) -> AsyncIterator[Change]:
        """Walk on by time: pages by number would skip rows that are changed meanwhile."""
        clock = "lastmodifieddate" if kind in ("contact", "0-1") else "hs_lastmodifieddate"
        start, after = since, ""
        told: set[str] = set()
        while True:
            body = _search(clock, start, properties, after)
            page = await self._calls.post(_objects(kind, "search"), body)
            last = start
            for row in rows_of(NAME, page, "results"):
                id = str(row.get("id"))
                changed = time_of(NAME, part_of(row, "properties", clock) or row.get("updatedAt"))
                if changed > last:
                    last, told = changed, set()
                if id in told:
                    continue
                told.add(id)
                time = time_of(NAME, row.get("updatedAt"))
                yield Change(ObjectKey(account, kind, id), "create", time, _fields(row, properties))
            following = part_of(page, "paging", "next", "after")
            if following is None:
                return
            # More of one moment than a page holds can only be paged through by number.
            after = "" if last > start else str(following)
            start = last
            if after.isdigit() and int(after) + PAGE_ROWS > SEARCH_REACH:
                raise UpstreamInvalid(
                    PART,
                    f"{NAME} changed more than {SEARCH_REACH} objects of type {kind!r} at "
                    f"{start.isoformat()}, which its search can't tell all.",
                )


def _search(clock: str, start: datetime, properties: Iterable[str], after: str) -> dict[str, Any]:
    since = {
        "propertyName": clock,
        "operator": "GTE",
        "value": str((start - _EPOCH) // _MILLISECOND),
    }
    return {
        "filterGroups": [{"filters": [since]}],
        "sorts": [{"propertyName": clock, "direction": "ASCENDING"}],
        "properties": [*properties, clock],
        "limit": PAGE_ROWS,
        **({"after": after} if after else {}),
    }


def _objects(kind: str, *rest: str) -> str:
    return path_of("crm", "v3", "objects", PLURALS.get(kind, kind), *rest)


def _asked(kind: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the properties to ask for; what can't be the name of one is no property."""
    names = (name for name in sorted(known) if _PROPERTY.fullmatch(name))
    return tuple(dict.fromkeys([*USUAL.get(kind, ()), *names]))


def _groups(properties: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for start in range(0, max(1, len(properties)), PROPERTIES_AT_ONCE):
        yield properties[start : start + PROPERTIES_AT_ONCE]


def _fields(row: Mapping[str, Any], asked: tuple[str, ...]) -> dict[str, str]:
    """Return what was asked for, "" for no value; of a type without usual properties, all."""
    properties = mapping_of(NAME, row.get("properties"))
    return fields_of({name: properties.get(name) for name in asked or properties})


def _owner_change(key: ObjectKey, owner: Mapping[str, Any]) -> Change:
    # Without a time: HubSpot moves an owner's `updatedAt` not when its user is renamed.
    names = ("firstName", "lastName", "email")
    return Change(key, "create", fields=fields_of({name: owner.get(name) for name in names}))


def _left_out(kind: str, error: Refusal) -> None:
    """Log that a type may not be read; any other refusal is raised."""
    if error.http_status != 403:
        raise error
    log.warning("%s objects of type %r are left out: %s", NAME, kind, error.message)
