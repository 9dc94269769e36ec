"""What of the JSON within exported rows is read again, and so has to be there. Touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.knowledge.merge import from_json
from app.memory.recalled import MESSAGE

_NUMBER = (int, float)
_STEP: Mapping[str, Any] = {"id": str, "name": str, "arguments": dict, "result": str}
_MEMORY = {"id": str, "session_id": str, "memory_type": str, "score": _NUMBER}
_PASSAGE = {"id": str, "score": _NUMBER}
_MARK = {"kind": str, "id": str}


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_object_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and is_texts(list(value.values()))


def is_metadata(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, str | int | float) or is_texts(one) for one in value.values()
    )


def is_steps(value: Any) -> bool:
    return _are(value, _STEP)


def is_receipt(value: Any) -> bool:
    """Say if a receipt can be shown, and the reply that it explains be given again."""
    if not isinstance(value, dict):
        return False
    memory, documents = value.get("memory", {}), value.get("documents", {})
    tokens = value.get("tokens", {})
    return (
        all(isinstance(part, dict) for part in (memory, documents, tokens))
        and _are(memory.get("used", []), _MEMORY)
        and all(_is_memory(one) for one in memory.get("used", []))
        and _are(documents.get("used", []), _PASSAGE)
        and all(isinstance(one.get("why", {}), dict) for one in documents.get("used", []))
        and all(_has_relevance(one) for one in documents.get("used", []))
        and _are(value.get("flagged", []), _MARK)
        and all(isinstance(tokens.get(name, 0), int) for name in ("input", "output"))
    )


def is_record(value: Any) -> bool:
    try:
        from_json(value)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
    return True


def _is_memory(used: Mapping[str, Any]) -> bool:
    number = used["id"].rpartition(MESSAGE)[2]
    return (
        (used["memory_type"] != "message" or (number.isascii() and number.isdecimal()))
        and is_texts(used.get("fact_ids", []))
        and is_texts(used.get("why", []))
        and _has_relevance(used)
    )


def _has_relevance(used: Mapping[str, Any]) -> bool:
    return isinstance(used.get("relevance", 0.0), _NUMBER)


def _are(value: Any, parts: Mapping[str, Any]) -> bool:
    """Say if this is a list of objects with such parts."""
    return isinstance(value, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(name), it) for name, it in parts.items())
        for one in value
    )
