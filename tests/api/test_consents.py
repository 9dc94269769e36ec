"""What users allow, said and read over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import sqlalchemy as sa

from app.db.tables import audit_log, consents
from app.erased import pseudonym
from app.wiring import Runtime
from tests.api.calls import Json, answered, at, key, read, refused
from tests.memory.stores import Clock
from tests.served import served, served_at

REMOTE = "203.0.113.9"
NOTHING = {"memory_enabled": False, "pii_storage_allowed": False, "retention_days": 30.0}


async def allow(client: httpx.AsyncClient, user: str, **said: Any) -> Json:
    body = {"memory_enabled": True, "pii_storage_allowed": True, **said}
    return answered(await client.put(at("users", user, "consent"), json=body))


async def audited(runtime: Runtime) -> list[tuple[Any, ...]]:
    log = audit_log.c
    which = sa.select(log.tenant_id, log.at, log.actor, log.role, log.subject, log.counts)
    rows = await runtime.database.read(
        lambda c: c.execute(which.where(log.action == "consent.set").order_by(log.id)).all()
    )
    return [tuple(row) for row in rows]


async def test_without_a_word_of_the_user_the_settings_say() -> None:
    async with served() as (client, _):
        willing = await read(client, at("users", "ada", "consent"))
    async with served(memory_consent=False, pii_consent=False) as (client, _):
        careful = await read(client, at("users", "ada", "consent"))
    assert willing == {
        "user_id": "ada",
        "memory_enabled": True,
        "pii_storage_allowed": True,
        "retention_days": None,
        "origin": "setting",
        "updated_at": None,
    }
    assert (careful["memory_enabled"], careful["pii_storage_allowed"]) == (False, False)
    assert careful["origin"] == "setting"


async def test_what_is_said_replaces_the_whole_of_what_was_and_is_audited() -> None:
    clock = Clock()
    async with served_at(clock) as (client, runtime):
        first = await allow(client, "ada", **NOTHING)
        again = await allow(client, "ada", **NOTHING)
        other = await allow(client, "ada")
        found = await read(client, at("users", "ada", "consent"))
        rows = await audited(runtime)
    noon = "2026-03-01T12:00:00Z"
    assert first == again == {**NOTHING, "user_id": "ada", "origin": "user", "updated_at": noon}
    assert found == other
    assert (other["retention_days"], other["memory_enabled"]) == (None, True)
    names = ("memory_enabled", "pii_storage_allowed", "has_retention")
    counts = [dict(zip(names, said, strict=True)) for said in ((0, 0, 1), (0, 0, 1), (1, 1, 0))]
    who = ("default", clock(), "local", "admin", pseudonym("default", "ada"))
    assert rows == [(*who, count) for count in counts]


async def test_any_id_has_a_consent_of_its_own() -> None:
    users = [
        "ada/1", "ada%2F1", "ada:1", "a--b", "ada/consent", "/ada", "ada/", "Zoë 你好 😀",
        "?q=1#x", "x" * 200, "memory:ada", "ada+bo@example.com",
    ]  # fmt: skip
    async with served() as (client, runtime):
        for days, user in enumerate(users, start=1):
            said = await allow(client, user, retention_days=days)
            assert said["user_id"] == user
        found = [await read(client, at("users", user, "consent")) for user in users]
        near = await read(client, at("users", "ada", "consent"))
        stored = sa.select(consents.c.user_id).order_by(consents.c.retention_days)
        rows = await runtime.database.read(lambda c: c.execute(stored).scalars().all())
    assert [each["retention_days"] for each in found] == list(range(1, len(users) + 1))
    assert list(rows) == users
    assert near["origin"] == "setting"


async def test_a_user_says_it_for_itself_and_others_for_anybody_of_their_tenant() -> None:
    async with served(address=REMOTE) as (client, runtime):
        ada = await key(runtime, "user", user="ada")
        bob = await key(runtime, "user", user="bob")
        gateway = await key(runtime, "gateway")
        foreign = await key(runtime, "admin", tenant="acme")
        path = at("users", "ada", "consent")
        body = {"memory_enabled": False, "pii_storage_allowed": True}
        error = refused(await client.put(path, json=body, headers=bob), 404)
        refused(await client.get(path, headers=bob), 404)
        refused(await client.get(path), 401)
        for headers in (ada, gateway):
            answered(await client.put(path, json=body, headers=headers))
        there = await read(client, path, headers=foreign)
        rows = await audited(runtime)
    assert (error["code"], error["param"]) == ("not_found", "user_id")
    assert there["origin"] == "setting"
    assert [row[3] for row in rows] == ["user", "gateway"]


async def test_half_a_word_is_refused_and_changes_nothing() -> None:
    bodies: list[tuple[Json, str]] = [
        ({"memory_enabled": True}, "pii_storage_allowed"),
        ({**NOTHING, "retention_days": 0}, "retention_days"),
        ({**NOTHING, "retention_days": -1}, "retention_days"),
        ({**NOTHING, "retention_days": 1e9}, "retention_days"),
        ({**NOTHING, "memory": True}, "memory"),
    ]
    async with served() as (client, _):
        for body, param in bodies:
            error = refused(await client.put(at("users", "ada", "consent"), json=body), 422)
            assert error["param"] == param
        found = await read(client, at("users", "ada", "consent"))
    assert found["origin"] == "setting"
