from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlencode

import pytest

from ingest.providers import PROVIDERS
from ingest.providers.base import (
    BadSignature,
    Change,
    NotConfigured,
    ObjectKey,
    UnreadableDelivery,
    UnsupportedMediaType,
)
from tests.ingest.providers.deliveries import JSON, NOW, change, parsed, posted, source

GENERIC = PROVIDERS["generic"]
FORM = {"content-type": "application/x-www-form-urlencoded"}
SIGNING = "whsec_" + base64.b64encode(b"a signing secret").decode()


def record(object_id: str, object_type: str = "record") -> ObjectKey:
    return ObjectKey("", object_type, object_id)


# --- Who may send ---


def test_a_token_is_needed_in_the_url_or_in_a_header() -> None:
    configured = source("generic", "t0ken", SIGNING)
    for headers in ({"authorization": "Bearer t0ken"}, {"x-api-key": "t0ken"}):
        GENERIC.verify(posted({}, headers), configured, NOW)
    for headers in ({}, {"authorization": "Bearer nope"}, {"authorization": f"Bearer {SIGNING}"}):
        with pytest.raises(BadSignature):
            GENERIC.verify(posted({}, headers), configured, NOW)
    GENERIC.verify(posted({}), source("generic", token="in the URL"), NOW)
    with pytest.raises(NotConfigured):
        GENERIC.verify(posted({}, {"authorization": "Bearer "}), source("generic", ""), NOW)


def test_a_signature_decides_wherever_one_is_sent() -> None:
    headers = {
        "authorization": "Bearer t0ken",
        "webhook-id": "1",
        "webhook-timestamp": str(int(NOW.timestamp())),
        "webhook-signature": "v1,bad",
    }
    with pytest.raises(BadSignature):
        GENERIC.verify(posted({}, headers), source("generic", "t0ken", SIGNING), NOW)
    with pytest.raises(BadSignature):
        GENERIC.verify(posted({}, headers), source("generic", SIGNING, token="in the URL"), NOW)
    with pytest.raises(NotConfigured, match="whsec_"):
        GENERIC.verify(posted({}, headers), source("generic", "t0ken"), NOW)
    # The URL has vouched for it already, and there is nothing to check the signature with.
    GENERIC.verify(posted({}, headers), source("generic", token="in the URL"), NOW)


# --- Shapes ---


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ({"id": 1, "name": "A"}, ["1"]),
        ([{"id": 1, "name": "A"}, {"id": 2, "name": "B"}], ["1", "2"]),
        ({"data": {"id": 1, "name": "A"}}, ["1"]),
        ({"data": [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}]}, ["1", "2"]),
        ({"records": [{"id": 1, "name": "A"}], "count": 1}, ["1"]),
        ({"items": [{"id": 1, "name": "A"}], "next": None}, ["1"]),
        (
            [{"type": "x", "data": {"id": 1, "name": "A"}}, {"data": [{"id": 2, "b": 1}]}],
            ["1", "2"],
        ),
        # A record that has such a field is no envelope.
        ({"id": 7, "items": [{"id": 1, "name": "A"}]}, ["7"]),
        ({"id": 7, "name": "A", "data": {"id": 1}}, ["7"]),
        ({"id": 7, "data": "text"}, ["7"]),
    ],
)
def test_records_are_found_in_any_envelope(body: Any, ids: list[str]) -> None:
    events = parsed("generic", body)
    assert [one.object.id for event in events for one in event.changes] == ids


def test_a_record_is_flat_in_the_end() -> None:
    body = {"id": 1, "address": {"city": "Köln"}, "tags": ["a", "b"], "vip": True, "fax": None}
    assert change("generic", body) == Change(
        record("1"),
        "snapshot",
        None,
        {"id": "1", "address_city": "Köln", "tags": "a, b", "vip": "Yes", "fax": ""},
        tie="1",
    )


def test_a_time_in_seconds_is_told_as_a_time_and_a_number_as_a_number() -> None:
    said = change("generic", {"id": 1, "created": 1795996800, "population": 1795996800})
    assert said.fields == {"id": "1", "created": "2026-11-30", "population": "1795996800"}


