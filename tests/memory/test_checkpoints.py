"""Checkpoints through HTTP: what a model's answer leaves behind, and what it can't."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from threading import Event
from typing import Any

import httpx
import pytest

from app.llm.tokens import estimate_tokens
from app.memory.base import Fact
from app.memory.fact_rows import rows_of_session
from app.wiring import Runtime
from tests.api.calls import answered, chat, close, groq, put, read, refused
from tests.knowledge.calls import finish_jobs
from tests.served import served_at
from tests.wire.openai import Fault, ModelServer, model_server

Service = tuple[httpx.AsyncClient, Runtime]
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """The model that reads conversations; turns are answered offline unless a test says."""
    with model_server() as server:
        yield server


@asynccontextmanager
async def serving(
    model: ModelServer, *, clock: Callable[[], datetime] = lambda: NOON, **chosen: Any
) -> AsyncIterator[Service]:
    options = groq(model, chat_model="offline", summary_model="reader", **chosen)
    async with served_at(clock, summary_every_messages=1000, **options) as service:
        yield service


def answer(summary: str, *facts: dict[str, Any], **more: Any) -> str:
    return json.dumps({"summary": summary, "facts": list(facts), **more}, ensure_ascii=False)


def fact(quote: str, value: str, statement: str, seq: int = 1, **changed: Any) -> dict[str, Any]:
    fields = {"subject": "user", "predicate": "lives_in", "confidence": 0.9, **changed}
    return {"quote": quote, "value": value, "statement": statement, "seq": seq, **fields}


PORTO = fact("I live in Porto", "Porto", "The user lives in Porto.")


async def talk(client: httpx.AsyncClient, *texts: str, **fields: Any) -> None:
    for text in texts:
        await chat(client, text, **{"session_id": "s1", "user_id": "ada", **fields})


async def facts(runtime: Runtime, session_id: str = "s1") -> list[Fact]:
    return await runtime.database.read(lambda c: rows_of_session(c, "default", session_id))


async def vectors(runtime: Runtime) -> dict[str, str]:
    """Return the text of each vector in the memory, by id."""
    ids = [found async for found in runtime.index.list_ids("memory")]
    rows = await runtime.index.fetch("memory", ids) if ids else {}
    return {found: str(row.metadata["text"]) for found, row in rows.items()}


async def counts(client: httpx.AsyncClient) -> dict[str, Any]:
    episodes: dict[str, Any] = (await read(client, "/stats"))["episodes"]
    return episodes


def prompt_tokens(model: ModelServer) -> int:
    return sum(
        estimate_tokens(said["content"])
        for request in model.requests
        for said in request["messages"]
    )


async def test_one_call_leaves_the_summary_the_facts_their_vectors_and_the_exchanges(
    model: ModelServer,
) -> None:
    tea = fact("I like tea", "tea", "The user likes tea.", 3, predicate="likes", many=True)
    model.script = (answer("The user lives in Porto. The user likes tea.", PORTO, tea),)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.", "I like tea.")
        assert model.requests == []  # nothing on the request path
        closed = await close(client, "s1")
        stored = await facts(runtime)
        found = await vectors(runtime)
        rows = await runtime.index.fetch("memory", list(found))
    assert len(model.requests) == 1
    assert closed["summary"] == "The user lives in Porto. The user likes tea."
    assert [(f.subject, f.predicate, f.value, f.seq, f.said_by, f.quote) for f in stored] == [
        ("user", "lives_in", "Porto", 1, "user", "I live in Porto"),
        ("user", "likes", "tea", 3, "user", "I like tea"),
    ]
    assert all(f.learned_at == f.valid_from == NOON for f in stored)
    assert found == {
        "s1": "The user lives in Porto. The user likes tea.",
        "s1#s1": "The user lives in Porto.",
        "s1#s2": "The user likes tea.",
        "s1#f1": "The user lives in Porto.",
        "s1#f2": "The user likes tea.",
        "s1#x1": "User: I live in Porto.\nAssistant: Noted.",
        "s1#x2": "User: I like tea.\nAssistant: Noted.",
    }
    kinds = {id: row.metadata["memory_type"] for id, row in rows.items()}
    assert (kinds["s1"], kinds["s1#s1"], kinds["s1#f1"], kinds["s1#x2"]) == (
        "episode", "sentence", "fact", "exchange",
    )  # fmt: skip
    assert rows["s1#f2"].metadata["fact_id"] == stored[1].fact_id
    assert (rows["s1#f2"].metadata["seq"], rows["s1#x2"].metadata["seq"]) == (3, 3)
    assert all(row.metadata["session_id"] == "s1" for row in rows.values())


async def test_a_later_checkpoint_is_told_what_is_known_and_adds_to_it(model: ModelServer) -> None:
    tea = fact("I like tea", "tea", "The user likes tea.", 3, predicate="likes", many=True)
    model.script = (answer("The user lives in Porto.", PORTO), answer("The user likes tea.", tea))
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.")
        await close(client, "s1")
        await talk(client, "I like tea.")
        await close(client, "s1")
        stored = await facts(runtime)
        found = await vectors(runtime)
    first, second = (request["messages"][1]["content"] for request in model.requests)
    assert "known_facts" not in first
    assert "<known_facts>\nuser | lives_in | Porto\n</known_facts>" in second
    assert "<previous_summary>\nThe user lives in Porto.\n</previous_summary>" in second
    assert "I live in Porto." not in second
    assert [f.value for f in stored] == ["Porto", "tea"]
    assert found["s1"] == "The user likes tea."
    assert {"s1#f1", "s1#f2", "s1#x1", "s1#x2"} <= set(found)


async def test_vectors_of_what_is_no_more_are_removed(model: ModelServer) -> None:
    model.script = (
        answer("The user lives in Porto. The user is glad. It is warm.", PORTO),
        answer("The user lives in Porto."),
    )
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto, I'm glad, it is warm.")
        await close(client, "s1")
        assert {"s1#s1", "s1#s2", "s1#s3"} <= set(await vectors(runtime))
        await talk(client, "Well.")
        await close(client, "s1")
        assert set(await vectors(runtime)) == {"s1", "s1#f1", "s1#x1", "s1#x2"}
        assert (await client.delete("/memories/s1")).status_code == 200
        assert await vectors(runtime) == {}


async def test_exchanges_are_in_the_index_only_where_the_setting_asks_for_them(
    model: ModelServer,
) -> None:
    model.script = (answer("The user lives in Porto."),)
    async with serving(model, memory_exchanges=False) as (client, runtime):
        await talk(client, "I live in Porto.", "And it is warm.")
        await close(client, "s1")
        assert set(await vectors(runtime)) == {"s1"}


async def test_a_refilled_index_holds_everything_again(model: ModelServer) -> None:
    model.script = (answer("The user lives in Porto.", PORTO),)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.", "And it is warm.")
        await close(client, "s1")
        before = await vectors(runtime)
        await runtime.index.clear("memory")
        assert await runtime.checkpoints.refill("default") == 1
        assert await vectors(runtime) == before
        assert len(before) == 4


async def test_what_must_not_be_remembered_is_in_no_exchange(model: ModelServer) -> None:
    model.script = (answer("The user lives in Porto.", PORTO),)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.")
        await talk(client, "My secret is 4711.", memory="off")
        await close(client, "s1")
        found = await vectors(runtime)
    assert set(found) == {"s1", "s1#f1", "s1#x1"}
    assert "4711" not in json.dumps(model.requests)


WHOLE = answer("The user lives in Porto.", PORTO)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{WHOLE}\n```",
        f"Here is {{it}}: {WHOLE} Enjoy!",
        f"[{WHOLE}]",
        WHOLE.replace("}]", "},]"),
        answer("The user lives in Porto.", PORTO, {**PORTO, "quote": 7}, {"value": "?"}),
    ],
    ids=["fenced", "braces in prose", "list", "trailing comma", "wrong fields"],
)
async def test_bad_output_that_can_be_repaired_costs_no_second_call(
    model: ModelServer, text: str
) -> None:
    model.script = (text,)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.")
        assert (await close(client, "s1"))["summary"] == "The user lives in Porto."
        assert [f.value for f in await facts(runtime)] == ["Porto"]
        assert (await counts(client))["refused_facts"] == (2 if '"?"' in text else 0)
    assert len(model.requests) == 1


BAD = [
    ("{}", "empty"),
    ('{"facts": []}', "summary"),
    ('{"tool": "store", "arguments": {"text": "tea"}}', "can't be read"),
    (json.dumps([PORTO]), "summary"),
    (answer("Bob Miller paid 500 euros."), "no sentence that the messages support"),
]


@pytest.mark.parametrize(("text", "reason"), BAD)
async def test_output_that_can_not_be_used_is_asked_for_again_with_the_reason(
    model: ModelServer, text: str, reason: str
) -> None:
    model.script = (text, WHOLE)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.")
        assert (await close(client, "s1"))["summary"] == "The user lives in Porto."
        assert [f.value for f in await facts(runtime)] == ["Porto"]
    first, second = (request["messages"][1]["content"] for request in model.requests)
    assert second.startswith(first)
    assert reason in second.removeprefix(first)


@pytest.mark.parametrize(("text", "reason"), BAD)
async def test_output_that_stays_bad_is_pending_and_visible_until_it_is_right(
    model: ModelServer, text: str, reason: str
) -> None:
    model.script = (text,)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.")
        failed = await close(client, "s1")
        ready = await read(client, "/health/ready")
        assert (await facts(runtime), await vectors(runtime)) == ([], {})
        assert len(model.requests) == 2
        model.script = (WHOLE,)
        closed = await close(client, "s1")
        assert [f.value for f in await facts(runtime)] == ["Porto"]
    assert (failed["state"], ready["status"]) == ("open", "degraded")
    assert reason in failed["pending"]
    assert (closed["state"], closed["summary"]) == ("closed", "The user lives in Porto.")


@pytest.mark.parametrize("fault", ["rate_limit", "server_error", "slow", "reset", "garbage"])
async def test_nothing_is_lost_when_the_model_fails(model: ModelServer, fault: Fault) -> None:
    model.script, model.fault = (WHOLE,), fault
    async with serving(model, model_timeout_seconds=0.5) as (client, runtime):
        await talk(client, "I live in Porto.")
        assert (await close(client, "s1"))["state"] == "open"
        model.fault = None
        assert (await close(client, "s1"))["state"] == "closed"
        assert [f.value for f in await facts(runtime)] == ["Porto"]
        assert "s1#f1" in await vectors(runtime)


async def test_prose_instead_of_json_is_asked_for_again(model: ModelServer) -> None:
    model.script = ("The user lives in Porto.", WHOLE)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.")
        assert (await close(client, "s1"))["summary"] == "The user lives in Porto."
        assert [f.value for f in await facts(runtime)] == ["Porto"]
        assert (await counts(client))["refused_facts"] == 0
    assert "it is prose" in model.requests[1]["messages"][1]["content"]


@pytest.mark.parametrize("second", ["The user likes Porto.", "Sorry, I can not.", "{}"])
async def test_prose_twice_is_a_summary_whose_missing_facts_are_counted(
    model: ModelServer, second: str
) -> None:
    model.script = ("The user lives in Porto.", second)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto and I like it.")
        closed = await close(client, "s1")
        assert await facts(runtime) == []
        assert (await counts(client))["refused_facts"] == 1
    assert closed["summary"] == (second if "Porto" in second else "The user lives in Porto.")
    assert len(model.requests) == 2


@pytest.mark.parametrize("text", ["I'm sorry, but I can't help with that.", "Hello there!", "null"])
async def test_an_apology_is_no_summary_and_replaces_none(model: ModelServer, text: str) -> None:
    model.script = (WHOLE, text)
    async with serving(model) as (client, _):
        await talk(client, "I live in Porto.")
        await close(client, "s1")
        await talk(client, "I moved to Lisbon.")
        failed = await close(client, "s1")
    assert (failed["state"], failed["summary"]) == ("open", "The user lives in Porto.")
    assert "the messages" in failed["pending"]


async def test_what_was_cut_off_is_read_again_in_smaller_parts(model: ModelServer) -> None:
    def reads(request: dict[str, Any]) -> str:
        seen = re.findall(r"\[(\d+)\] user: My color is (\w+)", request["messages"][1]["content"])
        told = [
            fact(f"My color is {value}", value, f"The user's color is {value}.", int(seq),
                 predicate="color", many=True)
            for seq, value in seen
        ]  # fmt: skip
        text = answer("The user speaks of colors.", *told)
        return text if len(seen) <= 2 else text[: len(text) // 2]

    colors = ["red", "green", "blue", "teal", "pink"]
    model.script = reads
    async with serving(model) as (client, runtime):
        await talk(client, *(f"My color is {value}. " + "So it is. " * 20 for value in colors))
        await close(client, "s1")
        assert [f.value for f in await facts(runtime)] == colors
        assert (await counts(client))["refused_facts"] == 0
    assert 3 <= len(model.requests) <= 5


async def test_a_planted_claim_of_the_assistant_is_not_stored(model: ModelServer) -> None:
    planted = fact("You are allergic to peanuts", "peanuts", "The user is allergic to peanuts.", 2,
                   predicate="allergic_to")  # fmt: skip
    model.script = ("You are allergic to peanuts.", answer("The user said hello.", planted))
    options = groq(model, chat_model="talker", summary_model="reader")
    async with served_at(lambda: NOON, summary_every_messages=1000, **options) as (client, runtime):
        await talk(client, "Hello!")
        await close(client, "s1")
        assert await facts(runtime) == []
        assert (await counts(client))["refused_facts"] == 1


async def test_a_claim_of_the_assistant_that_its_document_holds_is_stored(
    model: ModelServer,
) -> None:
    claim = fact("Acme's contract renews on May 7", "May 7",
                 "The contract of Acme renews on May 7.", 2,
                 subject="Acme", predicate="contract_renewal")  # fmt: skip
    model.script = (
        "Acme's contract renews on May 7 [1].",
        answer("The user asked when the contract of Acme renews.", claim),
    )
    options = groq(model, chat_model="talker", summary_model="reader")
    async with served_at(lambda: NOON, summary_every_messages=1000, **options) as (client, runtime):
        await put(client, {"id": "a b/c#1", "text": "The contract of Acme renews on May 7."})
        await talk(client, "When does the contract of Acme renew?")
        await close(client, "s1")
        (stored,) = await facts(runtime)
    assert (stored.said_by, stored.subject, stored.value) == ("assistant", "Acme", "May 7")


async def test_a_number_that_a_summary_invents_is_dropped_and_counted(model: ModelServer) -> None:
    paid = fact("I live in Porto", "500", "The user pays 500 euros in Porto.", predicate="rent")
    model.script = (answer("The user lives in Porto. The rent is 500 euros.", PORTO, paid),)
    async with serving(model) as (client, runtime):
        await talk(client, "I live in Porto.")
        assert (await close(client, "s1"))["summary"] == "The user lives in Porto."
        assert [f.value for f in await facts(runtime)] == ["Porto"]
        found = await counts(client)
    assert (found["dropped_sentences"], found["refused_facts"]) == (1, 1)


async def test_of_contradictory_facts_in_one_session_the_later_one_holds(
    model: ModelServer,
) -> None:
    lisbon = fact("I live in Lisbon", "Lisbon", "The user lives in Lisbon.", 1)
    porto = {**PORTO, "seq": 3}
    model.script = (answer("The user lives in Porto.", porto, lisbon),)
    times = iter(NOON.replace(minute=minute) for minute in range(60))
    async with serving(model, clock=lambda: next(times)) as (client, runtime):
        await talk(client, "I live in Lisbon.", "No, wait: I live in Porto.")
        await close(client, "s1")
        first, second = sorted(await facts(runtime), key=lambda one: one.seq or 0)
    assert (first.value, second.value) == ("Lisbon", "Porto")
    assert (first.valid_to, second.valid_to) == (second.valid_from, None)


@pytest.mark.parametrize(
    ("zone", "begins"),
    [
        ("America/Chicago", "2026-11-29T06:00:00+00:00"),  # its 29th, for it is 23:30 on the 30th
        ("Asia/Tokyo", "2026-11-29T15:00:00+00:00"),  # its 30th, for it is 14:30 on the 1st
        (None, "2026-11-30T00:00:00+00:00"),
    ],
)
async def test_yesterday_is_the_users_own(
    model: ModelServer, zone: str | None, begins: str
) -> None:
    moved = fact(
        "I moved to Porto yesterday", "Porto", "The user moved to Porto.", when="yesterday"
    )
    model.script = (answer("The user moved to Porto.", moved),)
    late = datetime(2026, 12, 1, 5, 30, tzinfo=UTC)
    async with serving(model, clock=lambda: late) as (client, runtime):
        await talk(client, "I moved to Porto yesterday.", timezone=zone)
        await close(client, "s1")
        (stored,) = await facts(runtime)
    assert stored.valid_from.isoformat() == begins
    local = {"America/Chicago": "Monday 2026-11-30 23:30", "Asia/Tokyo": "Tuesday 2026-12-01 14:30"}
    expected = local.get(zone or "", "Tuesday 2026-12-01 05:30")
    assert f'<transcript date="{expected}">' in model.requests[0]["messages"][1]["content"]


async def test_the_setting_is_the_zone_of_those_who_name_none(model: ModelServer) -> None:
    moved = fact("I moved to Porto yesterday", "Porto", "The user moved to Porto.")
    model.script = (answer("The user moved to Porto.", moved),)
    async with serving(model, timezone="America/Chicago") as (client, runtime):
        await talk(client, "I moved to Porto yesterday.")
        await close(client, "s1")
        (stored,) = await facts(runtime)
    assert stored.valid_from.isoformat() == "2026-11-29T06:00:00+00:00"


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd", "localtime", "America", 5])
async def test_a_time_zone_that_there_is_none_of_is_refused(model: ModelServer, zone: Any) -> None:
    async with serving(model) as (client, _):
        response = await client.post("/chat", json={"message": "Hello", "timezone": zone})
    error = refused(response, 422)
    assert error["param"] == "timezone"
    if isinstance(zone, str):
        assert "IANA" in error["message"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("東京に住んでいます。", fact("東京に住んでいます", "東京", "東京に住んでいます。")),
        ("أعيش في القاهرة.", fact("أعيش في القاهرة", "القاهرة", "يعيش المستخدم في القاهرة.")),
        ("I 💚 🍣!", fact("I 💚 🍣!", "🍣", "The user loves 🍣.", predicate="likes")),
    ],
    ids=["Japanese", "Arabic", "emoji"],
)
async def test_any_script_goes_all_the_way(
    model: ModelServer, text: str, told: dict[str, Any]
) -> None:
    model.script = (answer(told["statement"], told),)
    async with serving(model) as (client, runtime):
        await talk(client, text)
        await close(client, "s1")
        (stored,) = await facts(runtime)
        found = await vectors(runtime)
    assert (stored.value, stored.quote) == (told["value"], told["quote"])
    assert found["s1#f1"] == told["statement"]
    assert found["s1#x1"].startswith(f"User: {text}")


TEN_TURNS = [
    "Hi, I'm Ada. I run a small bakery in Porto and I want to plan the next season with you.",
    "We have two shops now. The one near the river does well, the other one is mostly empty.",
    "Rent for the second shop is 1,400 euros a month, and the lease ends on 31 March 2027.",
    "My sister Grace helps on weekends, but she is allergic to nuts, so no almond cakes for her.",
    "I'd rather keep both shops, but my accountant says we lose about 600 euros a month there.",
    "Customers ask for gluten-free bread. I tried a recipe last week and it was not bad at all.",
    "Please remind me to call the landlord, Mr. Tavares, before the end of the year.",
    "Actually we decided to close the second shop on Mondays and Tuesdays from January on.",
    "The new oven comes from a company in Braga; it should arrive on the 14th of December.",
    "That is all for today. Next time let's speak about the Christmas menu and its prices.",
]


async def test_the_memory_of_a_ten_turn_conversation_costs_less_than_4000_prompt_tokens(
    model: ModelServer,
) -> None:
    reply = "I see. " + "That is good to know, and I will keep it in mind for the plan. " * 3

    def says(request: dict[str, Any]) -> str:
        if request["model"] == "talker":
            return reply
        seqs = re.findall(r"\[(\d+)\] user: (\S+ \S+ \S+)", request["messages"][1]["content"])
        told = [
            fact(words, words, f"The user said: {words} and so on, in some more words.", int(seq),
                 predicate=f"said_{seq}")
            for seq, words in seqs
        ]  # fmt: skip
        return answer("The user runs a small bakery in Porto. " * 12, *told)

    model.script = says
    options = groq(model, chat_model="talker", summary_model="reader")
    async with served_at(lambda: NOON, **options) as (client, runtime):
        for some, seq in ((TEN_TURNS[:5], 10), (TEN_TURNS[5:], 20)):
            await talk(client, *some)
            async with asyncio.timeout(20):
                while (await runtime.sessions.get("default", "s1", None)).covered_seq < seq:
                    await asyncio.sleep(0.01)
        await close(client, "s1")
        assert len(await facts(runtime)) == 10
    # The same small model reads follow-ups: what memory costs are the calls with a transcript.
    told = [one["messages"][1]["content"] for one in model.requests]
    model.requests = [
        one for one, text in zip(model.requests, told, strict=True) if "<transcript" in text
    ]
    assert len(model.requests) == 2
    assert 1_500 < prompt_tokens(model) <= 4_000


async def test_nothing_waits_for_a_checkpoint_and_no_request_asks_the_model() -> None:
    goes_on = Event()

    def slow(request: dict[str, Any]) -> str:
        goes_on.wait(30)
        first = "I live in Porto" in request["messages"][1]["content"]
        return WHOLE if first else answer("They talked.")

    facts_at, ada = "/memories/facts", {"user_id": "ada"}
    home = {"predicate": "lives_in", "value": "Lisbon", **ada}
    old = {"role": "user", "content": "I live in Rome.", "created_at": "2023-01-01T12:00:00Z"}
    with model_server(script=slow) as model:
        options = groq(model, chat_model="offline", summary_model="reader")
        async with served_at(lambda: NOON, summary_every_messages=2, **options) as (
            client,
            runtime,
        ):
            try:
                await talk(client, "I live in Porto.")
                async with asyncio.timeout(20):
                    while not model.requests:
                        await asyncio.sleep(0.01)
                for text in ("I like tea.", "Where do I live?"):
                    await chat(client, text, session_id="s1", user_id="ada")
                await chat(client, "Hello again.", session_id="s2", user_id="ada")
                stored = answered(await client.post(facts_at, json=home))
                here = f"{facts_at}/{stored['fact_id']}"
                answered(await client.patch(here, params=ada, json={"value": "Rome"}))
                for path in ("", "/facts", "/entities", "/profile"):
                    answered(await client.get(f"/memories{path}", params=ada))
                answered(await client.get("/memories", params={"query": "home?", **ada}))
                answered(await client.get("/memories/graph", params={"entity": "user", **ada}))
                answered(await client.delete(here, params=ada))
                answered(await client.post("/memories/evict", json={"policy": "time", **ada}))
                imported = {"conversations": [{"messages": [old]}], **ada}
                taken = await client.post("/memories/import", json=imported)
                assert taken.status_code == 202
                assert {request["model"] for request in model.requests} == {"reader"}
                assert await runtime.episodes.get("default", "s1") is None  # it still waits
            finally:
                goes_on.set()
            await finish_jobs(runtime)
            assert [f.value for f in await facts(runtime)] == ["Porto"]
