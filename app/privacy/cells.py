"""The cells of an exported row: what each may be, by its column. Touches nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from app.db.tables import Instant
from app.errors import InvalidRequest
from app.memory.eviction import LONGEST_DAYS
from app.privacy import shapes
from app.privacy.holdings import Section

KEY_BYTES = 1_000  # of a text in a key: what an index entry holds
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Row = dict[str, Any]

CHOICES: Mapping[tuple[str, str], frozenset[str]] = {
    ("sessions", "state"): frozenset({"open", "closed"}),
    ("messages", "role"): frozenset({"user", "assistant"}),
    ("messages", "status"): frozenset({"complete", "interrupted", "failed"}),
    ("messages", "memory"): frozenset({"on", "read", "off"}),
    ("episodes", "mark"): frozenset({"critical", "pinned"}),
    ("facts", "mark"): frozenset({"critical", "pinned"}),
    ("facts", "kind"): frozenset({"fact", "preference", "action", "recommendation"}),
    ("facts", "said_by"): frozenset({"user", "assistant", "tool"}),
    ("fact_sightings", "said_by"): frozenset({"user", "assistant", "tool"}),
    ("memory_blocks", "label"): frozenset({"human", "persona"}),
    ("memory_blocks", "written_by"): frozenset({"user", "assistant"}),
    ("quarantine", "kind"): frozenset({"document", "episode", "fact", "block", "item"}),
    ("quarantine", "state"): frozenset({"flagged", "released", "blocked"}),
    ("deliveries", "state"): frozenset({"pending", "done", "skipped", "failed"}),
}


# What JSON a column holds; an object where nothing is said.
SHAPES: Mapping[tuple[str, str], tuple[Callable[[Any], bool], str]] = {
    ("entities", "aliases"): (shapes.is_texts, "a list of texts"),
    ("entities", "attributes"): (shapes.is_object_of_texts, "an object of texts"),
    ("messages", "steps"): (
        shapes.is_steps,
        "a list of objects with id, name, arguments and result",
    ),
    ("messages", "receipt"): (shapes.is_receipt, "an object, as a reply has it"),
    ("quarantine", "flags"): (shapes.is_texts, "a list of texts"),
    ("documents", "metadata"): (
        shapes.is_metadata,
        "an object of texts, numbers and lists of texts",
    ),
    ("records", "state"): (shapes.is_record, "the state of a record"),
}


def read_row(section: Section, given: Any, place: str) -> Row:
    """Return a row's values as SQL takes them.

    A column that is not there is null: an older export may lack it. Raises `InvalidRequest`, which
    names the place, what was expected and what came.
    """
    if not isinstance(given, dict):
        raise _wrong(place, "an object", given)
    checks = _checks(section)
    for name in given.keys() - checks.keys():
        raise InvalidRequest(f"{place}: there is no {name[:100]!r} in {section.name}", param=place)
    return {name: check(given.get(name), f"{place}.{name}") for name, check in checks.items()}


@lru_cache(maxsize=64)
def _checks(section: Section) -> Mapping[str, Callable[[Any, str], Any]]:
    return {column.name: _check(section, column) for column in section.columns}


def _check(section: Section, column: sa.Column[Any]) -> Callable[[Any, str], Any]:
    read = _reader(section, column)

    def check(value: Any, place: str) -> Any:
        if value is None:
            if column.nullable:
                return None
            raise _wrong(place, "a value", value)
        return read(value, place)

    return check


def _reader(section: Section, column: sa.Column[Any]) -> Callable[[Any, str], Any]:
    where = (section.name, column.name)
    if isinstance(column.type, Instant):
        return _time
    if isinstance(column.type, sa.JSON):
        return lambda value, place: _json(
            value, place, *SHAPES.get(where, (shapes.is_object, "an object"))
        )
    if isinstance(column.type, sa.Boolean):
        return _boolean
    if isinstance(column.type, sa.Integer):
        bits = 53 if isinstance(column.type, sa.BigInteger) else 30
        return lambda value, place: _integer(value, place, bits)
    if where == ("consents", "retention_days"):
        return _days
    if isinstance(column.type, sa.Float):
        return _float
    if where in CHOICES:
        return lambda value, place: _choice(value, place, CHOICES[where])
    if where == ("store_items", "namespace"):
        return _namespace
    if column.name in section.key:
        return _key
    return _text


def _time(value: Any, place: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise _wrong(place, "a time with its offset from UTC, as ISO 8601", value)


def _boolean(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(place, "true or false", value)
    return value


def _integer(value: Any, place: str, bits: int) -> int:
    # Fewer than the column holds: numbers go on from here, and are added up.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**bits:
        raise _wrong(place, f"a whole number from 0 to below {2**bits}", value)
    return value


def _days(value: Any, place: str) -> float:
    days = _float(value, place)
    if not 0 < days <= LONGEST_DAYS:
        raise _wrong(place, f"more than 0 and at most {LONGEST_DAYS}", value)
    return days


def _float(value: Any, place: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _wrong(place, "a number", value)
    return float(value)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not _is_storable(value):
        raise _wrong(place, "a text without NUL and half surrogate pairs", value)
    return value


def _key(value: Any, place: str) -> str:
    text = _text(value, place)
    if len(text.encode()) > KEY_BYTES or _CONTROL.search(text):
        raise _wrong(place, f"at most {KEY_BYTES} bytes without control characters", value)
    return text


def _choice(value: Any, place: str, choices: frozenset[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _wrong(place, f"one of {', '.join(sorted(choices))}", value)
    return value


def _namespace(value: Any, place: str) -> str:
    text = _key(value, place)
    try:
        parts = json.loads(text)
    except ValueError:
        parts = None
    # As it is stored: two spellings of a namespace would be two places.
    if (
        not shapes.is_texts(parts)
        or json.dumps(parts, ensure_ascii=False, separators=(",", ":")) != text
    ):
        raise _wrong(place, "a list of texts as compact JSON", value)
    return text


def _json(value: Any, place: str, fits: Callable[[Any], bool], what: str) -> Any:
    if not fits(value):
        raise _wrong(place, what, value)
    left = [value]
    while left:  # a loop, for JSON can be nested deeper than calls
        part = left.pop()
        if isinstance(part, dict):
            left += [*part, *part.values()]
        elif isinstance(part, list):
            left += part
        elif isinstance(part, str):
            _text(part, place)
        elif isinstance(part, float) and not math.isfinite(part):
            raise _wrong(place, "finite numbers", value)
    return value


def _is_storable(text: str) -> bool:
    return "\x00" not in text and not _HALF_PAIR.search(text)


def _wrong(place: str, expected: str, came: Any) -> InvalidRequest:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    kind = "null" if came is None else kinds.get(type(came), "a number")
    return InvalidRequest(f"{place}: expected {expected}, came {kind}", param=place)