def test_a_form_is_a_record_of_texts() -> None:
    form = urlencode(
        [
            ("id", "1"),
            ("name", "Söhne & Co"),
            ("tag", "a"),
            ("tag", "b"),
            ("address[city]", "Köln"),
            ("fax", ""),
        ]
    ).encode()
    told = {
        "id": "1",
        "name": "Söhne & Co",
        "tag": "a, b",
        "address_city": "Köln",
        "fax": "",
    }
    assert change("generic", form, FORM).fields == told
    assert change("generic", b'{"id": "1"}', FORM).object == record("1")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/vnd.api+json", "nonsense"])
def test_json_is_read_whatever_it_is_called(content_type: str) -> None:
    headers = {"content-type": content_type} if content_type else {}
    assert change("generic", {"id": 1, "a": 2}, headers).object == record("1")


def test_other_content_types_are_refused_by_name() -> None:
    for content_type, body in [
        ("multipart/form-data", b"--x"),
        ("text/xml", b"<a/>"),
        ("text/plain", b"hi"),
    ]:
        with pytest.raises(UnsupportedMediaType, match=content_type):
            GENERIC.parse(posted(body, {"content-type": content_type}))


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", JSON),
        (b"hi", JSON),
        (b"hi", {}),
        (b"[" * 100_000, JSON),
        (b'{"a":' * 60 + b"1" + b"}" * 60, JSON),
        (b"[" + b"9" * 5_000 + b"]", JSON),
        (b"\xff", FORM),
        (b"&a=1" * 2_000, FORM),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(UnreadableDelivery):
        GENERIC.parse(posted(body, headers))


def test_what_no_database_stores_is_replaced() -> None:
    body = (
        b'{"id": 1, "a": "x\\u0000y", "b": "\\ud800", "c": NaN, "d": -Infinity, "e": 1e999,'
        b' "\\ud83d\\ude00": "ok"}'
    )
    assert change("generic", body).fields == {
        "id": "1",
        "a": "x\ufffdy",
        "b": "\ufffd",
        "c": "",
        "d": "",
        "e": "1e999",
        "😀": "ok",
    }


# --- What it is, and what happened ---


@pytest.mark.parametrize(
    ("body", "object_type", "action"),
    [
        ({"type": "Customer", "data": {"id": 1, "a": 2}}, "customer", "snapshot"),
        ({"event": "contact.created", "data": {"id": 1, "a": 2}}, "contact", "snapshot"),
        ({"event": "contact_created", "data": {"id": 1, "a": 2}}, "contact", "snapshot"),
        ({"type": "LineItemUpdated", "data": {"id": 1, "a": 2}}, "line_item", "snapshot"),
        ({"type": "deal", "action": "removed", "data": {"id": 1, "a": 2}}, "deal", "delete"),
        ({"object": "deal", "event": "signed", "data": {"id": 1, "a": 2}}, "deal", "snapshot"),
        ({"event": "deal:delete", "id": 1}, "deal", "delete"),
        ({"action": "deleted", "id": 1, "name": "A"}, "record", "delete"),
        ({"id": 1, "name": "A", "deleted": True}, "record", "delete"),
        ({"id": 1, "name": "A", "isDeleted": "true"}, "record", "delete"),
        ({"id": 1, "name": "A", "deleted": False}, "record", "snapshot"),
        ({"id": 1, "name": "A", "type": "Enterprise"}, "record", "snapshot"),
        ({"id": 1, "name": "A", "type": "New"}, "record", "snapshot"),
        ({"id": 1, "topic": "what Acme changed"}, "record", "snapshot"),
        ({"id": 1, "name": "A", "type": "removed"}, "record", "delete"),
        ({"id": 1}, "record", "change"),
    ],
)
def test_type_and_deed_are_found(body: Any, object_type: str, action: str) -> None:
    found = change("generic", body)
    assert (found.object, found.action) == (record("1", object_type), action)
    assert found.is_thin == (action == "change")


def test_what_a_record_says_of_its_event_is_no_field() -> None:
    found = change("generic", {"event": "deal.updated", "id": 1, "a": 2, "deleted": False})
    assert found.fields == {"id": "1", "a": "2"}
    told = {"id": "1", "type": "New", "topic": "what Acme changed"}
    assert change("generic", told).fields == told


