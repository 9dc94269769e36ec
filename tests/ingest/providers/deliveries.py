"""Deliveries as senders make them, and what their events come to in the end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.providers import PROVIDERS
from ingest.providers.base import Change, Event, Incoming, ObjectKey, Source

NOW = datetime.fromtimestamp(1795996800, UTC)
BASE_URL = "https://crm.example/v1"
CLIENT_SECRET = "a-client-secret"
JSON = {"content-type": "application/json"}


def source(provider: str, *secrets: str, token: str = "", account: str = "") -> Source:
    return Source("default", provider, token, secrets, account, BASE_URL)


def posted(
    body: Any, headers: Mapping[str, str] = JSON, *, path: str = "/webhooks/generic"
) -> Incoming:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Incoming("POST", path, headers, raw)


def parsed(provider: str, body: Any, headers: Mapping[str, str] = JSON) -> list[Event]:
    """Parse, and check what holds for every event: it reads the same from its stored body."""
    events, _ = PROVIDERS[provider].parse(posted(body, headers))
    for event in events:
        stored = json.loads(json.dumps(event.body, allow_nan=False))
        assert PROVIDERS[provider].read(stored) == event.changes
        assert len(event.key.encode()) <= 512
        assert bool(event.changes) != bool(event.reason)
    return list(events)


def change(provider: str, body: Any, headers: Mapping[str, str] = JSON) -> Change:
    """Return the one change of the one event."""
    [event] = parsed(provider, body, headers)
    [only] = event.changes
    return only


def hubspot_signed(
    body: Any,
    *,
    secret: str = CLIENT_SECRET,
    at: datetime = NOW,
    path: str = "/webhooks/hubspot",
    signed_uri: str = "",
) -> Incoming:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    stamp = str(int(at.timestamp() * 1000))
    uri = signed_uri or BASE_URL + path
    digest = hmac.new(secret.encode(), f"POST{uri}".encode() + raw + stamp.encode(), hashlib.sha256)
    return Incoming(
        "POST",
        path,
        {
            **JSON,
            "x-hubspot-signature-v3": base64.b64encode(digest.digest()).decode(),
            "x-hubspot-request-timestamp": stamp,
        },
        raw,
    )


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@dataclass
class Settled:
    """What a log of changes leaves of one object, by the plainest rule: all in order of time."""

    fields: dict[str, str] = field(default_factory=dict)
    is_there: bool = False
    is_stale: bool = False


_RANKS = {"create": 0, "change": 1, "snapshot": 1, "delete": 2, "restore": 3, "erase": 4}


def settled(changes: Iterable[Change]) -> dict[ObjectKey, Settled]:
    objects: dict[ObjectKey, Settled] = {}
    for one in sorted(changes, key=lambda it: (it.time or NOW, _RANKS[it.action], it.tie)):
        at = objects.setdefault(one.object, Settled())
        if one.action in ("delete", "erase"):
            at.is_there = False
            continue
        if one.action == "snapshot":
            at.fields.clear()
        at.is_there = at.is_there or one.action != "change" or not at.fields
        at.is_stale = at.is_stale or one.is_thin
        at.fields |= one.fields
    return objects
