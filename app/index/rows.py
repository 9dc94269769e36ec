"""What a row and a question must be for every backend to take them. Touches nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.errors import InvalidRequest
from app.index.base import MAX_ID_CHARS, MAX_INTEGER, MAX_METADATA_BYTES, Values, Vector

MAX_NAMESPACE_CHARS = 512
MAX_TOP_K = 10_000
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def check_vector(vector: Vector, dimension: int) -> None:
    """Raise `InvalidRequest` for a row that some backend would refuse, or store as another one.

    That is: an id that isn't 1 to 512 ASCII characters without NUL; values of another dimension,
    all zeros or not finite; metadata that is nested, null, not finite, a whole number beyond 2**53,
    under a key that starts with `$`, or over 40,960 bytes as JSON.
    """
    check_id(vector.id)
    where = f"The vector {vector.id[:80]!r}"
    _check_values(vector.values, dimension, where)
    for key, value in vector.metadata.items():
        _check_entry(key, value, where)
    try:
        size = len(metadata_json(vector))
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{where} has metadata that is not valid Unicode: half of a surrogate pair."
        ) from error
    if size > MAX_METADATA_BYTES:
        raise InvalidRequest(
            f"{where} has {size} bytes of metadata; at most {MAX_METADATA_BYTES} are allowed."
        )


def check_query(values: Values, dimension: int, top_k: int) -> None:
    """Raise `InvalidRequest` for a query vector or a `top_k` that no backend would take."""
    _check_values(values, dimension, "The query vector")
    if not 1 <= top_k <= MAX_TOP_K:
        raise InvalidRequest(f"top_k must be between 1 and {MAX_TOP_K}, got {top_k}.")


def check_id(id: str) -> None:
    if not _is_plain(id, MAX_ID_CHARS):
        raise InvalidRequest(
            f"A vector id must be 1 to {MAX_ID_CHARS} ASCII characters without NUL, "
            f"got {id[:80]!r} ({len(id)} characters)."
        )


def check_ids(ids: Sequence[str]) -> None:
    every = "".join(ids)
    if ids and every.isascii() and "\x00" not in every:
        lengths = list(map(len, ids))
        if min(lengths) >= 1 and max(lengths) <= MAX_ID_CHARS:
            return
    for id in ids:
        check_id(id)


def check_namespace(namespace: str) -> None:
    """Raise `InvalidRequest` for the empty namespace, which would be the backend's default one."""
    if not _is_plain(namespace, MAX_NAMESPACE_CHARS):
        raise InvalidRequest(
            f"A namespace must be 1 to {MAX_NAMESPACE_CHARS} ASCII characters without NUL, "
            f"got {namespace[:80]!r} ({len(namespace)} characters)."
        )


def metadata_json(vector: Vector) -> bytes:
    """Return the metadata as the compact UTF-8 JSON that counts against the limit."""
    return _compact(dict(vector.metadata)).encode()


def _is_plain(text: str, limit: int) -> bool:
    return 1 <= len(text) <= limit and text.isascii() and "\x00" not in text


def _check_values(values: Values, dimension: int, where: str) -> None:
    if values.shape != (dimension,):
        raise InvalidRequest(
            f"{where} has the shape {values.shape}; the index holds vectors of {dimension} numbers."
        )
    if not np.isfinite(values).all():
        raise InvalidRequest(f"{where} holds a number that is not finite.")
    if not values.any():
        raise InvalidRequest(f"{where} is all zeros, which has no direction.")


def _check_entry(key: object, value: Any, where: str) -> None:
    if not isinstance(key, str) or not key or key.startswith("$"):
        raise InvalidRequest(
            f"{where} has the metadata key {str(key)[:80]!r}; expected a string that is not empty "
            "and does not start with $."
        )
    if isinstance(value, list):
        if not all(isinstance(part, str) for part in value):
            raise InvalidRequest(f"{where} has a list in {key[:80]!r} that is not all strings.")
    elif isinstance(value, str):
        return
    elif not isinstance(value, bool | int | float):
        raise InvalidRequest(
            f"{where} has {type(value).__name__} in {key[:80]!r}; metadata is strings, numbers, "
            "booleans and lists of strings."
        )
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise InvalidRequest(
            f"{where} has a whole number beyond 2**53 in {key[:80]!r}, whose last digits would be "
            "lost; send it as a string."
        )
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(f"{where} has a number in {key[:80]!r} that is not finite.")
