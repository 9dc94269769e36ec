"""What Salesforce's ids and fields are, and how its objects are told. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.columns import label
from ingest.providers.base import ObjectType, Reference
from ingest.providers.told import Headers, kind_of
from ingest.providers.values import cell, moment

_SHORT_ID = re.compile(r"[0-9A-Za-z]{15}")
_CHECK = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
# So its XML has large numbers, which Java writes.
_SCIENTIFIC = re.compile(r"-?[0-9]\.[0-9]+E-?[0-9]{1,2}")
# Marks of fields that an organization made itself.
_OWN = re.compile(r"(?P<name>.+?)__(?:c|pc|r)(?P<rest>_.+)?")

_OWNERS = {
    "Account": "Account manager",
    "Opportunity": "Deal owner",
    "Case": "Assignee",
}
_HEADERS = {
    "Account": {"Name": "Company", "AccountSource": "Source"},
    "Contact": {"Name": "Contact name", "Title": "Job title"},
    "Lead": {"Name": "Lead name", "Title": "Job title"},
    "Opportunity": {"Name": "Deal name", "StageName": "Stage", "CurrencyIsoCode": "Currency"},
    "Case": {"CaseNumber": "Case number"},
    "Product2": {"Name": "Product name", "ProductCode": "SKU", "Family": "Category"},
    "Event": {"Subject": "Meeting title", "StartDateTime": "Meeting date", "Description": "Notes"},
}
_NAMES = {
    "Contact": ("Name", "FirstName LastName", "LastName", "Email"),
    "Lead": ("Name", "FirstName LastName", "Company"),
    "User": ("Name", "FirstName LastName", "Username"),
    "Case": ("Subject", "CaseNumber"),
    "Event": ("Subject",),
    "Task": ("Subject",),
}
_HIDDEN = frozenset(
    [
        *["SystemModstamp", "LastModifiedDate", "LastModifiedById", "CreatedById", "CreatedDate"],
        *["LastViewedDate", "LastReferencedDate", "LastActivityDate", "PhotoUrl", "IsDeleted"],
        *["MasterRecordId", "RecordTypeId", "CleanStatus", "JigsawCompanyId", "Jigsaw"],
        *["ForecastCategory", "HasOpenActivity", "HasOverdueTask", "HasOpportunityLineItem"],
        *["BillingLatitude", "BillingLongitude", "BillingGeocodeAccuracy", "IsEmailBounced"],
        *["ShippingLatitude", "ShippingLongitude", "ShippingGeocodeAccuracy", "PushCount"],
        *["MailingLatitude", "MailingLongitude", "MailingGeocodeAccuracy", "Pricebook2Id"],
    ]
)


def long_id(given: str) -> str:
    """Return an id of 15 characters, whose case matters, with the 3 that make up for it."""
    if not _SHORT_ID.fullmatch(given):
        return given
    chunks = (given[at : at + 5] for at in (0, 5, 10))
    return given + "".join(
        _CHECK[sum(1 << at for at, letter in enumerate(chunk) if letter.isupper())]
        for chunk in chunks
    )


def fields_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return fields as cells; ids of others are written as those of objects are."""
    return {name: _cell(name, cell(value)) for name, value in record.items()}


def modified(record: Mapping[str, Any]) -> datetime | None:
    """Return when the record was last changed, if the fields have it."""
    given = [moment(record.get(name)) for name in ("SystemModstamp", "LastModifiedDate")]
    return max((time for time in given if time), default=None)


def describe(object_type: str) -> ObjectType:
    return ObjectType(
        kind="meeting_note" if object_type == "Event" else kind_of(object_type),
        headers=Headers(_HEADERS.get(object_type, {}), _own_header),
        hidden=_HIDDEN,
        references={
            "OwnerId": Reference("User", _OWNERS.get(object_type, "Owner")),
            "AccountId": Reference("Account", "Company"),
            "ContactId": Reference("Contact", "Requester" if object_type == "Case" else "Contact"),
            "ParentId": Reference(object_type, "Parent"),
            "ReportsToId": Reference("Contact", "Reports to"),
        },
        name=_NAMES.get(object_type, ("Name",)),
        is_told=object_type != "User",
    )


def _cell(name: str, text: str) -> str:
    if name.endswith("Id"):
        return long_id(text)
    return format(Decimal(text), "f") if _SCIENTIFIC.fullmatch(text) else text


def _own_header(field: str) -> str:
    if found := _OWN.fullmatch(field):
        return label(found["name"] + (found["rest"] or ""))
    return ""
