from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ingest.providers import PROVIDERS
from ingest.providers.base import (
    Ack,
    BadSignature,
    Change,
    Incoming,
    NotConfigured,
    ObjectKey,
    Reference,
    UnreadableDelivery,
    UnsupportedMediaType,
)
from ingest.providers.salesforce_objects import long_id
from tests.ingest.providers.deliveries import NOW, change, parsed, posted, source

SALESFORCE = PROVIDERS["salesforce"]
ORGANIZATION = "00D5g000004XyZaEAK"
ACTION = "04k5g000000AbCdAAK"
ACCOUNT = "0015g00000AbCdEAAV"
XML = {"content-type": "text/xml; charset=utf-8"}

ENVELOPE = (
    '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>'
    '<notifications xmlns="http://soap.sforce.com/2005/09/outbound">{}</notifications>'
    "</soapenv:Body></soapenv:Envelope>"
)
SENDER = f"<OrganizationId>{ORGANIZATION}</OrganizationId><ActionId>{ACTION}</ActionId>"


def message(*records: str, sender: str = SENDER, prolog: str = "") -> bytes:
    notifications = "".join(
        f"<Notification><Id>04l{number:015}</Id>{record}</Notification>"
        for number, record in enumerate(records)
    )
    return (prolog + ENVELOPE.format(sender + notifications)).encode()


def sobject(fields: str, object_type: str = "sf:Account") -> str:
    return (
        f'<sObject xsi:type="{object_type}" xmlns:sf="urn:sobject.enterprise.soap.sforce.com">'
        f"{fields}</sObject>"
    )


def key(object_id: str = ACCOUNT, object_type: str = "Account", account: str = "") -> ObjectKey:
    return ObjectKey(account, object_type, object_id)


# --- Who may send ---


def test_the_token_of_the_url_or_a_bearer_token_is_needed() -> None:
    bearer = {"content-type": "application/json", "authorization": "Bearer b3arer"}
    SALESFORCE.verify(posted(message(), XML), source("salesforce", token="t"), NOW)
    SALESFORCE.verify(posted({}, bearer), source("salesforce", "b3arer"), NOW)
    with pytest.raises(BadSignature):
        SALESFORCE.verify(posted(message(), XML), source("salesforce", "b3arer"), NOW)
    with pytest.raises(NotConfigured):
        SALESFORCE.verify(posted(message(), XML), source("salesforce"), NOW)


def test_the_organization_must_be_the_configured_one() -> None:
    configured = source("salesforce", token="t", account=ORGANIZATION)
    SALESFORCE.verify(posted(message(), XML), configured, NOW)
    SALESFORCE.verify(posted(message(), XML), replace(configured, account=ORGANIZATION[:15]), NOW)
    SALESFORCE.verify(posted({"Id": "1"}), configured, NOW)
    other = {"organizationId": "00D000000000001AAA"}
    wrong: list[Incoming] = [
        posted(message(sender=""), XML),
        posted(message(sender="<OrganizationId>00D000000000001</OrganizationId>"), XML),
        posted({"Id": "1", **other}),
        posted({"data": {"payload": {"ChangeEventHeader": other}}}),
    ]
    for incoming in wrong:
        with pytest.raises(BadSignature):
            SALESFORCE.verify(incoming, configured, NOW)


# --- Outbound messages ---


