"""Whatever comes, a provider answers or raises what the contract names."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.providers import PROVIDERS
from ingest.providers.base import (
    BadSignature,
    Incoming,
    NotConfigured,
    Provider,
    UnreadableDelivery,
)
from tests.ingest.providers.deliveries import NOW, source

# Names that the providers look at, so that the odd values land where they hurt.
NAMES = st.sampled_from(
    [
        *["meta", "data", "current", "previous", "records", "items", "type", "action", "event"],
        *["id", "Id", "vid", "objectId", "eventId", "occurredAt", "subscriptionType", "portalId"],
        *["propertyName", "propertyValue", "properties", "value", "timestamp", "objectTypeId"],
        *["primaryObjectId", "mergedObjectIds", "newObjectId", "entity", "entity_id", "attributes"],
        *["merged_from_id", "custom_fields", "ChangeEventHeader", "changeType", "recordIds"],
        *["changedFields", "nulledFields", "diffFields", "commitTimestamp", "payload", "fields"],
        *["NotificationId", "record", "deleted", "updated_at", "name", "sobject", "", " ", "\x00"],
    ]
)
WORDS = st.sampled_from(
    [
        *[
            "company.propertyChange",
            "contact.merge",
            "object.creation",
            "create",
            "change",
            "merged",
        ],
        *[
            "UPDATE",
            "GAP_UPDATE",
            "account.deleted",
            "deal",
            "2026-11-30T00:00:00Z",
            "0x1f",
            "true",
        ],
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=20)
    | WORDS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=25,
)
HEADER_NAMES = st.sampled_from(
    [
        *["authorization", "content-type", "x-api-key", "idempotency-key", "webhook-id"],
        *["webhook-timestamp", "webhook-signature", "svix-signature", "x-hubspot-signature-v3"],
        *["x-hubspot-signature", "x-hubspot-signature-version", "x-hubspot-request-timestamp"],
    ]
)
HEADER_VALUES = st.text(st.characters(exclude_categories=[]), max_size=30) | st.sampled_from(
    [
        *["1795996800", "1795996800000", "v1", "v2", "v1,abc", "Basic YTpi", "Bearer x", "Basic é"],
        *["application/json", "text/xml", "application/x-www-form-urlencoded", "text/plain"],
    ]
)
HEADERS = st.dictionaries(HEADER_NAMES, HEADER_VALUES, max_size=6)
BODIES = st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode())
PATHS = st.text(st.characters(exclude_categories=[]), max_size=20)

every_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)


@every_provider
@settings(max_examples=60, deadline=None)
@given(headers=HEADERS, body=BODIES, path=PATHS, account=st.sampled_from(["", "7"]))
def test_no_stranger_is_let_in_and_none_breaks_the_door(
    provider: Provider, headers: dict[str, str], body: bytes, path: str, account: str
) -> None:
    incoming = Incoming("POST", path, headers, body)
    configured = source(provider.name, "whsec_c2VjcmV0", "s3cret:t0ken", account=account)
    with pytest.raises((BadSignature, NotConfigured)):
        provider.verify(incoming, configured, NOW)


@settings(max_examples=60, deadline=None)
@given(headers=HEADERS, body=BODIES)
def test_a_body_that_is_asked_for_its_organization_breaks_nothing(
    headers: dict[str, str], body: bytes
) -> None:
    configured = source("salesforce", token="t", account="7")
    with suppress(BadSignature):
        PROVIDERS["salesforce"].verify(Incoming("POST", "/", headers, body), configured, NOW)


@every_provider
@settings(max_examples=60, deadline=None)
@given(headers=HEADERS, body=BODIES, account=st.sampled_from(["", "7"]))
def test_verified_bytes_are_events_or_unreadable(
    provider: Provider, headers: dict[str, str], body: bytes, account: str
) -> None:
    incoming = Incoming("POST", "/webhooks", headers, body)
    try:
        events, _ = provider.parse(incoming)
    except UnreadableDelivery:
        return
    for event in events:
        stored = json.dumps(event.body, allow_nan=False)
        assert provider.read(json.loads(stored)) == event.changes
        assert "\x00" not in event.key + event.type
        assert len(event.key.encode()) <= 512
        assert bool(event.reason) != bool(event.changes)
        for change in event.changes:
            key = change.object
            assert all(len(part.encode()) <= 512 for part in (key.account, key.type, key.id))
            assert key.type
            assert key.id
            json.dumps(dict(change.fields)).encode()
            "".join([*change.fields, *change.fields.values(), change.scope, change.tie]).encode()


@every_provider
@settings(max_examples=50, deadline=None)
@given(body=st.dictionaries(NAMES, VALUES, max_size=8))
def test_any_stored_body_can_be_read(provider: Provider, body: dict[str, Any]) -> None:
    assert isinstance(provider.read(body), tuple)


@every_provider
@settings(max_examples=50, deadline=None)
@given(object_type=st.text(st.characters(exclude_categories=[]), max_size=20))
def test_any_type_is_described(provider: Provider, object_type: str) -> None:
    described = provider.describe(object_type)
    assert described.name
    assert described.headers.get(object_type, "x")
