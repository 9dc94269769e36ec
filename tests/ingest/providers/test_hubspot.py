from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from ingest.providers import PROVIDERS
from ingest.providers.base import (
    BadSignature,
    Change,
    Incoming,
    NotConfigured,
    ObjectKey,
    Reference,
    UnreadableDelivery,
)
from tests.ingest.providers.deliveries import (
    BASE_URL,
    CLIENT_SECRET,
    JSON,
    NOW,
    after,
    change,
    hubspot_signed,
    parsed,
    posted,
    source,
)

HUBSPOT = PROVIDERS["hubspot"]
SOURCE = source("hubspot", "an-old-secret", CLIENT_SECRET)
MS = int(NOW.timestamp() * 1000)


def event(kind: str, **rest: Any) -> dict[str, Any]:
    return {
        "eventId": 100,
        "subscriptionId": 1,
        "portalId": 62515,
        "occurredAt": MS,
        "subscriptionType": kind,
        "attemptNumber": 0,
        "objectId": 123,
        **rest,
    }


def company(object_id: str = "123") -> ObjectKey:
    return ObjectKey("62515", "company", object_id)


RENAMED = event("company.propertyChange", propertyName="name", propertyValue="Zürich AG")


# --- Signatures ---


def test_a_signed_batch_is_accepted_with_any_of_the_secrets() -> None:
    HUBSPOT.verify(hubspot_signed([RENAMED]), SOURCE, NOW)
    HUBSPOT.verify(hubspot_signed([RENAMED], secret="an-old-secret"), SOURCE, NOW)


def test_a_changed_byte_a_wrong_path_or_another_secret_is_refused() -> None:
    signed = hubspot_signed([RENAMED])
    wrong = [
        replace(signed, body=signed.body.replace(b"123", b"124")),
        replace(signed, body=signed.body + b" "),
        replace(signed, path="/webhooks/hubspot?x=1"),
        replace(signed, path="/webhooks/hubspot/"),
        replace(signed, method="PUT"),
        hubspot_signed([RENAMED], secret="guessed"),
        hubspot_signed([RENAMED], signed_uri="http://127.0.0.1:8000/webhooks/hubspot"),
    ]
    for incoming in wrong:
        with pytest.raises(BadSignature):
            HUBSPOT.verify(incoming, SOURCE, NOW)


@pytest.mark.parametrize(
    ("seconds", "is_now"), [(-301, False), (-299, True), (299, True), (301, False)]
)
def test_the_clock_counts_in_both_directions(seconds: int, is_now: bool) -> None:
    signed = hubspot_signed([RENAMED], at=after(seconds))
    if is_now:
        HUBSPOT.verify(signed, SOURCE, NOW)
        return
    with pytest.raises(BadSignature, match="5 minutes"):
        HUBSPOT.verify(signed, SOURCE, NOW)


def test_the_url_is_signed_with_some_characters_decoded_and_others_not() -> None:
    signed = hubspot_signed(
        [RENAMED],
        path="/webhooks/hubspot/t%2Fo%3ak?a=%40b%20c%3B",
        signed_uri=f"{BASE_URL}/webhooks/hubspot/t/o:k?a=@b%20c;",
    )
    HUBSPOT.verify(signed, SOURCE, NOW)


def older(version: str, signed: bytes, body: bytes) -> Incoming:
    digest = hashlib.sha256(CLIENT_SECRET.encode() + signed).hexdigest()
    headers = {**JSON, "x-hubspot-signature": digest, "x-hubspot-signature-version": version}
    return Incoming("POST", "/webhooks/hubspot?a=1", headers, body)


def test_the_older_signatures_count_where_the_new_one_is_not_sent() -> None:
    body = b'[{"eventId": 1}]'
    url = f"POST{BASE_URL}/webhooks/hubspot?a=1".encode()
    first, second = older("v1", body, body), older("v2", url + body, body)
    HUBSPOT.verify(first, SOURCE, NOW)
    HUBSPOT.verify(second, SOURCE, NOW)
    for good in (first, second):
        with pytest.raises(BadSignature):
            HUBSPOT.verify(replace(good, body=body + b" "), SOURCE, NOW)
        for v3 in ("", "AAAA"):
            headers = {**good.headers, "x-hubspot-signature-v3": v3}
            with pytest.raises(BadSignature):
                HUBSPOT.verify(replace(good, headers=headers), SOURCE, NOW)
    with pytest.raises(BadSignature, match="got 'v9'"):
        HUBSPOT.verify(older("v9", body, body), SOURCE, NOW)