def test_a_notification_is_a_snapshot_of_the_actions_fields() -> None:
    record = sobject(
        f"<sf:Id>{ACCOUNT[:15]}</sf:Id><sf:Name>A &amp; B</sf:Name><sf:Phone xsi:nil='true'/>"
        "<sf:Active__c>true</sf:Active__c><sf:OwnerId>0055g00000AbCdE</sf:OwnerId>"
        "<sf:AnnualRevenue>1.2E7</sf:AnnualRevenue><sf:Code__c>1E5</sf:Code__c>"
        "<sf:Tags>red</sf:Tags><sf:Tags>blue</sf:Tags>"
        "<sf:SystemModstamp>2026-11-30T00:00:00.000Z</sf:SystemModstamp>"
    )
    [event] = parsed("salesforce", message(record), XML)
    assert event.key == "04l000000000000000"
    assert event.changes == (
        Change(
            key(account=ORGANIZATION),
            "snapshot",
            NOW,
            {
                "Name": "A & B",
                "Phone": "",
                "Active__c": "Yes",
                "OwnerId": "0055g00000AbCdEAAV",
                "AnnualRevenue": "12000000",
                "Code__c": "1E5",
                "Tags": "red, blue",
                "SystemModstamp": "2026-11-30",
            },
            scope=ACTION,
        ),
    )


def test_a_deleted_record_and_one_without_data() -> None:
    deleted = sobject(f"<sf:Id>{ACCOUNT}</sf:Id><sf:IsDeleted>true</sf:IsDeleted>")
    empty = sobject(f"<sf:Id>{ACCOUNT}</sf:Id>")
    events = parsed("salesforce", message(deleted, empty), XML)
    at = key(account=ORGANIZATION)
    assert [event.changes for event in events] == [
        (Change(at, "delete"),),
        (Change(at, "change", is_thin=True),),
    ]


def test_a_hundred_notifications_are_a_hundred_events_and_one_ack() -> None:
    records = [sobject(f"<sf:Id>{n:018}</sf:Id><sf:Name>N{n}</sf:Name>") for n in range(100)]
    events, ack = SALESFORCE.parse(posted(message(*records), XML))
    assert len({event.key for event in events}) == 100
    assert (ack.status, ack.media_type) == (200, "text/xml")
    assert b"<Ack>true</Ack>" in ack.body
    assert SALESFORCE.parse(posted(message(), XML)) == ([], ack)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("", "what type"),
        (sobject("<sf:Name>A</sf:Name>"), "which object"),
        (sobject(f"<sf:Id>{ACCOUNT}</sf:Id>", ""), "what type"),
        (sobject("<sf:Id>a&#9;b</sf:Id>"), "not printable"),
    ],
)
def test_a_notification_that_lacks_something_is_kept_with_a_reason(
    record: str, reason: str
) -> None:
    [skipped] = parsed("salesforce", message(record), XML)
    assert reason in skipped.reason


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha"}">' for n in range(10))


@pytest.mark.parametrize(
    "xml",
    [
        message(
            sobject("<sf:Id>&x;</sf:Id>"),
            prolog='<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        ),
        message(sobject("<sf:Id>&x;</sf:Id>"), prolog='<!DOCTYPE a [<!ENTITY x "1">]>'),
        message(sobject("<sf:Id>&l9;</sf:Id>"), prolog=f"<!DOCTYPE a [{LAUGHS}]>"),
        message(prolog='<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd">'),
        message(prolog='<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/a.dtd"> %p;]>'),
        (
            '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [<!ENTITY x "1">]>'
            + message().decode()
        ).encode("utf-16"),
        b"<",
        b"<a/>",
        b"<a>" * 10_000,
        b'<?xml version="1.0" encoding="no-such"?><a/>',
        message()[:-5],
        message(sobject("<sf:Id>&#0;</sf:Id>")),
        message(sobject("<sf:Id>&undeclared;</sf:Id>")),
        b"",
    ],
)
def test_bombs_external_entities_and_what_is_no_message_are_refused(xml: bytes) -> None:
    with pytest.raises(UnreadableDelivery):
        SALESFORCE.parse(posted(xml, XML))
    # Also where the organization would be looked for.
    SALESFORCE.verify(posted(xml, XML), source("salesforce", token="t", account=ORGANIZATION), NOW)


# --- The JSON of flows and Apex ---


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (
            {
                "attributes": {"type": "Account", "url": "/x"},
                "Id": ACCOUNT[:15],
                "Name": "A",
                "Fax": None,
            },
            Change(key(), "create", None, {"Name": "A", "Fax": ""}),
        ),
        (
            {
                "type": "Account",
                "Id": ACCOUNT,
                "Type": "Partner",
                "Owner": {"attributes": {"type": "User"}, "Name": "Alice"},
                "LastModifiedDate": "2026-11-30T00:00:00.000+0000",
            },
            Change(
                key(),
                "create",
                NOW,
                {"Type": "Partner", "Owner_Name": "Alice", "LastModifiedDate": "2026-11-30"},
            ),
        ),
        (
            {
                "sobject": "Account",
                "organizationId": ORGANIZATION,
                "records": [{"Id": ACCOUNT, "A": 1.5}],
            },
            Change(key(account=ORGANIZATION), "create", None, {"A": "1.5"}),
        ),
        ({"type": "Account", "data": {"Id": ACCOUNT}}, Change(key(), "change", is_thin=True)),
        ([{"sobject": "Account", "id": ACCOUNT, "IsDeleted": True}], Change(key(), "delete")),
        (
            {"sobject": "Account", "recordId": ACCOUNT, "operation": "DELETE"},
            Change(key(), "delete"),
        ),
        (
            {"sobject": "Account", "recordId": ACCOUNT, "event": "account.undeleted"},
            Change(key(), "restore", is_thin=True),
        ),
    ],
)
def test_a_flow_sends_a_record(body: Any, want: Change) -> None:
    assert change("salesforce", body) == want
    assert SALESFORCE.parse(posted(body))[1] == Ack()


