"""Long lists in parts that one statement takes. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 400  # values of one statement; some databases take no more than 999


def in_parts(items: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    every = list(items)
    for start in range(0, len(every), size):
        yield every[start : start + size]
