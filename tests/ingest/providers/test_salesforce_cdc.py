from __future__ import annotations

from typing import Any

import pytest

from ingest.providers.base import Change, ObjectKey
from tests.ingest.providers.deliveries import NOW, change, parsed

ACCOUNT = "0015g00000AbCdEAAV"
MS = int(NOW.timestamp() * 1000)


def key() -> ObjectKey:
    return ObjectKey("", "Account", ACCOUNT)


def changed(kind: str, header: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "ChangeEventHeader": {
            "entityName": "Account",
            "recordIds": [ACCOUNT],
            "changeType": kind,
            "commitTimestamp": MS,
            "commitNumber": 7,
            "transactionKey": "000-1",
            "sequenceNumber": 1,
            **(header or {}),
        },
        **fields,
    }


TIE = "7".rjust(20, "0")


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (
            changed("CREATE", Name="A", Phone=None),
            Change(key(), "create", NOW, {"Name": "A", "Phone": ""}, tie=TIE),
        ),
        (
            changed(
                "UPDATE", {"changedFields": ["Name"], "nulledFields": ["Fax"]}, Name="A", Phone=None
            ),
            Change(key(), "change", NOW, {"Name": "A", "Fax": ""}, tie=TIE),
        ),
        (
            changed("UPDATE", {"changedFields": ["Name", "Fax"]}, Name="A", Fax=None, Phone=None),
            Change(key(), "change", NOW, {"Name": "A", "Fax": ""}, tie=TIE),
        ),
        (
            changed(
                "UPDATE",
                {"changedFields": ["0x06"], "nulledFields": ["0x400004"]},
                Name="A",
                Fax=None,
            ),
            Change(key(), "change", NOW, {"Name": "A"}, tie=TIE, is_thin=True),
        ),
        (
            changed(
                "UPDATE",
                {"changedFields": ["Description"], "diffFields": ["Description"]},
                Description="@@ -1 +1",
            ),
            Change(key(), "change", NOW, {}, tie=TIE, is_thin=True),
        ),
        (
            changed(
                "UPDATE",
                {
                    "changedFields": ["Name.LastName", "BillingAddress.City"],
                    "nulledFields": ["Name.FirstName"],
                },
                Name={"LastName": "Vance", "FirstName": None},
                BillingAddress={"City": "Köln", "Street": None},
            ),
            Change(
                key(),
                "change",
                NOW,
                {"LastName": "Vance", "BillingCity": "Köln", "FirstName": ""},
                tie=TIE,
            ),
        ),
        (changed("DELETE"), Change(key(), "delete", NOW, tie=TIE)),
        (changed("UNDELETE", Name="A"), Change(key(), "restore", NOW, {"Name": "A"}, tie=TIE)),
        (changed("GAP_CREATE"), Change(key(), "create", NOW, tie=TIE, is_thin=True)),
        (changed("GAP_UPDATE"), Change(key(), "change", NOW, tie=TIE, is_thin=True)),
        (changed("GAP_UNDELETE"), Change(key(), "restore", NOW, tie=TIE, is_thin=True)),
        (changed("GAP_DELETE"), Change(key(), "delete", NOW, tie=TIE)),
        (
            {
                "channel": "/data/x",
                "data": {"payload": changed("DELETE"), "event": {"replayId": 1}},
            },
            Change(key(), "delete", NOW, tie=TIE),
        ),
        ({"schema": "x", "payload": changed("DELETE")}, Change(key(), "delete", NOW, tie=TIE)),
        ({"records": [changed("DELETE")]}, Change(key(), "delete", NOW, tie=TIE)),
    ],
)
def test_a_change_event_that_was_passed_on(body: dict[str, Any], want: Change) -> None:
    assert change("salesforce", body) == want
    [event] = parsed("salesforce", body)
    assert event.key == f"000-1|1|Account|{ACCOUNT}"


def test_a_change_event_may_be_of_many_records() -> None:
    ids = [ACCOUNT, ACCOUNT[:15], "0015g00000FgHiJ"]
    [event] = parsed("salesforce", changed("DELETE", {"recordIds": ids}))
    assert [one.object.id for one in event.changes] == [ACCOUNT, "0015g00000FgHiJAAV"]


@pytest.mark.parametrize(
    "header",
    [
        {"recordIds": ["001*"], "changeType": "UPDATE"},
        {"recordIds": ["000000000000000AAA"], "changeType": "GAP_UPDATE"},
        {"recordIds": [], "changeType": "UPDATE"},
        {"recordIds": None, "changeType": "UPDATE"},
        {"changeType": "GAP_OVERFLOW"},
        {"changeType": "SNAPSHOT"},
        {"changeType": None},
    ],
)
def test_a_change_event_of_no_single_record_says_so(header: dict[str, Any]) -> None:
    [skipped] = parsed("salesforce", changed("UPDATE", header))
    assert "single record" in skipped.reason
