"""Eviction on request: what a dry run tells, who may evict what, and what is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.calls import Json, answered, at, chat, key, read, refused
from tests.knowledge.calls import do_what_is_due
from tests.memory.stores import Clock, converse, every_row, serving, vectors

REMOTE = "203.0.113.9"


async def evict(client: httpx.AsyncClient, **body: Any) -> Json:
    headers = body.pop("headers", None)
    return answered(await client.post("/memories/evict", json=body, headers=headers))


async def remembered(client: httpx.AsyncClient, user: str) -> list[str]:
    listed = await read(client, "/memories", params={"user_id": user, "top_k": 100})
    return sorted(memory["session_id"] for memory in listed["memories"])


async def test_a_dry_run_tells_what_would_go_and_why_and_changes_nothing() -> None:
    clock = Clock()
    async with serving(clock, memory_top_k=0) as (client, runtime):
        for n, days_ago in ((1, 400), (2, 300), (3, 2)):
            said = f"Zither number {n} is called Rex."
            await converse(client, clock, f"ada-{n}", said, days_ago=days_ago)
        await converse(client, clock, "bob-1", "A very old zither.", days_ago=500)
        before = (await every_row(runtime), await vectors(runtime))
        body = {"user_id": "ada", "policy": "time", "max_age_days": 100}
        told = await evict(client, **body, dry_run=True)
        first = await evict(client, **body, dry_run=True, limit=1)
        assert (await every_row(runtime), await vectors(runtime)) == before
        done = await evict(client, **body)
        await do_what_is_due(runtime)
        left = [await remembered(client, user) for user in ("ada", "bob")]
        again = await evict(client, **body)
    assert (told["dry_run"], told["policy"], told["max_age_days"]) == (True, "time", 100)
    assert (told["total"], told["evicted"]) == (2, None)
    one, two = told["would_go"]
    assert one["text"].startswith("User: Zither number 1 is called Rex.")
    assert (one["id"], one["kind"], one["user_id"]) == ("ada-1", "episode", "ada")
    assert one["reason"] == two["reason"] == "older than 100 days"
    assert 0 < one["importance"] < two["importance"] < 0.1
    assert one["at"].startswith("2025-01-25")
    assert (first["would_go"], first["total"]) == ([one], 2)
    assert (done["dry_run"], done["total"], done["would_go"], done["more"]) == (
        False,
        2,
        None,
        False,
    )
    assert (done["evicted"]["episodes"], done["evicted"]["waiting_vectors"]) == (2, 0)
    assert left == [["ada-3"], ["bob-1"]]
    assert again["total"] == 0


async def test_what_the_request_leaves_out_is_as_the_settings_have_it() -> None:
    clock = Clock()
    chosen: dict[str, Any] = {
        "eviction_policy": "count",
        "eviction_max_memories": 7,
        "eviction_max_age_days": 12.5,
        "eviction_min_importance": 0.3,
        "eviction_keep_facts": False,
    }
    async with serving(clock, **chosen) as (client, _):
        usual = await evict(client, dry_run=True)
        other = await evict(client, dry_run=True, policy="hybrid", max_memories=2, keep_facts=True)
    names = ("policy", "max_age_days", "max_memories", "min_importance", "keep_facts")
    assert [usual[name] for name in names] == ["count", 12.5, 7, 0.3, False]
    assert [other[name] for name in names] == ["hybrid", 12.5, 2, 0.3, True]


async def test_an_admin_evicts_of_all_and_a_user_only_of_themself() -> None:
    clock = Clock()
    async with serving(clock, address=REMOTE) as (client, runtime):
        ada = await key(runtime, "user", user="ada")
        gateway, admin = await key(runtime, "gateway"), await key(runtime, "admin")
        foreign = await key(runtime, "admin", tenant="globex")
        for n in range(2):
            for user in ("ada", "bob", "eve"):
                said = {"session_id": f"{user}-{n}", "user_id": user}
                await chat(client, f"Zither {n}.", **said, headers=gateway)
                path = at("sessions", f"{user}-{n}", "close")
                answered(await client.post(path, headers=admin))
        one: Json = {"policy": "count", "max_memories": 1}
        theirs = await evict(client, **one, headers=foreign)
        other = await client.post("/memories/evict", json={**one, "user_id": "bob"}, headers=ada)
        nobody = await client.post("/memories/evict", json=one, headers=gateway)
        own = await evict(client, **one, headers=ada)
        named = await evict(client, **one, user_id="bob", headers=gateway)
        everyones = await evict(client, **one, headers=admin)
        counted = await runtime.episodes.counts("default")
    assert theirs["total"] == 0
    refused(other, 403)
    refused(nobody, 422)
    assert [done["total"] for done in (own, named, everyones)] == [1, 1, 1]
    assert counted["episodes"] == 3


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "name a policy"),
        ({"policy": "none"}, "policy"),
        ({"policy": "oldest"}, "policy"),
        ({"policy": "time", "max_age_days": 0}, "max_age_days"),
        ({"policy": "time", "max_age_days": 1e300}, "max_age_days"),
        ({"policy": "count", "max_memories": 0}, "max_memories"),
        ({"policy": "importance", "min_importance": 1.5}, "min_importance"),
        ({"policy": "time", "dry_run": "perhaps"}, "dry_run"),
        ({"policy": "time", "older_than": 3}, "older_than"),
        ({"policy": "time", "limit": 1001}, "limit"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(body: Json, told: str) -> None:
    async with serving(Clock()) as (client, _):
        error = refused(await client.post("/memories/evict", json=body), 422)
    assert told in error["message"]


async def test_extreme_limits_are_fine() -> None:
    clock = Clock()
    async with serving(clock) as (client, _):
        await converse(client, clock, "ada-1", "My zither.", days_ago=10)
        for body in (
            {"policy": "time", "max_age_days": 365_000},
            {"policy": "importance", "min_importance": 0},
            {"policy": "importance", "min_importance": 5e-324},
            {"policy": "count", "max_memories": 2**31 - 1},
            {"policy": "hybrid", "max_age_days": 365_000, "min_importance": 1},
        ):
            assert (await evict(client, **body))["total"] == 0
        assert (await evict(client, policy="importance", min_importance=1))["total"] == 1


async def test_a_mark_is_one_of_two_or_none_and_of_a_memory_that_is_there() -> None:
    clock = Clock()
    async with serving(clock) as (client, runtime):
        await converse(client, clock, "ada-1", "My zither.", days_ago=1)
        path = at("memories", "ada-1")
        wrong = await client.patch(path, json={"mark": "important"})
        missing = await client.patch(path, json={})
        unknown = await client.patch(at("memories", "ada-2"), json={"mark": "pinned"})
        others = await client.patch(path, json={"mark": "pinned"}, params={"user_id": "bob"})
        unmarked = await runtime.episodes.get("default", "ada-1")
        sentence = await client.patch(at("memories", "ada-1#s2"), json={"mark": "critical"})
        marked = await runtime.episodes.get("default", "ada-1")
    for response, status in ((wrong, 422), (missing, 422), (unknown, 404), (others, 404)):
        refused(response, status)
    assert unmarked is not None
    assert unmarked.mark is None
    assert answered(sentence)["mark"] == "critical"
    assert marked is not None
    assert marked.mark == "critical"
