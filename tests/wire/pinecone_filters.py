"""Pinecone's filter language as the server reads it, written apart from `app.index.filters`.

It is the second opinion that the shared suite compares our reading with. A record without the
field passes only `$exists: false`, as Pinecone has had it since 2024.
"""

from __future__ import annotations

import operator
from typing import Any


class Illegal(ValueError):
    """The server's words for a filter that it refuses."""


ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def check(where: Any) -> None:
    if not isinstance(where, dict) or not where:
        raise Illegal("filter must be a non-empty object")
    for key, condition in where.items():
        if key in {"$and", "$or"}:
            if not isinstance(condition, list) or not condition:
                raise Illegal(f"{key} must be a non-empty list, got {condition!r}")
            for part in condition:
                check(part)
        elif key.startswith("$"):
            raise Illegal(f"illegal operator {key} at the top level, only $and and $or are allowed")
        else:
            check_field(key, condition)


def check_field(field: str, condition: Any) -> None:
    if not isinstance(condition, dict):
        condition = {"$eq": condition}
    if not condition:
        raise Illegal(f"illegal condition for field {field}, got {{}}")
    for name, operand in condition.items():
        if name in {"$eq", "$ne"}:
            fine = is_scalar(operand)
        elif name in {"$in", "$nin"}:
            fine = isinstance(operand, list) and 0 < len(operand) <= 10_000
            fine = fine and all(is_scalar(one) for one in operand)
        elif name in ORDER:
            fine = is_number(operand)
        else:
            fine = name == "$exists" and isinstance(operand, bool)
        if not fine:
            raise Illegal(f"illegal condition for field {field}, got {{{name!r}: {operand!r}}}")


def passes(where: dict[str, Any], metadata: dict[str, Any]) -> bool:
    for key, condition in where.items():
        if key == "$and":
            fine = all(passes(part, metadata) for part in condition)
        elif key == "$or":
            fine = any(passes(part, metadata) for part in condition)
        elif isinstance(condition, dict):
            fine = all(
                field_passes(name, operand, key, metadata) for name, operand in condition.items()
            )
        else:
            fine = field_passes("$eq", condition, key, metadata)
        if not fine:
            return False
    return True


def field_passes(name: str, operand: Any, field: str, metadata: dict[str, Any]) -> bool:
    if name == "$exists":
        return (field in metadata) is operand
    if field not in metadata:
        return False
    value = metadata[field]
    if name in ORDER:
        return is_number(value) and bool(ORDER[name](value, operand))
    stored = value if isinstance(value, list) else [value]
    wanted = operand if isinstance(operand, list) else [operand]
    hit = any(same(one, other) for one in stored for other in wanted)
    return hit if name in {"$eq", "$in"} else not hit


def same(one: Any, other: Any) -> bool:
    if is_number(one) and is_number(other):
        return float(one) == float(other)
    return type(one) is type(other) and bool(one == other)


def is_number(value: Any) -> bool:
    return type(value) in {int, float}


def is_scalar(value: Any) -> bool:
    return is_number(value) or type(value) in {str, bool}
