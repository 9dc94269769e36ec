"""The signed deliveries that others made, each with what is expected of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ingest.narrate import choose_kind, narrate
from ingest.providers import PROVIDERS
from ingest.providers.base import Ack, BadSignature, Event, Incoming, ObjectKey, Source
from tests.ingest.providers.deliveries import BASE_URL, Settled, settled

FOLDER = Path(__file__).parents[4] / "shared" / "webhooks"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="THE SIGNED DELIVERIES ARE MISSING: no folder ../shared/webhooks"
)


def received(name: str) -> tuple[list[Event], Ack]:
    """Verify and parse a delivery as the service does. Raises `BadSignature`."""
    told: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    request, secret = told["request"], told["secret"]
    url = urlsplit(request["url"])
    path = url.path.removeprefix(urlsplit(BASE_URL).path)
    _, _, provider, *token = path.split("/")
    organization = secret.removeprefix("org id ") if secret.startswith("org id ") else ""
    incoming = Incoming(request["method"], path, request["headers"], request["body"].encode())
    source = Source(
        "default",
        provider,
        token="".join(token),
        secrets=() if organization else (secret,),
        account=organization,
        public_base_url=BASE_URL,
    )
    PROVIDERS[provider].verify(incoming, source, datetime.fromtimestamp(told["clock"], UTC))
    events, ack = PROVIDERS[provider].parse(incoming)
    assert [event.changes for event in events] == [
        PROVIDERS[provider].read(event.body) for event in events
    ]
    return list(events), ack


def outcome(*names: str) -> dict[ObjectKey, Settled]:
    events = {event.key: event for name in names for event in received(name)[0]}
    return settled(change for event in events.values() for change in event.changes)


def company(object_id: str) -> ObjectKey:
    return ObjectKey("4455667", "company", object_id)


@pytest.mark.parametrize(
    "name",
    [
        *["hubspot_10_bad_signature", "hubspot_11_stale"],
        *[f"standard_05_malformed_{number}" for number in range(3)],
    ],
)
def test_a_delivery_with_a_bad_signature_is_refused(name: str) -> None:
    with pytest.raises(BadSignature):
        received(name)


def test_every_other_delivery_is_verified_and_changes_something() -> None:
    names = {path.stem for path in FOLDER.glob("*.json")}
    refused = {name for name in names if name.startswith(("hubspot_1", "standard_05"))}
    for name in sorted(names - refused | {"hubspot_13_hundred"}):
        events, ack = received(name)
        assert events
        assert all(event.changes and not event.reason for event in events)
        assert 200 <= ack.status < 300


def test_a_hubspot_batch_out_of_order_ends_in_its_newest_value() -> None:
    events, _ = received("hubspot_01_batch_out_of_order")
    assert len(events) == 5
    assert len({event.key for event in events}) == 4
    assert events[3].key == events[4].key
    end = outcome("hubspot_01_batch_out_of_order", "hubspot_02_late_older_change")
    assert end == {
        company("7001"): Settled({"annualrevenue": "135000", "hubspot_owner_id": "55"}, True, True)
    }


def test_a_cleared_hubspot_property_is_an_empty_cell() -> None:
    end = outcome("hubspot_01_batch_out_of_order", "hubspot_04_clear_property")
    assert end[company("7001")].fields == {"annualrevenue": "135000", "hubspot_owner_id": ""}


def test_a_deleted_hubspot_company_stays_deleted() -> None:
    assert not outcome("hubspot_06_delete_then_late_change")[company("7003")].is_there


def test_the_object_format_of_hubspot_is_the_same_company() -> None:
    assert outcome("hubspot_09_object_format") == {
        company("7010"): Settled({"name": "Zürich AG"}, True)
    }


def test_a_hundred_hubspot_events_are_ten_companies() -> None:
    events, _ = received("hubspot_13_hundred")
    assert len({event.key for event in events}) == 100
    end = outcome("hubspot_13_hundred")
    assert {key.id: at.fields["city"] for key, at in end.items()} == {
        f"710{number}": f"City {90 + number}" for number in range(10)
    }


def test_a_pipedrive_deal_is_made_changed_and_deleted_at_one_time() -> None:
    names = ["pipedrive_01_create", "pipedrive_02_change", "pipedrive_03_delete"]
    deal = ObjectKey("123456", "deal", "42")
    assert list(outcome(names[0])) == [deal]
    assert outcome(*names[:2])[deal].fields["value"] == "135000"
    assert outcome(*reversed(names[:2]))[deal].fields["value"] == "135000"
    assert not outcome(*reversed(names))[deal].is_there


def test_a_salesforce_message_is_two_accounts_and_its_ack() -> None:
    events, ack = received("salesforce_01_outbound")
    want = json.loads((FOLDER / "salesforce_01_outbound.json").read_text(encoding="utf-8"))[
        "expect"
    ]
    assert (ack.status, ack.media_type) == (want["status"], want["content_type"])
    assert ack.body.decode() == want["body"]
    assert [event.key for event in events] == ["04l5g00000Q1w2eAAB", "04l5g00000Q1w2fAAB"]
    changes = [change for event in events for change in event.changes]
    assert [change.object.id for change in changes] == ["0015g00000AbCdEAAV", "0015g00000FgHiJAAV"]
    assert len(changes) == want["documents"]
    assert changes[0].fields == {
        "AnnualRevenue": "120000.0",
        "Industry": "Manufacturing",
        "Name": 'Acme & Söhne "West"',
    }


def test_a_standard_webhook_is_one_account_however_often_it_comes() -> None:
    end = outcome("standard_01_upsert", "standard_02_replay_same_id")
    assert end[ObjectKey("", "account", "acme")].fields["contract_value"] == "120000"
    assert len(end) == 1


def test_n8n_sends_an_array() -> None:
    end = outcome("n8n_01_array")
    assert {key.id: at.fields["name"] for key, at in end.items()} == {
        "1": "Acme Corp",
        "2": "Beta LLC",
    }


def test_a_zap_is_told_as_the_same_row_of_a_table() -> None:
    [zapped] = outcome("zapier_01_json").values()
    assert narrate(zapped.fields, choose_kind(zapped.fields)) == (
        "Company Acme Corp operates in the Manufacturing industry. The account contract value is"
        " $120,000 with a renewal date of 2026-10-15. The assigned account manager is Alice Vance."
    )
