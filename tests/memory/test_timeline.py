"""What was said of one thing, as periods: whatever the order in which it is read."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from app.memory.timeline import Period, Point, periods
from tests.memory.telling import day


def point(
    value: str, on: float, *, heard: float | None = None, ends: float | None = None, seq: int = 1
) -> Point:
    return Point(
        fact_id=f"{value}{on}",
        value_key=value,
        session_id=f"s{on if heard is None else heard}",
        seq=seq,
        quote="",
        said_by="user",
        said_at=day(on if heard is None else heard),
        value=value,
        statement="",
        valid_from=day(on),
        ends_at=None if ends is None else day(ends),
    )


def shown(found: list[Period]) -> list[tuple[str, datetime, datetime | None, bool]]:
    return [(p.points[0].value, p.valid_from, p.valid_to, p.is_superseded) for p in found]


def test_a_new_value_ends_the_one_before() -> None:
    assert shown(periods([point("Lisbon", 1), point("Porto", 5)])) == [
        ("Lisbon", day(1), day(5), True),
        ("Porto", day(5), None, False),
    ]


def test_the_same_value_again_is_one_period_and_after_another_a_new_one() -> None:
    said = [point("Lisbon", 1), point("Lisbon", 3), point("Porto", 5), point("Lisbon", 9)]
    found = periods(said)
    assert shown(found) == [
        ("Lisbon", day(1), day(5), True),
        ("Porto", day(5), day(9), True),
        ("Lisbon", day(9), None, False),
    ]
    assert [len(period.points) for period in found] == [2, 1, 1]


def test_what_was_told_late_of_an_early_time_takes_its_place() -> None:
    found = periods([point("Porto", 400), point("Lisbon", 1, heard=420)])
    assert shown(found) == [("Lisbon", day(1), day(400), True), ("Porto", day(400), None, False)]
    dated = periods([point("Porto", 5, heard=6), point("Lisbon", 1, heard=20)])
    assert shown(dated) == [("Lisbon", day(1), day(5), True), ("Porto", day(5), None, False)]


def test_a_change_of_late_overtakes_what_was_said_undated_before_it_was_told() -> None:
    """ "I live in Lisbon." Then: "I moved to Porto last week." """
    found = periods([point("Lisbon", 10), point("Porto", 4, heard=11)])
    assert shown(found) == [("Lisbon", day(4), day(4), True), ("Porto", day(4), None, False)]
    again = periods([point("Lisbon", 10), point("Porto", 4, heard=11), point("Lisbon", 12)])
    assert shown(again)[-1] == ("Lisbon", day(12), None, False)


def test_an_end_that_was_told_ends_it_and_supersedes_nothing() -> None:
    found = periods([point("Acme", 1), point("Acme", 8, ends=6)])
    assert shown(found) == [("Acme", day(1), day(6), False)]
    again = periods([point("Acme", 1, ends=6), point("Acme", 9)])
    assert shown(again) == [("Acme", day(1), day(6), False), ("Acme", day(9), None, False)]
    gap = periods([point("Acme", 1, ends=6), point("Globex", 9)])
    assert shown(gap) == [("Acme", day(1), day(6), False), ("Globex", day(9), None, False)]


def test_a_value_that_comes_before_the_end_that_was_told_ends_it_earlier() -> None:
    found = periods([point("Acme", 1, ends=20), point("Globex", 9)])
    assert shown(found) == [("Acme", day(1), day(9), True), ("Globex", day(9), None, False)]


def test_the_end_that_was_told_last_counts() -> None:
    said = [point("Acme", 1, heard=1, ends=20), point("Acme", 1, heard=5, ends=30)]
    assert shown(periods(said)) == shown(periods(said[::-1]))
    assert periods(said)[0].ends_at == day(30)


def test_of_two_values_of_one_moment_the_later_message_wins() -> None:
    found = periods([point("Porto", 5, seq=3), point("Lisbon", 5, seq=7)])
    assert shown(found) == [("Porto", day(5), day(5), True), ("Lisbon", day(5), None, False)]


POINTS = st.lists(
    st.builds(
        point,
        st.sampled_from(["Lisbon", "Porto", "Braga"]),
        st.integers(0, 9),
        heard=st.none() | st.integers(0, 9),
        ends=st.none() | st.integers(0, 9),
        seq=st.integers(1, 9),
    ),
    max_size=12,
    unique_by=lambda p: (p.value, p.place),  # a message says a thing once
)


@given(POINTS, st.randoms(use_true_random=False))
def test_the_order_of_reading_does_not_matter(said: list[Point], random: Random) -> None:
    shuffled = random.sample(said, len(said))
    assert shown(periods(shuffled)) == shown(periods(said))


@given(POINTS)
def test_at_most_one_value_holds_at_a_time_and_nothing_that_was_said_is_lost(
    said: list[Point],
) -> None:
    found = periods(said)
    assert sorted(map(id, said)) == sorted(id(p) for period in found for p in period.points)
    for before, after in pairwise(found):
        assert before.valid_to is not None
        assert before.valid_from <= before.valid_to <= after.valid_from
