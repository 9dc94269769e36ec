"""Objects in JSON of no fixed form: types, ids and times by their usual names. Touches nothing.

A name counts in any style: `updatedAt`, `updated_at` and `Updated At` are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.columns import snake
from ingest.providers.base import Change, Event, ObjectType
from ingest.providers.events import (
    Body,
    Nothing,
    content_hash,
    keyed,
    object_key,
    read_or_nothing,
    unkeyed,
)
from ingest.providers.told import kind_of
from ingest.providers.values import day_or_minute, flat, ident, moment

# What stands beside the data of an envelope; anything else makes it a record itself.
_TYPES = ("object_type", "resource_type", "resource", "entity", "object", "type")
_EVENTS = ("event_type", "event", "event_name", "topic", "action", "operation")
_TIMES = ("timestamp", "time", "occurred_at", "event_time", "created_at", "created")
_REST = ("id", "event_id", "webhook_id", "version", "api_version", "specversion", "source", "meta")
_PAGE = ("count", "total", "page", "next", "has_more")
_BESIDE = frozenset([*_TYPES, *_EVENTS, *_TIMES, *_REST, *_PAGE, "sent_at", "metadata"])
_LISTS = ("records", "items")

_DEEDS = {
    "create": ("created", "create", "added", "add", "inserted", "new"),
    "delete": ("deleted", "delete", "removed", "remove", "destroyed"),
    "restore": ("restored", "restore", "undeleted", "undelete"),
    "update": ("updated", "update", "changed", "change", "modified", "upserted", "edited"),
}
_DEED_OF = {word: deed for deed, words in _DEEDS.items() for word in words}
_SEGMENT = re.compile(r"[.:/]+")

# When a record was last changed, best first. A mere date does not count, nor what is no time.
UPDATED = (
    *("updated_at", "modified_at", "last_updated_at", "last_modified_at", "changed_at"),
    *("updated_on", "modified_on", "last_updated", "last_modified", "update_time", "updated_time"),
    *("modified_time", "last_modified_time", "updated_date", "modified_date"),
    *("last_modified_date", "last_modified_datetime", "updated", "modified", "timestamp"),
)
_MOMENTS = frozenset([*UPDATED, *_TIMES])
_DELETED = ("deleted", "is_deleted")

_IDS = ("id", "uuid", "guid", "external_id", "record_id", "object_id", "key")
_OWN_ID = re.compile(
    r".+_id|sku|issue_key|(?:account|customer|order|invoice|ticket)_number|kundennummer"
)
_EMAILS = ("email", "e_mail", "email_address", "mail")
_COMPANIES = ("name", "company", "company_name", "account_name", "organization", "firma")
# Ids of others that a record often has instead of its own.
_FOREIGN_ID = re.compile(
    r"(?:.*_)?(?:owner|user|manager|rep|assignee|author|parent|creator|created_by|updated_by)_id"
)


@dataclass(frozen=True, slots=True)
class _Said:
    """What an envelope or a record says about its event: type and deed, "" if it does not."""

    object_type: str = ""
    deed: str = ""


def events(payload: Any, key: str) -> list[Event]:
    """Cut a payload into events. `key` is the sender's own of the delivery, "" for none."""
    bodies = _bodies(payload)
    if not key:
        return [unkeyed(_title(body), body, _changes) for body in bodies]
    keys = [key if len(bodies) == 1 else f"{key}#{at}" for at in range(len(bodies))]
    return [keyed(k, _title(body), body, _changes) for k, body in zip(keys, bodies, strict=True)]


def read(body: Body) -> tuple[Change, ...]:
    return read_or_nothing(body, _changes)


def describe(object_type: str) -> ObjectType:
    return ObjectType(
        kind=kind_of(object_type),
        hidden=_HIDDEN,
        name=(
            *("name", "company_name", "company", "account_name", "title", "subject"),
            *("first_name last_name", "firstname lastname", "email"),
        ),
    )


def _bodies(payload: Any) -> list[Body]:
    if not isinstance(payload, list):
        return _unpacked(payload)
    return [body for one in payload for body in _unpacked(one)]


def _unpacked(payload: Any) -> list[Body]:
    """Return an event's body for each record of an envelope, or the lone record."""
    if not isinstance(payload, dict):
        return [{"data": payload}]
    where = _container(payload)
    if where and isinstance(payload[where], list):
        rest = {name: value for name, value in payload.items() if name != where}
        return [
            {**rest, "data": one} if isinstance(one, dict) else {"data": one}
            for one in payload[where]
        ]
    return [payload]


def _container(payload: Mapping[str, Any]) -> str:
    """Return the name under which an envelope has its records, "" for a record."""
    beside = {snake(name) for name in payload}
    if isinstance(payload.get("data"), dict | list):
        is_typed = not beside.isdisjoint((*_TYPES, *_EVENTS))
        return "data" if is_typed or beside - {"data"} <= _BESIDE else ""
    for name in _LISTS:
        if isinstance(payload.get(name), list) and beside - {name} <= _BESIDE - {"id"}:
            return name
    return ""


def _changes(body: Body) -> tuple[Change, ...]:
    if set(body) == {"data"} and not isinstance(body["data"], dict):
        raise Nothing("expected an object, got another JSON value")
    if _container(body) == "data":
        return (_change(body["data"], _named(body), _said_by_envelope(body)),)
    said, where = _said_by_record(body)
    return (_change({k: v for k, v in body.items() if k != where}, {}, said),)


