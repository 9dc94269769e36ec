"""`python -m app costs`: what it foretells, what it assumes, and that it touches nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from app import cli
from app.costs.month import Part, month, rehearsed, total
from app.costs.rehearsal import rehearse
from app.costs.workload import Length, Workload, is_follow_up, is_for_agent, question_of, text_of
from app.llm.tokens import estimate_tokens
from app.usage import Used
from tests.benchmarks.costs import compare, workload
from tests.served import settings
from tests.wire.openai import model_server

SMALL = ["costs", "--messages-per-day", "40", "--length", "20", "--users", "20"]
SMALL += ["--session-messages", "4", "--days", "1"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command reads its settings from here, where there are none."""
    monkeypatch.chdir(tmp_path)
    for name in ("GROQ_API_KEY", "CHAT_MODEL", "SUMMARY_MODEL", "MODEL_PRICES", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOG_LEVEL", "WARNING")
    return tmp_path


def near(told: float, spent: float) -> bool:
    return abs(told / spent - 1) <= 0.1


SHORT = {"history_strategy": "window", "history_window": 2, "summary_every_messages": 4}


@pytest.mark.parametrize(
    ("agents", "chosen"),
    [(0.0, {}), (0.0, SHORT), (0.4, {})],
    ids=["as it comes", "a short window and many summaries", "agents"],
)
async def test_the_estimate_is_within_10_percent_of_what_is_spent(
    agents: float, chosen: dict[str, Any]
) -> None:
    load = workload(users=1, conversations=2, session_messages=5, agents=agents)
    with model_server() as server:
        compared = await compare(server, load, **chosen)
    expected = {"chat", "checkpoint", "understand", "total"} | ({"agent"} if agents else set())
    assert set(compared.foretold) == expected
    for purpose, spent in compared.spent.items():
        told = compared.foretold[purpose]
        assert told.calls == pytest.approx(spent.calls), purpose
        assert near(told.input_tokens, spent.input_tokens), purpose
    spent, told = compared.spent["total"], compared.foretold["total"]
    assert near(told.output_tokens, spent.output_tokens)
    assert told.usd is not None
    assert spent.usd is not None
    assert near(told.usd, spent.usd)


def rows(output: str) -> dict[str, list[str]]:
    """Return the cells of the printed table by purpose."""
    lines = output.split("\n\n")[0].splitlines()[1:]
    return {cells[0]: cells[1:] for cells in (re.split(r"\s{2,}", line) for line in lines)}


def run(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert cli.main([*SMALL, *more]) == 0
    return capsys.readouterr().out


def test_a_month_is_printed_with_what_was_assumed_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], empty_folder: Path
) -> None:
    output = run(capsys, "--model", "openai/gpt-oss-120b", "--summary-model", "openai/gpt-oss-20b")
    table = rows(output)
    assert list(table) == ["chat", "checkpoint", "total"]
    assert table["chat"][0] == "40"
    assert float(table["total"][3]) > 0
    assert "40 questions a day for 1 days, by 20 users" in output
    assert "a question has 20 words, a reply 120 words" in output
    assert "openai/gpt-oss-120b" in output
    assert run(
        capsys, "--model", "openai/gpt-oss-120b", "--summary-model", "openai/gpt-oss-20b"
    ) == (output)
    assert list(empty_folder.iterdir()) == []


def test_without_keys_it_is_the_offline_model_that_is_free(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = run(capsys)
    assert rows(output)["total"][3] == "0.00"
    assert "Answers by offline" in output


def test_a_model_without_a_price_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys, "--model", "nobody:knows")
    assert "MODEL_PRICES" in output
    table = rows(output)
    assert (table["chat"][3], table["checkpoint"][3], table["total"][3]) == (
        "unknown", "0.00", "unknown",
    )  # fmt: skip


def test_summaries_that_come_more_often_and_agents_cost_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    once, often = (rows(run(capsys, "--every", every)) for every in ("8", "2"))
    assert (once["checkpoint"][0], often["checkpoint"][0]) == ("10", "40")
    agents = rows(run(capsys, "--agent-share", "0.5", "--agent-calls", "2"))
    assert (agents["chat"][0], agents["agent"][0]) == ("20", "40")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--length", "some"], "words as in 40 or tokens as in 50t"),
        (["--length", "0"], "words as in 40"),
        (["--users", "0"], "expected 1 to"),
        (["--follow-ups", "2"], "expected 0 to 1"),
        (["--messages-per-day", "nan"], "expected 0.01"),
        (["--every", "x"], "expected 1 to"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_was_expected(
    wrong: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*SMALL, *wrong])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


async def test_a_user_who_was_here_before_costs_more_by_what_is_remembered() -> None:
    load = Workload(8, Length(30), users=1, days=1, session_messages=4, facts=3)
    first, second = await rehearse(
        settings(), load, chat="offline", summary="offline", conversations=2
    )
    tokens = [{row.key: row.input_tokens for row in rows} for rows in (first, second)]
    assert tokens[1]["chat"] > tokens[0]["chat"] + 4 * 100


def test_a_month_adds_up_the_conversations_of_all_users() -> None:
    load = Workload(60, Length(1), users=2, days=1, session_messages=10)  # three for each user
    taken = [[Used("chat", 10, 100 * n, n, 0, 0, 0.5)] for n in (1, 2)]
    (part,) = month(load, taken)
    assert part == Part("chat", 60, 2 * (100 + 2 * 200), 2 * (1 + 2 * 2), 3.0)
    half = Workload(5, Length(1), users=1, days=1, session_messages=10)
    assert month(half, taken[:1]) == [Part("chat", 5, 50, 0.5, 0.25)]
    assert (rehearsed(half), rehearsed(load), rehearsed(Workload(10**6, Length(1)))) == (1, 3, 6)


def test_a_price_that_is_not_known_leaves_its_part_and_the_total_open() -> None:
    load = Workload(10, Length(1), users=1, days=1, session_messages=10)
    parts = month(
        load, [[Used("chat", 1, 1, 1, 0, 1, 0.0), Used("understand", 1, 1, 1, 0, 0, 2.0)]]
    )
    assert [part.usd for part in parts] == [None, 2.0]
    assert total(parts).usd is None


@pytest.mark.parametrize("number", [1, 2, 3, 11, 40, 333])
def test_texts_are_as_long_as_they_should_be_and_differ(number: int) -> None:
    words, tokens = text_of(Length(number), 1), text_of(Length(number, "tokens"), 1)
    assert len(words.split()) == number
    assert estimate_tokens(tokens) == pytest.approx(number, abs=2)
    assert number < 3 or words != text_of(Length(number), 2)
    assert words == text_of(Length(number), 1)


def test_long_texts_cost_what_english_does() -> None:
    text = text_of(Length(2_000), 1)
    assert 1.2 < estimate_tokens(text) / len(text.split()) < 1.4


def test_shares_of_the_questions_are_what_they_should_be() -> None:
    load = Workload(1, Length(20), follow_ups=0.3, agents=0.1)
    assert sum(is_for_agent(load, number) for number in range(1_000)) == pytest.approx(100, abs=2)
    assert sum(is_follow_up(load, number) for number in range(1_000)) == 300
    asked = [question_of(load, number, number) for number in range(10)]
    assert sum(text.startswith("And what about it?") for text in asked) == 3
    assert not asked[0].startswith("And")
