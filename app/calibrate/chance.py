"""Chance that falls the same way each time: by hash. Touches nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def drawn(items: Sequence[T], lot: str) -> T:
    """Return one of the items."""
    return items[_number(lot) % len(items)]


def mixed(items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Return the items in an order that has nothing to do with theirs."""
    return sorted(items, key=lambda item: _number(name(item)))


def _number(lot: str) -> int:
    return int.from_bytes(hashlib.sha256(lot.encode()).digest()[:8])