@pytest.mark.parametrize(
    ("body", "object_id"),
    [
        ({"id": "7", "customer_id": "8", "email": "a@b.example"}, "7"),
        ({"UUID": "7-7", "name": "A"}, "7-7"),
        ({"customerId": "C-1", "name": "A"}, "C-1"),
        ({"owner_id": "5", "customer_id": "C-1"}, "C-1"),
        ({"account_manager_id": "5", "company": " Acme  Corp "}, "name:acme corp"),
        ({"Invoice Number": "R-1", "company": "Acme"}, "R-1"),
        ({"email": "Ann@B.example", "company": "Acme"}, "email:ann@b.example"),
        ({"first_name": "Ann", "last_name": "Lee", "company": "Acme"}, "name:ann lee"),
        ({"company_name": "ACME Corp", "industry": "x"}, "name:acme corp"),
    ],
)
def test_a_record_is_known_by_its_id_else_by_its_name(body: Any, object_id: str) -> None:
    assert change("generic", body).object == record(object_id)


def test_a_record_without_id_and_name_is_known_by_its_content() -> None:
    one, same, other = parsed("generic", [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3}])
    assert one.changes == same.changes
    assert one.changes[0].object.id.startswith("content:")
    assert one.changes[0].object != other.changes[0].object


@pytest.mark.parametrize(
    "body",
    [
        {"id": 1, "a": 2, "updated_at": "2026-11-30T00:00:00Z"},
        {"id": 1, "a": 2, "updatedAt": 1795996800000},
        {"id": 1, "a": 2, "Last Modified": "2026-11-30 00:00:00"},
        {"id": 1, "a": 2, "timestamp": "1795996800"},
        {
            "type": "x",
            "timestamp": "2026-11-30T00:00:00Z",
            "data": {"id": 1, "a": 2, "updated_at": 5},
        },
        {"type": "x", "data": {"id": 1, "a": 2, "modified": "2026-11-30T00:00:00Z"}},
    ],
)
def test_the_time_is_found_by_its_usual_names(body: Any) -> None:
    assert change("generic", body).time == NOW
    assert not parsed("generic", body)[0].is_key_content


@pytest.mark.parametrize("when", ["2026-11-30", "yesterday", 5, None])
def test_what_is_no_time_leaves_it_to_the_arrival(when: Any) -> None:
    body = {"id": 1, "a": 2, "updated_at": when, "created_at": "2026-11-30T00:00:00Z"}
    assert change("generic", body).time is None


# --- Keys ---


def test_the_key_is_the_senders_or_the_content() -> None:
    headers = {**JSON, "idempotency-key": "k-1"}
    assert [event.key for event in parsed("generic", {"id": 1, "a": 2}, headers)] == ["k-1"]
    two = [{"id": 1, "a": 2}, {"id": 2, "a": 2}]
    assert [event.key for event in parsed("generic", two, headers)] == ["k-1#0", "k-1#1"]
    [one] = parsed("generic", b'{"id": 1, "a": 2}')
    [same] = parsed("generic", b'{"a":2,"id":1}')
    [other] = parsed("generic", b'{"a":3,"id":1}')
    assert one.key == same.key != other.key
    assert one.is_key_content


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "which object"),
        ({"a": 1, "deleted": True}, "which object"),
        ({"id": "x" * 513, "a": 1}, "longer than 512"),
        ({"id": "a\u0000b", "a": 1}, "not printable"),
        (5, "expected an object"),
        (None, "expected an object"),
        ([[]], "expected an object"),
        (["a"], "expected an object"),
        ({"type": "x", "data": [5]}, "expected an object"),
    ],
)
def test_a_record_that_lacks_something_is_kept_with_a_reason(body: Any, reason: str) -> None:
    [skipped] = parsed("generic", body)
    assert reason in skipped.reason


@pytest.mark.parametrize(
    ("object_type", "kind"),
    [
        ("account", "customer"),
        ("companies", "customer"),
        ("deals", "deal"),
        ("person", "contact"),
        ("record", ""),
        ("meeting", "meeting_note"),
    ],
)
def test_a_type_by_its_usual_name_has_a_template(object_type: str, kind: str) -> None:
    described = GENERIC.describe(object_type)
    assert described.kind == kind
    assert {"updated_at", "updatedAt", "Updated at"} <= described.hidden
