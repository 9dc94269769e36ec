"""What an agent's tools do to memory, and what they leave behind, through HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.calls import key
from tests.chat.agents import (
    ask,
    fact_id_in,
    facts_of,
    groq,
    in_turn,
    put_fact,
    results,
    steps_of,
)
from tests.served import served
from tests.wire.openai import Calls, ModelServer, call, model_server

TEA = call(
    "remember", statement="The user likes tea.", predicate="likes", value="tea", quote="I like tea"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("postgres_state")}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


async def test_what_is_remembered_says_where_it_was_said_and_goes_with_the_session(
    model: ModelServer, store: dict[str, Any]
) -> None:
    model.script = in_turn(TEA, TEA, "ok")  # twice: one fact, said once
    async with served(**groq(model, **store)) as (client, _):
        await ask(client, "Hello there")
        body = await ask(client, "By the way, I like tea.")
        (fact,) = await facts_of(client)
        history = (
            await client.get(
                f"/memories/facts/{fact['fact_id']}/history", params={"user_id": "ada"}
            )
        ).json()
        (message,) = [
            m
            for m in (await client.get("/sessions/s1", params={"user_id": "ada"})).json()[
                "messages"
            ]
            if m["content"] == "By the way, I like tea."
        ]
        gone = await client.delete("/memories/s1", params={"user_id": "ada"})
        left = await facts_of(client, include_past=True)
    assert steps_of(body)[-2:] == [("remember", False, False)] * 2
    assert (fact["value"], fact["said_by"], fact["quote"]) == ("tea", "user", "I like tea")
    assert (fact["session_id"], fact["seq"]) == ("s1", message["seq"])
    assert len(history["sightings"]) == 1
    assert gone.status_code == 200
    assert left == []


async def test_a_fact_is_found_revised_and_forgotten_by_its_id(model: ModelServer) -> None:
    def revise(told: list[str]) -> Calls:
        return call(
            "revise",
            fact_id=fact_id_in(told),
            value="Porto",
            statement="The user lives in Porto.",
            quote="I live in Porto now",
        )

    def forget(told: list[str]) -> Calls:
        return call("forget", fact_id=fact_id_in(told), quote="Forget where I live")

    find = call("search_memory", query="where does the user live, lives in")
    async with served(**groq(model)) as (client, _):
        await put_fact(client, "lives_in", "Lisbon")
        model.script = in_turn(find, revise, "Noted.")
        revised = await ask(client, "No, not Lisbon: I live in Porto now.")
        (held,) = await facts_of(client)
        past = await facts_of(client, include_past=True)
        model.script = in_turn(find, forget, "Done.")
        forgotten = await ask(client, "Forget where I live.", session_id="s2")
        after = await facts_of(client)
    assert steps_of(revised) == [("search_memory", False, False), ("revise", False, False)]
    assert (held["value"], held["quote"], held["session_id"]) == (
        "Porto",
        "I live in Porto now",
        "s1",
    )
    assert {fact["value"] for fact in past} == {"Lisbon", "Porto"}
    assert steps_of(forgotten) == [("search_memory", False, False), ("forget", False, False)]
    assert [fact["value"] for fact in after] == ["Lisbon"]  # what it had superseded holds again


async def test_a_fact_that_holds_no_longer_ends(model: ModelServer) -> None:
    async with served(**groq(model)) as (client, _):
        fact_id = await put_fact(client, "works_at", "Acme")
        model.script = in_turn(call("revise", fact_id=fact_id, quote="I left Acme"), "Noted.")
        body = await ask(client, "I left Acme last week.")
        held = await facts_of(client)
        past = await facts_of(client, include_past=True)
    assert steps_of(body) == [("revise", False, False)]
    assert held == []
    assert [fact["value"] for fact in past] == ["Acme"]


async def test_another_value_of_many_takes_the_place_of_one(model: ModelServer) -> None:
    async with served(**groq(model)) as (client, _):
        fact_id = await put_fact(client, "likes", "tea")
        model.script = in_turn(
            call("revise", fact_id=fact_id, value="coffee", quote="I like coffee"), "Noted."
        )
        await ask(client, "It is not tea, I like coffee.")
        held = await facts_of(client)
    assert [fact["value"] for fact in held] == ["coffee"]


async def test_a_fact_is_not_revised_by_a_word_that_happens_to_fall(model: ModelServer) -> None:
    async with served(**groq(model)) as (client, _):
        fact_id = await put_fact(client, "lives_in", "Lisbon")
        model.script = in_turn(
            call("revise", fact_id=fact_id, value="Porto", quote="Tell me about Porto"), "ok"
        )
        body = await ask(client, "Tell me about Porto.")
        held = await facts_of(client)
    assert steps_of(body) == [("revise", True, True)]
    assert [fact["value"] for fact in held] == ["Lisbon"]


async def test_nobody_reaches_the_facts_of_somebody_else(model: ModelServer) -> None:
    async with served(**groq(model)) as (client, _):
        fact_id = await put_fact(client, "lives_in", "Lisbon")
        model.script = in_turn(call("forget", fact_id=fact_id, quote="Forget Lisbon"), "ok")
        body = await ask(client, "Forget Lisbon", user_id="bob", session_id="s2")
        held = await facts_of(client)
    assert steps_of(body) == [("forget", True, False)]
    assert [fact["value"] for fact in held] == ["Lisbon"]


async def test_only_what_the_user_says_is_kept(model: ModelServer) -> None:
    """The table of what counts as said is in test_trust."""
    invented = [
        ("Hi there", "The user is an admin.", "admin", "Hi there"),
        ("Hi there", "The user is an admin.", "admin", "I am an admin"),
        ("Am I an admin?", "The user is an admin.", "admin", "Am I an admin?"),
    ]
    async with served(**groq(model)) as (client, _):
        for number, (message, statement, value, quote) in enumerate(invented):
            model.script = in_turn(
                call("remember", statement=statement, predicate="is", value=value, quote=quote),
                "ok",
            )
            body = await ask(client, message, session_id=f"s{number}")
            assert steps_of(body) == [("remember", True, True)]
            assert results(model.requests[-1])[0].startswith("refused: ")
        assert await facts_of(client) == []


async def test_words_of_an_earlier_message_count_unless_memory_was_off(model: ModelServer) -> None:
    async with served(**groq(model)) as (client, _):
        model.script = ("Nice.",)
        await ask(client, "I like tea")
        await ask(client, "I like rum", memory="off")
        model.script = in_turn(
            Calls(
                (
                    ("remember", TEA.calls[0][1]),
                    (
                        "remember",
                        {
                            "statement": "The user likes rum.",
                            "predicate": "likes",
                            "value": "rum",
                            "quote": "I like rum",
                        },
                    ),
                )
            ),
            "",
            "ok",
        )
        body = await ask(client, "Remember what I like.")
        facts = await facts_of(client)
    assert sorted(steps_of(body)) == [("remember", False, False), ("remember", True, True)]
    assert [(fact["value"], fact["seq"]) for fact in facts] == [("tea", 1)]


async def test_core_memory_is_edited_on_the_users_word(model: ModelServer) -> None:
    async def block(client: Any) -> dict[str, str]:
        found = (await client.get("/memories/blocks", params={"user_id": "ada"})).json()
        return {one["label"]: one["value"] for one in found["blocks"]}

    def edit(value: str, quote: str) -> Calls:
        return call("edit_block", label="human", value=value, quote=quote)

    async with served(**groq(model)) as (client, _):
        model.script = in_turn(edit("Ada, a Python developer.", "Ada, a Python developer"), "ok")
        first = await ask(client, "I am Ada, a Python developer.")
        made = (await client.get("/memories/blocks/human", params={"user_id": "ada"})).json()
        model.script = in_turn(edit("Ada, an administrator.", "thanks"), "ok")
        invented = await ask(client, "thanks")
        model.script = in_turn(edit("", "thanks a lot"), "ok")
        emptied = await ask(client, "thanks a lot")
        held = await block(client)
        model.script = in_turn(edit("", "Please forget that"), "ok")
        cleared = await ask(client, "Please forget that.")
        after = await block(client)
    assert steps_of(first) == [("edit_block", False, False)]
    assert (made["written_by"], made["session_id"], made["seq"]) == ("assistant", "s1", 1)
    assert steps_of(invented) == steps_of(emptied) == [("edit_block", True, True)]
    assert held == {"human": "Ada, a Python developer."}
    assert "Ada, a Python developer." in model.requests[2]["messages"][-1]["content"]
    assert steps_of(cleared) == [("edit_block", False, False)]
    assert after.get("human", "") == ""


async def test_history_is_searched_word_for_word_within_what_may_be_recalled(
    model: ModelServer, store: dict[str, Any]
) -> None:
    async with served(**groq(model, **store)) as (client, _):
        model.script = ("Noted.",)
        await ask(client, "The wifi password is walrus", session_id="a")
        await ask(client, "Secret: the wifi password is seal", session_id="b", memory="off")
        await ask(client, "The wifi password is gull", session_id="c", user_id="bob")
        await ask(client, "The wifi password was otter", session_id="d")
        await client.delete("/memories/d", params={"user_id": "ada"})
        await ask(client, "Is the wifi password kiwi?")
        model.script = in_turn(
            call("search_history", query="wifi password"),
            call("search_history", since="2020-01-01", until="2020-12-31"),
            call("search_history", since="2020-01-01"),
            "ok",
        )
        body = await ask(client, "What was the wifi password?")
    found, old, latest = results(model.requests[-1])
    for told in (found, latest):
        assert "walrus" in told
        assert "kiwi" in told
        assert not any(word in told for word in ("seal", "gull", "otter"))
        assert "What was the wifi" not in told
    assert old == "No message fits."
    assert '<message role="user"' in found
    assert steps_of(body) == [("search_history", False, False)] * 3


async def test_nothing_of_a_memory_stays_in_the_steps_of_a_reply(model: ModelServer) -> None:
    def forget(told: list[str]) -> Calls:
        return call("forget", fact_id=fact_id_in(told), quote="Forget where I live")

    model.script = in_turn(
        call("search_memory", query="lives in"),
        call("search_documents", query="town"),
        forget,
        "Done.",
    )
    async with served(**groq(model)) as (client, runtime):
        await put_fact(client, "lives_in", "Lisbon")
        body = await ask(client, "Forget where I live.")
        session = await runtime.sessions.get("default", "s1", "ada")
        reply = (await runtime.sessions.messages_after("default", "s1", 0, limit=9))[-1]
    assert session.last_seq == 2
    assert "Lisbon" in "".join(results(model.requests[1]))
    assert "Lisbon" not in str(reply.steps)
    assert "Lisbon" not in str(body["receipt"])
    assert [step["name"] for step in reply.steps or ()] == [
        "search_memory",
        "search_documents",
        "forget",
    ]


@pytest.mark.parametrize(
    "other", [{"role": "user", "user": "eve"}, {"role": "user", "user": "ada", "tenant": "acme"}]
)
async def test_an_agent_neither_finds_nor_changes_what_is_of_another_user_or_tenant(
    model: ModelServer, other: Any
) -> None:
    async with served(**groq(model)) as (client, runtime):
        owner, stranger = await key(runtime, "user", user="ada"), await key(runtime, **other)
        told = {"subject": "user", "predicate": "likes", "value": "green tea"}
        put = await client.post("/memories/facts", json=told, headers=owner)
        fact_id = put.json()["fact_id"]
        said = {"message": "My secret is green tea.", "session_id": "s1"}
        assert (await client.post("/chat", json=said, headers=owner)).status_code == 200
        words = "Forget green tea, my secret. I like black tea now."
        model.script = in_turn(
            Calls(
                (
                    ("search_memory", {"query": "green tea"}),
                    ("search_history", {"query": "secret green tea"}),
                    ("search_history", {"since": "2000-01-01"}),
                    ("forget", {"fact_id": fact_id, "quote": words}),
                    ("revise", {"fact_id": fact_id, "quote": words, "value": "black tea"}),
                    ("edit_block", {"label": "human", "quote": words, "value": "I like black tea"}),
                )
            ),
            "ok",
        )
        asked = {"message": words, "mode": "agent", "session_id": "s2"}
        answered = await client.post("/chat", json=asked, headers=stranger)
        facts = (await client.get("/memories/facts", headers=owner)).json()["facts"]
        blocks = (await client.get("/memories/blocks", headers=owner)).json()["blocks"]
    assert results(model.requests[-1]) == [
        "No memory fits.",
        "No message fits.",
        "No message fits.",
        "there is no such fact",
        "there is no such fact",
        "The block human is at version 1.",
    ]
    assert answered.json()["memories"] == []
    assert [fact["value"] for fact in facts] == ["green tea"]
    assert blocks == []
