"""Tools that an operator adds by import path."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from app.errors import Misconfigured
from app.llm.operator_tools import AgentContext
from app.llm.own_thread import MOST
from tests.chat import shop_tools
from tests.chat.agents import ask, groq, in_turn, results, steps_of
from tests.served import served
from tests.wire.openai import Calls, ModelServer, call, model_server

SHOP = "tests.chat.shop_tools"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    shop_tools.CALLS.clear()
    with model_server() as server:
        yield server


def tools(*names: str) -> str:
    return ", ".join(f"{SHOP}:{name}" for name in names)


async def test_functions_and_langchain_tools_are_called_and_what_they_return_is_data(
    model: ModelServer,
) -> None:
    model.script = in_turn(
        Calls(
            (
                ("get_order_status", {"order": "A1"}),
                ("refund", {"order": "A2", "reason": "late"}),
                ("opening_hours", {"day": "Monday"}),
            )
        ),
        "",
        "",
        "Done.",
    )
    chosen = groq(model, agent_tools=tools("get_order_status", "refund", "opening_hours"))
    async with served(**chosen) as (client, _):
        body = await ask(client, "Where is A1? Refund A2. When are you open?", memory="off")
    described = {tool["function"]["name"]: tool["function"] for tool in model.requests[0]["tools"]}
    assert set(described) == {"search_documents", "get_order_status", "refund", "opening_hours"}
    status = described["get_order_status"]
    assert status["description"] == "Return the status of an order of the shop."
    assert set(status["parameters"]["properties"]) == {"order", "verbose"}
    assert dict(shop_tools.CALLS) == {"A1": AgentContext("default", "ada", "s1"), "A2": "late"}
    assert sorted(results(model.requests[1]))[0] == (
        '<tool_result name="get_order_status">\n'
        '{"order": "A1", "status": "on its way"}\n</tool_result>'
    )
    assert body["reply"] == "Done."
    assert all(not step["is_error"] for step in body["receipt"]["steps"])


async def test_what_goes_wrong_in_a_tool_is_told_to_the_model_and_no_secret_of_it(
    model: ModelServer,
) -> None:
    model.script = in_turn(
        call("broken"),
        call("refund", order="A2", reason="bored"),
        call("endless"),
        "Sorry.",
    )
    async with served(**groq(model, agent_tools=tools("broken", "refund", "endless"))) as (
        client,
        _,
    ):
        body = await ask(client, "Please refund order A2")
    failed, wrong, long = results(model.requests[-1])
    assert failed == "The tool failed."
    assert wrong.startswith("The arguments are wrong. reason: ")
    assert len(long) < 8_000
    assert [error for _, error, _ in steps_of(body)] == [True, True, False]
    assert shop_tools.CALLS == []


@pytest.mark.parametrize("name", ["leaving", "leaving_at_once", "cancelling_itself", "exhausted"])
async def test_a_tool_that_would_end_the_process_fails_as_any_other(
    model: ModelServer, name: str
) -> None:
    model.script = in_turn(call(name), "Sorry.")
    async with served(**groq(model, agent_tools=tools(name))) as (client, _):
        body = await ask(client, "Hello")
    assert results(model.requests[-1]) == ["The tool failed."]
    assert body["reply"] == "Sorry."


async def test_tools_that_hang_keep_nobody_else_waiting(model: ModelServer) -> None:
    hanging = Calls(tuple(("hanging", {}) for _ in range(MOST)))  # all that there may be
    model.script = in_turn(hanging, "Sorry.")
    shop_tools.HANGING.clear()
    async with served(**groq(model, agent_tools=tools("hanging"))) as (client, _):
        asked = asyncio.create_task(ask(client, "Hello"))
        while not model.requests:
            await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(30):
                other = await client.post("/chat", json={"message": "Hi", "user_id": "eve"})
            assert other.status_code == 200
            assert not asked.done()
        finally:
            shop_tools.HANGING.set()
        assert (await asked)["reply"] == "Sorry."


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ("shop", "expected module:name"),
        ("no.such.module:tool", "can't be imported"),
        (f"{SHOP}:nothing", "has no nothing"),
        (f"{SHOP}:without_docstring", "no docstring"),
        (f"{SHOP}:without_hint", "'order' has no type hint"),
        (f"{SHOP}:NOT_A_TOOL", "expected a function or a LangChain tool"),
        (f"{SHOP}:forget", "'forget' is that of a tool of this service"),
        (tools("refund", "refund"), "two tools of the name 'refund'"),
    ],
)
async def test_a_tool_that_can_not_be_used_is_refused_at_start(paths: str, told: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        async with served(agent_tools=paths):
            pass
    assert told in refused.value.message
    assert refused.value.message.startswith("AGENT_TOOLS: ")
