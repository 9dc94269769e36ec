from __future__ import annotations

import base64
from typing import Any

import pytest

from ingest.providers import PROVIDERS
from ingest.providers.base import (
    BadSignature,
    Change,
    NotConfigured,
    ObjectKey,
    Reference,
    UnreadableDelivery,
)
from tests.ingest.providers.deliveries import JSON, NOW, change, parsed, posted, source

PIPEDRIVE = PROVIDERS["pipedrive"]
DEAL = ObjectKey("55", "deal", "42")
OWN = "dcf558aac1ae4e8c4f849ba5e668430d8df9be12"


def event(action: str, data: Any, **meta: Any) -> dict[str, Any]:
    return {
        "meta": {
            "action": action,
            "entity": "deal",
            "entity_id": "42",
            "company_id": "55",
            "id": "an-event",
            "timestamp": "2026-11-30T00:00:00.000Z",
            "attempt": 1,
            "version": "2.0",
            **meta,
        },
        "data": data,
        "previous": None,
    }


def login(text: str) -> dict[str, str]:
    return {**JSON, "authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_only_the_configured_login_is_accepted() -> None:
    configured = source("pipedrive", "pd:s3cret")
    PIPEDRIVE.verify(posted(event("delete", None), login("pd:s3cret")), configured, NOW)
    for headers in (
        JSON,
        login("pd:wrong"),
        login("s3cret"),
        {"authorization": "Bearer pd:s3cret"},
    ):
        with pytest.raises(BadSignature):
            PIPEDRIVE.verify(posted(event("delete", None), headers), configured, NOW)
    with pytest.raises(NotConfigured):
        PIPEDRIVE.verify(posted({}, login("pd:s3cret")), source("pipedrive"), NOW)


def test_another_company_is_refused_where_one_is_configured() -> None:
    request = posted(event("delete", None), login("pd:s3cret"))
    PIPEDRIVE.verify(request, source("pipedrive", "pd:s3cret", account="55"), NOW)
    with pytest.raises(BadSignature):
        PIPEDRIVE.verify(request, source("pipedrive", "pd:s3cret", account="56"), NOW)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (event("create", {"id": 42, "value": 5}), Change(DEAL, "create", NOW, {"value": "5"})),
        (
            event("change", {"id": 42, "value": 6, "won_time": None}),
            Change(DEAL, "snapshot", NOW, {"value": "6", "won_time": ""}),
        ),
        (event("change", None), Change(DEAL, "change", NOW, is_thin=True)),
        (event("delete", None), Change(DEAL, "delete", NOW)),
        (event("delete", None, merged_to_id=7), Change(DEAL, "delete", NOW)),
        (
            event("delete", None, entity_id=None) | {"previous": {"id": 42}},
            Change(DEAL, "delete", NOW),
        ),
        (
            event(
                "create",
                {"id": 42, "value": 5, "update_time": "2026-11-30T00:00:00Z"},
                timestamp=None,
            ),
            Change(DEAL, "create", NOW, {"value": "5", "update_time": "2026-11-30"}),
        ),
    ],
)
def test_an_event_says_one_thing_of_one_object(body: dict[str, Any], want: Change) -> None:
    assert change("pipedrive", body) == want


@pytest.mark.parametrize("merged", [7, "7", [7, 8], ["7", 42]])
def test_the_winner_of_a_merge_removes_the_losers(merged: Any) -> None:
    [event_] = parsed("pipedrive", event("change", {"id": 42, "value": 6}, merged_from_id=merged))
    first, *others = event_.changes
    assert (first.object, first.action) == (DEAL, "snapshot")
    assert {one.action for one in others} == {"delete"}
    assert {one.object.id for one in others} <= {"7", "8"}
    assert others


def test_the_key_is_the_event_whatever_the_attempt() -> None:
    keys = {parsed("pipedrive", event("delete", None, attempt=n))[0].key for n in (1, 2)}
    assert keys == {"an-event"}
    [unnumbered] = parsed("pipedrive", event("delete", None, id=None, timestamp=None))
    assert unnumbered.is_key_content