def test_what_is_not_configured_is_said_and_nothing_is_accepted() -> None:
    signed = hubspot_signed([RENAMED])
    with pytest.raises(NotConfigured):
        HUBSPOT.verify(signed, source("hubspot"), NOW)
    nameless = replace(SOURCE, public_base_url="")
    with pytest.raises(NotConfigured, match="PUBLIC_BASE_URL"):
        HUBSPOT.verify(signed, nameless, NOW)
    with pytest.raises(NotConfigured, match="PUBLIC_BASE_URL"):
        HUBSPOT.verify(older("v2", b"", b"[]"), nameless, NOW)
    HUBSPOT.verify(older("v1", b"[]", b"[]"), nameless, NOW)


def test_another_portal_is_refused_where_one_is_configured() -> None:
    HUBSPOT.verify(hubspot_signed([RENAMED]), replace(SOURCE, account="62515"), NOW)
    with pytest.raises(BadSignature):
        HUBSPOT.verify(hubspot_signed([RENAMED]), replace(SOURCE, account="1"), NOW)


# --- Events ---


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (event("company.creation"), Change(company(), "create", NOW, is_thin=True)),
        (RENAMED, Change(company(), "change", NOW, {"name": "Zürich AG"})),
        (
            event("company.propertyChange", propertyName="name", propertyValue=None),
            Change(company(), "change", NOW, {"name": ""}),
        ),
        (
            event("company.propertyChange", propertyName="ssn"),
            Change(company(), "change", NOW, is_thin=True),
        ),
        (event("company.deletion"), Change(company(), "delete", NOW)),
        (event("company.restore"), Change(company(), "restore", NOW, is_thin=True)),
        (
            event("contact.privacyDeletion"),
            Change(ObjectKey("62515", "contact", "123"), "erase", NOW),
        ),
        (
            event("object.creation", objectTypeId="0-5"),
            Change(ObjectKey("62515", "ticket", "123"), "create", NOW, is_thin=True),
        ),
        (
            event("object.deletion", objectTypeId="2-3465404"),
            Change(ObjectKey("62515", "2-3465404", "123"), "delete", NOW),
        ),
    ],
)
def test_an_event_says_one_thing_of_one_object(body: dict[str, Any], want: Change) -> None:
    assert change("hubspot", [body]) == replace(want, tie="100".rjust(20, "0"))
    renamed = {("eventType" if k == "subscriptionType" else k): v for k, v in body.items()}
    assert change("hubspot", renamed).object == want.object


def test_events_of_one_time_are_in_the_order_of_their_numbers() -> None:
    ties = [change("hubspot", event("company.creation", eventId=n)).tie for n in (9, 10, 100)]
    assert ties == sorted(ties)


@pytest.mark.parametrize(
    ("ids", "winner", "losers"),
    [
        ({"primaryObjectId": 1, "mergedObjectIds": [2, 3], "newObjectId": 9}, "9", {"1", "2", "3"}),
        ({"primaryObjectId": 1, "mergedObjectIds": [2], "newObjectId": 1}, "1", {"2"}),
        ({"primaryObjectId": 1, "mergedObjectIds": [2, 2]}, "1", {"2"}),
    ],
)
def test_a_merge_removes_the_losers(ids: dict[str, Any], winner: str, losers: set[str]) -> None:
    [merged] = parsed("hubspot", [event("company.merge", **ids)])
    first, *others = merged.changes
    assert first == Change(company(winner), "create", NOW, is_thin=True)
    assert {one.object.id for one in others} == losers
    assert {one.action for one in others} == {"erase"}


