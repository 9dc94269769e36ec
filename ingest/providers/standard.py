"""Standard Webhooks, which Svix started: a signed id, time and body. Touches nothing.

Source: the specification at standardwebhooks.com, scheme `v1`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.providers import freeform
from ingest.providers.base import (
    Ack,
    BadSignature,
    Change,
    Event,
    Incoming,
    NotConfigured,
    ObjectType,
    Source,
)
from ingest.providers.payload import json_of
from ingest.providers.signatures import (
    SECOND,
    check_time,
    hmac_base64,
    is_any,
    raw,
    required,
    sent,
)

PREFIX = "whsec_"


class Standard:
    """Signed events `{type, timestamp, data}`, from whoever follows the specification."""

    name = "standard"

    def verify(self, incoming: Incoming, source: Source, now: datetime) -> None:
        check_signature(incoming, source.secrets, now)

    def parse(self, incoming: Incoming) -> tuple[Sequence[Event], Ack]:
        return freeform.events(json_of(incoming), message_id(incoming.headers)), Ack()

    def read(self, body: Mapping[str, Any]) -> tuple[Change, ...]:
        return freeform.read(body)

    def describe(self, object_type: str) -> ObjectType:
        return freeform.describe(object_type)


def is_signed(headers: Mapping[str, str]) -> bool:
    """Say if the sender claims to follow this standard."""
    return "webhook-signature" in headers or "svix-signature" in headers


def message_id(headers: Mapping[str, str]) -> str:
    return headers.get(f"{_family(headers)}-id", "")


def check_signature(incoming: Incoming, secrets: Sequence[str], now: datetime) -> None:
    """Raise `BadSignature` unless one of the signatures is by one of the secrets, and of now."""
    keys = [_key(secret) for secret in secrets if secret]
    if not keys:
        raise NotConfigured(f"no secret {PREFIX}… is configured for signed webhooks")
    headers, family = incoming.headers, _family(incoming.headers)
    identity = required(headers, f"{family}-id")
    stamp = check_time(headers, f"{family}-timestamp", now, SECOND)
    message = b".".join([sent(identity), sent(stamp), incoming.body])
    expected = [hmac_base64(key, message) for key in keys]
    for signature in required(headers, f"{family}-signature").split(" "):
        version, _, given = signature.partition(",")
        if version == "v1" and is_any(sent(given), expected):
            return
    raise BadSignature(f"no v1 signature in {family}-signature is by a configured secret")


def _family(headers: Mapping[str, str]) -> str:
    return (
        "svix" if "webhook-signature" not in headers and "svix-signature" in headers else "webhook"
    )


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(raw(encoded + "=" * (-len(encoded) % 4)), validate=True)
    except ValueError as error:
        raise NotConfigured(f"expected a secret of the form {PREFIX}<base64>") from error
    if not key:
        raise NotConfigured(f"expected a secret of the form {PREFIX}<base64>, got an empty one")
    return key
