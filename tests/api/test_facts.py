"""Facts over HTTP: told, listed, corrected, forgotten; their history; the profile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.memory import fact_rows
from app.memory.base import FoundEntity
from app.memory.entities import take as take_entities
from app.memory.fact_edits import stated
from app.memory.keys import predicate_name
from app.wiring import Runtime
from tests.api.calls import Json, answered, at, chat, close, key, read, refused, vectors
from tests.memory.telling import day, said
from tests.served import served, served_at

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


async def tell(client: httpx.AsyncClient, predicate: str, value: str, **fields: Any) -> Json:
    headers = fields.pop("headers", None)
    body = {"predicate": predicate, "value": value, **fields}
    return answered(await client.post("/memories/facts", json=body, headers=headers))


async def listed(client: httpx.AsyncClient, **params: Any) -> list[str]:
    found = await read(client, "/memories/facts", params=params)
    return [fact["value"] for fact in found["facts"]]


async def learn(
    client: httpx.AsyncClient, runtime: Runtime, session_id: str, *found: Any, user: str = "default"
) -> None:
    """Have a conversation, and have facts be read in it."""
    await chat(
        client, "The weather was fine and the train was late.", session_id=session_id, user_id=user
    )
    await close(client, session_id)
    await runtime.database.write(
        lambda c: fact_rows.take(c, "default", user, session_id, found, runtime.clock())
    )


async def test_a_move_is_current_was_true_then_and_has_a_history() -> None:
    clock = Clock()
    async with served_at(clock) as (client, _):
        lisbon = await tell(client, "lives_in", "Lisbon", valid_from="2020-05-01T00:00:00+02:00")
        clock.now += timedelta(days=1)
        porto = await tell(client, "moved to", "Porto")
        now = await listed(client)
        then = await listed(client, as_of="2026-11-30T13:00:00+01:00")
        before = await listed(client, as_of="2020-04-30T21:59:59Z")
        both = await listed(client, include_past=True)
        history = await read(client, at("memories", "facts", porto["fact_id"], "history"))
    assert (lisbon["valid_from"], lisbon["is_current"]) == ("2020-04-30T22:00:00Z", True)
    assert (now, then, before, both) == (["Porto"], ["Lisbon"], [], ["Porto", "Lisbon"])
    periods = [(f["value"], f["is_current"], f["superseded_by"]) for f in history["facts"]]
    assert periods == [("Lisbon", False, porto["fact_id"]), ("Porto", True, None)]
    assert history["facts"][0]["valid_to"] == porto["valid_from"] == "2026-12-01T12:00:00Z"
    assert [told["said_at"] for told in history["sightings"]] == ["2026-12-01T12:00:00Z"]


async def test_a_fact_that_is_told_again_is_seen_again_and_is_found_by_search() -> None:
    async with served() as (client, runtime):
        told = [
            await tell(client, "allergic_to", "peanuts"),
            await tell(client, "has_allergy", "a peanut", statement="Peanuts make Ada ill."),
            await tell(client, "allergy", "Peanut allergy"),
        ]
        (fact,) = (await read(client, "/memories/facts"))["facts"]
        ids = await vectors(runtime, "memory")
        found = await read(client, "/memories", params={"query": "peanuts"})
    assert {one["fact_id"] for one in told} == {fact["fact_id"]}
    assert [one["sightings"] for one in told] == [1, 2, 3]
    assert {one["vectors"] for one in told} == {"indexed"}
    assert (fact["statement"], fact["is_many"]) == ("The user is allergic to peanuts.", True)
    assert ids == [f"facts#{fact['fact_id']}"]
    assert [memory["memory_type"] for memory in found["memories"]] == ["fact"]


@pytest.mark.parametrize(
    ("subject", "predicate", "value", "statement"),
    [
        ("user", "resides_in", "Porto", "The user lives in Porto."),
        ("user", "email", "ada@example.com", "The user's email is ada@example.com."),
        ("ana", "from", "Faro", "Ana is from Faro."),
        ("user", "favourite_colour", "blue", "The user's favorite color is blue."),
        ("Rex", "sleeps_in", "the shed", "Rex sleeps in the shed."),
    ],
)
def test_a_fact_without_a_statement_gets_a_sentence(
    subject: str, predicate: str, value: str, statement: str
) -> None:
    assert stated(subject, predicate_name(predicate), value) == statement


async def test_facts_are_listed_by_subject_and_predicate_and_in_pages() -> None:
    clock = Clock()
    async with served_at(clock) as (client, _):
        for n in range(7):
            clock.now += timedelta(minutes=n % 2)  # some share their moment
            await tell(client, "likes", f"thing {n}")
        await tell(client, "likes", "a bone", subject="my dog")
        await tell(client, "city", "Porto")
        pages, cursor = [], None
        while True:
            params = {"subject": "me", "predicate": "enjoys", "limit": 3}
            page = await read(
                client, "/memories/facts", params=params | ({"cursor": cursor} if cursor else {})
            )
            pages.append([fact["value"] for fact in page["facts"]])
            if (cursor := page["next_cursor"]) is None:
                break
        dog = await listed(client, subject="Dog")
        everything = await listed(client)
    assert [len(page) for page in pages] == [3, 3, 1]
    assert sorted(value for page in pages for value in page) == [f"thing {n}" for n in range(7)]
    assert (dog, len(everything)) == (["a bone"], 9)
    assert await _nobodys(everything)


async def _nobodys(values: list[str]) -> bool:
    return len(set(values)) == len(values)


async def test_a_correction_changes_what_is_told_and_found() -> None:
    async with served() as (client, runtime):
        told = await tell(client, "lives_in", "Lisbon", statement="Ada lives in Lisbon.")
        path = at("memories", "facts", told["fact_id"])
        changed = answered(await client.patch(path, json={"value": "Porto", "mark": "critical"}))
        text = (await runtime.index.fetch("memory", [f"facts#{told['fact_id']}"])).popitem()[1]
        ended = answered(await client.patch(path, json={"ends_at": "2027-01-01T00:00:00Z"}))
        open_again = answered(await client.patch(path, json={"ends_at": None, "mark": None}))
        found = await read(client, "/memories", params={"query": "Lisbon"})
    assert (changed["statement"], changed["mark"]) == ("Ada lives in Porto.", "critical")
    assert text.metadata["text"] == "Ada lives in Porto."
    assert (ended["valid_to"], ended["mark"]) == ("2027-01-01T00:00:00Z", "critical")
    assert (open_again["valid_to"], open_again["mark"]) == (None, None)
    assert "Lisbon" not in str(found["memories"])


async def test_a_correction_moves_in_time_and_joins_what_says_the_same() -> None:
    clock = Clock()
    async with served_at(clock) as (client, _):
        lisbon = await tell(client, "lives_in", "Lisbon")
        clock.now += timedelta(days=9)
        porto = await tell(client, "lives_in", "Porto")
        path = at("memories", "facts", porto["fact_id"])
        answered(await client.patch(path, json={"valid_from": "2026-12-02T00:00:00Z"}))
        before = await read(client, at("memories", "facts", lisbon["fact_id"]))
        joined = answered(await client.patch(path, json={"value": "Lisbon"}))
        gone = await client.get(path)
    assert before["valid_to"] == "2026-12-02T00:00:00Z"
    assert (joined["fact_id"], joined["sightings"]) == (lisbon["fact_id"], 2)
    assert joined["valid_to"] is None
    refused(gone, 404)


@pytest.mark.parametrize("value", ["b", "c"])
async def test_a_correction_that_moves_a_fact_to_where_another_is_keeps_both_beginnings(
    value: str,
) -> None:
    """Each was told by itself, so nothing but its number tells it from others of its value."""
    told = {"predicate": "visited", "is_many": True}
    async with served() as (client, _):
        kept = []
        for name, month in (("a", "04"), ("b", "08")):
            fact = {**told, "value": name, "valid_from": f"2026-{month}-01T00:00:00Z"}
            kept.append(answered(await client.post("/memories/facts", json=fact))["fact_id"])
        changed = await client.patch(at("memories", "facts", kept[0]), json={"value": value})
        after = answered(changed)
        again = await client.patch(
            at("memories", "facts", after["fact_id"]), json={"value": "d", "confidence": 0.5}
        )
        assert answered(again)["value"] == "d"
    assert (after["value"], after["valid_from"]) == (value, "2026-04-01T00:00:00Z")
    assert after["sightings"] == (2 if value == "b" else 1)


async def test_a_forgotten_fact_lets_the_one_before_hold_again_and_does_not_come_back() -> None:
    async with served() as (client, runtime):
        await learn(client, runtime, "s1", said("Lisbon", 1, seq=1))
        await learn(client, runtime, "s2", said("Porto", 5), said("tea", 5, "drinks_only"))
        (porto,) = (await read(client, "/memories/facts", params={"predicate": "city"}))["facts"]
        gone = answered(await client.delete(at("memories", "facts", porto["fact_id"])))
        after = await listed(client, predicate="lives_in")
        refused(await client.delete(at("memories", "facts", porto["fact_id"])), 404)
        await chat(client, "What else?", session_id="s2", user_id="default")
        await close(client, "s2")
        assert await listed(client, predicate="lives_in") == after == ["Lisbon"]
        assert "Porto" not in str(await _texts(runtime))
    assert gone == {"fact_id": porto["fact_id"], "vectors": "removed"}


async def _texts(runtime: Runtime) -> list[object]:
    ids = await vectors(runtime, "memory")
    return [row.metadata["text"] for row in (await runtime.index.fetch("memory", ids)).values()]


async def test_the_vector_of_a_session_s_fact_follows_its_correction() -> None:
    async with served() as (client, runtime):
        await learn(client, runtime, "s1", said("chess", 1, "plays", statement="She plays chess."))
        (fact,) = (await read(client, "/memories/facts", params={"predicate": "plays"}))["facts"]
        path = at("memories", "facts", fact["fact_id"])
        changed = answered(await client.patch(path, json={"statement": "She plays the lute."}))
        texts = await _texts(runtime)
        found = await read(client, "/memories", params={"query": "lute"})
    assert changed["vectors"] == "indexed"
    assert "She plays the lute." in texts
    assert "She plays chess." not in texts
    assert [memory["session_id"] for memory in found["memories"]] == ["s1"]


@pytest.mark.parametrize("way", ["session", "memory"])
async def test_of_a_deleted_conversation_no_fact_is_left(way: str) -> None:
    async with served() as (client, runtime):
        ben = FoundEntity("Ben", "person")
        await learn(client, runtime, "s1", said("zither", 1, "plays"))
        await runtime.database.write(
            lambda c: take_entities(c, "default", "default", "s1", [ben], day(1))
        )
        assert (await read(client, "/memories/entities"))["entities"] != []
        place = at("sessions", "s1") if way == "session" else at("memories", "s1")
        answered(await client.delete(place))
        assert await listed(client, include_past=True) == []
        assert (await read(client, "/memories/entities"))["entities"] == []
        assert await vectors(runtime, "memory") == []
        found = await read(client, "/memories", params={"query": "zither"})
        profile = await read(client, "/memories/profile")
    assert (found["memories"], profile["facts"]) == ([], [])


async def test_somebody_else_s_fact_is_not_there() -> None:
    async with served(address="203.0.113.9") as (client, runtime):
        ada, bob = await key(runtime, "user", user="ada"), await key(runtime, "user", user="bob")
        other = await key(runtime, "admin", tenant="globex")
        fact = await tell(client, "likes", "tea", headers=ada)
        path = at("memories", "facts", fact["fact_id"])
        for headers in (bob, other):
            refused(await client.get(path, headers=headers), 404)
            refused(await client.get(f"{path}/history", headers=headers), 404)
            refused(await client.patch(path, json={"value": "x"}, headers=headers), 404)
            refused(await client.delete(path, headers=headers), 404)
        named = {"user_id": "ada"}
        assert await read(client, "/memories/facts", headers=bob) == {
            "facts": [],
            "next_cursor": None,
        }
        elsewhere = await read(client, "/memories/facts", headers=other, params=named)
        assert elsewhere["facts"] == []
        mine = await read(client, "/memories/facts", headers=ada)
    assert [one["value"] for one in mine["facts"]] == ["tea"]


NAIVE = "2026-03-04T09:00:00"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"value": "tea"}, "predicate"),
        ({"predicate": "likes"}, "value"),
        ({"predicate": "likes", "value": "  "}, "value"),
        ({"predicate": "likes", "value": "x" * 2_001}, "value"),
        ({"predicate": "x" * 201, "value": "tea"}, "predicate"),
        ({"predicate": "likes", "value": "tea", "valid_from": NAIVE}, "valid_from"),
        ({"predicate": "likes", "value": "tea", "ends_at": NAIVE}, "ends_at"),
        ({"predicate": "likes", "value": "tea", "confidence": 1.5}, "confidence"),
        ({"predicate": "likes", "value": "tea", "kind": "rumour"}, "kind"),
        ({"predicate": "likes", "value": "tea", "mood": "good"}, "mood"),
        (
            {
                "predicate": "likes",
                "value": "tea",
                "valid_from": f"{NAIVE}Z",
                "ends_at": "2025-01-01T00:00:00Z",
            },
            "ends_at",
        ),
    ],
)
async def test_what_can_not_be_a_fact_is_refused(body: Json, param: str) -> None:
    async with served() as (client, _):
        error = refused(await client.post("/memories/facts", json=body), 422)
        assert await listed(client) == []
    assert error["param"] == param


async def test_a_value_that_is_too_long_is_told_its_limit_in_characters() -> None:
    async with served() as (client, _):
        body = {"predicate": "likes", "value": "x" * 2001}
        error = refused(await client.post("/memories/facts", json=body), 422)
    assert "at most 2000 characters" in error["message"]


async def test_times_need_an_offset_and_say_so() -> None:
    async with served() as (client, _):
        fact = await tell(client, "likes", "tea")
        path = at("memories", "facts", fact["fact_id"])
        naive = await client.get("/memories/facts", params={"as_of": NAIVE})
        plus_lost = await client.get(f"/memories/facts?as_of={NAIVE}+01:00")
        edge = await client.get("/memories/facts", params={"as_of": "0001-01-01T00:00:00+14:00"})
        empty = await client.patch(path, json={})
        backwards = await client.patch(path, json={"ends_at": "2020-01-01T00:00:00Z"})
        cursor = await client.get("/memories/facts", params={"cursor": "nonsense"})
    message = refused(naive, 422)["message"]
    assert message.startswith("as_of must carry an offset, as in 2026-03-04T09:00:00+01:00")
    answered(plus_lost)
    for response, text in (
        (edge, "as_of"),
        (empty, "at least one of"),
        (backwards, "lies before valid_from"),
        (cursor, "no cursor"),
    ):
        assert text in refused(response, 422)["message"]


async def test_the_profile_is_what_is_true_of_the_user_now() -> None:
    async with served(profile_max_facts=2) as (client, _):
        await tell(client, "lives_in", "Lisbon")
        await tell(client, "lives_in", "Porto")
        await tell(client, "allergic_to", "peanuts", mark="critical")
        await tell(client, "likes", "tea", ends_at="2020-01-01T00:00:00Z")
        await tell(client, "likes", "milk", subject="the cat")
        profile = await read(client, "/memories/profile")
        other = await read(client, "/memories/profile", params={"user_id": "bob"})
    assert profile["user_id"] == "default"
    assert [fact["value"] for fact in profile["facts"]] == ["peanuts", "Porto"]
    assert other["facts"] == []


async def test_the_graph_shows_who_is_related_to_whom() -> None:
    async with served() as (client, runtime):
        people = [FoundEntity("Ben", "person", ("Benny",)), FoundEntity("Acme", "organization")]
        await learn(
            client,
            runtime,
            "s1",
            said("Ben", 1, "brother"),
            said("Acme", 1, "works_at", subject="Ben", seq=2),
        )
        await runtime.database.write(
            lambda c: take_entities(c, "default", "default", "s1", people, day(1))
        )
        entities = (await read(client, "/memories/entities"))["entities"]
        near = await read(client, "/memories/graph", params={"entity": "me"})
        far = await read(client, "/memories/graph", params={"entity": "benny", "depth": 2})
        unknown = await client.get("/memories/graph", params={"entity": "Nobody"})
        too_deep = await client.get("/memories/graph", params={"entity": "Ben", "depth": 4})
        other = await client.get("/memories/graph", params={"entity": "Ben", "user_id": "bob"})
    named = {one["name"]: one for one in entities}
    assert {"Ben", "Acme"} <= set(named)
    assert {r["predicate"] for r in named["Ben"]["relations"]} == {"has_sibling", "works_at"}
    assert {node["name"] for node in near["nodes"]} == {"user", "Ben"}
    assert {node["name"] for node in far["nodes"]} == {"user", "Ben", "Acme"}
    assert {edge["value"] for edge in far["edges"]} == {"Ben", "Acme"}
    refused(unknown, 404)
    refused(other, 404)
    assert refused(too_deep, 422)["param"] == "depth"
