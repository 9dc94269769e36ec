"""What is special about asking Salesforce."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from app.errors import InvalidRequest, UpstreamBusy, UpstreamInvalid, UpstreamRefused
from ingest.providers.base import Change, ObjectKey
from tests.seams.crm import NOW, Crm, opened_crm
from tests.seams.test_crm import MINUTE, SINCE, THEN
from tests.wire.crm import Faults, serving_crm
from tests.wire.crm_salesforce import ROOT, SalesforceServer

TOKEN_PATH = "/services/oauth2/token"


@pytest.fixture(scope="module")
def server() -> Iterator[SalesforceServer]:
    with serving_crm(SalesforceServer()) as served:
        yield served


@pytest.fixture
async def crm(server: SalesforceServer) -> AsyncIterator[Crm]:
    async with opened_crm(server) as opened:
        yield opened


async def test_one_login_is_enough_for_calls_at_once(crm: Crm, server: SalesforceServer) -> None:
    keys = [crm.put(THEN, number=number) for number in range(5)]
    changes = await asyncio.gather(*(crm.fetcher.fetch(key, []) for key in keys))
    assert [change.object for change in changes] == keys
    assert server.logins == 1


async def test_a_session_that_has_ended_is_renewed_once(crm: Crm, server: SalesforceServer) -> None:
    keys = [crm.put(THEN, number=number) for number in range(3)]
    await crm.fetcher.fetch(keys[0], [])
    server.end_sessions()
    changes = await asyncio.gather(*(crm.fetcher.fetch(key, []) for key in keys))
    assert {change.time for change in changes} == {THEN}
    assert server.logins == 2


async def test_a_new_session_that_is_refused_too_is_told(
    crm: Crm, server: SalesforceServer
) -> None:
    key = crm.put(THEN)
    server.faults = Faults(status=401, under=ROOT)
    with pytest.raises(UpstreamRefused, match="SALESFORCE_CLIENT_ID"):
        await crm.fetcher.fetch(key, [])
    assert server.logins == 2


async def test_an_app_that_is_not_let_in_is_told(crm: Crm) -> None:
    crm.server.faults = Faults(status=400, under=TOKEN_PATH)
    with pytest.raises(UpstreamRefused, match="client-credentials flow"):
        await crm.fetcher.fetch(crm.put(THEN), [])


async def test_a_login_without_a_token_is_invalid(crm: Crm) -> None:
    crm.server.faults = Faults(other={"id": "https://login.example/id/1/2"}, under=TOKEN_PATH)
    with pytest.raises(UpstreamInvalid):
        await crm.fetcher.fetch(crm.put(THEN), [])


async def test_compound_fields_and_the_envelope_are_left_out(crm: Crm) -> None:
    change = await crm.fetcher.fetch(crm.put(THEN, BillingCity="Bern"), [])
    assert change.action == "snapshot"
    assert {**change.fields, "SystemModstamp": ""} == {
        "Name": "Acme Corp",
        "AnnualRevenue": "120000.0",
        "BillingCity": "Bern",
        "SystemModstamp": "",
    }


async def test_a_deleted_record_is_deleted(crm: Crm) -> None:
    key = crm.put(THEN)
    crm.server.remove(key.type, key.id, THEN)
    assert await crm.fetcher.fetch(key, []) == Change(key, "delete")


async def test_a_type_that_is_hidden_from_the_app_deletes_no_record(crm: Crm) -> None:
    key = crm.put(THEN)
    assert (await crm.fetcher.fetch(crm.key(number=404), [])).action == "delete"
    crm.server.forbidden = {key.type}
    with pytest.raises(UpstreamRefused):
        await crm.fetcher.fetch(key, [])


async def test_a_used_up_day_is_busy(crm: Crm) -> None:
    used_up = [{"errorCode": "REQUEST_LIMIT_EXCEEDED", "message": "TotalRequests Limit exceeded."}]
    crm.server.faults = Faults(status=403, other=used_up, under=ROOT)
    with pytest.raises(UpstreamBusy):
        await crm.fetcher.fetch(crm.put(THEN), [])


async def test_a_time_beyond_what_is_remembered_is_refused(crm: Crm) -> None:
    with pytest.raises(InvalidRequest, match="30 days: expected a time after 2026-10-31"):
        await crm.changed(NOW - timedelta(days=31))


async def test_just_now_is_a_span_long_enough(crm: Crm) -> None:
    key = crm.put(SINCE)
    crm.server.remove(key.type, key.id, NOW - MINUTE)
    assert await crm.changed(NOW) == [Change(key, "delete", NOW - MINUTE)]


async def test_deletions_that_are_forgotten_already_are_told(
    crm: Crm, server: SalesforceServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.earliest = "2026-11-20T00:00:00.000+0000"
    await crm.changed(SINCE)
    assert "deleted records of type 'Account' only since 2026-11-20" in caplog.text


async def test_a_query_is_not_followed_to_another_place(crm: Crm, server: SalesforceServer) -> None:
    server.page_rows, server.next_page = 1, "https://elsewhere.example/query/01g-1"
    for number in range(2):
        crm.put(THEN, number=number)
    with pytest.raises(UpstreamInvalid, match="another place"):
        await crm.changed(SINCE)


async def test_records_come_by_hundreds_with_all_their_fields(crm: Crm) -> None:
    keys = [crm.put(THEN + n * timedelta(seconds=1), number=n) for n in range(450)]
    found = await crm.changed(SINCE)
    assert [change.object for change in found] == keys
    assert {change.fields["Name"] for change in found} == {"Acme Corp"}
    assert crm.server.paths().count(f"{ROOT}/composite/sobjects/Account") == 3


async def test_an_id_of_fifteen_characters_finds_its_record(crm: Crm) -> None:
    key = crm.put(THEN)
    short = ObjectKey(key.account, key.type, key.id[:15])
    crm.server.put(key.type, short.id, THEN, Name="Acme Corp")
    assert (await crm.fetcher.fetch(short, [])).fields["Name"] == "Acme Corp"
