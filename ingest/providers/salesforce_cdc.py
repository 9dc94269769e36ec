"""Salesforce's change events, as flows and middleware pass them on in JSON. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.providers.base import Action, Change
from ingest.providers.events import Body, Nothing, object_key
from ingest.providers.salesforce_objects import fields_of, long_id
from ingest.providers.values import flat, ident, milliseconds

_HEADER = "ChangeEventHeader"
_ACTIONS: Mapping[str, Action] = {
    "CREATE": "create",
    "UPDATE": "change",
    "DELETE": "delete",
    "UNDELETE": "restore",
}
_GAP = "GAP_"
_RECORD_ID = re.compile(r"(?!0+AAA)[0-9A-Za-z]{15}(?:[0-9A-Za-z]{3})?")
# Lists of fields that only the schema of the event bus can read.
_BITMAP = re.compile(r"0x[0-9A-Fa-f]+|[0-9]+-0x[0-9A-Fa-f]+")


def header_of(body: Body) -> Mapping[str, Any]:
    """Return the header of a change event, however it is wrapped; empty for what is none."""
    header = _payload(body).get(_HEADER)
    return header if isinstance(header, dict) else {}


def key_of(header: Mapping[str, Any]) -> str:
    """Return what the event bus numbers the event by, "" if it was left out on the way."""
    transaction, sequence = ident(header.get("transactionKey")), ident(header.get("sequenceNumber"))
    if not transaction or not sequence:
        return ""
    return "|".join([transaction, sequence, ident(header.get("entityName")), *_ids(header)[:1]])


def changes(body: Body, account: str) -> tuple[Change, ...]:
    """Return a change for each record of the event. Raises `Nothing`."""
    header = header_of(body)
    named = ident(header.get("changeType"))
    action = _ACTIONS.get(named.removeprefix(_GAP))
    if action is None:
        raise Nothing(f"change events of the type {named[:100]!r} say nothing of a single record")
    ids = [long_id(one) for one in _ids(header) if _RECORD_ID.fullmatch(one)]
    if not ids:
        raise Nothing("it names no single record: what changed has to be fetched")
    entity = ident(header.get("entityName"))
    time = milliseconds(header.get("commitTimestamp"))
    tie = ident(header.get("commitNumber")).rjust(20, "0")
    is_gap = named.startswith(_GAP)
    has_values = action != "delete" and not is_gap
    fields, lacks = _fields(body, header) if has_values else ({}, is_gap and action != "delete")
    return tuple(
        Change(object_key(account, entity, one), action, time, fields, tie=tie, is_thin=lacks)
        for one in dict.fromkeys(ids)
    )


def _payload(body: Body) -> Mapping[str, Any]:
    for path in ((), ("payload",), ("data",), ("data", "payload"), ("record",)):
        place: Any = body
        for name in path:
            place = place.get(name) if isinstance(place, dict) else None
        if isinstance(place, dict) and _HEADER in place:
            return place
    return {}


def _ids(header: Mapping[str, Any]) -> list[str]:
    given = header.get("recordIds")
    return [ident(one) for one in (given if isinstance(given, list) else [given])]


def _fields(body: Body, header: Mapping[str, Any]) -> tuple[dict[str, str], bool]:
    """Return the fields that changed, and whether there are some that can't be known from here.

    The event bus puts null for what did not change; only a field that is listed was cleared.
    """
    lists = {
        name: _listed(header, name) for name in ("changedFields", "nulledFields", "diffFields")
    }
    is_listed = "changedFields" in header or "nulledFields" in header
    unreadable = any(
        _BITMAP.fullmatch(one) for name in ("nulledFields", "diffFields") for one in lists[name]
    )
    cleared = {*lists["changedFields"], *lists["nulledFields"]}
    differing = set(lists["diffFields"])
    fields: dict[str, Any] = {}
    for path, value in _leaves(_payload(body)):
        if path in differing or path.partition(".")[0] in differing:
            continue
        if value is not None or not is_listed or path in cleared:
            fields[_name(path)] = value
    fields |= {_name(path): None for path in lists["nulledFields"] if not _BITMAP.fullmatch(path)}
    return fields_of(flat(fields)), unreadable or bool(differing)


def _listed(header: Mapping[str, Any], name: str) -> list[str]:
    given = header.get(name)
    return [ident(one) for one in given if ident(one)] if isinstance(given, list) else []


def _leaves(payload: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in payload.items():
        if name == _HEADER:
            continue
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", one) for part, one in value.items())
        else:
            yield name, value


def _name(path: str) -> str:
    """Return the field's name in the API: `Name.LastName`, `BillingAddress.City` are compounds."""
    whole, _, part = path.partition(".")
    if not part or whole == "Name":
        return part or whole
    return whole.removesuffix("Address") + part
