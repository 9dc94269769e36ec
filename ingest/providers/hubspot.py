"""HubSpot: signed batches of property events, and the records of workflows. Touches nothing.

An event has one property or none at all; what it does not say has to be fetched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.providers.base import (
    Ack,
    Action,
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
from ingest.providers.hubspot_objects import describe, type_of_id, type_of_record
from ingest.providers.payload import json_of
from ingest.providers.signatures import (
    MILLISECOND,
    check_account,
    check_time,
    hmac_base64,
    is_any,
    raw,
    required,
    secrets_of,
    sent,
)
from ingest.providers.values import (
    cell,
    day_or_minute,
    ident,
    milliseconds,
    moment,
    unmarked,
)

_V3 = "x-hubspot-signature-v3"
_TIMESTAMP = "x-hubspot-request-timestamp"
_SIGNATURE = "x-hubspot-signature"

# These, and only these, HubSpot decodes in the URL that it signs.
_DECODED = {f"%{ord(character):02X}": character for character in ":/?@!$'()*,;"}
_ENCODED = re.compile("|".join(_DECODED), re.IGNORECASE)

# Of the properties that are dates or times, only events have the values in milliseconds.
_TIME_NAME = re.compile(r"(?:date|timestamp|_time|_at|_contacted|_updated)$")
_MILLISECONDS = re.compile(r"[0-9]{11,13}")
_CODED = frozenset(["industry", "hs_lead_status", "hs_ticket_category", "hs_ticket_priority"])
_MARKED = re.compile(r"hs_\w+_body|hs_email_html|hs_internal_meeting_notes")
_CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)*")

_DEEDS: Mapping[str, Action] = {
    "creation": "create",
    "propertyChange": "change",
    "deletion": "delete",
    "restore": "restore",
    "privacyDeletion": "erase",
    "merge": "create",
    "associationChange": "change",
}


class HubSpot:
    """The app's webhooks, versions 1 to 3 of their signature, and a workflow's "Send a webhook"."""

    name = "hubspot"

    def verify(self, incoming: Incoming, source: Source, now: datetime) -> None:
        secrets = secrets_of(source)
        if _V3 in incoming.headers:
            _check_v3(incoming, source, secrets, now)
        else:
            _check_older(incoming, source, secrets)
        if source.account:
            try:
                check_account(source, [_account(event) for event in _bodies(json_of(incoming))])
            except UnreadableDelivery:
                return  # `parse` says so

    def parse(self, incoming: Incoming) -> tuple[Sequence[Event], Ack]:
        return [_event(body) for body in _bodies(json_of(incoming))], Ack()

    def read(self, body: Mapping[str, Any]) -> tuple[Change, ...]:
        return read_or_nothing(body, _changes)

    def describe(self, object_type: str) -> ObjectType:
        return describe(object_type)


def fields_of(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return a record's properties as cells; each is a value, or has it beside its time."""
    return {name: _cell(name, _value(given)) for name, given in properties.items() if name.strip()}


def _check_v3(incoming: Incoming, source: Source, secrets: Sequence[bytes], now: datetime) -> None:
    stamp = check_time(incoming.headers, _TIMESTAMP, now, MILLISECOND)
    uri = _ENCODED.sub(lambda found: _DECODED[found[0].upper()], _uri(incoming, source))
    message = raw(incoming.method.upper() + uri) + incoming.body + sent(stamp)
    given = sent(incoming.headers[_V3])
    if not is_any(given, [hmac_base64(secret, message) for secret in secrets]):
        raise BadSignature(f"{_V3} does not fit the delivery and {source.public_base_url}")


def _check_older(incoming: Incoming, source: Source, secrets: Sequence[bytes]) -> None:
    given = required(incoming.headers, _SIGNATURE)
    version = incoming.headers.get(f"{_SIGNATURE}-version", "v1").lower()
    if version not in ("v1", "v2"):
        raise BadSignature(f"expected a HubSpot signature of version v1, v2 or v3, got {version!r}")
    signed = incoming.body
    if version == "v2":
        signed = raw(incoming.method.upper() + _uri(incoming, source)) + signed
    expected = [hashlib.sha256(secret + signed).hexdigest().encode() for secret in secrets]
    if not is_any(sent(given).lower(), expected):
        raise BadSignature(f"{_SIGNATURE} ({version}) does not fit the delivery")


def _uri(incoming: Incoming, source: Source) -> str:
    if not source.public_base_url:
        raise NotConfigured("HubSpot signs the URL that it calls: PUBLIC_BASE_URL is not set")
    return source.public_base_url.rstrip("/") + incoming.path


