"""Pipedrive's objects, over its API v2, and v1 for what v2 has not. Touches: Pipedrive, over HTTPS.

Fields are flattened by the same function as those of webhooks, so that both tell the same object.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime
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
from ingest.providers.pipedrive import fields_of

log = logging.getLogger(__name__)

NAME = "Pipedrive"
V1, V2 = ("v1",), ("api", "v2")
PLACES: Mapping[str, tuple[str, ...]] = {
    "deal": (*V2, "deals"),
    "person": (*V2, "persons"),
    "organization": (*V2, "organizations"),
    "activity": (*V2, "activities"),
    "product": (*V2, "products"),
    "pipeline": (*V2, "pipelines"),
    "stage": (*V2, "stages"),
    "lead": (*V1, "leads"),
    "note": (*V1, "notes"),
    "user": (*V1, "users"),
}
BY_TIME = ("deal", "person", "organization", "activity", "product")  # can be asked for by time
NEWEST_FIRST = ("lead", "note")  # can only be read backwards; the others are few, and all read
PAGE_ROWS = 500

_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


class PipedriveFetcher:
    """Reads the company that an API token belongs to. See `Fetcher`."""

    provider = "pipedrive"

    def __init__(self, *, token: str, root: str, timeout_seconds: float) -> None:
        self._calls = Calls(
            NAME,
            root,
            setting="PIPEDRIVE_API_BASE",
            credentials="PIPEDRIVE_API_TOKEN",
            headers={"x-api-token": token},
            timeout_seconds=timeout_seconds,
        )
        self._company: str | None = None

    async def fetch(self, key: ObjectKey, known: Collection[str]) -> Change:
        """Return the whole object; `known` needs no asking for."""
        place = PLACES.get(key.type)
        if place is None or not _ID.fullmatch(key.id):
            raise UpstreamRefused(
                PART,
                f"{NAME} has no object {key.id[:40]!r} of type {key.type[:40]!r}; "
                f"types are {', '.join(PLACES)}.",
            )
        check_account(NAME, await self._account(), key)
        try:
            answer = await self._calls.get(path_of(*place, key.id))
        except Refusal as error:
            if error.http_status == 404 and part_of(error.answer, "success") is False:
                return Change(key, "delete")
            raise
        return _change(key, mapping_of(NAME, part_of(answer, "data")))

    async def changed_since(
        self, since: datetime, known: Mapping[str, Collection[str]] | None = None
    ) -> AsyncIterator[Change]:
        """Yield changed objects of every type; of deleted ones, Pipedrive tells deals only."""
        account = await self._account()
        for kind in PLACES:
            try:
                async for row in self._changed(kind, since):
                    change = _change(ObjectKey(account, kind, str(row.get("id"))), row)
                    if change.time is None or change.time >= since:
                        yield change
            except Refusal as error:
                if error.http_status != 403:
                    raise
                log.warning("%s objects of type %r are left out: %s", NAME, kind, error.message)

    async def close(self) -> None:
        await self._calls.close()

    async def _account(self) -> str:
        if self._company is None:
            company = part_of(await self._calls.get(path_of(*V1, "users", "me")), "data")
            number = part_of(company, "company_id")
            if not isinstance(number, int | str):
                raise UpstreamInvalid(PART, f"{NAME} did not say which company the token is for.")
            self._company = str(number)
        return self._company

    async def _changed(self, kind: str, since: datetime) -> AsyncIterator[Mapping[str, Any]]:
        if kind in NEWEST_FIRST:
            walks = [self._backwards(kind, since)]
        elif kind in BY_TIME:
            stamp = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            asked = {"updated_since": stamp, "sort_by": "update_time", "sort_direction": "asc"}
            walks = [self._pages(kind, asked)]
            if kind == "deal":
                walks.append(self._pages(kind, asked | {"status": "deleted"}))
        else:
            walks = [self._pages(kind, {})]
        for walk in walks:
            async for row in walk:
                yield row

    async def _pages(self, kind: str, asked: Mapping[str, str]) -> AsyncIterator[Mapping[str, Any]]:
        path = path_of(*PLACES[kind])
        params = {**asked, "limit": str(PAGE_ROWS)}
        while True:
            page = await self._calls.get(path, params)
            for row in rows_of(NAME, page, "data"):
                yield row
            cursor = part_of(page, "additional_data", "next_cursor")
            if not cursor:
                return
            params = {**params, "cursor": str(cursor)}

    async def _backwards(self, kind: str, since: datetime) -> AsyncIterator[Mapping[str, Any]]:
        """Walk back from the newest; what is changed meanwhile only comes twice."""
        start = 0
        while True:
            params = {"sort": "update_time DESC", "start": str(start), "limit": str(PAGE_ROWS)}
            page = await self._calls.get(path_of(*PLACES[kind]), params)
            for row in rows_of(NAME, page, "data"):
                changed = _time(row)
                if changed is not None and changed < since:
                    return
                yield row
            paging = part_of(page, "additional_data", "pagination")
            following = part_of(paging, "next_start")
            if part_of(paging, "more_items_in_collection") is not True:
                return
            if not isinstance(following, int) or following <= start:
                raise UpstreamInvalid(PART, f"{NAME} gave a page without the place of the next.")
            start = following


def _change(key: ObjectKey, data: Mapping[str, Any]) -> Change:
    if _is_gone(key.type, data):
        return Change(key, "delete", _time(data))
    return Change(key, "snapshot", _time(data), fields_of(data))


def _is_gone(kind: str, data: Mapping[str, Any]) -> bool:
    if kind == "user":
        return False  # who has left still owns things, and has a name
    is_hidden_note = kind == "note" and data.get("active_flag") is False
    return data.get("is_deleted") is True or data.get("status") == "deleted" or is_hidden_note


def _time(data: Mapping[str, Any]) -> datetime | None:
    """Return when an object was changed; users call it otherwise."""
    found = data.get("update_time") or data.get("modified") or data.get("add_time")
    return None if found is None else time_of(NAME, found)
