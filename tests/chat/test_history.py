"""What a model is really sent of a conversation, for each strategy; told ones, wishes, guards."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.chat.ask import Ask, HistoryWish
from app.llm.base import Say, ToolCall
from app.llm.tokens import estimate_tokens
from app.sessions.base import NewTurn
from app.wiring import Runtime
from tests.api.calls import chat, close, groq, read, refused
from tests.served import served
from tests.wire.memory import summed_up
from tests.wire.openai import ModelServer, model_server

Json = dict[str, Any]

SUMMARY = "The user asked about many parts."
TURNS, SUMMARISED = 30, 25
LIMITS: Json = {"session_limit_messages": 1000, "session_limit_tokens": 200_000}


def question(n: int) -> str:
    return f"Please tell me the colour of part number {n}."


def answer(n: int) -> str:
    return f"Part number {n} is painted green."


SAID = [text for n in range(1, TURNS + 1) for text in (question(n), answer(n))]


def script(body: Json) -> str:
    last = str(body["messages"][-1]["content"])
    if "<transcript" in last:
        return summed_up(SUMMARY)
    number = re.findall(r"part number (\d+)", last.rpartition("<question>")[2])
    return answer(int(number[0])) if number else "All right."


@dataclass
class Served:
    client: httpx.AsyncClient
    runtime: Runtime
    model: ModelServer

    def sent(self) -> list[str]:
        """Return the conversation that stood in the last prompt, without the question."""
        messages = self.model.requests[-1]["messages"]
        return [m["content"] for m in messages[:-1] if m["role"] != "system"]

    def last(self) -> str:
        return str(self.model.requests[-1]["messages"][-1]["content"])


@asynccontextmanager
async def serving(database: Path, **chosen: Any) -> AsyncIterator[Served]:
    url = f"sqlite:///{database}"
    settings = {
        "database_url": url,
        "summary_every_messages": 1000,
        "question_rewriting": False,
        **chosen,
    }
    with model_server(script=script) as model:
        async with served(**groq(model, **settings)) as (client, runtime):
            yield Served(client, runtime, model)


async def _talk(database: Path) -> None:
    """Store a conversation of 60 messages, the first 50 of which are summarised."""
    async with serving(database) as service:
        for n in range(1, TURNS + 1):
            await chat(service.client, question(n), session_id="s")
            if n == SUMMARISED:
                assert (await close(service.client, "s"))["summary"] == SUMMARY


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talked")
    with ThreadPoolExecutor(1) as thread:  # the test that asks first may have a loop
        thread.submit(asyncio.run, _talk(folder / "a.db")).result()
    return folder


@pytest.fixture
def database(talked: Path, tmp_path: Path) -> Path:
    """The conversation, for one test."""
    shutil.copytree(talked, tmp_path / "data")
    return tmp_path / "data" / "a.db"


PAIR_TOKENS = estimate_tokens(question(30)) + estimate_tokens(answer(30))


@dataclass
class Case:
    """strategy: as HISTORY_STRATEGY. sent: how many of the last messages the model is shown."""

    strategy: str
    chosen: Json
    sent: int
    has_summary: bool = False


CASES = {
    "all there is": Case("buffer", {"history_max_messages": 60}, 60),
    "all that is read": Case("buffer", {"history_max_messages": 20}, 20),
    "three exchanges": Case("window", {"history_window": 3}, 6),
    "no more exchanges than are read": Case(
        "window", {"history_window": 30, "history_max_messages": 20}, 20
    ),
    "two exchanges in tokens": Case("token", {"history_tokens": 2 * PAIR_TOKENS}, 4),
    "a reply without its question": Case("token", {"history_tokens": 3 * PAIR_TOKENS - 1}, 5),
    "the newest, too large": Case("token", {"history_tokens": 1}, 1),
    "what no summary covers, and it": Case("summary", {}, 2 * (TURNS - SUMMARISED), True),
    "a summary, and some that it does not cover": Case(
        "summary", {"history_max_messages": 4}, 4, True
    ),
    "all of it, which needs no summary": Case("summary_buffer", {}, 60),
    "the recent, and a summary of the old": Case(
        "summary_buffer", {"history_max_messages": 20}, 20, True
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_strategy_shows_its_part_of_the_same_conversation(
    database: Path, case: Case
) -> None:
    async with serving(database, history_strategy=case.strategy, **case.chosen) as service:
        seen = (await read(service.client, "/sessions/s"))["context"]
        assert service.model.requests == []
        body = await chat(service.client, question(31), session_id="s")
        sent, last = service.sent(), service.last()
        assert len(service.model.requests) == 1  # no strategy calls a model of its own
    assert sent == SAID[len(SAID) - case.sent :]
    assert last.endswith(f"<question>\n{question(31)}\n</question>")
    assert last.count(SUMMARY) == case.has_summary
    assert body["receipt"]["history"] == {
        "strategy": case.strategy,
        "messages": case.sent,
        "summary": case.has_summary,
        "dropped": 0,
        "left_out": 60 - case.sent,
        "outgrown": [],
    }
    # and who read the session before could tell
    assert [m["content"] for m in seen["messages"]] == sent
    assert [m["seq"] for m in seen["messages"]] == list(range(61 - case.sent, 61))
    assert seen["summary"] == (SUMMARY if case.has_summary else None)
    assert (seen["strategy"], seen["left_out"]) == (case.strategy, 60 - case.sent)
    assert seen["tokens"] == sum(map(estimate_tokens, [*sent, seen["summary"] or ""]))


WISHES: dict[str, tuple[Json, int, bool]] = {
    "another strategy": ({"strategy": "window"}, 4, False),
    "and its size": ({"strategy": "window", "window": 1}, 2, False),
    "more than is read": ({"strategy": "window", "window": 500}, 20, False),
    "tokens": ({"strategy": "token", "tokens": PAIR_TOKENS}, 2, False),
    "both": ({"strategy": "token", "window": 1, "tokens": 9 * PAIR_TOKENS}, 2, False),
    "less of the default": ({"window": 3}, 6, True),
    "fewer tokens of the default": ({"tokens": PAIR_TOKENS}, 2, True),
    "the summary": ({"strategy": "summary"}, 10, True),
    "no summary": ({"strategy": "buffer"}, 20, False),
    "nothing else": ({}, 20, True),
}


@pytest.mark.parametrize(("wish", "sent", "has_summary"), WISHES.values(), ids=WISHES)
async def test_a_request_may_wish_for_another_history(
    database: Path, wish: Json, sent: int, has_summary: bool
) -> None:
    async with serving(database, history_max_messages=20, history_window=2) as service:
        await chat(service.client, question(31), session_id="s", history=wish)
        assert service.sent() == SAID[len(SAID) - sent :]
        assert (SUMMARY in service.last()) == has_summary
        assert question(31) in service.last()


BAD_WISHES: list[Any] = [
    {"strategy": "everything"},
    {"window": 0},
    {"window": 501},
    {"tokens": 0},
    {"tokens": 1_000_001},
    {"limit": 5},
    "window",
]


async def test_a_wish_that_can_not_be_is_refused() -> None:
    async with served() as (client, _):
        for wish in BAD_WISHES:
            response = await client.post("/chat", json={"message": "hello", "history": wish})
            assert refused(response, 422)["param"].startswith("history"), wish


async def test_a_history_that_the_budget_cuts_gets_the_summary_of_what_is_out(
    database: Path,
) -> None:
    small = {"context_tokens": 1_300, "reply_max_tokens": 200, "block_max_chars": 100}
    async with serving(database, **small) as service:
        body = await chat(service.client, question(31), session_id="s")
        plain = await chat(
            service.client, question(32), session_id="s", history={"strategy": "buffer"}
        )
        seen = service.model.requests
    assert body["receipt"]["history"]["dropped"] > 0
    assert body["receipt"]["history"]["summary"]
    assert SUMMARY in seen[0]["messages"][-1]["content"]
    assert plain["receipt"]["history"]["dropped"] > 0
    assert not plain["receipt"]["history"]["summary"]


async def test_what_was_said_off_the_record_is_seen_until_its_checkpoint(tmp_path: Path) -> None:
    wish = {"strategy": "summary"}
    async with serving(tmp_path / "a.db") as service:
        await chat(service.client, question(1), session_id="s")
        await close(service.client, "s")
        await chat(service.client, question(2), session_id="s", memory="off")
        await chat(service.client, question(3), session_id="s", history=wish)
        before = service.sent()
        await close(service.client, "s")
        await chat(service.client, question(4), session_id="s", history=wish)
        after = service.sent()
    assert before == [question(2), answer(2)]
    assert after == []


async def test_a_session_without_a_summary_is_shown_whole_by_summary(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.db", history_strategy="summary") as service:
        for n in range(1, 4):
            await chat(service.client, question(n), session_id="s", memory="off")
        await close(service.client, "s")  # which has nothing to read
        await chat(service.client, question(4), session_id="s")
        assert service.sent() == SAID[:6]


async def test_a_failed_reply_is_no_part_of_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.db", history_strategy="window", history_window=2) as service:
        await chat(service.client, question(1), session_id="s")
        service.model.fault = "server_error"
        failed = await service.client.post(
            "/chat", json={"message": question(2), "session_id": "s"}
        )
        service.model.fault = None
        body = await chat(service.client, question(3), session_id="s")
    assert failed.status_code == 503
    assert service.sent() == [question(1), answer(1), question(2)]
    assert body["receipt"]["history"]["left_out"] == 0


async def _agent_turn(runtime: Runtime, text: str, reply: str, results: dict[str, str]) -> None:
    """Store a turn that an agent answered with its tools."""
    new = NewTurn("default", "s", "default", text, None, "on", "run")
    turn = await runtime.sessions.begin_turn(new, now=runtime.clock())
    steps = [
        {"id": id, "name": "look", "arguments": {"at": id}, "result": found, "is_error": False}
        for id, found in results.items()
    ]
    await runtime.sessions.end_turn(
        turn, status="complete", content=reply, receipt=None, error=None, steps=steps,
        now=runtime.clock(),
    )  # fmt: skip


async def test_tool_calls_and_their_results_stay_together(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.db") as service:
        body = await chat(service.client, question(1), session_id="s", user_id="default")
        await _agent_turn(service.runtime, "Look it up.", "Found both.", {"c1": "A", "c2": "B"})
        seen = (await read(service.client, "/sessions/s"))["context"]["messages"]
        shown = []
        for tokens in (1, 10_000):
            await chat(
                service.client, "Say it in other words, please.", session_id="s",
                user_id="default", history={"strategy": "token", "tokens": tokens},
            )  # fmt: skip
            shown.append(service.model.requests[-1]["messages"][1:-1])
    assert body["reply"] == answer(1)
    run = [
        ("assistant", "", 4),
        ("tool", "A", 4),
        ("tool", "B", 4),
        ("assistant", "Found both.", 4),
    ]
    assert [(m["role"], m["content"], m["seq"]) for m in seen[-4:]] == run
    assert [call["id"] for call in seen[-4]["calls"]] == ["c1", "c2"]
    for sent, before in zip(shown, ([], [question(1), answer(1), "Look it up."]), strict=True):
        # A call that binds no tools is told what was said: providers refuse tool messages there.
        assert [m["content"] for m in sent[: len(before) + 1]] == [*before, "Found both."]


async def test_an_agent_is_shown_the_calls_with_their_results_or_neither(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.db") as service:
        await _agent_turn(service.runtime, "Look it up.", "Found both.", {"c1": "A", "c2": "B"})
        for n, tokens in enumerate((10_000, 1)):
            await chat(
                service.client, f"Say it in other words, please: {n}.", session_id="s",
                user_id="default", mode="agent", history={"tokens": tokens},
            )  # fmt: skip
        whole, cut = (request["messages"] for request in service.model.requests)
    at = next(n for n, message in enumerate(whole) if message.get("tool_calls"))
    calls, one, two, reply = whole[at : at + 4]
    assert [call["id"] for call in calls["tool_calls"]] == ["c1", "c2"]
    assert [(m["role"], m["tool_call_id"], m["content"]) for m in (one, two)] == [
        ("tool", "c1", "A"),
        ("tool", "c2", "B"),
    ]
    assert (reply["role"], reply["content"]) == ("assistant", "Found both.")
    assert not [m for m in cut if m.get("tool_calls") or m["role"] == "tool"]


def told(turns: int) -> list[Say]:
    return [
        Say("assistant" if at % 2 else "user", text) for at, text in enumerate(SAID[: 2 * turns])
    ]


async def ask(service: Served, *says: Say, session_id: str = "s", **wish: Any) -> Json:
    """Ask as a client does that tells the whole conversation; returns the receipt's history."""
    new = Ask(
        "default", "default", session_id, question(31), told=says, history=HistoryWish(**wish)
    )
    answer = await (await service.runtime.turns.start(new)).answer()
    history: Json = answer.receipt["history"]
    return history


