"""What is special about asking Pipedrive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ingest.providers.base import Change
from ingest.providers.pipedrive import Pipedrive
from tests.seams.crm import Crm, opened_crm
from tests.seams.test_crm import MINUTE, SINCE, THEN
from tests.wire.crm import serving_crm
from tests.wire.crm_pipedrive import PipedriveServer


@pytest.fixture(scope="module")
def server() -> Iterator[PipedriveServer]:
    with serving_crm(PipedriveServer()) as served:
        yield served


@pytest.fixture
async def crm(server: PipedriveServer) -> AsyncIterator[Crm]:
    async with opened_crm(server) as opened:
        yield opened


async def test_a_fetched_object_says_the_same_as_its_event(crm: Crm) -> None:
    plain: dict[str, Any] = {
        "title": "Acme renewal",
        "value": 120000.5,
        "currency": "USD",
        "owner_id": 77,
    }
    key = crm.put(
        THEN, **plain, custom_fields={"abc": "Gold", "def": {"value": 7, "currency": "EUR"}}
    )
    fetched = await crm.fetcher.fetch(key, [])
    own = {
        "abc": {"type": "varchar", "value": "Gold"},
        "def": {"type": "monetary", "value": 7, "currency": "EUR"},
    }
    meta = {"action": "change", "entity": "deal", "entity_id": "1", "company_id": crm.account}
    event = {"meta": meta, "data": {"id": 1, **plain, "custom_fields": own}, "previous": {}}
    [change] = Pipedrive().read(event)
    assert change.object == fetched.object
    assert (change.action, change.scope) == (fetched.action, fetched.scope) == ("snapshot", "")
    assert change.fields.items() <= fetched.fields.items()


async def test_an_object_in_the_bin_is_deleted_with_its_time(crm: Crm) -> None:
    key = crm.put(SINCE)
    crm.server.remove(key.type, key.id, THEN)
    assert await crm.fetcher.fetch(key, []) == Change(key, "delete", THEN)


async def test_a_user_who_has_left_still_has_a_name(crm: Crm) -> None:
    key = crm.put(THEN, type="user", is_deleted=True)
    assert (await crm.fetcher.fetch(key, [])).fields["name"] == "Grace Hopper"


async def test_notes_are_read_back_to_the_time_and_no_further(crm: Crm) -> None:
    crm.server.page_rows = 2
    for number in range(10):
        crm.put(SINCE - number * MINUTE, type="note", number=10 + number)
    new = [crm.put(THEN + n * MINUTE, type="note", number=30 + n) for n in range(3)]
    gone = crm.put(SINCE - MINUTE, type="note", number=40)
    crm.server.remove("note", gone.id, THEN)
    found = await crm.changed(SINCE + MINUTE)
    assert {change.object for change in found if change.action == "snapshot"} == set(new)
    assert crm.server.paths().count("/v1/notes") == 2
