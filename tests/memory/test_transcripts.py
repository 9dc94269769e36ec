"""Times and ids of old conversations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.memory.transcripts import Line, Transcript, settle

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
EASTERN = timezone(-timedelta(hours=5))

moments = st.datetimes(
    datetime(1971, 1, 2),  # noqa: DTZ001 — the zones come extra
    datetime(2026, 11, 28),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, EASTERN, timezone(timedelta(hours=14))]),
)


def transcript(*times: datetime, session_id: str | None = None) -> Transcript:
    lines = (Line("user", f"message {n}", at) for n, at in enumerate(times))
    return Transcript(tuple(lines), session_id)


def settled(one: Transcript, user_id: str = "ada", timezone: str = "UTC") -> tuple[str, Transcript]:
    (found,) = settle([one], user_id, timezone, NOW)
    return found


@given(st.lists(moments, min_size=1, max_size=6))
def test_times_are_taken_if_they_never_go_back(times: list[datetime]) -> None:
    one = transcript(*times)
    if times == sorted(times):
        _, found = settled(one)
        assert [line.created_at for line in found.lines] == times
        assert {line.created_at.utcoffset() for line in found.lines} == {timedelta(0)}
        return
    first = next(n for n in range(1, len(times)) if times[n] < times[n - 1])
    with pytest.raises(InvalidRequest) as refused:
        settled(one)
    assert refused.value.param == f"conversations.0.messages.{first}.created_at"


@given(moments)
def test_an_id_follows_from_whose_it_is_and_what_was_said_when(at: datetime) -> None:
    one = transcript(at, at)
    session_id, _ = settled(one)
    as_utc = transcript(*(line.created_at.astimezone(UTC) for line in one.lines))
    assert settled(as_utc, timezone="Asia/Tokyo")[0] == session_id
    assert settled(one, user_id="bob")[0] != session_id
    assert settled(transcript(at))[0] != session_id
    assert settled(transcript(at, at + timedelta(seconds=1)))[0] != session_id
    assert settled(transcript(at, session_id="mine"))[0] == "mine"


@pytest.mark.parametrize(
    ("minutes", "named"),
    [
        (0, None),  # times are written in UTC everywhere
        (-300, "Etc/GMT+5"),
        (840, "Etc/GMT-14"),
        (-720, "Etc/GMT+12"),
        (330, "Asia/Kolkata"),
        (345, "Asia/Kathmandu"),
        (-150, None),  # nobody's
        (900, None),
    ],
)
def test_an_offset_names_a_zone_in_which_it_is_the_same_day(
    minutes: int, named: str | None
) -> None:
    offset = timezone(timedelta(minutes=minutes))
    _, found = settled(transcript(datetime(2024, 1, 31, 23, 30, tzinfo=offset)))
    assert found.timezone == named


def test_the_hour_that_comes_twice_is_read_in_order() -> None:
    clock = [datetime(2023, 11, 5, 1, minute) for minute in (30, 50, 10, 20)]  # noqa: DTZ001
    one = Transcript(transcript(*clock).lines, timezone="America/Chicago")
    _, found = settled(one)
    assert [line.created_at.strftime("%H:%M") for line in found.lines] == [
        "06:30",
        "06:50",
        "07:10",
        "07:20",
    ]