async def test_a_told_conversation_is_not_doubled_by_the_stored_one(database: Path) -> None:
    async with serving(database, allow_anonymous=True) as service:
        owner = (await read(service.client, "/sessions/s"))["user_id"]
        assert owner == "default"
        receipt = await ask(service, *told(TURNS))
        assert service.sent() == SAID
        assert SUMMARY not in service.last()
        assert (receipt["left_out"], receipt["summary"]) == (0, False)


TELLINGS: dict[str, tuple[int, Json, int, bool]] = {
    "a window of it": (TURNS, {"strategy": "window", "window": 2}, 4, False),
    "the default, narrowed": (TURNS, {"window": 2}, 4, True),
    "a client that cut it itself": (3, {}, 6, False),
    "what the summary does not cover": (TURNS, {"strategy": "summary"}, 10, True),
    "less than it does not cover": (3, {"strategy": "summary"}, 6, False),
    "tokens": (TURNS, {"strategy": "token", "tokens": PAIR_TOKENS}, 2, False),
}


@pytest.mark.parametrize(("turns", "wish", "sent", "has_summary"), TELLINGS.values(), ids=TELLINGS)
async def test_a_told_conversation_is_cut_by_the_same_strategies(
    database: Path, turns: int, wish: Json, sent: int, has_summary: bool
) -> None:
    async with serving(database) as service:
        receipt = await ask(service, *told(turns), **wish)
        assert service.sent() == SAID[: 2 * turns][-sent:]
        assert (SUMMARY in service.last()) == has_summary == receipt["summary"]
        assert receipt["left_out"] == 2 * turns - sent


