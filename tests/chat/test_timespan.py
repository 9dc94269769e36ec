"""The time that a question speaks of, as a range."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.timespan import time_range

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 30, 13, tzinfo=BERLIN)  # a Monday


def day(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("What did I ask yesterday?", "2026-11-29", "2026-11-30"),
        ("What did I say the day before yesterday?", "2026-11-28", "2026-11-29"),
        ("What did I ask earlier today?", "2026-11-30", "2026-12-01"),
        ("What did we decide last week?", "2026-11-23", "2026-11-30"),
        ("What did we decide this week?", "2026-11-30", "2026-12-07"),
        ("What did we decide last weekend?", "2026-11-28", "2026-11-30"),
        ("What did I ask last month?", "2026-10-01", "2026-11-01"),
        ("What did I ask last year?", "2025-01-01", "2026-01-01"),
        ("What did I ask last Friday?", "2026-11-27", "2026-11-28"),
        ("What did I ask on Friday?", "2026-11-27", "2026-11-28"),
        ("What did I ask this Monday?", "2026-11-30", "2026-12-01"),
        ("Qu'ai-je dit lundi dernier ?", "2026-11-23", "2026-11-24"),
        ("What did I ask until Friday?", None, "2026-11-28"),
        ("What did I ask after Friday?", "2026-11-28", None),
        ("Was habe ich bis Freitag gesagt?", None, "2026-11-28"),
        ("What did I ask in the last week?", "2026-11-23", None),
        ("What did I ask over the past month?", "2026-10-01", None),
        ("What did I ask two weeks ago?", "2026-11-16", "2026-11-23"),
        ("What did I ask three days ago?", "2026-11-27", "2026-11-28"),
        ("What did I ask in the last two weeks?", "2026-11-16", None),
        ("What did we discuss in March?", "2026-03-01", "2026-04-01"),
        ("What did we discuss in December?", "2025-12-01", "2026-01-01"),
        ("What did we discuss in March 2025?", "2025-03-01", "2025-04-01"),
        ("What did we discuss in 2025?", "2025-01-01", "2026-01-01"),
        ("What did we discuss on 3 March?", "2026-03-03", "2026-03-04"),
        ("What did we discuss on 2026-03-04?", "2026-03-04", "2026-03-05"),
        ("What have I said since March?", "2026-03-01", None),
        ("What did I say before March?", None, "2026-03-01"),
        ("Was habe ich vorige Woche gefragt?", "2026-11-23", "2026-11-30"),
        ("Was habe ich vor zwei Wochen gefragt?", "2026-11-16", "2026-11-23"),
        ("Was habe ich am 3. März gesagt?", "2026-03-03", "2026-03-04"),
        ("De quoi avons-nous parlé la semaine dernière ?", "2026-11-23", "2026-11-30"),
        ("Qu'est-ce que je t'ai dit hier ?", "2026-11-29", "2026-11-30"),
        ("Qu'ai-je dit il y a trois jours ?", "2026-11-27", "2026-11-28"),
        ("¿Qué te dije el mes pasado?", "2026-10-01", "2026-11-01"),
        ("¿Qué te dije hace dos meses?", "2026-09-01", "2026-10-01"),
        ("Cosa ti ho detto il mese scorso?", "2026-10-01", "2026-11-01"),
        ("O que eu disse ontem?", "2026-11-29", "2026-11-30"),
        ("Wat heb ik vorige week gezegd?", "2026-11-23", "2026-11-30"),
        ("Что мы обсуждали на прошлой неделе?", "2026-11-23", "2026-11-30"),
        ("先週私は何を話しましたか？", "2026-11-23", "2026-11-30"),
        ("先週の月曜に何を話しましたか？", "2026-11-23", "2026-11-24"),
        ("三日前に何を話しましたか？", "2026-11-27", "2026-11-28"),
        ("我昨天问了你什么？", "2026-11-29", "2026-11-30"),
        ("上周我们聊了什么？", "2026-11-23", "2026-11-30"),
    ],
)
def test_a_time_of_the_past_is_a_range(text: str, since: str | None, until: str | None) -> None:
    found = time_range(text, NOW)
    assert found is not None
    assert (found.since, found.until) == (day(since), day(until))


@pytest.mark.parametrize(
    "text",
    [
        "What did I ask?",
        "What happens tomorrow?",
        "What is planned for next week?",
        "What did I say about the meeting next Friday?",
        "What did I say about the meeting this Wednesday?",  # it is Monday
        "What did I say about this December?",
        "What did I ask between Monday and Wednesday?",
        "Was habe ich von Montag bis Mittwoch gesagt?",
        "What did I ask in the last weeks?",
        "What did I say about March?",
        "How may I march on?",
        "Was ist hier zu tun?",
        "What did I say 1000000 years ago?",
        "What did I say on 10/11/2026?",  # it may be either
        "What did I ask last week? " * 20,
    ],
)
def test_what_tells_no_time_of_the_past_is_no_range(text: str) -> None:
    assert time_range(text, NOW) is None


def test_a_range_lies_on_the_calendar_of_the_users_zone() -> None:
    moment = datetime(2026, 11, 30, 2, tzinfo=ZoneInfo("UTC"))
    chicago = moment.astimezone(ZoneInfo("America/Chicago"))
    found = time_range("yesterday", chicago)
    assert found is not None
    assert str(found.since) == "2026-11-28 00:00:00-06:00"


@given(
    st.integers(0, 36_500 * 24).map(lambda hours: NOW - timedelta(hours=hours)),
    st.sampled_from(["day", "week", "month", "year"]),
)
def test_ranges_of_past_time_meet_and_do_not_overlap(now: datetime, unit: str) -> None:
    last = time_range("yesterday" if unit == "day" else f"last {unit}", now)
    this = time_range("today" if unit == "day" else f"this {unit}", now)
    assert last is not None
    assert this is not None
    assert last.until == this.since
    assert [last.since, this.since, now, this.until] == sorted(
        moment for moment in (last.since, this.since, now, this.until) if moment is not None
    )


@given(st.text(max_size=240), st.integers(0, 10_000))
def test_any_text_has_a_range_or_none(text: str, days: int) -> None:
    found = time_range(text, NOW - timedelta(days=days))
    assert found is None or found.since is not None or found.until is not None
