from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from ingest.providers import PROVIDERS
from ingest.providers.base import (
    BadSignature,
    Change,
    Incoming,
    NotConfigured,
    ObjectKey,
    UnreadableDelivery,
)
from tests.ingest.providers.deliveries import JSON, NOW, after, change, parsed, source

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret, another secret, ").decode()
STANDARD, GENERIC = PROVIDERS["standard"], PROVIDERS["generic"]
BODY = {"type": "account.updated", "data": {"id": "acme", "name": "Acme Corp"}}


def signed(
    body: Any = BODY, *secrets: str, at: datetime = NOW, family: str = "webhook"
) -> Incoming:
    text = json.dumps(body, ensure_ascii=False)
    marks = [Webhook(secret).sign("msg_1", at, text) for secret in secrets or (SECRET,)]
    headers = {
        **JSON,
        f"{family}-id": "msg_1",
        f"{family}-timestamp": str(int(at.timestamp())),
        f"{family}-signature": " ".join(marks),
    }
    return Incoming("POST", "/webhooks/standard", headers, text.encode())


@pytest.mark.parametrize("provider", [STANDARD, GENERIC])
@pytest.mark.parametrize(
    ("incoming", "secrets"),
    [
        (signed(), (SECRET,)),
        (signed(), (OTHER, SECRET)),
        (signed(BODY, OTHER, SECRET), (SECRET,)),
        (signed(family="svix"), (SECRET,)),
        (signed({"type": "a.b", "data": {"name": "Zürich"}}), (SECRET,)),
        (signed(at=after(-300)), (SECRET,)),
        (signed(at=after(300)), (SECRET,)),
    ],
)
def test_what_the_reference_library_signs_is_accepted(
    provider: Any, incoming: Incoming, secrets: tuple[str, ...]
) -> None:
    provider.verify(incoming, source(provider.name, *secrets), NOW)


def test_a_secret_without_its_prefix_or_padding_is_the_same_secret() -> None:
    for secret in (SECRET.removeprefix("whsec_"), SECRET.rstrip("=")):
        STANDARD.verify(signed(), source("standard", secret), NOW)


def changed(**headers: str) -> Incoming:
    return replace(signed(), headers={**signed().headers, **headers})


@pytest.mark.parametrize("provider", [STANDARD, GENERIC])
@pytest.mark.parametrize(
    "incoming",
    [
        replace(signed(), body=signed().body.replace(b"acme", b"acne")),
        replace(signed(), body=b"\xff" + signed().body),
        signed(at=after(-301)),
        signed(at=after(301)),
        signed(BODY, OTHER),
        changed(**{"webhook-id": "msg_2"}),
        changed(**{"webhook-id": ""}),
        changed(**{"webhook-timestamp": "1795996801"}),
        changed(**{"webhook-timestamp": "soon"}),
        *[
            changed(**{"webhook-signature": mark})
            for mark in ("", "garbage", "v1,a,b", "v1,abc", "  ", "v1", "v1,", "é", "\ud800,\udfff")
        ],
        changed(
            **{"webhook-signature": signed().headers["webhook-signature"].replace("v1,", "v2,")}
        ),
        changed(**{"webhook-signature": "v1,x " * 10_000}),
    ],
)
def test_anything_else_is_refused(provider: Any, incoming: Incoming) -> None:
    with pytest.raises(BadSignature):
        provider.verify(incoming, source(provider.name, SECRET), NOW)


@pytest.mark.parametrize("secrets", [(), ("",), ("whsec_",), ("whsec_???",), ("whsec_é",)])
def test_without_a_usable_secret_nothing_is_accepted(secrets: tuple[str, ...]) -> None:
    with pytest.raises(NotConfigured):
        STANDARD.verify(signed(), source("standard", *secrets), NOW)


ACME = ObjectKey("", "account", "acme")


@pytest.mark.parametrize(
    ("kind", "data", "want"),
    [
        (
            "account.updated",
            {"id": "acme", "a": 1},
            ("snapshot", {"id": "acme", "a": "1"}, "1", False),
        ),
        (
            "account.created",
            {"id": "acme", "a": 1},
            ("snapshot", {"id": "acme", "a": "1"}, "0", False),
        ),
        (
            "account.renewed",
            {"id": "acme", "a": 1},
            ("snapshot", {"id": "acme", "a": "1"}, "1", False),
        ),
        (
            "com.example.account.updated",
            {"id": "acme", "a": 1},
            ("snapshot", {"id": "acme", "a": "1"}, "1", False),
        ),
        ("account.updated", {"id": "acme"}, ("change", {}, "", True)),
        ("account.created", {"account_id": "acme"}, ("create", {}, "", True)),
        ("account.deleted", {"id": "acme", "a": 1}, ("delete", {}, "", False)),
        ("account.removed", {"id": "acme"}, ("delete", {}, "", False)),
        ("account.restored", {"id": "acme"}, ("restore", {"id": "acme"}, "", True)),
    ],
)
def test_the_type_says_what_happened_to_what(kind: str, data: Any, want: Any) -> None:
    body = {"type": kind, "timestamp": "2026-11-30T00:00:00Z", "data": data}
    action, fields, tie, is_thin = want
    assert change("standard", body) == Change(ACME, action, NOW, fields, tie=tie, is_thin=is_thin)
    assert change("generic", body) == change("standard", body)


def test_the_key_is_the_message_id() -> None:
    headers = {**JSON, "webhook-id": "msg_1", "webhook-signature": "v1,x"}
    for provider in ("standard", "generic"):
        [event] = parsed(provider, BODY, headers)
        assert (event.key, event.type, event.is_key_content) == ("msg_1", "account.updated", False)
    [event] = parsed("standard", BODY, {"svix-id": "msg_2", "svix-signature": "v1,x"})
    assert event.key == "msg_2"


def test_a_key_that_is_too_long_is_hashed() -> None:
    headers = {**JSON, "webhook-id": "x" * 600, "webhook-signature": "v1,x"}
    assert len(parsed("standard", BODY, headers)[0].key) == 64


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(UnreadableDelivery):
        STANDARD.parse(Incoming("POST", "/", JSON, b"no"))