def test_version_1_is_read_too() -> None:
    body = {
        "v": 1,
        "meta": {
            "action": "updated",
            "object": "deal",
            "id": 42,
            "company_id": 55,
            "timestamp": 1795996800,
        },
        "current": {"id": 42, "value": 6, OWN: "Gold"},
        "previous": {"id": 42, "value": 5},
        "retry": 0,
    }
    [one] = parsed("pipedrive", body)
    assert one.changes == (Change(DEAL, "snapshot", NOW, {"value": "6", OWN: "Gold"}),)
    [again] = parsed("pipedrive", {**body, "retry": 2})
    assert again.key == one.key
    deleted = {**body, "meta": {**body["meta"], "action": "deleted"}, "current": None}  # type: ignore[dict-item]
    assert change("pipedrive", deleted) == Change(DEAL, "delete", NOW)


def test_own_fields_and_parts_are_cells() -> None:
    data = {
        "id": 42,
        "emails": [{"value": "a@b.example", "primary": True}, {"value": "c@d.example"}],
        "owner_id": {"id": 77, "name": "Alice"},
        "note": "<div>20 seats.<br/>In <i>May</i>.</div>",
        "address": {"value": "1 Main St", "locality": "Springfield"},
        "prices": [{"id": 1, "price": 100, "currency": "USD"}],
        "custom_fields": {
            "a": {"type": "varchar", "value": "Gold"},
            "b": {"type": "monetary", "value": 100.5, "currency": "EUR"},
            "c": {"type": "enum", "id": 12},
            "d": {"type": "set", "values": [{"id": 1, "label": "Red"}, {"id": 2}]},
            "e": {"type": "daterange", "value": "2026-01-01", "until": "2026-02-01"},
            "f": None,
            "g": 5,
        },
    }
    assert change("pipedrive", event("change", data)).fields == {
        "emails": "a@b.example, c@d.example",
        "owner_id": "77",
        "note": "20 seats. In May.",
        "address": "1 Main St",
        "prices": "100 USD",
        "custom_field_a": "Gold",
        "custom_field_b": "100.5 EUR",
        "custom_field_c": "12",
        "custom_field_d": "Red, 2",
        "custom_field_e": "2026-01-01 to 2026-02-01",
        "custom_field_f": "",
        "custom_field_g": "5",
    }


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "not known"),
        ({"meta": 5}, "not known"),
        (event("explode", {"id": 42}), "not known"),
        (event("change", {"x": 1}, entity_id=None), "which object"),
        (event("change", {"id": 42}, entity=None), "what type"),
        (event("change", {"id": 42}, entity_id="\u0007"), "not printable"),
    ],
)
def test_an_event_that_lacks_something_is_kept_with_a_reason(body: Any, reason: str) -> None:
    [skipped] = parsed("pipedrive", body)
    assert reason in skipped.reason


def test_what_is_no_object_is_refused() -> None:
    for body in (b"[]", b"null", b'"x"', b"<xml/>"):
        with pytest.raises(UnreadableDelivery):
            PIPEDRIVE.parse(posted(body))


def test_a_deal_is_told_with_its_company_and_owner() -> None:
    described = PIPEDRIVE.describe("deal")
    assert described.kind == "deal"
    assert described.references["org_id"] == Reference("organization", "Company")
    assert described.references["owner_id"].type == "user"
    assert described.headers["title"] == "Deal name"
    assert described.headers[f"custom_field_{OWN}"] == described.headers[OWN]
    assert described.headers[OWN] == "Custom field dcf558"
    assert "expected_close_date" not in described.headers
    assert PIPEDRIVE.describe("organization").headers["name"] == "Company"
    assert PIPEDRIVE.describe("activity").kind == "generic"
    assert not PIPEDRIVE.describe("user").is_told
