"""What may be asked of a user's items, and which of them fit. Touches nothing.

The meaning of each is that of langgraph's stores, whose clients ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from app.errors import InvalidFilter

MOST_TEXT_CHARS = 2_000
TEXT_FIELDS = ("text", "memory", "content", "data")  # where agents put what they remember

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """JSON under a namespace and a key. score: a cosine, for one that was found by its meaning."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Get:
    namespace: Namespace
    key: str


@dataclass(frozen=True, slots=True)
class Put:
    """Stores a value, or removes it (None). text: what it is found by; None: it is not."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """Items whose namespace begins with `prefix`; by meaning if there is a query, else the latest
    first."""

    prefix: Namespace
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """How a namespace begins or ends; `*` stands for any part."""

    kind: Literal["prefix", "suffix"]
    path: Namespace

    def fits(self, namespace: Namespace) -> bool:
        if len(namespace) < len(self.path):
            return False
        parts = namespace if self.kind == "prefix" else namespace[::-1]
        wanted = self.path if self.kind == "prefix" else self.path[::-1]
        return all(want in ("*", part) for part, want in zip(parts, wanted, strict=False))


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """Namespaces that hold items and fit all conditions, cut to `max_depth` parts, in order."""

    matches: tuple[Match, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0

    def page_of(self, every: Iterable[Namespace]) -> list[Namespace]:
        fitting = (name for name in every if all(match.fits(name) for match in self.matches))
        cut = sorted({name[: self.max_depth] for name in fitting})
        return cut[self.offset : self.offset + self.limit]


Op = Get | Put | Search | ListNamespaces


def item_text(value: Mapping[str, Any]) -> str:
    """Return what an item is found by: its text, wherever agents put it, else all of it as JSON."""
    found = _named_text(value)
    return found or json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _named_text(value: Mapping[str, Any]) -> str | None:
    for name in TEXT_FIELDS:
        part = value.get(name)
        if isinstance(part, str) and part.strip():
            return part
        if isinstance(part, dict) and (inner := _named_text(part)):
            return inner
    return None


def check_filter(wanted: Mapping[str, Any]) -> None:
    """Raise `InvalidFilter` for an operator that there is none of, or that needs a number."""
    left: list[Any] = [*wanted.values()]
    while left:
        part = left.pop()
        if isinstance(part, list):
            left += part
        elif isinstance(part, dict) and any(name.startswith("$") for name in part):
            for name, operand in part.items():
                _check_operator(name, operand)
        elif isinstance(part, dict):
            left += part.values()


def _check_operator(name: str, operand: Any) -> None:
    if name in ("$eq", "$ne"):
        return
    if name not in _COMPARISONS:
        known = ", ".join(("$eq", "$ne", *_COMPARISONS))
        raise InvalidFilter(f"unsupported operator {name!r} in filter: it must be one of {known}")
    if _number(operand) is None:
        raise InvalidFilter(f"{name} in filter needs a number; got {type(operand).__name__}")


def fits(value: Any, wanted: Any) -> bool:
    """Say whether a part of an item is as a filter wants it; a filter of a part says only what
    that has to hold."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_holds(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, dict) and all(
            fits(value.get(name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(fits(part, want) for part, want in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


_COMPARISONS = {
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}


def _holds(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool((value == operand) == (name == "$eq"))
    left, right = _number(value), _number(operand)
    if left is None or right is None:
        return False
    return bool(_COMPARISONS[name](left, right))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
