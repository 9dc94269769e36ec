"""An event's key, its object's key, and what it comes to, or why to nothing. Touches nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ingest.providers.base import Change, Event, ObjectKey

MAX_KEY_BYTES = 512
MAX_TYPE_CHARS = 200

# The last one stands where a character was that no database stores.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")

Body = Mapping[str, Any]
Reader = Callable[[Body], tuple[Change, ...]]


class Nothing(Exception):
    """An event that changes nothing here, and why. It never leaves this package."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def object_key(account: str, object_type: str, object_id: str) -> ObjectKey:
    """Return the key of an object that can be stored. Raises `Nothing`."""
    if not object_type:
        raise Nothing("it does not say what type of object it is about")
    if not object_id:
        raise Nothing("it does not say which object it is about")
    for what, text in (("account", account), ("type", object_type), ("id", object_id)):
        if _UNPRINTABLE.search(text):
            raise Nothing(f"the object's {what} has characters that are not printable")
        if len(text.encode()) > MAX_KEY_BYTES:
            raise Nothing(f"the object's {what} is longer than {MAX_KEY_BYTES} bytes")
    return ObjectKey(account, object_type, object_id)


def keyed(key: str, event_type: str, body: Body, reader: Reader) -> Event:
    """Return an event that its sender numbers."""
    changes, reason = _outcome(body, reader)
    return Event(bounded(key), _short(event_type), body, changes, reason)


def unkeyed(event_type: str, body: Body, reader: Reader) -> Event:
    """Return an event that only its content tells from others."""
    changes, reason = _outcome(body, reader)
    is_timeless = any(change.time is None for change in changes)
    return Event(content_hash(body), _short(event_type), body, changes, reason, is_timeless)


def read_or_nothing(body: Body, reader: Reader) -> tuple[Change, ...]:
    return _outcome(body, reader)[0]


def content_hash(body: Body) -> str:
    """Return a hash that is the same for the same JSON, whatever its order and spaces."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def bounded(key: str) -> str:
    """Return the key, or a hash of one that is too long or has odd characters."""
    whole = key.encode("utf-8", "surrogatepass")
    if len(whole) <= MAX_KEY_BYTES and not _UNPRINTABLE.search(key):
        return key
    return hashlib.sha256(whole).hexdigest()


def _outcome(body: Body, reader: Reader) -> tuple[tuple[Change, ...], str]:
    try:
        return reader(body), ""
    except Nothing as nothing:
        return (), nothing.reason


def _short(event_type: str) -> str:
    return _UNPRINTABLE.sub(" ", event_type)[:MAX_TYPE_CHARS]
