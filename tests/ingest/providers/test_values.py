from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.providers.values import cell, flat, ident, milliseconds, moment

MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (120000, "120000"),
        (-3, "-3"),
        (0.1, "0.1"),
        (1e22, "10000000000000000000000"),
        (1.5e-7, "0.00000015"),
        (float("nan"), ""),
        (float("inf"), ""),
        (True, "Yes"),
        (False, "No"),
        ("true", "Yes"),
        ("false", "No"),
        ("True story", "True story"),
        (None, ""),
        ("  Acme  ", "Acme"),
        ("007", "007"),
        ([], ""),
        (["red", None, "blue", 3], "red, blue, 3"),
        ([{"value": "a@b.example", "primary": True}, {"value": ""}], "a@b.example"),
        ({"label": "Gold", "id": 3}, "Gold"),
        ({"sku": "A-1", "count": 2}, "sku: A-1, count: 2"),
        ("2026-10-15", "2026-10-15"),
        ("2026-10-15T00:00:00Z", "2026-10-15"),
        ("2026-10-15T00:00:00.000+0000", "2026-10-15"),
        ("2026-10-15T09:30:00+02:00", "2026-10-15 09:30"),
        ("2026-10-15T00:00:07Z", "2026-10-15 00:00"),
        ("T", "T"),
    ],
)
def test_a_json_value_is_a_cell(value: Any, text: str) -> None:
    assert cell(value) == text


def test_nested_objects_are_told_by_their_path() -> None:
    record = {"name": "Acme", "address": {"city": "Köln", "geo": {"lat": 50.9}}, "tags": ["a", "b"]}
    assert flat(record) == {
        "name": "Acme",
        "address_city": "Köln",
        "address_geo_lat": "50.9",
        "tags": "a, b",
    }


def test_a_name_that_two_paths_share_loses_neither_value() -> None:
    cells = flat({"address": {"city": "inner"}, "address_city": "outer", " ": "nameless"})
    assert cells == {"address_city": "outer", "address.city": "inner"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), (7.0, "7"), (7.5, ""), (" a ", "a"), (True, ""), (None, ""), ([7], ""), ({}, "")],
)
def test_an_id_is_a_text_or_a_whole_number(value: Any, text: str) -> None:
    assert ident(value) == text


@pytest.mark.parametrize(
    "value",
    [
        1795996800,
        "1795996800",
        1795996800.0,
        1795996800000,
        1795996800000.0,
        "1795996800000000",
        "2026-11-30T00:00:00Z",
        "2026-11-30T00:00:00.000Z",
        "2026-11-30 00:00:00",
        "2026-11-30 00:00:00 Z",
        "2026-11-30T01:00+01:00",
        "2026-11-30T00:00:00.000+0000",
    ],
)
def test_a_time_is_read_in_its_usual_forms(value: Any) -> None:
    assert moment(value) == MIDNIGHT


@pytest.mark.parametrize(
    "value",
    [
        *[
            "",
            "soon",
            "2026-11-30",
            "20261130",
            "2026-13-01T00:00:00Z",
            "9999-12-31T23:59:00-10:00",
        ],
        *[5, 0, -1795996800, True, None, [], float("nan"), float("inf"), "1" * 4000],
    ],
)
def test_what_puts_nothing_in_order_is_no_time(value: Any) -> None:
    assert moment(value) is None


def test_milliseconds_are_taken_as_they_are() -> None:
    assert milliseconds(1795996800000) == milliseconds("1795996800000") == MIDNIGHT
    assert milliseconds(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert milliseconds("9" * 16) is None
    assert milliseconds("soon") is None
