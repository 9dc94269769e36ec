"""One cell -> the words that tell it and the value that is kept. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from ingest.document import Scalar
from ingest.values import ColumnType, Money, as_scalar, money, number, one_line, spoken, stored

# A text above this is a paragraph of its own at the end, so that it tears no sentences apart.
LONG_CELL_CHARS = 300

# (cell, currency of an amount that names none) -> (words, value)
Read = Callable[[str, str | None], tuple[str, Scalar]]

_EMPTY_LINES = re.compile(r"\n{3,}")


@lru_cache(maxsize=64)
def reader(holds: ColumnType, held: ColumnType) -> Read:
    """Return what makes words and a value of cells of type `held`, in a part that holds `holds`."""
    if holds == "money":
        read = partial(_amount, held)
    elif held == "text":
        return _words
    elif (holds, held) == ("date", "number"):
        # A spreadsheet's serial day is no amount, so it gets no separators.
        read = partial(_plain_cell, "year")
    else:
        read = partial(_plain_cell, held)
    return lru_cache(maxsize=4_096)(read)


def _words(text: str, currency: str | None) -> tuple[str, Scalar]:
    if len(text) > LONG_CELL_CHARS:
        return _paragraphs(text), one_line(text)
    words = one_line(text)
    return words, words


def _plain_cell(held: ColumnType, text: str, currency: str | None) -> tuple[str, Scalar]:
    return spoken(text, held), stored(text, held)


def _amount(held: ColumnType, text: str, currency: str | None) -> tuple[str, Scalar]:
    """Return an amount of money as it is said and as it is kept."""
    value = number(text) if held == "number" else None
    amount = Money(value, currency) if value is not None else money(text, currency=currency)
    if amount is None:
        return spoken(text, held), stored(text, held)
    return str(amount), as_scalar(amount.amount)


def _paragraphs(text: str) -> str:
    """Return a long text with its own line ends, at which it may be cut into chunks."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()
