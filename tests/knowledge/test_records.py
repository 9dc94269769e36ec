"""CRM objects from events to the index: whatever the order, deleted, renamed, erased, fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db.tables import records
from app.wiring import Runtime
from tests.senders import (
    Sent,
    accept,
    generic,
    hubspot,
    hubspot_event,
    pipedrive,
    property_change,
    receiving,
    salesforce,
    standard,
    told,
    worked_off,
)

WHAT = ["create", "set", "other", "clear", "delete", "restore", "merge", "erase"]
VALUES = ["Acme", "Beta"]

Make = Callable[[int, int, str, str], Sent]  # object, second, what happens, a value


def a_hubspot_request(id: int, second: int, what: str, value: str) -> Sent:
    number = second * 100 + WHAT.index(what) * 10 + VALUES.index(value)
    return hubspot({**a_hubspot_event(id, second, what, value), "eventId": number})


def a_hubspot_event(id: int, second: int, what: str, value: str) -> dict[str, Any]:
    if what in ("set", "other", "clear"):
        name = "name" if what == "set" else "city"
        return property_change(id, second, name, "" if what == "clear" else value)
    if what == "merge":
        ids = {"primaryObjectId": id, "mergedObjectIds": [id % 3 + 1], "newObjectId": id}
        return hubspot_event("company.merge", id, second, **ids)
    kinds = {"delete": "deletion", "restore": "restore", "create": "creation"}
    return hubspot_event(f"company.{kinds.get(what, 'privacyDeletion')}", id, second)


def a_pipedrive_request(id: int, second: int, what: str, value: str) -> Sent:
    meta: dict[str, Any] = {"id": f"{what}-{id}-{second}-{value}"}
    if what in ("delete", "erase"):
        return pipedrive("delete", id, second, None, **meta)
    if what == "merge":
        meta["merged_from_id"] = id % 3 + 1
        return pipedrive("change", id, second, {"title": value}, **meta)
    data = {"title": value} if what == "clear" else {"title": value, "value": second}
    action = "create" if what == "create" else "change"
    return pipedrive(action, id, second, data, **meta)


def a_salesforce_request(id: int, second: int, what: str, value: str) -> Sent:
    fields = {
        "Id": f"00100000000000{id}AAA",
        "SystemModstamp": f"2026-11-29T23:{second // 60:02d}:{second % 60:02d}.000Z",
        "Name": value,
    }
    if what in ("delete", "erase"):
        fields["IsDeleted"] = "true"
    if what == "other":
        fields["Industry"] = value
    action = "04k2" if what == "merge" else "04k1"
    return salesforce((f"04l{id}{second}{what}{value}", "Account", fields), action=action)


def a_standard_request(id: int, second: int, what: str, value: str) -> Sent:
    verb = "deleted" if what in ("delete", "erase") else "updated"
    event = {
        "type": f"account.{verb}",
        "timestamp": f"2026-11-29T23:{second // 60:02d}:{second % 60:02d}Z",
        "data": {"id": f"a{id}", "name": value, **({"city": value} if what == "other" else {})},
    }
    return standard(f"msg_{id}_{second}_{what}_{value}", event)


def a_generic_request(id: int, second: int, what: str, value: str) -> Sent:
    body: dict[str, Any] = {
        "id": id,
        "name": value,
        "updated_at": f"2026-11-29T23:{second // 60:02d}:{second % 60:02d}Z",
    }
    if what in ("delete", "erase"):
        body["deleted"] = True
    if what == "other":
        body["city"] = value
    return generic(body)


PROVIDERS: dict[str, Make] = {
    "hubspot": a_hubspot_request,
    "pipedrive": a_pipedrive_request,
    "salesforce": a_salesforce_request,
    "standard": a_standard_request,
    "generic": a_generic_request,
}

steps = st.tuples(
    st.integers(1, 3), st.integers(1, 6), st.sampled_from(WHAT), st.sampled_from(VALUES)
)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """An event log, and the same with repetitions in another order."""
    log = draw(st.lists(steps, min_size=1, max_size=7, unique=True))
    again = draw(st.lists(st.sampled_from(log), max_size=3))
    return log, draw(st.permutations(log + again))


async def outcome(provider: str, requests: list[Sent], pause_after: int) -> Any:
    """Return the documents and the vectors that a log ends in."""
    async with receiving() as (client, runtime):
        for number, request in enumerate(requests):
            await accept(client, request)
            if number == pause_after:
                await worked_off(runtime)
        await worked_off(runtime)
        return await told(client, provider), await vectors(runtime)


async def vectors(runtime: Runtime) -> dict[str, str]:
    ids = [id async for id in runtime.index.list_ids("documents")]
    rows = await runtime.index.fetch("documents", ids)
    return {id: str(row.metadata["text"]) for id, row in rows.items()}


@pytest.mark.parametrize("provider", PROVIDERS)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(both=logs(), pause=st.integers(0, 7))
async def test_any_order_and_any_repetition_end_in_the_same_index(
    provider: str, both: tuple[list[Any], list[Any]], pause: int
) -> None:
    make = PROVIDERS[provider]
    one, other = ([make(*step) for step in log] for log in both)
    documents, held = await outcome(provider, one, len(one))
    assert (documents, held) == await outcome(provider, other, pause)
    assert sorted(held.values()) == sorted(documents.values())


async def the_text(client: httpx.AsyncClient, source: str = "hubspot") -> str:
    (text,) = (await told(client, source)).values()
    return text


NAMED = property_change(7, 1, "name", "Acme Corp")
OWNED = property_change(7, 2, "hubspot_owner_id", "55")


def owner(name: str, second: int) -> Sent:
    """A user of Pipedrive, which sends its users as events."""
    return pipedrive("change", 77, second, {"name": name}, entity="user")


async def test_an_owner_is_told_by_name_whenever_it_becomes_known() -> None:
    deal = pipedrive("create", 42, 1, {"title": "Renewal", "owner_id": 77})
    async with receiving() as (client, runtime):
        await accept(client, deal)
        await worked_off(runtime)
        assert "77" in await the_text(client, "pipedrive")
        for name in ("Alice Vance", "Alice Moore"):
            await accept(client, owner(name, 5 if name.endswith("Vance") else 6))
            await worked_off(runtime)
            assert name in await the_text(client, "pipedrive")
        assert "Vance" not in await the_text(client, "pipedrive")
        assert list((await vectors(runtime)).values()) == [await the_text(client, "pipedrive")]


async def test_what_does_not_change_a_record_costs_no_embedding() -> None:
    async with receiving() as (client, runtime):
        await accept(client, hubspot(NAMED))
        await worked_off(runtime)
        (before,) = (await client.get("/documents")).json()["documents"]
        await accept(client, hubspot(property_change(7, 3, "name", "Acme Corp")))
        await worked_off(runtime)
        (after,) = (await client.get("/documents")).json()["documents"]
        assert after == before


async def test_a_cleared_field_takes_its_sentence_along() -> None:
    async with receiving() as (client, runtime):
        await accept(client, hubspot(NAMED, OWNED))
        await worked_off(runtime)
        assert "55" in await the_text(client)
        await accept(client, hubspot(property_change(7, 3, "hubspot_owner_id", "")))
        await worked_off(runtime)
        assert "55" not in await the_text(client)
        assert "manager" not in (await the_text(client)).lower()


async def test_an_erased_person_leaves_nothing_behind() -> None:
    born = hubspot_event("contact.propertyChange", 9, 1, propertyName="email")
    late = hubspot_event("contact.propertyChange", 9, 8, propertyName="email")
    said = {"propertyValue": "ada@example.com"}
    async with receiving() as (client, runtime):
        await accept(client, hubspot({**born, **said}))
        await worked_off(runtime)
        assert "ada@example.com" in await the_text(client)
        await accept(client, hubspot(hubspot_event("contact.privacyDeletion", 9, 5)))
        await accept(client, hubspot({**late, **said}))
        await worked_off(runtime)
        assert await told(client, "hubspot") == {}
        assert await vectors(runtime) == {}
        listed = (await client.get("/webhooks/inbox")).json()["deliveries"]
        assert [row["body"] for row in listed] == [None, None, None]
        replayed = await client.post(f"/webhooks/inbox/{listed[0]['id']}/replay")
        assert replayed.status_code == 409


async def test_an_erased_person_is_not_left_in_what_was_merged_into_it() -> None:
    said = {"propertyName": "email", "propertyValue": "ada@example.com"}
    ids = {"primaryObjectId": 9, "mergedObjectIds": [8], "newObjectId": 9}
    async with receiving() as (client, runtime):
        await accept(client, hubspot(hubspot_event("contact.propertyChange", 8, 1, **said)))
        await accept(client, hubspot(hubspot_event("contact.merge", 9, 2, **ids)))
        await accept(client, hubspot(hubspot_event("contact.privacyDeletion", 9, 3)))
        await worked_off(runtime)
        stored = await runtime.database.read(lambda c: c.execute(sa.select(records.c.state)).all())
        listed = (await client.get("/webhooks/inbox")).json()["deliveries"]
        assert len(stored) == 2
        assert "ada@example.com" not in f"{stored} {listed}"


async def test_a_document_that_was_deleted_by_hand_stays_away() -> None:
    async with receiving() as (client, runtime):
        await accept(client, hubspot(NAMED))
        await worked_off(runtime)
        (id,) = await told(client, "hubspot")
        await accept(client, hubspot(property_change(7, 2, "city", "Bonn")))  # still queued
        assert (await client.delete(f"/documents/{id}")).status_code == 200
        await worked_off(runtime)
        await accept(client, hubspot(property_change(7, 3, "city", "Köln")))
        await worked_off(runtime)
        assert await told(client, "hubspot") == {}
        assert await vectors(runtime) == {}


async def test_a_source_that_was_deleted_takes_its_queued_events_along() -> None:
    async with receiving() as (client, runtime):
        await accept(client, hubspot(NAMED, property_change(8, 1, "name", "Beta")))
        await worked_off(runtime)
        await accept(client, hubspot(property_change(8, 2, "city", "Bonn")))
        response = await client.delete("/documents", params={"source": "hubspot"})
        assert response.json() == {"deleted": 2}
        await worked_off(runtime)
        assert await told(client, "hubspot") == {}
        assert await vectors(runtime) == {}


async def test_a_record_that_shrinks_leaves_no_chunk_behind() -> None:
    long = property_change(7, 2, "description", "A sentence about tea. " * 200)
    async with receiving() as (client, runtime):
        await accept(client, hubspot(NAMED, long))
        await worked_off(runtime)
        assert len(await vectors(runtime)) > 3
        await accept(client, hubspot(property_change(7, 3, "description", "Tea.")))
        await worked_off(runtime)
        assert len(await vectors(runtime)) == 1


async def test_two_portals_do_not_share_a_record() -> None:
    elsewhere = {**property_change(7, 1, "name", "Other"), "portalId": 2}
    async with receiving() as (client, runtime):
        await accept(client, hubspot(NAMED, elsewhere))
        await worked_off(runtime)
        assert len(await told(client, "hubspot")) == 2


async def test_a_field_may_be_called_as_what_was_fetched() -> None:
    async with receiving() as (client, runtime):
        await accept(client, generic({"id": "1", "name": "Acme", "fetched": True}))
        await accept(client, generic({"id": "2", "event": "fetched", "fetched": {"object": [1]}}))
        await worked_off(runtime)
        texts = await told(client, "generic")
        assert "Fetched: Yes." in texts["generic::record:1"]
        assert len(texts) == 2


async def test_a_long_text_where_an_id_belongs_refers_to_nothing(postgres_state: str) -> None:
    odd = "".join(f"{number:04x}" for number in range(2000))
    deal = pipedrive("create", 42, 1, {"title": "Renewal", "org_id": odd})
    async with receiving(database_url=postgres_state, webhook_attempts=1) as (client, runtime):
        await accept(client, deal)
        await worked_off(runtime)
        assert odd in await the_text(client, "pipedrive")


async def test_two_fields_with_one_header_are_both_told() -> None:
    acme = {"Id": "0015g00000AbCdEAAV", "Name": "Acme", "Region": "EMEA", "Region__c": "North"}
    async with receiving() as (client, runtime):
        await accept(client, salesforce(("04l1", "Account", acme)))
        await worked_off(runtime)
        text = await the_text(client, "salesforce")
        assert "EMEA" in text
        assert "North" in text


async def test_events_of_one_object_are_gathered_into_one_job() -> None:
    async with receiving(webhook_coalesce_seconds=60.0) as (client, runtime):
        await accept(client, hubspot(NAMED), hubspot(OWNED), hubspot(ACME_ELSEWHERE))
        waiting = await runtime.jobs.pending()
        assert waiting["deliveries"]["pending"] == 2
        assert await runtime.worker.drain() == 0


ACME_ELSEWHERE = property_change(8, 1, "name", "Acme Elsewhere")
