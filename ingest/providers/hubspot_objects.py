"""What HubSpot's object types are called, and how they are told. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.columns import label
from ingest.providers.base import ObjectType, Reference
from ingest.providers.told import Headers, kind_of
from ingest.providers.values import ident

_TYPES = {
    "0-1": "contact",
    "0-2": "company",
    "0-3": "deal",
    "0-5": "ticket",
    "0-7": "product",
    "0-8": "line_item",
}
# A workflow does not name the type: its older forms have an id of that type, others a property.
_IDS = {"vid": "contact", "companyId": "company", "dealId": "deal", "ticketId": "ticket"}
_TELLING = {
    "dealname": "deal",
    "hs_ticket_id": "ticket",
    "hs_ticket_priority": "ticket",
    "hs_pipeline_stage": "ticket",
    "firstname": "contact",
    "lastname": "contact",
    "domain": "company",
    "hs_sku": "product",
    "name": "company",
    "email": "contact",
}

_OWNERS = {"company": "Account manager", "deal": "Deal owner", "ticket": "Assignee"}
_NAMES = {
    "contact": ("firstname lastname", "lastname", "firstname", "email"),
    "company": ("name", "domain"),
    "deal": ("dealname",),
    "ticket": ("subject",),
    "owner": ("name", "firstName lastName", "email"),
}
_COMMON = {
    "annualrevenue": "Annual revenue",
    "numberofemployees": "Number of employees",
    "lifecyclestage": "Lifecycle stage",
    "hs_lead_status": "Lead status",
    "createdate": "Created",
    "mobilephone": "Mobile phone",
    "jobtitle": "Job title",
    "hubspot_owner_assigneddate": "Owner assigned",
    "closedate": "Close date",
    "amount_in_home_currency": "Amount in home currency",
    "deal_currency_code": "Currency",
    "notes_last_contacted": "Last contacted",
    "notes_last_updated": "Last activity",
    "notes_next_activity_date": "Next activity",
    "num_associated_contacts": "Number of contacts",
    "num_associated_deals": "Number of deals",
    "recent_deal_amount": "Recent deal amount",
    "recent_deal_close_date": "Recent deal close date",
    "total_revenue": "Total revenue",
    "hs_sku": "SKU",
}
_HEADERS = {
    "contact": {"firstname": "First name", "lastname": "Last name"},
    "company": {"name": "Company"},
    "deal": {"dealname": "Deal name", "dealstage": "Deal stage", "dealtype": "Deal type"},
    "ticket": {
        "content": "Description",
        "hs_ticket_id": "Ticket ID",
        "hs_ticket_priority": "Priority",
        "hs_ticket_category": "Category",
        "hs_pipeline": "Pipeline",
        "hs_pipeline_stage": "Status",
    },
    "product": {"name": "Product name"},
    "meeting": {
        "hs_meeting_title": "Meeting title",
        "hs_meeting_start_time": "Meeting date",
        "hs_meeting_body": "Meeting notes",
    },
    "note": {"hs_note_body": "Notes"},
}
_HIDDEN = frozenset(
    [
        *["hs_object_id", "hs_lastmodifieddate", "lastmodifieddate", "hs_createdate"],
        *["hs_all_owner_ids", "hs_all_team_ids", "hs_all_accessible_team_ids"],
        *["hs_all_assigned_business_unit_ids", "hs_user_ids_of_all_owners", "hubspot_team_id"],
        *["hs_created_by_user_id", "hs_updated_by_user_id", "hs_unique_creation_key"],
        *["hs_object_source", "hs_object_source_id", "hs_object_source_label"],
        *["hs_object_source_detail_1", "hs_object_source_user_id", "hs_source_object_id"],
        *["hs_analytics_source", "hs_analytics_source_data_1", "hs_analytics_source_data_2"],
        *["hs_latest_source", "hs_latest_source_data_1", "hs_latest_source_data_2"],
        *["hs_latest_source_timestamp", "hs_analytics_first_timestamp", "hs_analytics_num_visits"],
        *["hs_pipeline", "hs_num_open_deals", "hs_num_blockers", "hs_num_child_companies"],
        *["hs_merged_object_ids", "hs_calculated_merged_vids", "hs_was_imported", "hs_read_only"],
        *["hs_is_closed", "hs_is_closed_won", "hs_projected_amount", "hs_days_to_close"],
        *[
            "hs_projected_amount_in_home_currency",
            "hs_date_entered_lead",
            "hs_avatar_filemanager_key",
        ],
        *["associatedcompanylastupdated", "hs_target_account_probability", "hs_parent_company_id"],
    ]
)


def type_of_id(object_type_id: str) -> str:
    """Return a type's name for HubSpot's id of it; the types of an account keep their ids."""
    return _TYPES.get(object_type_id, object_type_id)


def type_of_record(body: Mapping[str, Any], properties: Mapping[str, Any]) -> tuple[str, str]:
    """Return the type and id of a workflow's record; "object" if nothing tells the type."""
    object_id = ident(body.get("objectId"))
    for name, object_type in _IDS.items():
        if found := ident(body.get(name)):
            return object_type, found
    if named := ident(body.get("objectTypeId")):
        return type_of_id(named), object_id
    telling = (found for name, found in _TELLING.items() if name in properties)
    return next(telling, "object"), object_id


def describe(object_type: str) -> ObjectType:
    hidden = _HIDDEN - {"hs_pipeline"} if object_type == "ticket" else _HIDDEN
    return ObjectType(
        kind=kind_of(object_type),
        headers=Headers(_COMMON | _HEADERS.get(object_type, {}), _own_header),
        hidden=hidden,
        references={
            "hubspot_owner_id": Reference("owner", _OWNERS.get(object_type, "Owner")),
            "associatedcompanyid": Reference("company", "Associated company"),
        },
        name=_NAMES.get(object_type, ("name",)),
        is_told=object_type != "owner",
    )


def _own_header(field: str) -> str:
    """Return the name of one of HubSpot's own properties without its mark."""
    return label(field.removeprefix("hs_")) if field.startswith("hs_") else ""
