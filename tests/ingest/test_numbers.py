from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.numbers import COMMA, POINT, STYLES, Decimals, NumberEvidence, Style
from ingest.values import ColumnType, spoken, stored

SPACE, SWISS = STYLES[2], STYLES[3]


@pytest.mark.parametrize(
    ("style", "cell", "plain"),
    [
        (POINT, "1,200.50", "1200.50"),
        (POINT, "-0.5", "-0.5"),
        (POINT, "(1500.25)", "-1500.25"),
        (POINT, "($1,500)", "-$1500"),
        (POINT, "USD 120,000.00", "120000.00 USD"),
        (POINT, "-$5", "-$5"),
        (POINT, "$-5", "-$5"),
        (POINT, "\uffe51,200,000", "\uffe51200000"),
        (POINT, "US$ 5", "US$5"),
        (COMMA, "1.200,50 €", "€1200.50"),
        (COMMA, "-3.450,00 €", "-€3450.00"),
        (COMMA, "\u22123,5", "-3.5"),
        (COMMA, "1.200,50-", "-1200.50"),
        (COMMA, "12 zł", "12 zł"),
        (COMMA, "EUR 1.200", "1200 EUR"),
        (SPACE, "1 200,50", "1200.50"),
        (SPACE, "1\u202f200\u202f300 €", "€1200300"),
        (SWISS, "CHF 1'200.50", "1200.50 CHF"),
        (POINT, "$ 1,234.50", "$1234.50"),
        (POINT, "$ (500.00)", "-$500.00"),
        (POINT, "$ -", "$0"),
        (COMMA, "- €", "€0"),
        (COMMA, "99,- €", "€99"),
        (SWISS, "CHF 5.-", "5 CHF"),
        (POINT, "$ (500.00", None),
        (POINT, "($ (500.00))", None),
        (POINT, "$ (-500)", None),
        (COMMA, "1,-5", None),
        (POINT, "1.200,50", None),
        (POINT, "12,34", None),
        (POINT, "1,2000", None),
        (POINT, "007", None),
        (POINT, "+5", None),
        (POINT, "1e5", None),
        (POINT, "(-5)", None),
        (POINT, "(5", None),
        (POINT, "5)", None),
        (POINT, "10-", None),
        (POINT, "$5 USD", None),
        (POINT, "5 apples", None),
        (POINT, "1234567890123456", None),
        (POINT, "", None),
    ],
)
def test_a_cell_is_read_in_its_style(style: Style, cell: str, plain: str | None) -> None:
    assert style.plain(cell) == plain


def style_of(*cells: str, others: Decimals | None = None, delimiter: str = "\t") -> Decimals | None:
    evidence = NumberEvidence()
    evidence.add(cells)
    style = evidence.style(others, delimiter)
    return None if style is None else style.decimals


@pytest.mark.parametrize(
    ("cells", "decimals"),
    [
        (["1,200.50", "3"], "point"),
        (["1.200,50", "3"], "comma"),
        (["1.5"], "point"),
        (["1,5"], "comma"),
        (["1.200.300"], "comma"),
        (["1.200", "1.5"], "point"),
        (["1.200", "1,5"], "comma"),
        (["0.125"], "point"),
        (["1 200,50"], "comma"),
        (["12 500", "950"], "comma"),
        (["1.200,50", "1,200.50"], None),
        (["555 123 456", "555 987 654"], None),
        (["(1)", "(2)"], None),
        (["(1)", "2"], "point"),
    ],
)
def test_the_whole_column_decides(cells: list[str], decimals: Decimals | None) -> None:
    assert style_of(*cells) == decimals


@pytest.mark.parametrize(
    ("cell", "others", "delimiter", "decimals"),
    [
        # A column that is open follows the decided ones, else the delimiter, else stays text.
        ("1.200", "comma", ",", "comma"),
        ("1.200", "point", ";", "point"),
        ("1.200", None, ";", "comma"),
        ("1.200", None, ",", "point"),
        ("1.200", None, "\t", None),
        ("1,200", "comma", ",", "comma"),
        ("1,200", "point", ";", "point"),
        ("1,200", None, ",", "point"),
        ("1,200", None, "\t", "point"),
        ("1,200", None, ";", None),
        # Amounts of money have no three decimals.
        ("1.200 €", "comma", ",", "comma"),
        ("1.200 €", None, ";", "comma"),
        ("1.200 €", None, ",", None),
        ("1.200 €", "point", ";", None),
        ("1.200 €", None, "\t", None),
        ("1,200 €", None, ",", "point"),
        ("1,200 €", None, "\t", "point"),
        ("1,200 €", None, ";", None),
        ("1,200 €", "comma", ",", None),
    ],
)
def test_an_open_column_follows_the_file(
    cell: str, others: Decimals | None, delimiter: str, decimals: Decimals | None
) -> None:
    assert style_of(cell, "900", others=others, delimiter=delimiter) == decimals


def test_both_marks_as_thousands_need_another_column() -> None:
    assert style_of("1.200", "1,300", delimiter=",") is None
    assert style_of("1.200", "1,300", others="comma") == "comma"


@given(
    value=st.decimals(-(10**12), 10**12, places=2, allow_nan=False),
    style=st.sampled_from([(POINT, ",", "."), (COMMA, ".", ","), (SPACE, " ", ",")]),
    mark=st.sampled_from(["", "€", " €", " CHF"]),
)
def test_what_is_written_in_a_style_is_read_back(
    value: Decimal, style: tuple[Style, str, str], mark: str
) -> None:
    reader, thousands, decimals = style
    written = f"{value:,.2f}".translate(str.maketrans(",.", thousands + decimals))
    plain = reader.plain(written + mark)
    assert plain is not None
    number = plain.replace("€", "").removesuffix(" CHF")
    assert Decimal(number) == value
    column_type: ColumnType = "money" if mark else "number"
    assert stored(plain, column_type) == pytest.approx(float(value))
    assert spoken(plain, column_type).endswith(mark.replace("€", "").rstrip())


@pytest.mark.parametrize(
    ("cell", "said", "kept"),
    [
        ("€1200.50", "€1,200.50", 1200.5),
        ("€1200.5", "€1,200.50", 1200.5),
        ("120000.00 USD", "120,000 USD", 120000),
        ("-€3450.00", "-€3,450", -3450),
        ("\uffe51200000", "\uffe51,200,000", 1200000),
        ("1200 zł", "1,200 zł", 1200),
        ("1200", "1,200", 1200),
        ("on request", "on request", "on request"),
    ],
)
def test_an_amount_is_said_with_its_currency_and_kept_as_a_number(
    cell: str, said: str, kept: float | str
) -> None:
    assert (spoken(cell, "money"), stored(cell, "money")) == (said, kept)
