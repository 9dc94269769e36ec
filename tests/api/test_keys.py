"""API keys: made, listed, rotated, revoked; when they end, and when they were used."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app.db.tables import audit_log
from app.wiring import Runtime
from tests.api.calls import Json, answered, at, key, names, read, refused
from tests.memory.stores import Clock
from tests.served import served, served_at

REMOTE = "203.0.113.9"
Headers = dict[str, str]


def bearer(made: Json) -> Headers:
    return {"Authorization": f"Bearer {made['key']}"}


async def make(client: httpx.AsyncClient, headers: Headers, **fields: Any) -> Json:
    told = {"role": "gateway", **fields}
    return answered(await client.post("/keys", json=told, headers=headers))


async def rotate(
    client: httpx.AsyncClient, headers: Headers, made: Json, **fields: Any
) -> httpx.Response:
    return await client.post(at("keys", made["id"], "rotate"), json=fields, headers=headers)


async def status(client: httpx.AsyncClient, headers: Headers) -> int:
    return (await client.get("/v1/models", headers=headers)).status_code


async def test_a_key_is_shown_once_works_and_is_listed_without_its_secret() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE) as (client, runtime):
        admin = await key(runtime, "admin")
        ends_at = (clock.now + timedelta(days=30)).isoformat()
        fields: Json = {
            "role": "user",
            "user_id": "ada",
            "name": "phone, was 4111 1111 1111 1111",
            "expires_at": ends_at,
            "document_filter": {"department": "sales"},
        }
        response = await client.post("/keys", json=fields, headers=admin)
        made = answered(response)
        assert response.headers["cache-control"] == "no-store"
        assert await status(client, bearer(made)) == 200
        shown = await client.get(at("keys", made["id"]), headers=admin)
        listed = await client.get("/keys", headers=admin)
        for text in (shown.text, listed.text):
            assert made["key"] not in text
            assert made["key"][10:] not in text
        told = answered(shown)
        assert told == {**{k: v for k, v in made.items() if k != "key"},
                        "last_used_at": told["last_used_at"]}  # fmt: skip
        assert (told["state"], told["prefix"]) == ("valid", made["key"][:10])
        assert (told["user_id"], told["name"]) == ("ada", "phone, was [CARD_1]")
        assert told["document_filter"] == fields["document_filter"]
        assert {one["role"] for one in answered(listed)["keys"]} == {"admin", "user"}


@pytest.mark.parametrize(
    ("fields", "param", "told"),
    [
        ({"role": "user"}, "user_id", "needs a user"),
        ({"role": "admin", "user_id": "ada"}, "user_id", "has no user"),
        ({"role": "owner"}, "role", "'user', 'gateway' or 'admin'"),
        ({"role": "gateway", "expires_at": "2026-03-01T12:00:00Z"}, "expires_at", "the future"),
        ({"role": "gateway", "expires_at": "2026-04-01T12:00:00"}, "expires_at", "an offset"),
        ({"role": "gateway", "document_filter": {}}, None, "at least one field"),
        ({"role": "gateway", "document_filter": {"a": {"$like": "x"}}}, None, "operator"),
        ({"role": "gateway", "document_filter": {"text": "x"}}, None, "passage"),
        ({"role": "gateway", "name": "  "}, "name", "blank"),
        ({"role": "gateway", "tenant_id": "globex"}, "tenant_id", "unknown field"),
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(
    fields: Json, param: str | None, told: str
) -> None:
    async with served_at(Clock()) as (client, _):
        error = refused(await client.post("/keys", json=fields), 422)
        assert (await read(client, "/keys"))["keys"] == []
    assert error["param"] == param
    assert told in error["message"]


async def test_a_key_ends_at_its_end_and_the_end_of_the_last_one_opens_nothing() -> None:
    clock = Clock()
    async with served_at(clock) as (client, runtime):
        ends_at = clock.now + timedelta(hours=1)
        admin = await key(runtime, "admin", expires_at=ends_at)
        clock.now = ends_at - timedelta(microseconds=1)
        assert await status(client, admin) == 200
        clock.now = ends_at
        error = refused(await client.get("/stats", headers=admin), 401)
        theirs = refused(await client.get("/v1/models", headers=admin), 401)
        refused(await client.get("/stats"), 401)
        (listed,) = await runtime.keys.list_keys(None)
        assert listed.state(clock.now) == "expired"
    assert error["code"] == "key_expired"
    assert (theirs["code"], theirs["message"]) == ("invalid_api_key", error["message"])


async def test_a_rotated_key_works_through_its_grace_and_its_successor_beyond() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE) as (client, runtime):
        admin = await key(runtime, "admin")
        bound = {"department": "sales"}
        old = await make(
            client, admin, role="user", user_id="ada", name="phone", document_filter=bound
        )
        response = await rotate(client, admin, old, grace_hours=2)
        new = answered(response)
        assert response.headers["cache-control"] == "no-store"
        assert (new["replaces"], new["user_id"], new["role"]) == (old["id"], "ada", "user")
        assert (new["name"], new["document_filter"], new["expires_at"]) == ("phone", bound, None)
        assert new["key"] != old["key"]
        clock.now += timedelta(hours=2) - timedelta(microseconds=1)
        assert [await status(client, bearer(one)) for one in (old, new)] == [200, 200]
        clock.now += timedelta(microseconds=1)
        assert [await status(client, bearer(one)) for one in (old, new)] == [401, 200]


async def test_a_rotation_without_grace_ends_the_old_secret_at_once() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE) as (client, runtime):
        admin = await key(runtime, "admin")
        old = await make(client, admin)
        new = answered(await rotate(client, admin, old))
        assert [await status(client, bearer(one)) for one in (old, new)] == [401, 200]


async def test_a_rotation_prolongs_no_key_and_its_successor_lives_as_long_as_it_did() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE) as (client, runtime):
        admin = await key(runtime, "admin")
        ends_at = clock.now + timedelta(days=10)
        old = await make(client, admin, expires_at=ends_at.isoformat())
        clock.now += timedelta(days=9, hours=23)
        new = answered(await rotate(client, admin, old, grace_hours=48))
        kept = await runtime.keys.get("default", old["id"])
        successor = await runtime.keys.get("default", new["id"])
    assert kept.expires_at == ends_at
    assert successor.expires_at == clock.now + timedelta(days=10)


async def test_a_key_that_is_over_or_was_rotated_is_not_rotated() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE) as (client, runtime):
        admin = await key(runtime, "admin")
        soon = (clock.now + timedelta(hours=1)).isoformat()
        expired = await make(client, admin, expires_at=soon)
        revoked, rotated = await make(client, admin), await make(client, admin)
        answered(await client.delete(at("keys", revoked["id"]), headers=admin))
        new = answered(await rotate(client, admin, rotated, grace_hours=24))
        clock.now += timedelta(hours=1)
        for one, told in ((expired, "is expired"), (revoked, "is revoked"), (rotated, new["id"])):
            error = refused(await rotate(client, admin, one, grace_hours=1), 409)
            assert told in error["message"]
        for grace in (-1, 90 * 24 + 1, "soon"):
            error = refused(await rotate(client, admin, new, grace_hours=grace), 422)
            assert error["param"] == "grace_hours"
        answered(await rotate(client, admin, new, grace_hours=90 * 24))
        assert len(await runtime.keys.list_keys("default")) == 6


async def _rotations_at_once(client: httpx.AsyncClient, runtime: Runtime) -> list[int]:
    admin = await key(runtime, "admin")
    old = await make(client, admin)
    answers = await asyncio.gather(*(rotate(client, admin, old, grace_hours=1) for _ in range(5)))
    assert len(await runtime.keys.list_keys("default")) == 3
    return sorted(answer.status_code for answer in answers)


async def test_of_rotations_that_come_together_one_succeeds(postgres_state: str) -> None:
    for chosen in ({}, {"database_url": postgres_state}):
        async with served(address=REMOTE, **chosen) as (client, runtime):
            assert await _rotations_at_once(client, runtime) == [200, 409, 409, 409, 409]


async def test_the_keys_of_another_tenant_are_not_there() -> None:
    async with served(address=REMOTE) as (client, runtime):
        ours, theirs = await key(runtime, "admin"), await key(runtime, "admin", tenant="globex")
        made = await make(client, ours)
        refused(await client.get(at("keys", made["id"]), headers=theirs), 404)
        refused(await rotate(client, theirs, made), 404)
        refused(await client.delete(at("keys", made["id"]), headers=theirs), 404)
        assert await status(client, bearer(made)) == 200
        assert len((await read(client, "/keys", headers=theirs))["keys"]) == 1


async def test_an_admin_whose_documents_are_bound_can_not_make_itself_a_key_without_a_bound() -> (
    None
):
    async with served(address=REMOTE) as (client, runtime):
        free = await key(runtime, "admin")
        bound = await key(runtime, "admin", document_filter={"department": "sales"})
        spare = await make(client, free)
        for response in (
            await client.post("/keys", json={"role": "admin"}, headers=bound),
            await rotate(client, bound, spare),
            await client.get("/keys", headers=bound),
        ):
            refused(response, 403)


async def test_a_visitor_without_a_key_can_not_lock_the_others_out() -> None:
    async with served(address=REMOTE, allow_anonymous=True) as (client, _):
        error = refused(await client.post("/keys", json={"role": "admin"}), 403)
        assert "python -m app keys create" in error["message"]
        assert (await client.get("/stats")).status_code == 200


async def _used(runtime: Runtime) -> str | None:
    """Return when the only key was used, once all that is noted beside requests is written."""
    for task in [t for t in asyncio.all_tasks() if t.get_name().startswith("note the use")]:
        await task
    (one,) = await runtime.keys.list_keys(None)
    return None if one.last_used_at is None else f"{one.last_used_at:%H:%M:%S.%f}"


async def test_the_last_use_is_known_to_the_minute_and_written_once_in_it(
    postgres_state: str,
) -> None:
    clock = Clock()
    chosen: Json = {"database_url": postgres_state, "address": REMOTE}
    async with served_at(clock, **chosen) as (one, runtime), served_at(clock, **chosen) as (two, _):
        admin = await key(runtime, "admin")
        assert await _used(runtime) is None
        clock.now = clock.now.replace(hour=12, minute=30, second=59, microsecond=7)
        assert await status(one, admin) == 200
        assert await _used(runtime) == "12:30:00.000000"

        forget = sa.text("UPDATE api_keys SET last_used_at = NULL")
        await runtime.database.write(lambda c: c.execute(forget).rowcount)
        assert await status(one, admin) == 200
        assert await _used(runtime) is None  # noted already, in this minute
        clock.now += timedelta(seconds=1)
        assert await status(one, admin) == 200
        assert await _used(runtime) == "12:31:00.000000"

        clock.now -= timedelta(minutes=10)  # a replica whose clock is behind
        assert await status(two, admin) == 200
        assert await _used(runtime) == "12:31:00.000000"


async def test_what_is_done_to_keys_is_written_down_without_their_secrets() -> None:
    async with served(address=REMOTE) as (client, runtime):
        admin = await key(runtime, "admin")
        (mine,) = await runtime.keys.list_keys(None)
        old = await make(client, admin, role="user", user_id="ada")
        new = answered(await rotate(client, admin, old))
        answered(await client.delete(at("keys", new["id"]), headers=admin))
        refused(await client.delete(at("keys", new["id"]), headers=admin), 404)
        rows = await runtime.database.read(
            lambda c: c.execute(sa.select(audit_log).order_by(audit_log.c.id)).mappings().all()
        )
    assert [(row["action"], row["subject"], row["actor"]) for row in rows] == [
        ("key.create", mine.id, "cli"),
        ("key.create", old["id"], f"key:{mine.id}"),
        ("key.rotate", old["id"], f"key:{mine.id}"),
        ("key.revoke", new["id"], f"key:{mine.id}"),
    ]
    assert {(row["tenant_id"], row["role"]) for row in rows} == {("default", "admin")}
    for made in (old, new):
        assert made["key"] not in str(rows)
    assert not names(str(rows), "ada")
