"""The filter language of the index, as Pinecone defines it. Touches nothing.

Every adapter reads filters here first, so that a filter that one backend would refuse is refused
by all of them, with the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from app.errors import InvalidFilter
from app.index.base import MAX_INTEGER, Filter, Metadata, Scalar

MAX_DEPTH = 16
MAX_CONDITIONS = 1_000
MAX_VALUES = 10_000

Test = Callable[[Metadata], bool]
_Key = tuple[str, str | float | bool]
_ValueTest = Callable[[Any], bool]

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "$gt": lambda value, bound: value > bound,
    "$gte": lambda value, bound: value >= bound,
    "$lt": lambda value, bound: value < bound,
    "$lte": lambda value, bound: value <= bound,
}
_OPERATORS = ("$eq", "$ne", "$in", "$nin", "$exists", *_COMPARISONS)


def matcher(filter: Filter) -> Test:
    """Return the test of a row's metadata that `filter` stands for; read once, for many rows.

    Several keys mean AND; a bare value means `$eq`. Types are strict: "2019" is not 2019, and true
    is not 1. On a list, `$eq` and `$in` ask whether any element is meant, `$ne` and `$nin` whether
    none is. A row without the field passes nothing but `{"$exists": false}`: Pinecone has changed
    its mind about `$ne` on missing fields, so nobody may rely on it.
    Raises `InvalidFilter`, which names the field, the operator, and what was expected.
    """
    return _Reader().group(filter, "The filter", depth=1)


def validate(filter: Filter) -> None:
    """Raise `InvalidFilter` for what is outside the language or above its limits."""
    matcher(filter)


def matches(filter: Filter, metadata: Metadata) -> bool:
    """Return whether one row passes; see `matcher`."""
    return matcher(filter)(metadata)


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """Return the filter that passes what two filters pass; None passes all."""
    if one is None or other is None:
        return other if one is None else one
    return {"$and": [one, other]}


def fields(filter: Filter) -> set[str]:
    """Return the names of all fields that a filter, which must be valid, asks for."""
    named: set[str] = set()
    for key, condition in filter.items():
        if key in ("$and", "$or"):
            named.update(*(fields(part) for part in condition))
        else:
            named.add(key)
    return named


def required(filter: Filter) -> dict[str, frozenset[Scalar]]:
    """Return, by field, a finite set of values of which every matching row has one.

    It holds the fields that `filter`, which must be valid, binds with `$eq` or `$in` at the top
    or inside `$and`. A list-valued field has one of them among its elements. A row that has one
    may still fail the filter, also because Python's sets take True for 1. A whole number that
    floats round binds nothing: it matches others.
    """
    bound: dict[str, frozenset[Scalar]] = {}
    for field, condition in _conjuncts(filter):
        for values in _finite_sets(condition):
            if any(isinstance(value, int) and abs(value) > MAX_INTEGER for value in values):
                continue
            # Not the intersection: a list-valued field may meet each demand with another element.
            if field not in bound or len(values) < len(bound[field]):
                bound[field] = values
    return bound


def refused(filter: Filter, field: str) -> frozenset[Scalar]:
    """Return values of a field that no matching row has: those of `$ne` at the top or in `$and`."""
    return frozenset(
        condition["$ne"]
        for name, condition in _conjuncts(filter)
        if name == field and isinstance(condition, Mapping) and "$ne" in condition
    )


def demands(filter: Filter) -> list[tuple[str, str]]:
    """Return (field, operator) of all that every matching row meets; ("$or", "$or") for an `$or`.

    The filter must be valid.
    """
    found: list[tuple[str, str]] = []
    for field, condition in filter.items():
        if field == "$and":
            for part in condition:
                found += demands(part)
        elif field == "$or":
            found.append((field, field))
        elif isinstance(condition, Mapping):
            found += [(field, operator) for operator in condition]
        else:
            found.append((field, "$eq"))
    return found


def _conjuncts(filter: Filter) -> Iterator[tuple[str, Any]]:
    for key, condition in filter.items():
        if key == "$and":
            for part in condition:
                yield from _conjuncts(part)
        elif key != "$or":
            yield key, condition


def _finite_sets(condition: Any) -> Iterator[frozenset[Scalar]]:
    if not isinstance(condition, Mapping):
        yield frozenset([condition])
        return
    if "$eq" in condition:
        yield frozenset([condition["$eq"]])
    if "$in" in condition:
        yield frozenset(condition["$in"])


class _Reader:
    """Turns one filter into a test, and counts what it has read."""

    def __init__(self) -> None:
        self._conditions = 0
        self._values = 0

    def group(self, group: object, name: str, *, depth: int) -> Test:
        if depth > MAX_DEPTH:
            raise InvalidFilter(f"The filter is nested more than {MAX_DEPTH} levels deep.")
        if not isinstance(group, Mapping) or not group:
            raise InvalidFilter(
                f"{name} must be an object with at least one field, got {_kind(group)}."
            )
        return _all([self._part(key, condition, depth) for key, condition in group.items()])

    def _part(self, key: object, condition: object, depth: int) -> Test:
        self._count(conditions=1)
        if not isinstance(key, str) or not key:
            raise InvalidFilter(
                f"A filter's field must be a string that is not empty, got {_kind(key)}."
            )
        if key in ("$and", "$or"):
            return self._combination(key, condition, depth)
        if key.startswith("$"):
            raise InvalidFilter(
                f"{_clip(key)} can't stand where a field is expected: only $and and $or can."
            )
        if isinstance(condition, Mapping):
            return self._field(key, condition)
        return _on_field(key, self._equal(key, "$eq", condition))

    def _combination(self, operator: str, parts: object, depth: int) -> Test:
        if not isinstance(parts, list | tuple) or not parts:
            raise InvalidFilter(
                f"{operator} needs a list of at least one filter, got {_kind(parts)}."
            )
        tests = [self.group(part, f"Each part of {operator}", depth=depth + 1) for part in parts]
        return _all(tests) if operator == "$and" else _any(tests)

    def _field(self, field: str, condition: Mapping[Any, object]) -> Test:
        if not condition:
            raise InvalidFilter(
                f"The filter on {_clip(field)!r} needs an operator, one of "
                f"{', '.join(_OPERATORS)}; got an empty object."
            )
        self._count(conditions=len(condition) - 1)
        return _all([self._operation(field, *item) for item in condition.items()])

    def _operation(self, field: str, operator: object, operand: object) -> Test:
        if operator == "$exists":
            if not isinstance(operand, bool):
                raise _wrong(field, "$exists", "true or false", operand)
            return lambda metadata: (metadata.get(field) is not None) is operand
        if operator in ("$eq", "$ne"):
            equal = self._equal(field, operator, operand)
            return _on_field(field, equal if operator == "$eq" else _not(equal))
        if operator in ("$in", "$nin"):
            among = self._among(field, operator, operand)
            return _on_field(field, among if operator == "$in" else _not(among))
        if isinstance(operator, str) and operator in _COMPARISONS:
            return _on_field(field, self._compare(field, operator, operand))
        raise InvalidFilter(
            f"The filter on {_clip(field)!r} has an unknown operator {_clip(str(operator))!r}; "
            f"expected one of {', '.join(_OPERATORS)}."
        )

    def _equal(self, field: str, operator: str, operand: object) -> _ValueTest:
        self._count(values=1)
        wanted = _key(operand)
        if wanted is None:
            raise _wrong(field, operator, "a string, a finite number, or true or false", operand)
        return _holds(frozenset([wanted]))

    def _among(self, field: str, operator: str, operand: object) -> _ValueTest:
        if not isinstance(operand, list | tuple) or not operand:
            raise _wrong(field, operator, "a list of at least one value", operand)
        self._count(values=len(operand))
        wanted = set()
        for value in operand:
            key = _key(value)
            if key is None:
                raise _wrong(field, operator, "strings, finite numbers, or true or false", value)
            wanted.add(key)
        return _holds(frozenset(wanted))

    def _compare(self, field: str, operator: str, operand: object) -> _ValueTest:
        self._count(values=1)
        bound = _key(operand)
        if bound is None or bound[0] != "number":
            raise _wrong(field, operator, "a finite number", operand)
        compare, limit = _COMPARISONS[operator], float(bound[1])

        def test(value: Any) -> bool:
            return (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and compare(float(value), limit)
            )

        return test

    def _count(self, *, conditions: int = 0, values: int = 0) -> None:
        self._conditions += conditions
        self._values += values
        if self._conditions > MAX_CONDITIONS:
            raise InvalidFilter(f"The filter has more than {MAX_CONDITIONS} conditions.")
        if self._values > MAX_VALUES:
            raise InvalidFilter(f"The filter compares with more than {MAX_VALUES} values.")


def _key(value: object) -> _Key | None:
    """Return the value as what it equals, or None if it is no value of the language.

    Numbers are float64, as the backend keeps them.
    """
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return ("number", number) if math.isfinite(number) else None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:  # half a surrogate pair: no backend can be sent it
            return None
        return ("string", value)
    return None


def _holds(wanted: frozenset[_Key]) -> _ValueTest:
    def test(value: Any) -> bool:
        if isinstance(value, list | tuple):
            return any(_key(element) in wanted for element in value)
        return _key(value) in wanted

    return test


def _not(test: _ValueTest) -> _ValueTest:
    return lambda value: not test(value)


def _on_field(field: str, test: _ValueTest) -> Test:
    def on_field(metadata: Metadata) -> bool:
        value = metadata.get(field)
        return value is not None and test(value)

    return on_field


def _all(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda metadata: all(test(metadata) for test in tests)


def _any(tests: list[Test]) -> Test:
    return lambda metadata: any(test(metadata) for test in tests)


def _wrong(field: str, operator: str, expected: str, got: object) -> InvalidFilter:
    return InvalidFilter(
        f"The filter on {_clip(field)!r} has {operator} with {_kind(got)}; expected {expected}."
    )


def _clip(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number" if _key(value) else "a number that is not finite"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Mapping):
        return "an object" if value else "an empty object"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return type(value).__name__
