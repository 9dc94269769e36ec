"""Any order and any repetition of the same changes ends in the same state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.merge import (
    State,
    change_from_json,
    change_to_json,
    fetched_at,
    from_json,
    merge,
    to_json,
)
from ingest.providers.base import Action, Change, ObjectKey

KEY = ObjectKey("1", "company", "7")
START = datetime(2026, 11, 30, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def change(action: Action, minute: int, **fields: str) -> Change:
    return Change(KEY, action, at(minute), fields)


def thin(action: Action, minute: int) -> Change:
    return Change(KEY, action, at(minute), is_thin=True)


def merged(*changes: Change) -> State:
    state = State()
    for number, it in enumerate(changes):
        state = merge(state, it, arrived=START, number=number)
    return state


changes = st.builds(
    Change,
    object=st.just(KEY),
    action=st.sampled_from(["create", "change", "snapshot", "delete", "restore"]),
    time=st.integers(0, 5).map(at),
    fields=st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"])),
    scope=st.sampled_from(["", "one", "other"]),
    tie=st.sampled_from(["", "1"]),
    is_thin=st.booleans(),
)
erasing = st.builds(
    Change, object=st.just(KEY), action=st.just("erase"), time=st.integers(0, 5).map(at)
)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Change], list[Change]]:
    """A log of events, and the same ones in another order, some of them repeated."""
    log = draw(st.lists(changes | erasing, max_size=8))
    repeated = draw(st.lists(st.sampled_from(log), max_size=4)) if log else []
    return log, draw(st.permutations(log + repeated))


@given(logs())
def test_any_order_and_any_repetition_end_in_the_same_state(
    log: tuple[list[Change], list[Change]],
) -> None:
    one, other = log
    assert merged(*one) == merged(*other)


@given(logs())
def test_a_state_survives_its_storage(log: tuple[list[Change], list[Change]]) -> None:
    state = merged(*log[0])
    assert from_json(json.loads(json.dumps(to_json(state)))) == state


@given(changes)
def test_a_change_survives_its_storage(it: Change) -> None:
    assert change_from_json(json.loads(json.dumps(change_to_json(it)))) == it


def test_partial_changes_merge_field_by_field() -> None:
    state = merged(change("change", 2, a="new"), change("change", 1, a="old", b="kept"))
    assert state.fields() == {"a": "new", "b": "kept"}


def test_an_empty_value_clears_a_field_and_an_older_one_does_not_bring_it_back() -> None:
    state = merged(change("change", 2, a=""), change("change", 1, a="old"))
    assert state.fields() == {}


def test_a_snapshot_clears_what_it_does_not_name() -> None:
    state = merged(change("snapshot", 1, a="1", b="1"), change("snapshot", 2, a="2"))
    assert state.fields() == {"a": "2"}


def test_a_snapshot_of_chosen_fields_leaves_the_others_alone() -> None:
    mine = Change(KEY, "snapshot", at(2), {"a": "mine"}, scope="mine")
    again = Change(KEY, "snapshot", at(3), {}, scope="mine")
    other = Change(KEY, "snapshot", at(1), {"b": "other"}, scope="other")
    assert merged(mine, other).fields() == {"a": "mine", "b": "other"}
    assert merged(mine, other, again).fields() == {"b": "other"}


def test_what_was_cleared_of_chosen_fields_is_not_brought_back_by_an_older_word() -> None:
    said = Change(KEY, "snapshot", at(2), {"a": "said"}, scope="mine")
    cleared = Change(KEY, "snapshot", at(3), {}, scope="mine")
    for older in (change("change", 1, a="old"), replace(said, time=at(1), scope="other")):
        for log in permutations([older, said, cleared]):
            assert merged(*log).fields() == {}


@pytest.mark.parametrize(
    ("log", "is_deleted"),
    [
        ([change("create", 1), change("delete", 2)], True),
        ([change("delete", 2), change("create", 1)], True),
        ([change("delete", 2), change("snapshot", 2, a="1")], True),
        ([change("delete", 2), change("change", 3, a="1")], True),
        ([change("delete", 2), change("snapshot", 3, a="1")], False),
        ([change("delete", 2), change("restore", 3)], False),
        ([change("restore", 3), change("delete", 2), change("delete", 4)], True),
        ([change("change", 1, a="1")], False),
    ],
)
def test_only_a_newer_word_that_it_exists_lifts_a_deletion(
    log: Sequence[Change], is_deleted: bool
) -> None:
    assert merged(*log).is_deleted is is_deleted


def test_a_restored_object_has_its_fields_again() -> None:
    log = [change("change", 1, a="1"), change("delete", 2), change("restore", 3)]
    assert merged(*log).fields() == {"a": "1"}


def test_what_was_erased_leaves_nothing_and_stays_away() -> None:
    erased = merged(change("change", 1, a="secret"), change("erase", 2))
    assert "secret" not in json.dumps(to_json(erased))
    late = merge(erased, change("snapshot", 9, a="secret"), arrived=START)
    assert late.is_deleted
    assert late.fields() == {}


def test_changes_without_a_time_count_in_the_order_of_arrival() -> None:
    first, second = (Change(KEY, "snapshot", None, {"a": text}) for text in ("1", "2"))
    assert merged(first, second).fields() == {"a": "2"}
    state = merge(State(), second, arrived=START, number=2)
    assert merge(state, first, arrived=START, number=1).fields() == {"a": "2"}


def test_a_thin_event_makes_the_record_stale_until_something_newer_fills_it_in() -> None:
    assert merged(thin("create", 1)).is_stale
    assert not merged(thin("create", 1), change("snapshot", 2, a="1")).is_stale
    assert not merged(change("snapshot", 2, a="1"), thin("create", 1)).is_stale
    assert merged(thin("create", 3), change("snapshot", 2, a="1")).is_stale
    assert merged(thin("create", 1), change("change", 2, a="1")).is_stale
    assert not merged(thin("create", 1), change("delete", 2)).is_stale


def test_what_was_fetched_is_as_new_as_the_event_that_asked_for_it() -> None:
    asked = merged(thin("create", 5))
    assert asked.thin is not None
    fetched = fetched_at(change("create", 1, a="1"), asked.thin)
    state = merge(asked, fetched, arrived=START, is_fetched=True)
    assert (state.is_stale, state.fields()) == (False, {"a": "1"})


def test_an_object_that_can_not_be_fetched_any_more_is_deleted() -> None:
    asked = merged(thin("create", 5))
    assert asked.thin is not None
    fetched = fetched_at(Change(KEY, "delete"), asked.thin)
    assert merge(asked, fetched, arrived=START, is_fetched=True).is_deleted
