"""Verified bytes -> JSON that any database can hold. Touches nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from ingest.providers.base import Incoming, UnreadableDelivery, UnsupportedMediaType

# Deep enough for any CRM, and far from where Python's own reader and writer give up.
MAX_DEPTH = 50
MAX_FORM_FIELDS = 1_000
FORM = "application/x-www-form-urlencoded"

# Half surrogates and NUL: no database stores them. A mark stays, so that no two ids become one.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MARK = "\ufffd"


def media_type(incoming: Incoming) -> str:
    """Return the content type in lower case, without its parameters."""
    return incoming.headers.get("content-type", "").partition(";")[0].strip().lower()


def looks_like_json(incoming: Incoming) -> bool:
    return incoming.body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def json_of(incoming: Incoming) -> Any:
    """Return the body as JSON without NaN, infinity, NUL and half surrogates.

    Raises `UnsupportedMediaType` for another content type, unless JSON came under it, and
    `UnreadableDelivery`.
    """
    given = media_type(incoming)
    if given and "json" not in given and not looks_like_json(incoming):
        raise UnsupportedMediaType(f"expected application/json, got {given[:100]}")
    try:
        loaded = json.loads(incoming.body, parse_float=_number, parse_constant=lambda name: None)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise UnreadableDelivery(f"expected JSON: {error}") from error
    return _storable(loaded, MAX_DEPTH)


def form_of(incoming: Incoming) -> dict[str, Any]:
    """Return a form's fields; one that is there more than once holds a list."""
    try:
        pairs = parse_qsl(
            incoming.body.decode("utf-8"),
            keep_blank_values=True,
            max_num_fields=MAX_FORM_FIELDS,
        )
    except ValueError as error:
        raise UnreadableDelivery(f"expected a form in UTF-8: {error}") from error
    fields: dict[str, Any] = {}
    for name, value in pairs:
        plain = name.replace("[", "_").replace("]", "").strip("_")
        fields[plain] = [*_listed(fields[plain]), value] if plain in fields else value
    stored: dict[str, Any] = _storable(fields, MAX_DEPTH)
    return stored


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _number(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _storable(value: Any, depth: int) -> Any:
    if depth == 0:
        raise _too_deep()
    if isinstance(value, str):
        return _UNSTORABLE.sub(_MARK, value)
    if isinstance(value, list):
        return [_storable(one, depth - 1) for one in value]
    if isinstance(value, Mapping):
        return {_UNSTORABLE.sub(_MARK, k): _storable(v, depth - 1) for k, v in value.items()}
    return value


def _too_deep() -> UnreadableDelivery:
    return UnreadableDelivery(f"expected JSON of at most {MAX_DEPTH} levels, got more")
