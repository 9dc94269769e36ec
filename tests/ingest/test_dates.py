from __future__ import annotations

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.dates import DateEvidence, iso_date


@pytest.mark.parametrize(
    ("cell", "iso"),
    [
        ("2026-10-15", "2026-10-15"),
        ("2026/10/15", "2026-10-15"),
        ("2026.1.5", "2026-01-05"),
        ("2026-10-15T00:00:00.000Z", "2026-10-15"),
        ("2026-10-15T09:15:00.000+0000", "2026-10-15 09:15Z"),
        ("2026-10-15 09:15:07+02:00", "2026-10-15 09:15:07+02:00"),
        ("01.02.2019", "2019-02-01"),
        ("1.2.2019", "2019-02-01"),
        ("01.02.19", "2019-02-01"),
        ("03.06.2020 15:04", "2020-06-03 15:04"),
        ("03.06.2020, 15:04 Uhr", "2020-06-03 15:04"),
        ("13/1/26", "2026-01-13"),
        ("15-Oct-26", "2026-10-15"),
        ("1-Nov-26", "2026-11-01"),
        ("15 October 2026", "2026-10-15"),
        ("15. Oktober 2026", "2026-10-15"),
        ("1. März 2026", "2026-03-01"),
        ("3. Dez. 2026", "2026-12-03"),
        ("Oct 15, 2026", "2026-10-15"),
        ("May 1st, 2026 9:05 PM", "2026-05-01 21:05"),
        ("1/2/68", "2068-02-01"),
        ("1/2/69", "1969-02-01"),
        ("9999-12-31", "9999-12-31"),
        ("2026-02-30", None),
        ("31.04.2026", None),
        ("2026-10-15 25:00", None),
        ("2026-10-15 13:00 PM", None),
        ("15-Foo-26", None),
        ("1.2.30", None),
        ("10.15.2026", None),
        ("1/2-2026", None),
        ("45946", None),
        ("2026", None),
        ("15:04", None),
        ("2026-10-15 to 2026-10-16", None),
        ("2026-10-15" + " " * 1_000 + "x", None),
        ("", None),
    ],
)
def test_a_cell_is_a_day_or_none(cell: str, iso: str | None) -> None:
    assert iso_date(cell, dayfirst=True) == iso


def test_slashes_follow_the_order() -> None:
    assert iso_date("03/04/2026", dayfirst=True) == "2026-04-03"
    assert iso_date("03/04/2026", dayfirst=False) == "2026-03-04"
    assert iso_date("12/31/2025 11:59 PM", dayfirst=False) == "2025-12-31 23:59"
    assert iso_date("12/31/2025", dayfirst=True) is None


def evidence(*cells: str) -> DateEvidence:
    found = DateEvidence()
    found.add(cells)
    return found


@pytest.mark.parametrize(
    ("cells", "dayfirst"),
    [
        (["10/15/2026", "3/4/2026"], False),
        (["15/10/2026", "3/4/2026"], True),
        (["15-10-2026", "2026-10-15"], True),
        (["3/4/2026", "3-4-2026"], None),
        (["3.4.2026"], True),
    ],
)
def test_the_whole_column_decides_the_order(cells: list[str], dayfirst: bool | None) -> None:
    assert evidence(*cells).dayfirst(None, []) == dayfirst


def test_days_that_fit_no_order_together_are_no_dates() -> None:
    found = evidence("10/15/2026", "15/10/2026")
    assert (found.are_dates, found.are_mixed) == (False, True)
    assert not evidence("10/15/2026", "15/10/2026", "soon").are_mixed


def test_an_open_column_follows_the_caller_then_columns_with_the_same_separator() -> None:
    column = evidence("3/4/2026")
    month_first, day_first = evidence("10/15/2026"), evidence("15/10/2026")
    assert column.dayfirst(True, [month_first]) is True
    assert column.dayfirst(None, [month_first, column]) is False
    assert column.dayfirst(None, [month_first, day_first]) is None
    assert column.dayfirst(None, [evidence("15-10-2026")]) is None
    assert evidence("10/15/2026").dayfirst(True, []) is False


@given(
    day=st.dates(date(1969, 1, 1), date(2068, 12, 31)),
    pattern=st.sampled_from(
        ["%Y-%m-%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%d-%b-%y", "%B %d, %Y"]
    ),
)
def test_any_day_is_read_back(day: date, pattern: str) -> None:
    assert iso_date(day.strftime(pattern), dayfirst=True) == day.isoformat()


@given(moment=st.datetimes())
def test_any_moment_is_read_back_to_the_second(moment: datetime) -> None:
    said = iso_date(moment.isoformat(), dayfirst=True)
    assert said is not None
    assert datetime.fromisoformat(said) == moment.replace(microsecond=0)
