"""Tokens that an identity provider signs with keys of its own: fetched, rotated, out of reach."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.errors import UpstreamUnavailable
from app.jwks import KeySet
from app.wiring import Runtime
from tests.api.calls import Json, refused
from tests.memory.stores import Clock
from tests.served import served_at
from tests.wire.identity import Provider, ec_key, providing, public, rsa_key, signed

ISSUER = "https://login.example"
SECRET = "a secret that the identity provider shares"


@asynccontextmanager
async def trusting(
    provider: Provider, clock: Clock, **chosen: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Serve with a provider's keys, fresh for five minutes."""
    told: Json = {"jwt_jwks_url": provider.url, "jwt_issuer": ISSUER, "address": "203.0.113.9"}
    async with served_at(clock, **{**told, **chosen}) as service:
        yield service


def claims(clock: Clock, **other: Any) -> Json:
    ends_at = int((clock.now + timedelta(days=30)).timestamp())
    return {"sub": "ada", "iss": ISSUER, "exp": ends_at, **other}


async def presented(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.get("/sessions", headers={"Authorization": f"Bearer {token}"})


async def status(client: httpx.AsyncClient, token: str) -> int:
    return (await presented(client, token)).status_code


async def test_tokens_of_either_kind_of_key_count_and_the_set_is_fetched_once() -> None:
    clock = Clock()
    listed = [public(rsa_key(), kid="r", use="sig", alg="RS256"), public(ec_key(), kid="e")]
    with providing(*listed) as provider:
        async with trusting(provider, clock, jwt_secret=SECRET) as (client, _):
            for token in (
                signed(claims(clock), rsa_key(), "r"),
                signed(claims(clock), ec_key(), "e"),
                signed(claims(clock), SECRET, None, "HS256"),
            ):
                assert await status(client, token) == 200
            assert await status(client, signed(claims(clock, iss="x"), rsa_key(), "r")) == 401
            assert await status(client, signed(claims(clock), rsa_key(1), "r")) == 401
        assert provider.fetches == 1


async def test_a_new_key_counts_at_once_and_one_that_is_gone_when_the_set_is_old() -> None:
    clock = Clock()
    with providing(public(rsa_key(), kid="old")) as provider:
        async with trusting(provider, clock) as (client, _):
            old, new = (
                signed(claims(clock), rsa_key(number), name)
                for number, name in enumerate(("old", "new"))
            )
            assert await status(client, old) == 200
            clock.now += timedelta(seconds=11)
            provider.keys = [public(rsa_key(1), kid="new")]
            assert await status(client, new) == 200
            assert await status(client, old) == 401
            assert provider.fetches == 2

            provider.keys = []
            clock.now += timedelta(seconds=299)
            assert await status(client, new) == 200
            clock.now += timedelta(seconds=1)
            assert await status(client, new) == 401


async def test_keys_that_nobody_knows_do_not_hammer_the_provider() -> None:
    clock = Clock()
    with providing(public(rsa_key(), kid="r")) as provider:
        async with trusting(provider, clock) as (client, _):
            for number in range(30):
                token = signed(claims(clock), rsa_key(1), f"unknown {number}")
                error = refused(await presented(client, token), 401)
                assert "does not list" in error["message"]
            assert provider.fetches == 1
            clock.now += timedelta(seconds=10)
            for number in range(10):
                await status(client, signed(claims(clock), rsa_key(1), f"unknown {number}"))
            assert provider.fetches == 2


async def test_requests_that_come_together_share_one_fetch() -> None:
    clock = Clock()
    with providing(public(rsa_key(), kid="r")) as provider:
        provider.held = True
        async with trusting(provider, clock) as (client, _):
            token = signed(claims(clock), rsa_key(), "r")
            waiting = [asyncio.create_task(status(client, token)) for _ in range(10)]
            while provider.fetches == 0:
                await asyncio.sleep(0.005)
            provider.held = False
            assert await asyncio.gather(*waiting) == [200] * 10
        assert provider.fetches == 1


FAILURES: dict[str, Json] = {
    "an error": {"status": 500},
    "another place": {"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}},
    "no JSON": {"body": b"<html>"},
    "no key set": {"body": b"[]"},
    "no list": {"body": b'{"keys": {}}'},
    "a deep one": {"body": b"[" * 100_000},
    "a huge one": {"body": b" " * (2**20 + 1)},
    "another encoding": {"body": b"\xff\xfe\xfd"},
    "a broken encoding": {"body": b"x", "headers": {"Content-Encoding": "gzip"}},
}


async def test_an_answer_that_is_no_key_set_leaves_the_last_one_in_use() -> None:
    clock = Clock()
    with providing(public(rsa_key(), kid="r")) as provider:
        async with trusting(provider, clock) as (client, _):
            token = signed(claims(clock), rsa_key(), "r")
            assert await status(client, token) == 200
            for name, failure in FAILURES.items():
                provider.status = failure.get("status", 200)
                provider.body = failure.get("body")
                provider.headers = failure.get("headers", {})
                clock.now += timedelta(minutes=5)
                fetches = provider.fetches
                assert await status(client, token) == 200, name
                assert provider.fetches == fetches + 1
                ready = (await client.get("/health/ready")).json()
                assert ready["status"] == "degraded"
                assert ready["parts"]["identity_provider"]["status"] == "failing", name


async def test_while_the_provider_fails_its_last_keys_count_for_an_hour() -> None:
    clock = Clock()
    with providing(public(rsa_key(), kid="r")) as provider:
        async with trusting(provider, clock) as (client, _):
            token = signed(claims(clock), rsa_key(), "r")
            assert await status(client, token) == 200
            provider.status = 503
            clock.now += timedelta(minutes=60)
            assert await status(client, token) == 200
            clock.now += timedelta(seconds=1)
            response = await presented(client, token)
            assert (response.status_code, response.json()["error"]["code"]) == (
                503,
                "upstream_unavailable",
            )
            assert response.headers["retry-after"] == "10"

            provider.status, fetches = 200, provider.fetches
            assert await status(client, token) == 503
            assert provider.fetches == fetches
            clock.now += timedelta(seconds=10)
            assert await status(client, token) == 200
            ready = (await client.get("/health/ready")).json()
            assert ready["parts"]["identity_provider"]["status"] == "ok"


async def test_a_set_that_counts_as_fresh_for_longer_than_an_hour_is_used_for_so_long() -> None:
    clock = Clock()
    with providing(public(rsa_key(), kid="r")) as provider:
        async with trusting(provider, clock, jwt_cache_seconds=7_200.0) as (client, _):
            token = signed(claims(clock), rsa_key(), "r")
            assert await status(client, token) == 200
            clock.now += timedelta(minutes=119)
            assert await status(client, token) == 200
            assert provider.fetches == 1


async def test_a_provider_that_was_never_there_is_503_and_keys_work_all_the_same() -> None:
    clock = Clock()
    with providing() as provider:
        gone = Provider(url=provider.url)
    async with trusting(gone, clock, api_key="the-key-of-the-settings") as (client, _):
        token = signed(claims(clock), rsa_key(), "r")
        assert await status(client, token) == 503
        assert await status(client, signed(claims(clock), "x" * 32, "r", "HS256")) == 401
        assert await status(client, "the-key-of-the-settings") == 200


async def test_a_provider_that_does_not_answer_is_given_up() -> None:
    clock = Clock()
    with providing(public(rsa_key(), kid="r")) as provider:
        provider.held = True
        keys = KeySet(provider.url, cache_seconds=300, deadline_seconds=0.05)
        try:
            with pytest.raises(UpstreamUnavailable):
                await keys.find("r", "RS256", clock.now)
            assert keys.trouble is not None
            provider.held = False
            found = await keys.find("r", "RS256", clock.now + timedelta(seconds=10))
            assert found is not None
        finally:
            await keys.close()


def encoded(told: bytes) -> str:
    return base64.urlsafe_b64encode(told).rstrip(b"=").decode()


def by_hand(header: Json, told: Json, secret: bytes) -> str:
    text = ".".join(encoded(json.dumps(one).encode()) for one in (header, told))
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


@pytest.mark.parametrize("secret", ["", SECRET])
async def test_a_public_key_is_never_taken_for_a_secret(secret: str) -> None:
    clock = Clock()
    open_to_all = rsa_key().public_key()
    jwk = public(rsa_key(), kid="r")
    guesses = [
        open_to_all.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        open_to_all.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        open_to_all.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        json.dumps(jwk).encode(),
        base64.urlsafe_b64decode(jwk["n"] + "=="),
        b"",
    ]
    with providing(jwk) as provider:
        async with trusting(provider, clock, jwt_secret=secret) as (client, _):
            assert await status(client, signed(claims(clock), rsa_key(), "r")) == 200
            for guess in guesses:
                for algorithm in ("HS256", "RS256", "ES256", "none"):
                    token = by_hand({"alg": algorithm, "kid": "r"}, claims(clock), guess)
                    assert await status(client, token) == 401


async def test_a_key_verifies_in_its_own_way_only_and_odd_keys_are_passed_over() -> None:
    clock = Clock()
    private = json.loads(json.dumps(public(rsa_key(2), kid="private"))) | {"d": "AQAB"}
    odd: list[Any] = [
        public(rsa_key(2), kid="sealed", use="enc"),
        public(rsa_key(2), kid="other", alg="PS256"),
        public(rsa_key(2), kid="wrap", key_ops=["wrapKey"]),
        public(ec_key(SECP384R1()), kid="larger"),
        {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(b"x" * 32).decode()},
        {"kty": "RSA", "kid": "empty"},
        {"kty": "RSA", "kid": "broken", "n": "?", "e": 3},
        {"kty": "EC", "crv": "P-256", "kid": "point", "x": "AA", "y": "AA"},
        {"kid": "kindless"},
        private,
        "no key",
    ]
    with providing(*odd, public(rsa_key(1, 1024), kid="short"), public(rsa_key(), kid="r")) as p:
        async with trusting(p, clock) as (client, _):
            assert await status(client, signed(claims(clock), rsa_key(), "r")) == 200
            for algorithm in ("RS512", "PS256"):
                token = signed(claims(clock), rsa_key(), "r", algorithm)
                assert await status(client, token) == 401
            for name in ("sealed", "other", "wrap", "private", "empty", "broken"):
                assert await status(client, signed(claims(clock), rsa_key(2), name)) == 401
            assert await status(client, by_hand({"alg": "HS256", "kid": "shared"},
                                                claims(clock), b"x" * 32)) == 401  # fmt: skip
            for name in ("point", "r"):
                assert await status(client, signed(claims(clock), ec_key(), name)) == 401


async def test_a_key_of_too_few_bits_does_not_count() -> None:
    clock = Clock()
    short = rsa_key(1, 1024)
    text = by_hand({"alg": "RS256", "kid": "short"}, claims(clock), b"").rpartition(".")[0]
    signature = short.sign(text.encode(), PKCS1v15(), SHA256())
    with providing(public(short, kid="short")) as provider:
        async with trusting(provider, clock) as (client, _):
            token = f"{text}.{encoded(signature)}"
            assert await status(client, token) == 401


async def test_a_token_that_names_no_key_means_the_only_one() -> None:
    clock = Clock()
    with providing(public(rsa_key()), public(ec_key(), kid="e")) as provider:
        async with trusting(provider, clock) as (client, _):
            assert await status(client, signed(claims(clock), rsa_key(), None)) == 200
            assert await status(client, signed(claims(clock), ec_key(), None)) == 200
            clock.now += timedelta(seconds=300)
            provider.keys = [public(rsa_key(), kid="a"), public(rsa_key(1), kid="b")]
            assert await status(client, signed(claims(clock), rsa_key(), None)) == 401
            assert await status(client, signed(claims(clock), rsa_key(), "a")) == 200
