"""Titles, metadata and listing of sessions."""

from __future__ import annotations

from typing import Any

from tests.api.calls import Json, answered, at, chat, key, read, refused
from tests.memory.stores import Clock, serving
from tests.served import served

IMPORTED = {
    "conversations": [
        {
            "session_id": "old",
            "messages": [
                {"role": "assistant", "content": "Good day!", "created_at": "2023-05-08T13:56:00Z"},
                {"role": "user", "content": "Tea, please.", "created_at": "2023-05-08T13:57:00Z"},
            ],
        }
    ]
}


async def listed(client: Any, **params: Any) -> dict[str, Json]:
    found = await read(client, "/sessions", params=params)
    return {session["session_id"]: session for session in found["sessions"]}


async def test_a_session_is_called_after_its_first_message_until_it_gets_a_title() -> None:
    async with served() as (client, _):
        await chat(client, "When  does\nAcme's contract renew?", session_id="s1", memory="off")
        await chat(client, "And the one of Globex?", session_id="s1")
        made = (await listed(client))["s1"]
        named = answered(
            await client.patch(at("sessions", "s1"), json={"title": " Acme \n renewals "})
        )
        again = answered(await client.patch(at("sessions", "s1"), json={"title": None}))
    assert (made["title"], made["has_own_title"]) == ("When does Acme's contract renew?", False)
    assert (named["title"], named["has_own_title"]) == ("Acme renewals", True)
    assert (again["title"], again["has_own_title"]) == (made["title"], False)


async def test_an_imported_session_is_called_after_what_its_user_said_first() -> None:
    async with served() as (client, _):
        imported = await client.post("/memories/import", json=IMPORTED)
        assert imported.status_code == 202
        assert (await listed(client))["old"]["title"] == "Tea, please."


async def test_a_title_of_a_message_goes_with_the_message() -> None:
    clock = Clock()
    async with serving(clock, message_retention_days=10) as (client, runtime):
        today = clock.now
        for name in ("s1", "s2"):
            clock.now = today
            clock.ago(30)
            await chat(client, "My secret plan is Porto.", session_id=name)
        answered(await client.patch(at("sessions", "s2"), json={"title": "Plans"}))
        for name in ("s1", "s2"):
            answered(await client.post(at("sessions", name, "close")))
        clock.now = today
        await runtime.retention.sweep(today)
        found = await listed(client)
    assert (found["s1"]["title"], found["s2"]["title"]) == (None, "Plans")


async def test_metadata_is_the_callers_own_and_replaced_as_a_whole() -> None:
    async with served() as (client, _):
        await chat(client, "hello", session_id="s1")
        assert (await listed(client))["s1"]["metadata"] == {}
        given = {"channel": "web", "ticket": 4711, "ratio": 0.5, "vip": True, "note": None}
        answered(await client.patch(at("sessions", "s1"), json={"metadata": given}))
        answered(await client.patch(at("sessions", "s1"), json={"title": "A title"}))
        await chat(client, "hello again", session_id="s1")
        kept = await read(client, at("sessions", "s1"))
        answered(await client.patch(at("sessions", "s1"), json={"metadata": {"channel": "app"}}))
        replaced = (await listed(client))["s1"]
        answered(await client.patch(at("sessions", "s1"), json={"metadata": None}))
        emptied = (await listed(client))["s1"]
    assert (kept["metadata"], kept["title"], kept["message_count"]) == (given, "A title", 4)
    assert replaced["metadata"] == {"channel": "app"}
    assert (emptied["metadata"], emptied["title"]) == ({}, "A title")


BAD: list[tuple[Json, str]] = [
    ({}, "title, metadata"),
    ({"title": ""}, "title must not be blank"),
    ({"title": " \n "}, "title must not be blank"),
    ({"title": "x" * 201}, "at most 200"),
    ({"title": "a\x00b"}, "NUL"),
    ({"title": "a\x1b[2Jb"}, "control characters"),
    ({"metadata": {"a": {"b": 1}}}, "metadata must be flat: 'a' holds an object"),
    ({"metadata": {"a": [1]}}, "'a' holds an array"),
    ({"metadata": {"a": "x\x00"}}, "NUL"),
    ({"metadata": {" ": 1}}, "name that is blank"),
    ({"metadata": {"a": "ü" * 9000}}, "has 18009 bytes as JSON, the limit is 16384"),
    ({"metadata": []}, "metadata"),
    ({"name": "x"}, "unknown field"),
]


async def test_a_bad_title_or_metadata_is_refused_and_changes_nothing() -> None:
    async with served() as (client, _):
        await chat(client, "hello", session_id="s1")
        for body, says in BAD:
            error = refused(await client.patch(at("sessions", "s1"), json=body), 422)
            assert says in error["message"], body
        left = (await listed(client))["s1"]
    assert (left["title"], left["has_own_title"], left["metadata"]) == ("hello", False, {})


async def test_a_title_is_given_by_its_user_only() -> None:
    async with served() as (client, runtime):
        ada, bob = (
            await key(runtime, "user", user="ada"),
            await key(runtime, "user", user="bob"),
        )
        await chat(client, "hello", session_id="s1", headers=ada)
        refused(await client.patch(at("sessions", "s1"), json={"title": "x"}, headers=bob), 404)
        refused(await client.patch(at("sessions", "none"), json={"title": "x"}, headers=ada), 404)
        assert (await read(client, at("sessions", "s1"), headers=ada))["has_own_title"] is False


async def test_sessions_are_listed_by_state_and_paged_within_it() -> None:
    async with served() as (client, _):
        for n in range(5):
            await chat(client, f"message {n}", session_id=f"s{n}")
            if n % 2:
                answered(await client.post(at("sessions", f"s{n}", "close")))
        closed = await listed(client, state="closed")
        first = await read(client, "/sessions", params={"state": "open", "limit": 2})
        rest = await read(
            client,
            "/sessions",
            params={"state": "open", "limit": 2, "cursor": first["next_cursor"]},
        )
        refused(await client.get("/sessions", params={"state": "gone"}), 422)
    assert list(closed) == ["s3", "s1"]
    assert [s["session_id"] for s in first["sessions"] + rest["sessions"]] == ["s4", "s2", "s0"]
    assert [s["title"] for s in first["sessions"]] == ["message 4", "message 2"]
    assert rest["next_cursor"] is None


async def test_what_a_session_has_used_stays_in_the_books_when_it_is_deleted() -> None:
    async with served() as (client, _):
        await chat(client, "hello", session_id="s1")
        before = await read(client, "/usage")
        answered(await client.delete(at("sessions", "s1")))
        after = await read(client, "/usage")
    assert before["total"]["calls"] == 1
    assert after["total"] == before["total"]


async def test_a_deleted_session_takes_its_title_and_metadata_along() -> None:
    async with served() as (client, _):
        await chat(client, "hello", session_id="s1")
        named = {"title": "Zanzibar", "metadata": {"place": "Zanzibar"}}
        answered(await client.patch(at("sessions", "s1"), json=named))
        answered(await client.delete(at("sessions", "s1")))
        await chat(client, "hello", session_id="s1")
        found = (await listed(client))["s1"]
    assert (found["title"], found["metadata"]) == ("hello", {})
