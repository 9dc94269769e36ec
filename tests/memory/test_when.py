"""When something was true: words against the day of the message, on the user's calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.when import resolve, validity

LISBON = ZoneInfo("Europe/Lisbon")
SAID = datetime(2026, 11, 30, 12, 40, tzinfo=UTC)  # a Monday


def local(words: str, said_at: datetime = SAID, zone: str = "Europe/Lisbon", **how: bool) -> str:
    """Return the local time that words tell, without what is zero."""
    found = resolve(words, said_at, ZoneInfo(zone), **how)
    if found is None:
        return ""
    there = found.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return there.isoformat(" ", "minutes").removesuffix(" 00:00")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("today", "2026-11-30"),
        ("yesterday", "2026-11-29"),
        ("Yesterday evening", "2026-11-29"),
        ("yesterday at 5:30 pm", "2026-11-29 17:30"),
        ("last night", "2026-11-29"),
        ("the day before yesterday", "2026-11-28"),
        ("tomorrow", "2026-12-01"),
        ("the day after tomorrow", "2026-12-02"),
        ("two weeks ago", "2026-11-16"),
        ("a couple of weeks ago", "2026-11-16"),
        ("3 days ago", "2026-11-27"),
        ("a month ago", "2026-10-30"),
        ("a year ago", "2025-11-30"),
        ("two hours ago", "2026-11-30 10:40"),
        ("in two weeks", "2026-12-14"),
        ("three days from now", "2026-12-03"),
        ("for five years", "2021-11-30"),
        ("last Friday", "2026-11-27"),
        ("last Monday", "2026-11-23"),
        ("on Monday", "2026-11-23"),
        ("this Monday", "2026-11-30"),
        ("this Friday", "2026-12-04"),
        ("next Friday", "2026-12-04"),
        ("next Monday", "2026-12-07"),
        ("Friday last week", "2026-11-27"),
        ("last week", "2026-11-23"),
        ("the week before last", "2026-11-16"),
        ("last weekend", "2026-11-28"),
        ("this weekend", "2026-12-05"),
        ("next month", "2026-12-01"),
        ("last month", "2026-10-01"),
        ("next year", "2027-01-01"),
        ("last year", "2025-01-01"),
        ("since 2019", "2019-01-01"),
        ("2019", "2019-01-01"),
        ("May 2023", "2023-05-01"),
        ("2023-05", "2023-05-01"),
        ("in May", "2026-05-01"),
        ("in December", "2025-12-01"),
        ("next May", "2027-05-01"),
        ("7 May", "2026-05-07"),
        ("May 7, 2023", "2023-05-07"),
        ("the 7th of May 2023", "2023-05-07"),
        ("on 13/05/2023", "2023-05-13"),
        ("2023-05-07", "2023-05-07"),
        ("2023-05-07T18:30", "2023-05-07 18:30"),
        ("2023-05-07T18:30:00Z", "2023-05-07 19:30"),
        ("2023-05-07 18:30 -05:00", "2023-05-08 00:30"),
        ("February 29", "2024-02-29"),
    ],
)
def test_words_are_resolved_against_the_day_of_the_message(words: str, expected: str) -> None:
    assert local(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gestern", "2026-11-29"),
        ("vorgestern", "2026-11-28"),
        ("heute Morgen", "2026-11-30"),
        ("vor zwei Wochen", "2026-11-16"),
        ("seit drei Jahren", "2023-11-30"),
        ("letzten Freitag", "2026-11-27"),
        ("nächste Woche", "2026-12-07"),
        ("seit 2019", "2019-01-01"),
        ("am 7. Mai 2023", "2023-05-07"),
        ("hier", "2026-11-29"),
        ("avant-hier", "2026-11-28"),
        ("il y a une semaine", "2026-11-23"),
        ("il y a 3 jours", "2026-11-27"),
        ("vendredi dernier", "2026-11-27"),
        ("le mois prochain", "2026-12-01"),
        ("ayer", "2026-11-29"),
        ("hace dos semanas", "2026-11-16"),
        ("el viernes pasado", "2026-11-27"),
        ("la semana que viene", "2026-12-07"),
        ("ieri", "2026-11-29"),
        ("due settimane fa", "2026-11-16"),
        ("venerdì scorso", "2026-11-27"),
        ("ontem", "2026-11-29"),
        ("há dois anos", "2024-11-30"),
        ("sexta-feira passada", "2026-11-27"),
        ("gisteren", "2026-11-29"),
        ("twee weken geleden", "2026-11-16"),
        ("вчера", "2026-11-29"),
        ("два года назад", "2024-11-30"),
        ("в прошлую пятницу", "2026-11-27"),
        ("أمس", "2026-11-29"),
        ("منذ ٣ أيام", "2026-11-27"),
        ("الأسبوع الماضي", "2026-11-23"),
        ("昨日", "2026-11-29"),
        ("一昨日", "2026-11-28"),
        ("三日前", "2026-11-27"),
        ("2週間前", "2026-11-16"),
        ("先週", "2026-11-23"),
        ("先週の金曜日", "2026-11-27"),
        ("来月", "2026-12-01"),
        ("2023年5月7日", "2023-05-07"),
        ("昨天", "2026-11-29"),
        ("两周前", "2026-11-16"),
        ("一个月前", "2026-10-30"),
        ("上周五", "2026-11-27"),
        ("去年", "2025-01-01"),
        ("어제", "2026-11-29"),
    ],
)
def test_words_of_other_languages_too(words: str, expected: str) -> None:
    assert local(words) == expected


@pytest.mark.parametrize(
    "words",
    [
        "", "recently", "a few days ago", "the other day", "soon", "no", "on", "sometimes",
        "10/11/2026", "June 31", "2023-02-30", "99999 years ago", "9999 years ago", "25:99",
        "いいえ", "two years", "hello there", "5", "💥",
    ],
)  # fmt: skip
def test_what_tells_no_time_for_sure_is_none(words: str) -> None:
    assert local(words) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [("Friday", "2026-12-04"), ("in May", "2027-05-01"), ("December 24", "2026-12-24")],
)
def test_what_is_ahead_is_the_next_and_not_the_last(words: str, expected: str) -> None:
    assert local(words, is_ahead=True) == expected


@pytest.mark.parametrize(
    ("said_at", "zone", "words", "expected"),
    [
        # 23:30 in the evening: the same words, hours apart, and each its own day
        ("2026-11-30T23:30-06:00", "America/Chicago", "yesterday", "2026-11-29T00:00:00-06:00"),
        ("2026-11-30T23:30+09:00", "Asia/Tokyo", "yesterday", "2026-11-29T00:00:00+09:00"),
        ("2026-12-01T05:30+00:00", "America/Chicago", "yesterday", "2026-11-29T00:00:00-06:00"),
        ("2026-12-01T05:30+00:00", "Asia/Tokyo", "yesterday", "2026-11-30T00:00:00+09:00"),
        # into the day on which the clocks change, and over it
        ("2026-03-09T12:00-05:00", "America/Chicago", "yesterday", "2026-03-08T00:00:00-06:00"),
        ("2026-03-08T12:00-05:00", "America/Chicago", "tomorrow", "2026-03-09T00:00:00-05:00"),
        ("2026-10-26T12:00+00:00", "Europe/Lisbon", "two days ago", "2026-10-24T00:00:00+01:00"),
        ("2026-10-25T02:30+00:00", "Europe/Lisbon", "two hours ago", "2026-10-25T01:30:00+01:00"),
        # a midnight that the clocks leave out
        ("2026-04-25T12:00+03:00", "Africa/Cairo", "yesterday", "2026-04-24T01:00:00+03:00"),
        # ends of years, leap days
        ("2027-01-01T00:30+00:00", "UTC", "yesterday", "2026-12-31T00:00:00+00:00"),
        ("2027-01-01T00:30+00:00", "America/New_York", "last year", "2025-01-01T00:00:00-05:00"),
        ("2026-12-31T20:00+00:00", "Pacific/Auckland", "this year", "2027-01-01T00:00:00+13:00"),
        ("2026-12-15T12:00+00:00", "UTC", "next month", "2027-01-01T00:00:00+00:00"),
        ("2028-02-29T12:00+00:00", "UTC", "a year ago", "2027-02-28T00:00:00+00:00"),
        ("2026-03-31T12:00+00:00", "UTC", "a month ago", "2026-02-28T00:00:00+00:00"),
        # zones that are no whole hours off
        ("2026-11-30T19:00+00:00", "Asia/Kathmandu", "today", "2026-12-01T00:00:00+05:45"),
    ],
)
def test_a_day_is_the_users_own_and_begins_at_its_midnight(
    said_at: str, zone: str, words: str, expected: str
) -> None:
    found = resolve(words, datetime.fromisoformat(said_at), ZoneInfo(zone))
    assert found is not None
    seen = found.astimezone(UTC).astimezone(ZoneInfo(zone))
    assert seen.isoformat() == expected


@pytest.mark.parametrize(
    ("when", "quote", "is_action", "begins"),
    [
        ("", "I moved to Porto", False, None),
        ("", "I moved to Porto last week", False, "2026-11-23"),
        ("", "Ich bin gestern nach Porto gezogen", False, "2026-11-29"),
        ("", "Ich wohne hier in Porto", False, None),
        ("", "Je suis arrivé hier", False, "2026-11-29"),
        ("", "Guten Morgen, ich wohne in Porto", False, None),
        ("", "I have worked there since 2019", False, "2019-01-01"),
        ("", "My birthday is May 7", False, None),  # a date in a statement is what it states
        ("recently", "I moved to Porto", False, None),
        ("2023-05-07", "I moved to Porto", False, "2023-05-07"),
        ("next month", "I'm moving to Porto next month", False, "2026-12-01"),
        ("", "From next month on I work at Acme", False, "2026-12-01"),
        ("next Tuesday", "My dentist's appointment is next Tuesday", False, None),
        ("by Friday", "I must send the report by Friday", True, None),
        ("next month", "I must start next month", True, None),
    ],
)
def test_what_is_told_holds_from_its_message_unless_it_says_since_when(
    when: str, quote: str, is_action: bool, begins: str | None
) -> None:
    found = validity(when, quote, SAID, LISBON, is_action=is_action)
    expected = SAID if begins is None else datetime.fromisoformat(begins).replace(tzinfo=LISBON)
    assert found.begins == expected
    assert found.ends is None


@pytest.mark.parametrize(
    ("when", "ends"),
    [
        ("until Friday", "2026-12-05"),  # Friday included
        ("until June", "2027-07-01"),  # and June
        ("until December 2027", "2028-01-01"),
        ("until 2028", "2029-01-01"),
        ("till 2027-03-01", "2027-03-02"),
        ("bis zum 3. Januar", "2027-01-04"),
        ("until yesterday", None),
        ("until further notice", None),
    ],
)
def test_an_end_that_is_told_is_kept(when: str, ends: str | None) -> None:
    found = validity(when, "I stay in Porto", SAID, LISBON)
    assert found.begins == SAID
    expected = None if ends is None else datetime.fromisoformat(ends).replace(tzinfo=LISBON)
    assert found.ends == expected


PIECES = (
    "last next this the two 3 99 weeks day month year ago in since until Friday May 2019 31 june "
    "yesterday tomorrow for a of before il y hace vor 前 日 週 一 昨日 先週 の 金曜日 10/11 12:30 "
    "pm 2023-05-07 T09:00Z - , ."
)


@given(
    st.one_of(
        st.text(max_size=60), st.lists(st.sampled_from(PIECES.split()), max_size=8).map(" ".join)
    ),
    st.text(max_size=40),
    st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001
    st.sampled_from(["UTC", "Africa/Cairo", "America/Chicago", "Asia/Tokyo", "Asia/Kathmandu"]),
    st.booleans(),
)
def test_any_text_gives_aware_times_in_order(
    when: str, quote: str, said: datetime, zone: str, is_action: bool
) -> None:
    said_at = said.replace(tzinfo=UTC)
    found = validity(when, quote, said_at, ZoneInfo(zone), is_action=is_action)
    assert found.begins.tzinfo is not None
    assert found.ends is None or found.ends > found.begins
    assert found.begins - said_at < timedelta(days=366 * 210)
