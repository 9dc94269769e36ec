"""Salesforce's records, over its REST API. Touches: Salesforce, over HTTPS."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
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
from app.crm.salesforce_login import Login
from app.errors import InvalidRequest, UpstreamInvalid, UpstreamRefused
from ingest.providers.base import Change, ObjectKey
from ingest.providers.salesforce_objects import fields_of, long_id

log = logging.getLogger(__name__)

NAME = "Salesforce"
VERSION = "v67.0"  # Summer '26; Salesforce keeps a version for three years at least
ROOT = f"/services/data/{VERSION}"
USUAL = ("User", "Account", "Contact", "Lead", "Opportunity", "Case", "Product2")
RECORDS_AT_ONCE = 200
REMEMBERED = timedelta(days=30)  # deletions, at the most
SHORTEST_SPAN = timedelta(minutes=2)  # that deletions can be asked of: seconds are ignored

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
_ID = re.compile(r"[A-Za-z0-9]{15}(?:[A-Za-z0-9]{3})?")
_NEXT_PAGE = re.compile(rf"{re.escape(ROOT)}/query/[A-Za-z0-9-]+")
# Told again by other fields (the parts of an address), or no text at all.
_UNTOLD_TYPES = frozenset({"address", "location", "base64"})
_NO_FIELDS = frozenset({"attributes", "Id", "IsDeleted"})


class SalesforceFetcher:
    """Reads the organization that a connected app belongs to. See `Fetcher`.

    The app logs in as itself (the client-credentials flow); what its user may not see is not there.
    """

    provider = "salesforce"

    def __init__(
        self,
        *,
        instance_url: str,
        client_id: str,
        client_secret: str,
        timeout_seconds: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._calls = Calls(
            NAME,
            instance_url,
            setting="SALESFORCE_INSTANCE_URL",
            credentials="SALESFORCE_CLIENT_ID and SALESFORCE_CLIENT_SECRET",
            headers={},
            timeout_seconds=timeout_seconds,
        )
        self._login = Login(self._calls, client_id, client_secret)
        self._clock = clock

    async def fetch(self, key: ObjectKey, known: Collection[str]) -> Change:
        """Return the whole record; `known` needs no asking for."""
        kind = key.type
        if not _TYPE.fullmatch(kind) or not _ID.fullmatch(key.id):
            raise UpstreamRefused(
                PART, f"{NAME} has no record {key.id[:40]!r} of type {kind[:40]!r}."
            )
        check_account(NAME, await self._login.organization(), key)
        try:
            record = mapping_of(NAME, await self._get(_sobject(kind, key.id)))
        except Refusal as error:
            if not await self._is_gone(kind, error):
                raise
            return Change(key, "delete")
        if record.get("IsDeleted") is True:
            return Change(key, "delete")
        return _snapshot(key, record)

    async def changed_since(
        self, since: datetime, known: Mapping[str, Collection[str]] | None = None
    ) -> AsyncIterator[Change]:
        """Yield changed and deleted records. Raises `InvalidRequest` beyond what is remembered."""
        now = self._clock()
        if since < now - REMEMBERED:
            raise InvalidRequest(
                f"{NAME} remembers deleted records for {REMEMBERED.days} days: expected a time "
                f"after {(now - REMEMBERED).isoformat()}, got {since.isoformat()}",
                param="since",
            )
        account = await self._login.organization()
        stored = [kind for kind in known or () if _TYPE.fullmatch(kind)]
        for kind in dict.fromkeys([*USUAL, *stored]):
            fields = await self._readable(kind)
            if not fields:
                continue
            async for change in self._changed(account, kind, fields, since):
                yield change
            async for change in self._deleted(account, kind, since, now):
                yield change

    async def close(self) -> None:
        await self._calls.close()

    async def _get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        return await self._login.authorised(
            lambda headers: self._calls.get(path, params, headers=headers)
        )

    async def _is_gone(self, kind: str, error: Refusal) -> bool:
        """Say if the record is gone, not just a type that the app's user may not see any more."""
        codes = _codes(error)
        if error.http_status != 404 or not codes & {"NOT_FOUND", "ENTITY_IS_DELETED"}:
            return False
        if "ENTITY_IS_DELETED" not in codes:
            await self._get(_sobject(kind))  # refused if it is the type that is not there
        return True

    async def _readable(self, kind: str) -> Sequence[str]:
        """Return the fields of a type that can be told; none of a type that is not there."""
        try:
            description = await self._get(_sobject(kind, "describe"))
        except Refusal as error:
            if error.http_status not in (403, 404):
                raise
            log.warning("%s records of type %r are left out: %s", NAME, kind, error.message)
            return ()
        fields = rows_of(NAME, description, "fields")
        return [
            str(field.get("name")) for field in fields if field.get("type") not in _UNTOLD_TYPES
        ]

    async def _changed(
        self, account: str, kind: str, fields: Sequence[str], since: datetime
    ) -> AsyncIterator[Change]:
        # All fields in the query would make its URL too long, so that it gives ids only.
        query = (
            f"SELECT Id FROM {kind} WHERE SystemModstamp >= {_stamp(since)} "  # noqa: S608
            "ORDER BY SystemModstamp, Id"
        )
        page = await self._get(f"{ROOT}/query", {"q": query})
        while True:
            ids = [str(row.get("Id")) for row in rows_of(NAME, page, "records")]
            for start in range(0, len(ids), RECORDS_AT_ONCE):
                some = ids[start : start + RECORDS_AT_ONCE]
                for record in await self._together(kind, some, fields):
                    key = ObjectKey(account, kind, long_id(str(record.get("Id"))))
                    yield _snapshot(key, record)
            following = part_of(page, "nextRecordsUrl")
            if following is None:
                return
            if not isinstance(following, str) or not _NEXT_PAGE.fullmatch(following):
                raise UpstreamInvalid(PART, f"{NAME} continued a query at another place.")
            page = await self._get(following)

    async def _together(
        self, kind: str, ids: Sequence[str], fields: Sequence[str]
    ) -> Sequence[Mapping[str, Any]]:
        """Return several records; one that was deleted meanwhile is left out."""
        path = f"{ROOT}/composite/sobjects{path_of(kind)}"
        body = {"ids": ids, "fields": fields}
        found = await self._login.authorised(
            lambda headers: self._calls.post(path, body, headers=headers)
        )
        if not isinstance(found, list):
            raise UpstreamInvalid(PART, f"{NAME} answered with something else than a list.")
        return [mapping_of(NAME, record) for record in found if record is not None]

    async def _deleted(
        self, account: str, kind: str, since: datetime, now: datetime
    ) -> AsyncIterator[Change]:
        start = min(since, now - SHORTEST_SPAN)
        answer = await self._get(
            _sobject(kind, "deleted") + "/", {"start": _stamp(start), "end": _stamp(now)}
        )
        earliest = part_of(answer, "earliestDateAvailable")
        if earliest is not None and time_of(NAME, earliest) > since:
            log.warning("%s tells deleted records of type %r only since %s", NAME, kind, earliest)
        for row in rows_of(NAME, answer, "deletedRecords"):
            gone = time_of(NAME, row.get("deletedDate"))
            key = ObjectKey(account, kind, long_id(str(row.get("id"))))
            yield Change(key, "delete", gone)


def _snapshot(key: ObjectKey, record: Mapping[str, Any]) -> Change:
    told = {
        name: value
        for name, value in record.items()
        if value is not None and name not in _NO_FIELDS and not isinstance(value, dict | list)
    }
    time = time_of(NAME, record.get("SystemModstamp"))
    return Change(key, "snapshot", time, fields_of(told))


def _sobject(kind: str, *rest: str) -> str:
    return f"{ROOT}/sobjects{path_of(kind, *rest)}"


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _codes(error: Refusal) -> set[str]:
    rows = error.answer if isinstance(error.answer, list) else []
    return {str(part_of(row, "errorCode")) for row in rows}