def _bodies(payload: Any) -> list[Body]:
    return [
        one if isinstance(one, dict) else {"event": one}
        for one in (payload if isinstance(payload, list) else [payload])
    ]


def _event(body: Body) -> Event:
    named = _type(body)
    if not named and isinstance(body.get("properties"), dict):
        return unkeyed("workflow", body, _changes)
    if not (ident(body.get("eventId")) and ident(body.get("occurredAt"))):
        return unkeyed(named or "unknown", body, _changes)
    parts = [
        _account(body),
        named.replace("object.", f"{ident(body.get('objectTypeId'))}.", 1),
        ident(body.get("objectId")) or ident(body.get("primaryObjectId")),
        ident(body.get("propertyName")),
        ident(body.get("eventId")),
        ident(body.get("occurredAt")),
    ]
    return keyed("|".join(parts), named, body, _changes)


def _type(body: Body) -> str:
    return ident(body.get("subscriptionType")) or ident(body.get("eventType"))


def _account(body: Body) -> str:
    return ident(body.get("portalId")) or ident(body.get("portal-id"))


def _changes(body: Body) -> tuple[Change, ...]:
    named = _type(body)
    if not named and isinstance(properties := body.get("properties"), dict):
        return (_workflow(body, properties),)
    family, _, deed = named.rpartition(".")
    if deed not in _DEEDS or not family:
        raise Nothing(f"events of the type {named[:100]!r} are not known")
    if deed == "associationChange":
        # What a contact's company is comes as a change of its property `associatedcompanyid`.
        raise Nothing("an association changes no field of either object")
    if (time := milliseconds(body.get("occurredAt"))) is None:
        raise Nothing("it does not say when it occurred")
    object_type = type_of_id(ident(body.get("objectTypeId"))) if family == "object" else family
    if deed == "merge":
        return _merge(body, object_type, time)
    action = _DEEDS[deed]
    key = object_key(_account(body), object_type, ident(body.get("objectId")))
    # A property without a value was held back as sensitive; "" is one that was cleared.
    fields = _changed(body) if action == "change" else {}
    is_thin = action in ("create", "restore") or (action == "change" and not fields)
    tie = ident(body.get("eventId")).rjust(20, "0")
    return (Change(key, action, time, fields, tie=tie, is_thin=is_thin),)


def _changed(body: Body) -> dict[str, str]:
    if not (name := ident(body.get("propertyName"))):
        raise Nothing("it does not say which property changed")
    return {name: _cell(name, body["propertyValue"])} if "propertyValue" in body else {}


def _merge(body: Body, object_type: str, time: datetime) -> tuple[Change, ...]:
    """The winner may be a new object; its values are in no event.

    A merge can't be undone, and what the losers said of a person must not outlive the erasure of
    the winner: they are erased at once.
    """
    merged = body.get("mergedObjectIds")
    ids = [body.get("primaryObjectId"), *(merged if isinstance(merged, list) else [merged])]
    winner = ident(body.get("newObjectId")) or ident(ids[0])
    losers = dict.fromkeys(found for one in ids if (found := ident(one)) and found != winner)
    if not losers:
        raise Nothing("it does not say which objects were merged")
    account = _account(body)
    return (
        Change(object_key(account, object_type, winner), "create", time, is_thin=True),
        *(Change(object_key(account, object_type, one), "erase", time) for one in losers),
    )


def _workflow(body: Body, properties: Mapping[str, Any]) -> Change:
    """The record as a workflow knows it; it may lack properties, which then stay as they are."""
    object_type, object_id = type_of_record(body, properties)
    key = object_key(_account(body), object_type, object_id)
    stamps = [one.get("timestamp") for one in properties.values() if isinstance(one, dict)]
    stamps += [_value(properties.get(name)) for name in ("hs_lastmodifieddate", "lastmodifieddate")]
    times = [time for stamp in stamps if (time := milliseconds(stamp) or moment(stamp))]
    return Change(key, "create", max(times, default=None), fields_of(properties))


def _value(given: Any) -> Any:
    return given.get("value") if isinstance(given, dict) else given


def _cell(name: str, value: Any) -> str:
    """Return a property as a cell: there are dates in milliseconds, codes, and HTML."""
    text = cell(value)
    if _TIME_NAME.search(name) and _MILLISECONDS.fullmatch(text):
        when = milliseconds(text)
        return text if when is None else day_or_minute(when)
    if name in _CODED and _CODE.fullmatch(text):
        return text.replace("_", " ").capitalize()
    return unmarked(text) if _MARKED.fullmatch(name) else text