async def test_of_a_told_conversation_no_more_is_taken_than_would_be_read(database: Path) -> None:
    async with serving(database, history_max_messages=20) as service:
        receipt = await ask(service, *told(TURNS))
        assert service.sent() == SAID[-20:]
        assert SUMMARY in service.last()
        assert receipt["left_out"] == 40


async def test_a_summary_of_less_than_is_told_stands_for_nothing_of_it(tmp_path: Path) -> None:
    """The client brought a conversation along: our summary is of the last turns only."""
    async with serving(tmp_path / "a.db") as service:
        await ask(service, *told(10))
        await close(service.client, "s")
        await ask(service, *told(11), strategy="summary")
        assert service.sent() == SAID[:22]
        assert SUMMARY not in service.last()


async def test_a_clients_system_messages_stay_whatever_is_cut(tmp_path: Path) -> None:
    says = told(5)
    says.insert(2, Say("system", "Answer in rhyme."))
    async with serving(tmp_path / "a.db") as service:
        receipt = await ask(service, *says, strategy="window", window=1)
        messages = service.model.requests[-1]["messages"]
    (system,) = [m["content"] for m in messages if m["role"] == "system"]
    assert system.endswith("\n\nAnswer in rhyme.")
    assert service.sent() == SAID[8:10]
    assert receipt["left_out"] == 8


