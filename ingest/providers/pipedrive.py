"""Pipedrive: whole objects, webhooks of version 2 and the older 1. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.providers.base import (
    Ack,
    BadSignature,
    Change,
    Event,
    Incoming,
    ObjectKey,
    ObjectType,
    Reference,
    Source,
    UnreadableDelivery,
)
from ingest.providers.events import (
    Body,
    Nothing,
    content_hash,
    keyed,
    object_key,
    read_or_nothing,
    unkeyed,
)
from ingest.providers.payload import json_of
from ingest.providers.signatures import check_account, has_login, secrets_of
from ingest.providers.told import Headers, kind_of
from ingest.providers.values import cell, flat, ident, moment, unmarked

_ACTIONS = {
    **{"create": "create", "change": "change", "delete": "delete"},
    **{"added": "create", "updated": "change", "deleted": "delete", "merged": "change"},
}
_OWN_FIELD = re.compile(r"(?:custom_field_)?([0-9a-f]{40})(_[a-z_]+)?")

# Its leads are deals that may come. An activity may be no meeting, and one that is still to come.
_KINDS = {"lead": "deal", "activity": "generic"}
_OWNERS = {"organization": "Account manager", "deal": "Deal owner", "lead": "Deal owner"}
_HEADERS = {
    "deal": {"title": "Deal name", "value": "Amount"},
    "lead": {"title": "Deal name", "value": "Amount"},
    "organization": {"name": "Company"},
    "person": {"name": "Contact name", "emails": "Email", "phones": "Phone"},
    "product": {"name": "Product name", "code": "SKU"},
    "note": {"content": "Notes"},
    "activity": {"subject": "Subject", "note": "Notes", "due_date": "Due date"},
}
_HIDDEN = frozenset(
    [
        *["id", "update_time", "add_time", "visible_to", "is_deleted", "active", "active_flag"],
        *["creator_user_id", "cc_email", "picture_id", "origin", "origin_id", "channel"],
        *["channel_id", "is_archived", "archive_time", "stage_change_time", "label", "label_ids"],
        *[
            "first_char",
            "company_id",
            "weighted_value",
            "weighted_value_currency",
            "formatted_value",
        ],
        *["rotten_time", "stage_order_nr", "next_activity_id", "last_activity_id"],
        *["activities_count", "done_activities_count", "undone_activities_count", "files_count"],
        *["notes_count", "followers_count", "participants_count", "email_messages_count"],
        *["last_incoming_mail_time", "last_outgoing_mail_time", "is_linkable", "busy"],
        *["pinned_to_deal_flag", "pinned_to_organization_flag", "pinned_to_person_flag"],
        *["pinned_to_lead_flag", "pinned_to_project_flag"],
        "participants",  # ids; the first of them is `person_id`
    ]
)
_MARKED = frozenset(["content", "note", "public_description"])  # written in an editor of HTML
_NAME_ONLY = frozenset(["user", "stage", "pipeline"])


class Pipedrive:
    """Events that come with the object as it is, behind Basic authentication."""

    name = "pipedrive"

    def verify(self, incoming: Incoming, source: Source, now: datetime) -> None:
        if not has_login(incoming.headers, secrets_of(source)):
            raise BadSignature("expected the configured user and password (Basic authentication)")
        if source.account:
            try:
                check_account(source, [_account(_meta(_body(json_of(incoming))))])
            except UnreadableDelivery:
                return  # `parse` says so

    def parse(self, incoming: Incoming) -> tuple[Sequence[Event], Ack]:
        body = _body(json_of(incoming))
        meta = _meta(body)
        named = f"{_entity(meta)}.{ident(meta.get('action'))}"
        if _is_version_1(body):
            # Its `meta.id` is the object's, and `retry` counts the attempts.
            once = {name: value for name, value in body.items() if name != "retry"}
            return [keyed(f"v1|{content_hash(once)}", named, body, _changes)], Ack()
        if key := ident(meta.get("id")):
            return [keyed(key, named, body, _changes)], Ack()
        return [unkeyed(named, body, _changes)], Ack()

    def read(self, body: Mapping[str, Any]) -> tuple[Change, ...]:
        return read_or_nothing(body, _changes)

    def describe(self, object_type: str) -> ObjectType:
        owner = Reference("user", _OWNERS.get(object_type, "Owner"))
        return ObjectType(
            kind=_KINDS.get(object_type, "") or kind_of(object_type),
            headers=Headers(_HEADERS.get(object_type, {}), _own_header),
            hidden=_HIDDEN | {"first_name", "last_name"} if object_type == "person" else _HIDDEN,
            references={
                "owner_id": owner,
                "user_id": owner,
                "org_id": Reference("organization", "Company"),
                "person_id": Reference("person", "Contact"),
                "stage_id": Reference("stage", "Stage"),
                "pipeline_id": Reference("pipeline", "Pipeline"),
                "deal_id": Reference("deal", "Deal"),
            },
            name=("title",) if object_type in ("deal", "lead") else ("name", "subject", "email"),
            is_told=object_type not in _NAME_ONLY,
        )


def fields_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return an object as cells; the account's own fields are `custom_field_<hash>`."""
    plain = {
        name: unmarked(value) if name in _MARKED and isinstance(value, str) else _plain(value)
        for name, value in data.items()
        if name not in ("id", "custom_fields")
    }
    custom = data.get("custom_fields")
    own = custom.items() if isinstance(custom, dict) else ()
    return flat(plain) | {f"custom_field_{name}": _own(value) for name, value in own}


