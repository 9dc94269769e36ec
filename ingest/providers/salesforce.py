"""Salesforce: outbound messages, the JSON of flows and Apex, change events. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.providers import salesforce_cdc, salesforce_xml
from ingest.providers.base import (
    Ack,
    BadSignature,
    Change,
    Event,
    Incoming,
    NotConfigured,
    ObjectType,
    Source,
    UnreadableDelivery,
)
from ingest.providers.events import Body, Nothing, keyed, object_key, read_or_nothing, unkeyed
from ingest.providers.freeform import deed_of
from ingest.providers.payload import json_of, media_type
from ingest.providers.salesforce_objects import describe, fields_of, long_id, modified
from ingest.providers.signatures import check_account, has_token, raw
from ingest.providers.values import cell, flat, ident

_TYPES = ("sobject", "sobjectType", "sObjectType", "objectType", "type")
_IDS = ("Id", "id", "recordId", "RecordId")
_DEEDS = ("action", "event", "operation")
_ORGANIZATIONS = ("OrganizationId", "organizationId")
_NO_FIELDS = frozenset(
    [*_TYPES, *_IDS, *_DEEDS, *_ORGANIZATIONS, "attributes", "IsDeleted"],
)
_LISTS = ("records", "data")


class Salesforce:
    """A sender that can't sign: the URL's token, or a bearer token where headers can be set."""

    name = "salesforce"

    def verify(self, incoming: Incoming, source: Source, now: datetime) -> None:
        tokens = [raw(secret) for secret in source.secrets if secret]
        if not source.token and not tokens:
            raise NotConfigured("no token is configured for Salesforce")
        if not source.token and not has_token(incoming.headers, tokens):
            raise BadSignature("expected the configured bearer token")
        if source.account:
            self._check_organization(incoming, source)

    def parse(self, incoming: Incoming) -> tuple[Sequence[Event], Ack]:
        if _is_xml(incoming):
            notified = salesforce_xml.bodies(incoming.body)
            return [_outbound(body) for body in notified], salesforce_xml.ACK
        key = incoming.headers.get("idempotency-key", "")
        bodies = _bodies(json_of(incoming))
        return [_event(body, f"{key}#{at}" if key else "") for at, body in enumerate(bodies)], Ack()

    def read(self, body: Mapping[str, Any]) -> tuple[Change, ...]:
        return read_or_nothing(body, _changes)

    def describe(self, object_type: str) -> ObjectType:
        return describe(object_type)

    def _check_organization(self, incoming: Incoming, source: Source) -> None:
        expected = Source(source.tenant_id, source.provider, account=long_id(source.account))
        try:
            if _is_xml(incoming):
                named = [salesforce_xml.organization(incoming.body)]
                if not all(named):
                    raise BadSignature("expected an OrganizationId, there is none")
            else:
                named = [_organization(body) for body in _bodies(json_of(incoming))]
        except UnreadableDelivery:
            return  # `parse` says so
        check_account(expected, named)


def _is_xml(incoming: Incoming) -> bool:
    return "xml" in media_type(incoming) or incoming.body.lstrip()[:1] == b"<"


def _outbound(body: Body) -> Event:
    named = f"outbound.{ident(body.get('type'))}"
    if key := ident(body.get("NotificationId")):
        return keyed(key, named, body, _changes)
    return unkeyed(named, body, _changes)


def _event(body: Body, key: str) -> Event:
    if header := salesforce_cdc.header_of(body):
        named = f"{ident(header.get('entityName'))}.{ident(header.get('changeType'))}"
        key = salesforce_cdc.key_of(header) or key
    else:
        named = _type(body) or "record"
    return keyed(key, named, body, _changes) if key else unkeyed(named, body, _changes)


def _bodies(payload: Any) -> list[Body]:
    """Return one body for each record; what stands beside a list goes with each."""
    if isinstance(payload, list):
        return [body for one in payload for body in _bodies_of(one)]
    return _bodies_of(payload)


def _bodies_of(payload: Any) -> list[Body]:
    if not isinstance(payload, dict):
        return [{"record": payload}]
    for name in _LISTS:
        held = payload.get(name)
        if isinstance(held, list | dict) and not salesforce_cdc.header_of(payload):
            rest = {key: value for key, value in payload.items() if key != name}
            return [{**rest, "record": one} for one in (held if isinstance(held, list) else [held])]
    return [payload]


def _changes(body: Body) -> tuple[Change, ...]:
    if salesforce_cdc.header_of(body):
        return salesforce_cdc.changes(body, _organization(body))
    if "NotificationId" in body and isinstance(body.get("fields"), dict):
        return (_notified(body),)
    if "record" in body and not isinstance(body["record"], dict):
        raise Nothing("expected a record as a JSON object, got another JSON value")
    return (_recorded(body),)


def _notified(body: Body) -> Change:
    """A snapshot of the fields that the action's administrator chose; blank ones are left out."""
    fields = body["fields"]
    account = ident(body.get("OrganizationId"))
    key = object_key(account, ident(body.get("type")), long_id(ident(fields.get("Id"))))
    time = modified(fields)
    if cell(fields.get("IsDeleted")) == "Yes":
        return Change(key, "delete", time)
    told = fields_of({k: v for k, v in fields.items() if k not in ("Id", "IsDeleted")})
    if not told:
        # So comes a record that was deleted in the meantime.
        return Change(key, "change", time, is_thin=True)
    return Change(key, "snapshot", time, told, scope=ident(body.get("ActionId")) or "outbound")


def _recorded(body: Body) -> Change:
    """What a flow or Apex sends of a record; what it leaves out stays as it is."""
    record = _record(body)
    object_id = next((found for n in _IDS if (found := ident(record.get(n)))), "")
    key = object_key(_organization(body), _type(body), long_id(object_id))
    time = modified(record)
    deed = next(
        (found for n in _DEEDS if (found := deed_of(ident(body.get(n) or record.get(n))))), ""
    )
    if deed == "delete" or cell(record.get("IsDeleted")) == "Yes":
        return Change(key, "delete", time)
    fields = fields_of(flat(_told(record)))
    if deed == "restore":
        return Change(key, "restore", time, fields, is_thin=not fields)
    return Change(key, "create" if fields else "change", time, fields, is_thin=not fields)


def _told(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record, and of those it refers to, without what describes them."""
    told = {name: value for name, value in record.items() if name not in _NO_FIELDS}
    for name, value in told.items():
        if isinstance(value, dict):
            told[name] = {part: one for part, one in value.items() if part != "attributes"}
    return told


def _record(body: Body) -> Mapping[str, Any]:
    return record if isinstance(record := body.get("record"), dict) else body


def _organization(body: Body) -> str:
    for place in (salesforce_cdc.header_of(body), body, _record(body)):
        for name in _ORGANIZATIONS:
            if found := ident(place.get(name)):
                return long_id(found)
    return ""


def _type(body: Body) -> str:
    for place in (_record(body), body):
        attributes = place.get("attributes")
        if isinstance(attributes, dict) and (found := ident(attributes.get("type"))):
            return found
        for name in _TYPES:
            if found := ident(place.get(name)):
                return found
    return ""
