"""Users that Open WebUI names in a signed header."""

from __future__ import annotations

import base64
import hmac
import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.api.calls import Json, at, key, read, refused
from tests.api.openai_calls import ask, post, session_ids
from tests.memory.stores import Clock
from tests.served import served, served_at

REMOTE = "203.0.113.9"
SECRET = "a secret that both sides know"


def part(told: bytes) -> str:
    return base64.urlsafe_b64encode(told).rstrip(b"=").decode()


def token(claims: Any, *, secret: str = SECRET, algorithm: str = "HS256") -> str:
    header = {"alg": algorithm, "typ": "JWT"}
    signed = ".".join(part(json.dumps(one).encode()) for one in (header, claims))
    return f"{signed}.{part(hmac.digest(secret.encode(), signed.encode(), 'sha256'))}"


def claims(clock: Clock, **other: Any) -> Json:
    ends_at = (clock.now + timedelta(seconds=300)).timestamp()
    return {"sub": "ada", "name": "Ada", "iss": "open-webui", "exp": int(ends_at), **other}


async def owner(client: httpx.AsyncClient, body: Json, headers: dict[str, str]) -> str:
    session = await read(client, at("sessions", body["x_session_id"]), headers=headers)
    return str(session["user_id"])


async def test_a_signed_user_counts_before_all_that_are_named_beside_it() -> None:
    clock = Clock()
    chosen: Json = {"address": REMOTE, "open_webui_jwt_secret": SECRET}
    async with served_at(clock, **chosen) as (client, runtime):
        admin, gateway = await key(runtime, "admin"), await key(runtime, "gateway")
        bob = await key(runtime, "user", user="bob")
        signed = {"X-OpenWebUI-User-Jwt": token(claims(clock)), "X-User-Id": "eve"}
        body = await ask(client, "hi", headers={**gateway, **signed}, user="eve")
        own = await ask(client, "hi", headers={**bob, **signed, "X-OpenWebUI-User-Jwt": "x"})
        nameless = {"X-OpenWebUI-User-Jwt": token(claims(clock, sub=None)), "X-User-Id": "mia"}
        other = await ask(client, "hi", headers={**gateway, **nameless})
        assert await owner(client, body, admin) == "ada"
        assert await owner(client, own, admin) == "bob"
        assert await owner(client, other, admin) == "mia"


def forged(clock: Clock) -> dict[str, tuple[str, str]]:
    good = token(claims(clock))
    head, told, signature = good.split(".")
    mallory = part(json.dumps(claims(clock, sub="mallory")).encode())
    return {
        "another secret": (token(claims(clock), secret="guessed"), "not signed"),
        "other claims under the signature": (f"{head}.{mallory}.{signature}", "not signed"),
        "no signature": (f"{head}.{told}.", "not signed"),
        "nothing but a name": ("ada", "not signed"),
        "no text": (f"{good}ü", "no token"),
        "another algorithm": (token(claims(clock), algorithm="none"), "no token"),
        "another issuer": (token(claims(clock, iss="somebody")), "no token"),
        "no end": (token(claims(clock, exp=None)), "no token"),
        "no claims": (token([]), "no token"),
        "an end that is no time": (token(claims(clock, exp=float("nan"))), "run out"),
        "an end that has come": (token(claims(clock, exp=clock.now.timestamp())), "run out"),
    }


async def test_what_open_webui_did_not_sign_is_refused_and_nothing_is_stored() -> None:
    clock = Clock()
    async with served_at(clock, open_webui_jwt_secret=SECRET) as (client, _):
        for name, (jwt, why) in forged(clock).items():
            headers = {"X-OpenWebUI-User-Jwt": jwt, "X-User-Id": "ada"}
            encoded = {field: value.encode("latin-1") for field, value in headers.items()}
            error = refused(await post(client, "hi", headers=encoded), 403)  # type: ignore[arg-type]
            assert error["param"] == "X-OpenWebUI-User-Jwt", name
            assert why in error["message"], name
        assert await session_ids(client) == []


@pytest.mark.parametrize("role", ["gateway", "admin"])
async def test_without_the_secret_a_signed_user_is_nobody_and_the_refusal_says_why(
    role: Any,
) -> None:
    clock = Clock()
    async with served(address=REMOTE) as (client, runtime):
        trusted = await key(runtime, role)
        signed = {**trusted, "X-OpenWebUI-User-Jwt": token(claims(clock))}
        error = refused(await post(client, "hi", headers=signed), 400)
        await ask(client, "hi", headers={**signed, "X-User-Id": "ada"})
    assert "OPEN_WEBUI_JWT_SECRET" in error["message"]