def _change(record: Any, envelope: Mapping[str, Any], said: _Said) -> Change:
    if not isinstance(record, dict):
        raise Nothing("expected an object, got another JSON value")
    named = _named(record)
    is_deleted = said.deed == "delete" or any(_is_yes(named.get(name)) for name in _DELETED)
    fields = flat({k: _told(k, v) for k, v in record.items() if snake(k) not in _DELETED})
    object_type = said.object_type or "record"
    key = object_key("", object_type, _id(named, fields, object_type, is_deleted))
    time = _time(envelope, _TIMES) or _time(named, UPDATED)
    if is_deleted:
        return Change(key, "delete", time)
    if said.deed == "restore":
        return Change(key, "restore", time, fields, is_thin=_is_thin(fields, object_type))
    if _is_thin(fields, object_type):
        return Change(key, "create" if said.deed == "create" else "change", time, is_thin=True)
    return Change(key, "snapshot", time, fields, tie="0" if said.deed == "create" else "1")


def _told(name: str, value: Any) -> Any:
    """Return a time that came as a number of seconds or milliseconds as it is read."""
    is_time = isinstance(value, int | float) and snake(name) in _MOMENTS
    when = moment(value) if is_time else None
    return value if when is None else day_or_minute(when)


def _named(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by their names in one style; the first counts."""
    named: dict[str, Any] = {}
    for name, value in record.items():
        named.setdefault(snake(name), value)
    return named


def _said_by_envelope(envelope: Mapping[str, Any]) -> _Said:
    named = _named(envelope)
    object_type, deed = "", ""
    for name in (*_TYPES, *_EVENTS):
        if isinstance(value := named.get(name), str):
            said = _split(value, is_type=name in _TYPES)
            object_type, deed = object_type or said.object_type, deed or said.deed
    return _Said(object_type, deed)


def _said_by_record(record: Mapping[str, Any]) -> tuple[_Said, str]:
    """Return what a record says of its event, and under which name.

    Only a name of an event counts: a record's own `type` may be "New", its topic a sentence.
    """
    for name, value in record.items():
        if snake(name) in ("type", *_EVENTS) and isinstance(value, str) and " " not in value:
            said = _split(value, is_type=False)
            is_sure = snake(name) != "type" or said.deed == "delete" or _SEGMENT.search(value)
            if said.deed and is_sure:
                return said, name
    return _Said(), ""


def deed_of(text: str) -> str:
    """Return "create", "update", "delete" or "restore" for what an event is called, else ""."""
    return _split(text, is_type=False).deed


def _split(text: str, *, is_type: bool) -> _Said:
    """Split `account.updated`, `ContactCreated`, `deal`; an unknown last word is some update."""
    segments = [found for part in _SEGMENT.split(text) if (found := snake(part))]
    if not segments:
        return _Said()
    head, _, last = segments[-1].rpartition("_")
    if deed := _DEED_OF.get(last, ""):
        return _Said(head or (segments[-2] if len(segments) > 1 else ""), deed)
    if len(segments) > 1:
        return _Said(segments[-2])
    return _Said(segments[0] if is_type else "")


def _id(
    named: Mapping[str, Any], fields: Mapping[str, str], object_type: str, is_deleted: bool
) -> str:
    """Return what the record is known by: its id, else e-mail or name, else its content."""
    own = [name for name in named if _OWN_ID.fullmatch(name) and not _FOREIGN_ID.fullmatch(name)]
    for name in (*_IDS, f"{object_type}_id", *own):
        if found := ident(named.get(name)):
            return found
    if email := _first(named, _EMAILS):
        return f"email:{email}"
    person = [
        _first(named, names) for names in (("first_name", "firstname"), ("last_name", "lastname"))
    ]
    if all(person):
        return f"name:{' '.join(person)}"
    if name := _first(named, _COMPANIES):
        return f"name:{name}"
    if is_deleted or not fields:
        return ""
    return f"content:{content_hash(fields)[:32]}"


def _first(named: Mapping[str, Any], names: Iterable[str]) -> str:
    return next(
        (" ".join(found.split()).casefold() for n in names if (found := ident(named.get(n)))), ""
    )


def _time(named: Mapping[str, Any], names: Sequence[str]) -> datetime | None:
    return next((found for name in names if (found := moment(named.get(name)))), None)


def _is_thin(fields: Mapping[str, str], object_type: str) -> bool:
    beside = {*_IDS, *_TYPES, *UPDATED, f"{object_type}_id"}
    return all(snake(name) in beside for name in fields)


def _is_yes(value: Any) -> bool:
    return value is True or ident(value).lower() in ("true", "yes", "1")


def _title(body: Body) -> str:
    named = _named(body)
    texts = (value for name in (*_TYPES, *_EVENTS) if isinstance(value := named.get(name), str))
    return next(filter(None, texts), "record")


def _styles(name: str) -> tuple[str, ...]:
    words = name.split("_")
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    return name, camel, camel[0].upper() + camel[1:], " ".join(words).capitalize()


_HIDDEN = frozenset(style for name in UPDATED if name != "timestamp" for style in _styles(name))
