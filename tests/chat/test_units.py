"""Messages that stay together: what goes into a unit, and where the last units begin."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.units import (
    Unit,
    last_exchanges,
    last_messages,
    last_tokens,
    last_units,
    tokens_of,
    unit_of,
    units_of,
)
from app.llm.base import Say, ToolCall
from app.llm.tokens import estimate_tokens
from app.sessions.base import Message

STORED = Message(
    "m2", "default", "s", 2, "assistant", "Done.", "complete", "on", None,
    datetime(2026, 11, 30, tzinfo=UTC),
)  # fmt: skip


def user(text: str) -> Say:
    return Say("user", text)


def says(text: str) -> Say:
    return Say("assistant", text)


def system(text: str) -> Say:
    return Say("system", text)


def calling(*ids: str, text: str = "") -> Say:
    return Say("assistant", text, tuple(ToolCall(id, "look", {"at": id}) for id in ids))


def result(id: str) -> Say:
    return Say("tool", f"result of {id}", call_id=id)


def test_thousands_of_calls_are_read_once_each() -> None:
    ids = [str(number) for number in range(20_000)]
    at_once = [calling(*ids), *map(result, ids)]
    in_turn = [say for id in ids for say in (calling(id), result(id))]
    assert units_of(at_once) == ([tuple(at_once)], 0)
    assert units_of(in_turn) == ([tuple(in_turn)], 0)


def test_a_stored_message_is_a_unit() -> None:
    assert unit_of(STORED) == (says("Done."),)


def test_an_agents_calls_their_results_and_its_reply_are_one_unit() -> None:
    steps: list[dict[str, Any]] = [
        {"id": id, "name": "look", "arguments": {"at": id}, "result": f"result of {id}"}
        for id in ("a", "b")
    ]
    unit = unit_of(replace(STORED, steps=steps))
    assert unit == (calling("a", "b"), result("a"), result("b"), says("Done."))


@pytest.mark.parametrize(
    ("told", "units", "dropped"),
    [
        ([], [], 0),
        ([user("q"), says("a")], [(user("q"),), (says("a"),)], 0),
        (  # a run of tools with its reply
            [user("q"), calling("a", "b"), result("b"), result("a"), says("r"), user("q2")],
            [
                (user("q"),),
                (calling("a", "b"), result("b"), result("a"), says("r")),
                (user("q2"),),
            ],
            0,
        ),
        (  # one run after the other is one unit
            [calling("a"), result("a"), calling("b"), result("b"), says("r")],
            [(calling("a"), result("a"), calling("b"), result("b"), says("r"))],
            0,
        ),
        ([result("a"), says("r")], [(says("r"),)], 1),  # its call was cut off
        ([user("q"), result("a"), says("r")], [(user("q"),), (says("r"),)], 1),
        ([calling("a"), user("q")], [(user("q"),)], 1),  # its result never came
        (  # what the call said beside it stays
            [calling("a", text="Let me look."), user("q")],
            [(says("Let me look."),), (user("q"),)],
            0,
        ),
        (  # one of two was answered
            [calling("a", "b"), result("b"), says("r")],
            [(calling("b"), result("b"), says("r"))],
            0,
        ),
        ([calling("a"), result("a"), result("a")], [(calling("a"), result("a"))], 1),
        ([calling("a"), says("r"), result("a")], [(says("r"),)], 2),  # too late
        ([calling("a"), system("s"), result("a")], [(system("s"),)], 2),
    ],
)
def test_a_told_conversation_becomes_units(
    told: list[Say], units: list[Unit], dropped: int
) -> None:
    assert units_of(told) == (units, dropped)


TOLD = st.lists(
    st.one_of(
        st.just(user("q")),
        st.just(says("r")),
        st.just(system("s")),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(
            lambda ids: calling(*ids)
        ),
        st.sampled_from("abc").map(result),
    ),
    max_size=12,
)


@given(TOLD)
def test_whatever_a_client_tells_each_result_follows_its_call(told: list[Say]) -> None:
    units, dropped = units_of(told)
    assert sum(map(len, units)) + dropped == len(told)
    for unit in units:
        waiting: set[str] = set()
        for say in unit:
            if say.role == "tool":
                waiting.remove(say.call_id)  # nothing comes without its call, or twice
                continue
            assert not waiting
            assert say.content or say.calls
            waiting = {call.id for call in say.calls}
        assert not waiting
    kept = [say for unit in units for say in unit if say.role in ("user", "system")]
    assert kept == [say for say in told if say.role in ("user", "system")]


@given(TOLD, st.integers(1, 40))
def test_the_last_units_by_tokens_fit_and_the_newest_is_always_there(
    told: list[Say], most: int
) -> None:
    units, _ = units_of(told)
    start = last_tokens(units, most)
    shown = [unit for unit in units[start:] if unit[0].role != "system"]
    left = [unit for unit in units[:start] if unit[0].role != "system"]
    assert bool(shown) == bool(shown or left)
    if len(shown) > 1:
        assert sum(map(tokens_of, shown)) <= most
    if left:
        assert sum(map(tokens_of, [left[-1], *shown])) > most


def test_calls_cost_tokens_too() -> None:
    (call,) = calling("a").calls
    assert tokens_of((calling("a"),)) >= estimate_tokens(f"{call.name} {call.arguments['at']}")


LAST: list[Unit] = [
    (system("s"),),
    (user("one"),),
    (says("1"),),
    (user("two"),),
    (user("two, again"),),
    (calling("a"), result("a"), says("2")),
]


@pytest.mark.parametrize(
    ("most", "start"), [(1, 4), (2, 3), (3, 1), (4, 0)], ids=["1", "2", "3", "more than there are"]
)
def test_an_exchange_is_a_users_message_and_all_that_follows_it(most: int, start: int) -> None:
    assert last_exchanges(LAST, most) == start


@pytest.mark.parametrize(("most", "start"), [(1, 5), (3, 5), (4, 4), (6, 2), (7, 1), (99, 1)])
def test_the_last_messages_are_whole_units(most: int, start: int) -> None:
    assert last_messages(LAST, most) == start


@pytest.mark.parametrize(("most", "start"), [(0, 6), (1, 5), (2, 4), (99, 1)])
def test_the_last_units_are_counted_without_system_messages(most: int, start: int) -> None:
    assert last_units(LAST, most) == start