def test_records_without_a_time_are_known_by_their_content_unless_the_sender_numbers_them() -> None:
    body = [{"type": "Account", "Id": ACCOUNT, "Name": name} for name in ("A", "B")]
    one, two = parsed("salesforce", body)
    assert one.key != two.key
    assert one.is_key_content
    numbered = {"content-type": "application/json", "idempotency-key": "k"}
    assert [event.key for event in parsed("salesforce", body, numbered)] == ["k#0", "k#1"]
    [timed] = parsed("salesforce", {**body[0], "SystemModstamp": "2026-11-30T00:00:00Z"})
    assert not timed.is_key_content


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"Id": ACCOUNT, "Name": "A"}, "what type"),
        ({"type": "Account", "Name": "A"}, "which object"),
        ({"records": [5]}, "JSON object"),
        ([5], "JSON object"),
    ],
)
def test_a_record_that_lacks_something_is_kept_with_a_reason(body: Any, reason: str) -> None:
    [skipped] = parsed("salesforce", body)
    assert reason in skipped.reason


def test_a_form_is_not_what_salesforce_sends() -> None:
    with pytest.raises(UnsupportedMediaType, match="urlencoded"):
        SALESFORCE.parse(posted(b"a=1", {"content-type": "application/x-www-form-urlencoded"}))


# --- Ids and descriptions ---


@pytest.mark.parametrize(
    ("given", "long"),
    [
        ("0015g00000AbCdE", "0015g00000AbCdEAAV"),
        ("00D5g000004XyZa", ORGANIZATION),
        ("0015G00000ABCDE", "0015G00000ABCDEQA5"),
        (ACCOUNT, ACCOUNT),
        ("short", "short"),
        ("", ""),
    ],
)
def test_ids_get_the_three_characters_that_make_up_for_their_case(given: str, long: str) -> None:
    assert long_id(given) == long


def test_an_account_is_told_as_a_customer_with_its_manager() -> None:
    described = SALESFORCE.describe("Account")
    assert (described.kind, described.headers["Name"]) == ("customer", "Company")
    assert described.headers["Contract_Value__c"] == "Contract Value"
    assert described.headers.get("Industry", "") == ""
    assert described.references["OwnerId"] == Reference("User", "Account manager")
    assert SALESFORCE.describe("Contact").references["AccountId"] == Reference("Account", "Company")
    assert not SALESFORCE.describe("User").is_told
    assert SALESFORCE.describe("Machine__c").kind == ""
