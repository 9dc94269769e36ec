"""What every fetcher promises, whichever CRM it asks: one suite, every adapter."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from app.crm.calls import path_of
from app.errors import (
    Misconfigured,
    UpstreamBusy,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.picks import pick_fetchers
from app.wiring import utc_now
from ingest.providers.base import Change, ObjectKey
from tests.seams.crm import Crm, opened_crm, served_crms
from tests.served import settings
from tests.wire.crm import CrmServer, Faults

PROVIDERS = ["hubspot", "pipedrive", "salesforce"]
SINCE = datetime(2026, 11, 15, tzinfo=UTC)
THEN = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOSTILE_TYPES = [
    "../deals",
    "deals/1",
    "deal?x=1",
    "deal#",
    "de al",
    "",
    "..",
    "%2e%2e",
    "Ⅷ",
    "a" * 200,
]
HOSTILE_IDS = ["..", ".", "", "../../owners/1", "1?x=1", "1#", "1%2f", "1 2", "１", "9" * 200]


@pytest.fixture(scope="module")
def servers() -> Iterator[Mapping[str, CrmServer]]:
    with served_crms() as by_provider:
        yield by_provider


@pytest.fixture(params=PROVIDERS)
async def crm(
    request: pytest.FixtureRequest, servers: Mapping[str, CrmServer]
) -> AsyncIterator[Crm]:
    async with opened_crm(servers[request.param]) as opened:
        yield opened


@pytest.fixture(params=PROVIDERS)
async def hurried(
    request: pytest.FixtureRequest, servers: Mapping[str, CrmServer]
) -> AsyncIterator[Crm]:
    async with opened_crm(servers[request.param], crm_timeout_seconds=0.6) as opened:
        yield opened


async def test_an_object_of_each_type_comes_with_its_fields_and_its_time(crm: Crm) -> None:
    for type, sample in crm.samples.items():
        key = crm.put(THEN, type=type)
        change = await crm.fetcher.fetch(key, [])
        assert change.object == key
        assert change.action in ("create", "snapshot")
        assert next(iter(sample.values())) in change.fields.values()
        # Owners of HubSpot are renamed without a new time, so they have none.
        assert change.time == (None if type == "owner" else THEN)


async def test_a_value_that_is_not_there_clears_what_is_stored(crm: Crm) -> None:
    emptied = list(crm.samples[crm.main_type])[-1]
    change = await crm.fetcher.fetch(crm.put(THEN), [emptied])
    assert not change.fields.get(emptied)
    assert change.fields.get(emptied) == "" or (change.action, change.scope) == ("snapshot", "")


async def test_an_object_that_is_not_there_is_deleted(crm: Crm) -> None:
    for type in crm.samples:
        key = crm.key(type, 404)
        assert await crm.fetcher.fetch(key, []) == Change(key, "delete")


async def test_a_missing_page_of_something_else_deletes_nothing(crm: Crm) -> None:
    key = crm.put(THEN)
    await crm.fetcher.fetch(key, [])
    crm.server.faults = Faults(status=404)
    with pytest.raises(UpstreamRefused):
        await crm.fetcher.fetch(key, [])


async def test_a_refused_key_is_told_by_its_setting_and_not_by_its_value(
    crm: Crm, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = crm.put(THEN)
    await crm.fetcher.fetch(key, [])
    for status in (400, 401, 403):
        crm.server.faults = Faults(status=status, other={"message": crm.secrets[0]})
        with pytest.raises(UpstreamRefused) as refused:
            await crm.fetcher.fetch(key, [])
        assert refused.value.part == "crm"
        told = refused.value.message + repr(refused.value) + caplog.text
        assert not any(secret in told for secret in crm.secrets)
        assert status == 400 or crm.fetcher.provider.upper() in refused.value.message
    assert not any(secret in repr(crm.fetcher) for secret in crm.secrets)


async def test_a_limited_rate_is_waited_for(crm: Crm) -> None:
    key = crm.put(THEN)
    crm.server.faults = Faults(status=429, retry_after="0", times=2)
    change = await crm.fetcher.fetch(key, [])
    assert change.time == THEN
    assert crm.server.paths()[0] == crm.server.paths()[1] == crm.server.paths()[2]


async def test_a_long_wait_is_left_to_the_caller(crm: Crm) -> None:
    crm.server.faults = Faults(status=429, retry_after="120")
    with pytest.raises(UpstreamBusy) as busy:
        await crm.fetcher.fetch(crm.put(THEN), [])
    assert (busy.value.part, busy.value.retry_after) == ("crm", 120.0)
    assert len(crm.server.calls) == 1


async def test_a_broken_connection_is_tried_again(crm: Crm) -> None:
    crm.server.faults = Faults(hang_up=True, times=1)
    assert (await crm.fetcher.fetch(crm.put(THEN), [])).time == THEN


async def test_a_fault_that_stays_is_told(hurried: Crm) -> None:
    hurried.server.faults = Faults(status=503)
    with pytest.raises(UpstreamUnavailable) as unavailable:
        await hurried.fetcher.fetch(hurried.put(THEN), [])
    assert unavailable.value.part == "crm"
    assert len(hurried.server.calls) > 1


async def test_a_slow_answer_is_not_waited_for(hurried: Crm) -> None:
    hurried.server.faults = Faults(latency_seconds=30.0)
    with pytest.raises(UpstreamTimeout):
        await hurried.fetcher.fetch(hurried.put(THEN), [])


@pytest.mark.parametrize(
    "fault",
    [
        Faults(garbage=True),
        Faults(other=["of", "another", "shape"]),
        Faults(other={"id": None, "data": 1}),
        Faults(blank_bytes=17 * 2**20),
        Faults(redirect="https://elsewhere.example/"),
    ],
    ids=["no JSON", "a list", "an object", "too large", "a redirect"],
)
async def test_an_answer_that_is_none_is_invalid(crm: Crm, fault: Faults) -> None:
    key = crm.put(THEN)
    crm.server.faults = fault
    with pytest.raises(UpstreamInvalid) as invalid:
        await crm.fetcher.fetch(key, [])
    assert invalid.value.part == "crm"
    crm.server.faults = Faults()
    assert (await crm.fetcher.fetch(key, [])).time == THEN


@pytest.mark.parametrize("type", HOSTILE_TYPES)
async def test_a_type_that_is_none_is_refused_before_any_call(crm: Crm, type: str) -> None:
    with pytest.raises(UpstreamRefused):
        await crm.fetcher.fetch(ObjectKey(crm.account, type, crm.id(1)), [])
    assert crm.server.calls == []


@pytest.mark.parametrize("id", HOSTILE_IDS)
async def test_an_id_that_is_none_is_refused_before_any_call(crm: Crm, id: str) -> None:
    with pytest.raises(UpstreamRefused):
        await crm.fetcher.fetch(ObjectKey(crm.account, crm.main_type, id), [])
    assert crm.server.calls == []


def test_a_part_stays_in_its_place_of_the_path() -> None:
    assert path_of("crm", "a/../b?c#d%2e ü") == "/crm/a%2F..%2Fb%3Fc%23d%252e%20%C3%BC"
    for part in ("", ".", ".."):
        with pytest.raises(UpstreamRefused):
            path_of("crm", part)


async def test_the_same_id_in_another_account_is_another_object(crm: Crm) -> None:
    key = crm.put(THEN)
    with pytest.raises(UpstreamRefused) as refused:
        await crm.fetcher.fetch(ObjectKey("999", key.type, key.id), [])
    assert "999" in refused.value.message
    assert not any(path.endswith(key.id) for path in crm.server.paths())
    assert (await crm.fetcher.fetch(ObjectKey("", key.type, key.id), [])).time == THEN


async def test_nothing_but_what_is_configured_is_sent(crm: Crm) -> None:
    key = crm.put(THEN)
    for _ in range(2):
        await crm.fetcher.fetch(key, [])
    sent = {name for call in crm.server.calls for name in call.headers}
    plain = {"host", "accept", "accept-encoding", "connection", "user-agent"}
    form = {"content-type", "content-length"} if crm.fetcher.provider == "salesforce" else set()
    assert sent - plain - form == (
        {"x-api-token"} if crm.fetcher.provider == "pipedrive" else {"authorization"}
    )


async def test_what_was_changed_or_deleted_since_comes_page_by_page(crm: Crm) -> None:
    crm.server.page_rows = 2
    changed = {crm.put(THEN + n * MINUTE, number=10 + n) for n in range(5)}
    for number in (20, 21, 22):
        key = crm.put(SINCE - MINUTE, number=number)
        crm.server.remove(key.type, key.id, THEN)
    deleted = {crm.key(number=number) for number in (20, 21, 22)}
    crm.put(SINCE - MINUTE, number=30)
    old = crm.put(SINCE - 2 * MINUTE, number=31)
    crm.server.remove(old.type, old.id, SINCE - MINUTE)

    found = await crm.changed(SINCE)

    assert {change.object for change in found if change.action == "delete"} == deleted
    assert {change.time for change in found if change.action == "delete"} == {THEN}
    there = [change for change in found if change.action != "delete"]
    assert {change.object for change in there} == changed
    assert len(found) == len(changed) + len(deleted)
    for change in there:
        known = list(change.fields)
        assert change == await crm.fetcher.fetch(change.object, known)


async def test_what_was_changed_comes_of_every_type(crm: Crm) -> None:
    keys = {crm.put(THEN, type=type) for type in crm.samples}
    found = await crm.changed(SINCE, known={type: ["name"] for type in crm.samples})
    assert {change.object for change in found} == keys
    assert len(found) == len(keys)


async def test_a_type_that_may_not_be_read_is_left_out_aloud(
    crm: Crm, caplog: pytest.LogCaptureFixture
) -> None:
    types = list(crm.samples)[:3]
    keys = [crm.put(THEN, type=type) for type in types]
    crm.server.forbidden = {types[1]}
    found = await crm.changed(SINCE)
    assert {change.object for change in found} == {keys[0], keys[2]}
    assert repr(types[1]) in caplog.text


async def test_types_that_no_crm_has_are_no_reason_to_stop(crm: Crm) -> None:
    key = crm.put(THEN)
    found = await crm.changed(SINCE, known={type: [] for type in HOSTILE_TYPES})
    assert [change.object for change in found] == [key]


async def test_a_fault_in_the_middle_is_told(crm: Crm) -> None:
    crm.server.page_rows = 1
    for number in range(3):
        crm.put(THEN + number * MINUTE, number=10 + number)
    changes = crm.fetcher.changed_since(SINCE)
    assert (await anext(changes)).object == crm.key(number=10)
    crm.server.faults = Faults(garbage=True)
    with pytest.raises(UpstreamInvalid):
        [change async for change in changes]


async def test_a_closed_fetcher_asks_no_more(crm: Crm) -> None:
    key = crm.put(THEN)
    await crm.fetcher.fetch(key, [])
    asked = len(crm.server.calls)
    await crm.fetcher.close()
    with pytest.raises(RuntimeError):
        await crm.fetcher.fetch(key, [])
    assert len(crm.server.calls) == asked


def test_without_credentials_there_is_no_access() -> None:
    assert pick_fetchers(settings(), utc_now) == {}


@pytest.mark.parametrize(
    ("chosen", "named"),
    [
        ({"salesforce_client_id": "app"}, "SALESFORCE_INSTANCE_URL, SALESFORCE_CLIENT_SECRET"),
        ({"hubspot_access_token": "t", "hubspot_api_base": "api.example"}, "HUBSPOT_API_BASE"),
        ({"pipedrive_api_token": "a\nb"}, "PIPEDRIVE_API_TOKEN"),
        ({"hubspot_access_token": "pät"}, "HUBSPOT_ACCESS_TOKEN"),
    ],
)
def test_access_that_can_not_work_is_told_at_start(chosen: dict[str, str], named: str) -> None:
    with pytest.raises(Misconfigured, match=named):
        pick_fetchers(settings(**chosen), utc_now)