def _body(payload: Any) -> Body:
    if not isinstance(payload, dict):
        raise UnreadableDelivery("expected a JSON object of Pipedrive, got another JSON value")
    return payload


def _meta(body: Body) -> Body:
    return meta if isinstance(meta := body.get("meta"), dict) else {}


def _account(meta: Body) -> str:
    return ident(meta.get("company_id"))


def _entity(meta: Body) -> str:
    return ident(meta.get("entity")) or ident(meta.get("object"))


def _is_version_1(body: Body) -> bool:
    return "entity" not in _meta(body) and ("current" in body or "object" in _meta(body))


def _changes(body: Body) -> tuple[Change, ...]:
    meta = _meta(body)
    named = ident(meta.get("action"))
    if not (action := _ACTIONS.get(named, "")):
        raise Nothing(f"events with the action {named[:100]!r} are not known")
    is_first = _is_version_1(body)
    data = body.get("current" if is_first else "data")
    data = data if isinstance(data, dict) else {}
    previous = body.get("previous")
    previous = previous if isinstance(previous, dict) else {}
    account, entity = _account(meta), _entity(meta)
    given = (meta.get("id" if is_first else "entity_id"), data.get("id"), previous.get("id"))
    key = object_key(account, entity, next(filter(None, map(ident, given)), ""))
    time = _time(meta, data)
    if action == "delete":
        return (Change(key, "delete", time),)
    merged = meta.get("merged_from_id")
    losers = [ident(one) for one in (merged if isinstance(merged, list) else [merged])]
    gone = [object_key(account, entity, one) for one in losers if one and one != key.id]
    return (_state(key, action, time, data), *(Change(one, "delete", time) for one in gone))


def _state(key: ObjectKey, action: str, time: datetime | None, data: Mapping[str, Any]) -> Change:
    fields = fields_of(data)
    if not fields:
        return Change(key, "create" if action == "create" else "change", time, is_thin=True)
    return Change(key, "create" if action == "create" else "snapshot", time, fields)


def _time(meta: Body, data: Mapping[str, Any]) -> datetime | None:
    """Return the event's own time: `update_time` has no fractions, and a deletion none at all."""
    given = (meta.get("timestamp_micro"), meta.get("timestamp"), data.get("update_time"))
    return next((time for one in given if (time := moment(one))), None)


def _plain(value: Any) -> Any:
    """Return what an object stands for: an address has its parts beside `value`."""
    if isinstance(value, list):
        return [_amount(one, "price") if isinstance(one, dict) else one for one in value]
    if isinstance(value, dict):
        return value.get("value") or value.get("id") or value
    return value


def _amount(value: Mapping[str, Any], name: str) -> Any:
    """Return `{"price": 100, "currency": "USD"}` as `100 USD`, and what has no price as it is."""
    amount, currency = cell(value.get(name)), cell(value.get("currency"))
    return f"{amount} {currency}".strip() if amount else value


def _own(value: Any) -> str:
    """Return one of the account's own fields; an option may come with its id only."""
    if not isinstance(value, dict):
        return cell(value)
    if isinstance(options := value.get("values"), list):
        return ", ".join(filter(None, map(_own, options)))
    if until := cell(value.get("until")):
        return f"{cell(value.get('value'))} to {until}"
    names = ("label", "name", "id")
    given = _amount(value, "value")
    return (
        given
        if isinstance(given, str)
        else next((found for name in names if (found := cell(value.get(name)))), "")
    )


def _own_header(field: str) -> str:
    """Return a short header for a hash, since only the CRM knows the field's name."""
    if found := _OWN_FIELD.fullmatch(field):
        return f"Custom field {found[1][:6]}{(found[2] or '').replace('_', ' ')}"
    return ""