async def test_a_tool_message_whose_call_the_client_cut_off_breaks_no_prompt(
    tmp_path: Path,
) -> None:
    call = ToolCall("c2", "look", {"at": 2})
    says = [
        Say("tool", "an orphan", call_id="c1"),
        *told(1),
        Say("assistant", "", (call,)),
        Say("tool", "42", call_id="c2"),
        Say("assistant", "It is 42."),
        Say("user", "Look again."),
        Say("assistant", "", (ToolCall("c3", "look", {}),)),  # never answered
    ]
    async with serving(tmp_path / "a.db") as service:
        receipt = await ask(service, *says)
        sent = service.model.requests[-1]["messages"][1:-1]
    assert [(m["role"], m.get("content") or "") for m in sent] == [
        ("user", question(1)),
        ("assistant", answer(1)),
        ("assistant", "It is 42."),
        ("user", "Look again."),
    ]
    assert receipt["left_out"] == 2


@pytest.mark.parametrize(
    ("limits", "outgrown"),
    [
        ({"session_limit_messages": 61}, ["messages"]),
        ({"session_limit_messages": 62}, []),
        ({"session_limit_tokens": 30 * PAIR_TOKENS}, ["tokens"]),
        ({"session_limit_messages": 1, "session_limit_tokens": 1}, ["messages", "tokens"]),
    ],
)
async def test_a_session_that_outgrows_its_limits_says_so(
    database: Path, limits: Json, outgrown: list[str]
) -> None:
    async with serving(database, **limits) as service:
        body = await chat(service.client, question(31), session_id="s")
        seen = (await read(service.client, "/sessions/s"))["context"]
    assert body["receipt"]["history"]["outgrown"] == outgrown
    assert seen["outgrown"] == outgrown


async def test_a_repeated_or_failed_turn_counts_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.db") as service:
        service.model.fault, service.model.fault_times = "early_end", 2
        for _ in range(3):
            await service.client.post("/chat", json={"message": question(1), "session_id": "s"})
        for _ in range(2):
            await chat(service.client, question(2), session_id="s", client_message_id="c")
        session = await service.runtime.sessions.get("default", "s", None)
    assert session.last_seq == 4
    assert session.tokens == sum(map(estimate_tokens, SAID[:4]))


async def test_imported_messages_count_too(tmp_path: Path) -> None:
    lines = [
        {"role": "user" if at % 2 == 0 else "assistant", "content": text,
         "created_at": f"2026-03-01T12:{at:02}:00Z"}
        for at, text in enumerate(SAID[:6])
    ]  # fmt: skip
    async with serving(tmp_path / "a.db") as service:
        for some in (lines[:4], lines, lines):
            transcript = {"session_id": "s", "messages": some}
            response = await service.client.post(
                "/memories/import", json={"conversations": [transcript]}
            )
            assert response.status_code == 202, response.text
        session = await service.runtime.sessions.get("default", "s", None)
    assert session.tokens == sum(map(estimate_tokens, SAID[:6]))
