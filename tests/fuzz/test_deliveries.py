"""Whatever a sender sends: events, or a refusal of ours; nothing else, and not for long."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import IngestError
from ingest.narrate import choose_kind
from ingest.providers import PROVIDERS
from ingest.providers.base import Incoming, Provider, Source, UnreadableDelivery
from tests.fuzz.watched import CUTS, cut_up, tried, watched
from tests.ingest.providers.deliveries import BASE_URL, settled
from tests.ingest.providers.test_any_bytes import HEADERS, PATHS, VALUES

FOLDER = Path(__file__).parents[3] / "shared" / "webhooks"
JSON = {"content-type": "application/json"}
XML = {"content-type": "text/xml; charset=utf-8"}
LOL = "".join(
    f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' if n else '<!ENTITY l0 "lol">' for n in range(12)
)
BOMBS = [
    (f"<?xml version='1.0'?><!DOCTYPE x [{LOL}]><x>&l11;</x>".encode(), XML),
    (b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><x>&f;</x>', XML),
    (b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><x/>', XML),
    (b"<a>" * 50_000, XML),
    (b"<a>" * 50_000 + b"</a>" * 50_000, XML),
    (b"<x " + b'a="1" ' * 20_000 + b"/>", XML),
    (b"\xff\xfe" + "<x/>".encode("utf-16-le"), XML),
    (b"[" * 100_000, JSON),
    (b"[" * 50_000 + b"]" * 50_000, JSON),
    (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, JSON),
    (b'{"id": ' + b"9" * 5_000 + b"}", JSON),
    (b'[{"objectId": 1e400}]', JSON),
    (b'{"a": NaN, "b": Infinity}', JSON),
    (b'{"\\ud800": "\\udfff"}', JSON),
    (b'"' + b"x" * 1_000_000 + b'"', JSON),
    (b"\x00" * 1_000, JSON),
    (b"", JSON),
    (b"a=1&" * 20_000, {"content-type": "application/x-www-form-urlencoded"}),
    (b"%" * 50_000, {"content-type": "application/x-www-form-urlencoded"}),
]

every_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
with_deliveries = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="THE SIGNED DELIVERIES ARE MISSING: no folder ../shared/webhooks"
)


def told_or_refused(provider: Provider, incoming: Incoming) -> None:
    """Parse a delivery, read each event again from what is stored, and make records of them."""
    with watched():
        try:
            events, _ = provider.parse(incoming)
        except UnreadableDelivery:
            return
        for event in events:
            stored = json.loads(json.dumps(event.body, allow_nan=False))
            assert provider.read(stored) == event.changes
            for one in event.changes:
                json.dumps(dict(one.fields)).encode()
        for key, record in settled(c for event in events for c in event.changes).items():
            provider.describe(key.type)
            choose_kind([*record.fields])


@cache
def signed() -> dict[str, list[tuple[Incoming, Source, datetime]]]:
    """The shared deliveries, by provider, with who sends them and when."""
    found: dict[str, list[tuple[Incoming, Source, datetime]]] = {name: [] for name in PROVIDERS}
    for path in sorted(FOLDER.glob("*.json")):
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        request, secret = told["request"], told["secret"]
        place = urlsplit(request["url"]).path.removeprefix(urlsplit(BASE_URL).path)
        _, _, provider, *token = place.split("/")
        of = secret.removeprefix("org id ") if secret.startswith("org id ") else ""
        secrets = () if of else (secret,)
        source = Source("default", provider, "".join(token), secrets, of, BASE_URL)
        body = request["body"].encode()
        incoming = Incoming(request["method"], place, request["headers"], body)
        found[provider].append((incoming, source, datetime.fromtimestamp(told["clock"], UTC)))
    return found


@every_provider
@pytest.mark.parametrize(("body", "headers"), BOMBS, ids=[f"bomb {n}" for n in range(len(BOMBS))])
def test_bombs(provider: Provider, body: bytes, headers: dict[str, str]) -> None:
    told_or_refused(provider, Incoming("POST", f"/webhooks/{provider.name}", headers, body))


@every_provider
@tried(40)
@given(value=VALUES, headers=HEADERS, path=PATHS)
def test_any_json(provider: Provider, value: Any, headers: dict[str, str], path: str) -> None:
    told_or_refused(provider, Incoming("POST", path, headers, json.dumps(value).encode()))


@with_deliveries
@every_provider
@tried(30)
@given(which=st.integers(0, 1_000), cuts=CUTS)
def test_signed_deliveries_with_faults(provider: Provider, which: int, cuts: Any) -> None:
    """A changed body is a stranger's, and where it is taken for one that was signed, read."""
    if not (known := signed()[provider.name]):
        return
    incoming, source, now = known[which % len(known)]
    body = cut_up(incoming.body, cuts)
    changed = Incoming(incoming.method, incoming.path, incoming.headers, body)
    with watched(), suppress(IngestError):
        provider.verify(changed, source, now)
    told_or_refused(provider, changed)


@with_deliveries
@every_provider
@tried(30)
@given(which=st.integers(0, 1_000), headers=HEADERS, gone=st.sets(st.integers(0, 12)))
def test_signed_deliveries_with_other_headers(
    provider: Provider, which: int, headers: dict[str, str], gone: set[int]
) -> None:
    if not (known := signed()[provider.name]):
        return
    incoming, source, now = known[which % len(known)]
    kept = {name: v for n, (name, v) in enumerate(incoming.headers.items()) if n not in gone}
    changed = Incoming(incoming.method, incoming.path, {**kept, **headers}, incoming.body)
    with watched(), suppress(IngestError):
        provider.verify(changed, source, now)
    told_or_refused(provider, changed)


@with_deliveries
@every_provider
@tried(40)
@given(which=st.integers(0, 1_000), place=st.integers(0, 10_000), odd=VALUES)
def test_a_wrong_type_at_any_place(provider: Provider, which: int, place: int, odd: Any) -> None:
    known = [one[0] for one in signed()[provider.name] if one[0].body[:1] in (b"{", b"[")]
    if not known:
        return
    incoming = known[which % len(known)]
    try:
        whole = json.loads(incoming.body)
    except ValueError:  # one that was made to be malformed
        return
    spots = list(_spots(whole))
    held, key = spots[place % len(spots)]
    held[key] = copy.deepcopy(odd)
    body = json.dumps(whole).encode()
    changed = Incoming(incoming.method, incoming.path, incoming.headers, body)
    told_or_refused(provider, changed)


def _spots(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in JSON: what holds it, and its key there."""
    inner = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in list(inner):
        yield part, key
        if isinstance(value, dict | list):
            yield from _spots(value)