def test_the_key_is_the_same_for_each_attempt_and_another_for_each_event() -> None:
    [one] = parsed("hubspot", [RENAMED])
    assert one.key == f"62515|company.propertyChange|123|name|100|{MS}"
    [again] = parsed("hubspot", [{**RENAMED, "attemptNumber": 7}])
    assert again.key == one.key
    for other in (
        {"objectId": 5},
        {"propertyName": "city"},
        {"occurredAt": MS + 1},
        {"eventId": 2},
    ):
        [different] = parsed("hubspot", [{**RENAMED, **other}])
        assert different.key != one.key


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (event("company.associationChange"), "association"),
        (event("conversation.newMessage"), "not known"),
        (event("propertyChange"), "not known"),
        ({"eventId": 1}, "not known"),
        (event("company.deletion", objectId=None), "which object"),
        (event("object.deletion"), "what type"),
        (event("company.deletion", occurredAt="soon"), "when it occurred"),
        (event("company.propertyChange", propertyValue="x"), "which property"),
        (event("company.merge"), "were merged"),
        (event("company.deletion", objectId="a\u0000b"), "not printable"),
        (event("company.deletion", objectId="a\nb"), "not printable"),
        (event("company.deletion", objectId="\ud800"), "not printable"),
        (event("company.deletion", objectId="x" * 513), "longer than 512 bytes"),
        (event("company.deletion", portalId="x" * 513), "longer than 512 bytes"),
        ("not an object", "not known"),
        (None, "not known"),
    ],
)
def test_an_event_that_lacks_something_is_kept_with_a_reason(body: Any, reason: str) -> None:
    [skipped, good] = parsed("hubspot", [body, RENAMED])
    assert reason in skipped.reason
    assert good.changes


def test_dates_come_in_milliseconds_and_industries_as_codes() -> None:
    properties = {
        "closedate": (str(MS + 3_600_000), "2026-11-30 01:00"),
        "renewal_date": (str(MS), "2026-11-30"),
        "createdate": ("2026-11-30T00:00:00Z", "2026-11-30"),
        "phone": ("1795996800000", "1795996800000"),
        "industry": ("COMPUTER_SOFTWARE", "Computer software"),
        "is_public": ("true", "Yes"),
        "hs_lead_status": ("IN_PROGRESS", "In progress"),
        "hs_note_body": (
            "<p>20&nbsp;seats, <b>gold</b>.</p><p>In May.</p>",
            "20 seats, gold. In May.",
        ),
        "description": ("a <b> c", "a <b> c"),
    }
    for name, (value, text) in properties.items():
        sent = event("company.propertyChange", propertyName=name, propertyValue=value)
        assert change("hubspot", sent).fields == {name: text}


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (
            {"objectId": 7, "portalId": 1, "properties": {"dealname": "Big", "amount": "5"}},
            Change(ObjectKey("1", "deal", "7"), "create", None, {"dealname": "Big", "amount": "5"}),
        ),
        (
            {
                "vid": 7,
                "portal-id": 1,
                "properties": {
                    "email": {"value": "a@b.example", "timestamp": MS - 5000},
                    "lastmodifieddate": {"value": str(MS)},
                },
            },
            Change(
                ObjectKey("1", "contact", "7"),
                "create",
                NOW,
                {"email": "a@b.example", "lastmodifieddate": "2026-11-30"},
            ),
        ),
        (
            {"objectId": 7, "objectTypeId": "0-2", "properties": {}},
            Change(ObjectKey("", "company", "7"), "create"),
        ),
    ],
)
def test_a_workflow_sends_a_record(body: dict[str, Any], want: Change) -> None:
    assert change("hubspot", body) == want
    [event] = parsed("hubspot", body)
    assert event.is_key_content == (want.time is None)


def test_a_company_is_told_as_a_customer_with_its_manager() -> None:
    described = HUBSPOT.describe("company")
    assert (described.kind, described.headers["name"]) == ("customer", "Company")
    assert described.headers["annualrevenue"] == "Annual revenue"
    assert described.headers["hs_email_optout"] == "Email optout"
    assert "region" not in described.headers
    assert described.references["hubspot_owner_id"] == Reference("owner", "Account manager")
    assert described.references["associatedcompanyid"].type == "company"
    assert "hs_object_id" in described.hidden
    assert not HUBSPOT.describe("owner").is_told
    assert HUBSPOT.describe("2-3465404").kind == ""


@pytest.mark.parametrize("body", [b"", b"nope", b"[", b"\xff\xfe\x00", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableDelivery):
        HUBSPOT.parse(posted(body))
    # Also where the portal would be looked for: the signature is good, the body is not.
    HUBSPOT.verify(hubspot_signed(body), replace(SOURCE, account="1"), NOW)
