"""What is special about asking HubSpot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from app.errors import UpstreamInvalid
from ingest.providers.base import Change
from ingest.providers.hubspot_objects import describe
from tests.seams.crm import Crm, opened_crm
from tests.seams.test_crm import MINUTE, SINCE, THEN
from tests.wire.crm import serving_crm
from tests.wire.crm_hubspot import HubSpotServer

MILLISECOND = timedelta(milliseconds=1)


@pytest.fixture(scope="module")
def server() -> Iterator[HubSpotServer]:
    with serving_crm(HubSpotServer()) as served:
        yield served


@pytest.fixture
async def crm(server: HubSpotServer) -> AsyncIterator[Crm]:
    async with opened_crm(server) as opened:
        yield opened


def properties_of(crm: Crm) -> list[list[str]]:
    """Return the properties that each call asked for."""
    queries = [call.query for call in crm.server.calls]
    return [query["properties"].split(",") for query in queries if "properties" in query]


async def test_stored_properties_are_asked_for_beside_the_usual_ones(crm: Crm) -> None:
    key = crm.put(THEN, tier="Gold")
    change = await crm.fetcher.fetch(key, ["tier", "amount", "no property", "a,b"])
    assert change.fields["tier"] == "Gold"
    [asked] = properties_of(crm)
    assert set(change.fields) == set(asked)
    assert sorted(asked) == sorted(set(asked))
    assert {"dealname", "amount", "tier"} <= set(asked)
    assert not {"no property", "a", "b"} & set(asked)


async def test_what_was_not_asked_for_stays_as_it_is(crm: Crm) -> None:
    change = await crm.fetcher.fetch(crm.put(THEN, tier="Gold"), [])
    assert change.action == "create"
    assert "tier" not in change.fields


async def test_many_properties_take_several_calls(crm: Crm) -> None:
    many: dict[str, Any] = {
        f"property_{number:03d}_{'x' * 80}": str(number) for number in range(400)
    }
    change = await crm.fetcher.fetch(crm.put(THEN, **many), list(many))
    assert {name: change.fields[name] for name in many} == many
    assert len(properties_of(crm)) == 3


async def test_values_are_cells_as_those_of_events_are(crm: Crm) -> None:
    key = crm.put(THEN, closedate="2026-10-15T00:00:00Z", amount=None, hs_is_open="true")
    change = await crm.fetcher.fetch(key, ["hs_is_open"])
    cells = {name: change.fields[name] for name in ("closedate", "amount", "hs_is_open")}
    assert cells == {"closedate": "2026-10-15", "amount": "", "hs_is_open": "Yes"}


async def test_an_object_that_was_merged_into_another_is_deleted(
    crm: Crm, server: HubSpotServer
) -> None:
    winner = crm.put(THEN, number=1)
    loser = crm.put(THEN, number=2)
    server.merged[loser.id] = winner.id
    assert await crm.fetcher.fetch(loser, []) == Change(loser, "delete")


async def test_an_archived_object_is_deleted(crm: Crm) -> None:
    key = crm.put(THEN)
    crm.server.remove(key.type, key.id, THEN)
    assert await crm.fetcher.fetch(key, []) == Change(key, "delete")


async def test_an_owner_who_has_left_still_has_a_name(crm: Crm) -> None:
    key = crm.put(THEN, type="owner")
    crm.server.remove(key.type, key.id, THEN)
    for change in (await crm.fetcher.fetch(key, []), *await crm.changed(SINCE)):
        assert change.object == key
        assert change.action == "create"
        told = [
            " ".join(change.fields.get(f, "") for f in n.split()) for n in describe("owner").name
        ]
        assert "Grace Hopper" in told


async def test_what_is_changed_while_pages_are_read_hides_nothing(crm: Crm) -> None:
    crm.server.page_rows = 2
    keys = {crm.put(THEN + n * MINUTE, number=10 + n) for n in range(6)}
    found = set()
    async for change in crm.fetcher.changed_since(SINCE):
        if change.object not in found and change.object.id in ("10", "11"):
            crm.put(THEN + 60 * MINUTE, number=int(change.object.id))
        found.add(change.object)
    assert found == keys


async def test_objects_changed_at_one_moment_are_told_once_each(crm: Crm) -> None:
    crm.server.page_rows = 2
    keys = [crm.put(THEN, number=10 + n) for n in range(5)]
    keys += [crm.put(THEN + MILLISECOND, number=20 + n) for n in range(3)]
    assert [change.object for change in await crm.changed(SINCE)] == keys


async def test_more_than_the_search_reaches_is_told(crm: Crm) -> None:
    for number in range(10_001):
        crm.put(THEN, number=100_000 + number)
    with pytest.raises(UpstreamInvalid, match="10000 objects of type 'deal'"):
        await crm.changed(SINCE)


async def test_stored_properties_come_with_what_was_changed(crm: Crm) -> None:
    crm.put(THEN, tier="Gold")
    [change] = await crm.changed(SINCE, known={"deal": ["tier"]})
    assert change.fields["tier"] == "Gold"
