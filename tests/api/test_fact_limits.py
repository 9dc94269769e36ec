"""Facts at the edge of time, and very many of them, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.memory import entities, fact_rows
from app.memory.base import FoundEntity
from app.memory.facts import MOST_HISTORY
from tests.api.calls import answered, at, read, refused
from tests.memory.telling import NOW, said
from tests.served import served

MANY = MOST_HISTORY + 2


async def tell(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.post("/memories/facts", json={"predicate": "owns", "value": "tea", **body})


@pytest.mark.parametrize("field", ["valid_from", "ends_at"])
@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00-12:00"]
)
async def test_a_time_that_some_zone_can_not_tell_is_refused(field: str, moment: str) -> None:
    async with served() as (client, _):
        error = refused(await tell(client, **{field: moment}), 422)
        fact = answered(await tell(client))
        path = at("memories", "facts", fact["fact_id"])
        changed = await client.patch(path, json={field: moment})
    assert error["message"] == f"{field} must lie between the years 2 and 9998"
    refused(changed, 422)


async def test_the_first_and_the_last_time_are_told_in_any_zone() -> None:
    edges = {"valid_from": "0002-01-01T00:00:00Z", "ends_at": "9998-12-31T23:59:59Z"}
    async with served() as (client, _):
        answered(await tell(client, **edges))
        for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
            body = {"message": "What do I own?", "timezone": zone}
            assert (await client.post("/chat", json=body)).status_code == 200


async def test_a_history_shows_the_latest_of_very_many_values_and_says_so() -> None:
    async with served() as (client, runtime):
        found = [said(f"city {n}", n / 10, seq=n) for n in range(MANY)]
        await runtime.database.write(
            lambda c: fact_rows.take(c, "default", "default", None, found, NOW)
        )
        (current,) = (await read(client, "/memories/facts"))["facts"]
        history = await read(client, at("memories", "facts", current["fact_id"], "history"))
    values = [fact["value"] for fact in history["facts"]]
    assert values == [f"city {n}" for n in range(2, MANY)]
    assert history["is_cut"]


async def test_a_history_shows_the_latest_times_that_a_fact_was_said() -> None:
    async with served() as (client, runtime):
        found = [said("tea", n / 10, "likes", is_many=True, seq=n) for n in range(MANY)]
        await runtime.database.write(
            lambda c: fact_rows.take(c, "default", "default", None, found, NOW)
        )
        answered(await tell(client))
        facts = (await read(client, "/memories/facts"))["facts"]
        often, once = sorted(facts, key=lambda fact: -fact["sightings"])
        cut = await read(client, at("memories", "facts", often["fact_id"], "history"))
        whole = await read(client, at("memories", "facts", once["fact_id"], "history"))
    assert often["sightings"] == MANY
    assert len(cut["sightings"]) == MOST_HISTORY
    assert cut["sightings"][-1]["said_at"] == often["last_seen_at"]
    assert cut["is_cut"]
    assert not whole["is_cut"]


async def test_an_entity_is_listed_with_its_latest_relations_alone() -> None:
    async with served() as (client, runtime):
        names = [FoundEntity(f"Ben{n}", "person") for n in range(60)]
        value = " ".join(one.name for one in names)
        await runtime.database.write(
            lambda c: entities.take(c, "default", "default", "s", names, NOW - timedelta(days=1))
        )
        answered(await tell(client, subject="Ben0", predicate="knows", value=value))
        listed = (await read(client, "/memories/entities"))["entities"]
    assert len(listed) == 60
    assert max(len(one["relations"]) for one in listed) == entities.MOST_OF_ONE
