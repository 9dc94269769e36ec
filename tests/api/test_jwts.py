"""Users whom an identity provider's tokens name."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.api.deps import caller_of
from app.errors import Misconfigured
from app.jwts import Claims
from app.main import create_app
from app.wiring import open_runtime
from tests.api.calls import Json, answered, at, chat, key, put, read, refused
from tests.memory.stores import Clock
from tests.served import served, served_at, settings

REMOTE = "203.0.113.9"
SECRET = "a secret that the identity provider shares"
HS: Json = {"jwt_secret": SECRET, "jwt_leeway_seconds": 0.0}
FULL: Json = {
    **HS,
    "jwt_issuer": "https://login.example",
    "jwt_audience": "assistant",
    "jwt_tenant_claim": "org",
    "jwt_filter_claim": "documents",
}


def claims(clock: Clock, **other: Any) -> Json:
    """Return what a good token says under `FULL`; a claim that is given as `...` is left out."""
    told = {
        "sub": "ada",
        "iss": "https://login.example",
        "aud": "assistant",
        "exp": int((clock.now + timedelta(minutes=5)).timestamp()),
        "org": "acme",
        "documents": {"department": "sales"},
        **other,
    }
    return {name: value for name, value in told.items() if value is not ...}


def part(told: bytes) -> str:
    return base64.urlsafe_b64encode(told).rstrip(b"=").decode()


def by_hand(told: Any, *, header: Any = None, secret: str = SECRET) -> str:
    """Return a token of any form: no library would make these."""
    parts = ({"alg": "HS256", "typ": "JWT"} if header is None else header, told)
    text = ".".join(part(json.dumps(one).encode()) for one in parts)
    return f"{text}.{part(hmac.digest(secret.encode(), text.encode(), 'sha256'))}"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_the_subject_of_a_token_is_the_user_and_sees_its_own_only() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE, **HS) as (client, _):
        ada, bob = (bearer(by_hand(claims(clock, sub=name))) for name in ("ada", "bob"))
        await chat(client, "I live in Porto.", session_id="s1", headers=ada)
        assert (await read(client, at("sessions", "s1"), headers=ada))["user_id"] == "ada"
        refused(await client.get(at("sessions", "s1"), headers=bob), 404)
        assert (await read(client, "/sessions", headers=bob))["sessions"] == []
        named: Any = {"params": {"user_id": "ada"}, "headers": bob}
        assert refused(await client.get("/memories", **named), 403)["param"] == "user_id"
        refused(await client.get("/documents", headers=ada), 403)
        in_the_other_header = {"X-API-Key": by_hand(claims(clock))}
        assert (await client.get("/sessions", headers=in_the_other_header)).status_code == 200


async def test_headers_that_name_a_user_count_for_nothing_beside_a_token() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE, **HS) as (client, runtime):
        admin = await key(runtime, "admin")
        others = {"X-User-Id": "bob", "X-OpenWebUI-User-Id": "bob", "X-OpenWebUI-User-Jwt": "bob"}
        body = {"model": "conversational-rag", "messages": [{"role": "user", "content": "hi"}]}
        headers = {**bearer(by_hand(claims(clock))), **others, "X-Session-Id": "s1"}
        answered(
            await client.post("/v1/chat/completions", json={**body, "user": "bob"}, headers=headers)
        )
        assert (await read(client, at("sessions", "s1"), headers=admin))["user_id"] == "ada"


async def test_a_user_of_two_tenants_is_two_users() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE, **FULL) as (client, _):
        acme, globex = (bearer(by_hand(claims(clock, org=name))) for name in ("acme", "globex"))
        await chat(client, "I live in Porto.", session_id="s1", headers=acme)
        refused(await client.get(at("sessions", "s1"), headers=globex), 404)
        assert (await read(client, "/sessions", headers=globex))["sessions"] == []


async def test_the_filter_of_a_token_binds_what_is_read() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE, **FULL) as (client, runtime):
        admin = await key(runtime, "admin", tenant="acme")
        texts = {"sales": "Refunds take 30 days.", "legal": "Refunds take 90 days."}
        await put(
            client,
            *({"id": d, "text": t, "metadata": {"department": d}} for d, t in texts.items()),
            headers=admin,
        )
        for department in texts:
            own = claims(clock, documents={"department": department})
            said = await chat(client, "How long do refunds take?", headers=bearer(by_hand(own)))
            assert [source["id"] for source in said["sources"]] == [department]


async def test_a_subject_may_look_like_a_namespace_and_is_a_user_all_the_same() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE, **HS) as (client, _):
        ada = bearer(by_hand(claims(clock)))
        await chat(client, "I live in Porto.", session_id="of ada", headers=ada)
        for user in ("documents", "memory--globex", "default", "ada:1", "ada/1", "%61da"):
            odd = bearer(by_hand(claims(clock, sub=user)))
            await chat(client, "I live in Oslo.", session_id=f"of {user}", headers=odd)
            listed = await read(client, "/sessions", headers=odd)
            assert [session["session_id"] for session in listed["sessions"]] == [f"of {user}"]
            refused(await client.get(at("sessions", "of ada"), headers=odd), 404)


def forged(clock: Clock) -> dict[str, tuple[str, str]]:
    good = by_hand(claims(clock))
    head, _, signature = good.split(".")
    mallory = part(json.dumps(claims(clock, sub="mallory")).encode())
    later = (clock.now + timedelta(seconds=1)).timestamp()
    told: dict[str, tuple[Json, str]] = {
        "no subject": ({"sub": ...}, "no sub"),
        "a null for a subject": ({"sub": None}, "no sub"),
        "a number for a subject": ({"sub": 7}, "form is wrong"),
        "an empty subject": ({"sub": ""}, "user's id"),
        "a blank subject": ({"sub": "  "}, "user's id"),
        "a subject with a line end": ({"sub": "ada\n"}, "user's id"),
        "a subject with half a character": ({"sub": "\ud800"}, "user's id"),
        "a subject that is a path": ({"sub": ".."}, "user's id"),
        "a subject of 513 bytes": ({"sub": "é" * 256 + "x"}, "user's id"),
        "another issuer": ({"iss": "https://login.example.evil"}, "JWT_ISSUER"),
        "no issuer": ({"iss": ...}, "no iss"),
        "two issuers": ({"iss": ["https://login.example"]}, "JWT_ISSUER"),
        "another audience": ({"aud": ["another", "one"]}, "JWT_AUDIENCE"),
        "no audience": ({"aud": ...}, "no aud"),
        "no end": ({"exp": ...}, "no exp"),
        "a text for an end": ({"exp": "tomorrow"}, "exp is no time"),
        "a truth for an end": ({"exp": True}, "exp is no time"),
        "no number for an end": ({"exp": float("nan")}, "exp is no time"),
        "an end that never comes": ({"exp": float("inf")}, "exp is no time"),
        "an end without measure": ({"exp": 10**400}, "exp is no time"),
        "an end that has come": ({"exp": int(clock.now.timestamp())}, "expired"),
        "a beginning to come": ({"nbf": later}, "not count yet"),
        "no time for a beginning": ({"nbf": {}}, "nbf is no time"),
        "no tenant": ({"org": ...}, "no org"),
        "a tenant that is a namespace": ({"org": "acme/../globex"}, "tenant's name"),
        "a number for a tenant": ({"org": 5}, "tenant's name"),
        "a list of tenants": ({"org": ["acme"]}, "tenant's name"),
        "no filter": ({"documents": ...}, "no documents"),
        "a null for a filter": ({"documents": None}, "no documents"),
        "an empty filter": ({"documents": {}}, "at least one field"),
        "a text for a filter": ({"documents": "sales"}, "at least one field"),
        "a filter of another language": ({"documents": {"a": {"$regex": "x"}}}, "operator"),
        "a filter of passages": ({"documents": {"text": "x"}}, "passage"),
        "a filter with a NUL": ({"documents": {"a": "\0"}}, "NUL"),
    }
    return {name: (by_hand(claims(clock, **other)), why) for name, (other, why) in told.items()} | {
        "another secret": (by_hand(claims(clock), secret="guessed" * 9), "signature"),
        "other claims under the signature": (f"{head}.{mallory}.{signature}", "signature"),
        "no signature": (f"{head}.{mallory}.", "signature"),
        "none": (by_hand(claims(clock), header={"alg": "none"}), "a way"),
        "none, unsigned": (".".join((part(b'{"alg":"none"}'), mallory, "")), "a way"),
        "None": (by_hand(claims(clock), header={"alg": "nOnE"}), "a way"),
        "a longer hash": (jwt.encode(claims(clock), SECRET * 2, "HS512"), "a way"),
        "no algorithm": (by_hand(claims(clock), header={}), "a way"),
        "two algorithms": (by_hand(claims(clock), header={"alg": ["HS256"]}), "a way"),
        "a header that is a list": (by_hand(claims(clock), header=[]), "form is wrong"),
        "a key that is no text": (
            by_hand(claims(clock), header={"alg": "HS256", "kid": 1}),
            "form is wrong",
        ),
        "claims that are a list": (by_hand([]), "form is wrong"),
        "what must be understood": (
            by_hand(claims(clock), header={"alg": "HS256", "crit": ["x"]}),
            "form is wrong",
        ),
        "nothing in three parts": ("..", "form is wrong"),
        "a deep header": (".".join((part(b"[" * 9_000), "e30", "e30")), "form is wrong"),
        "too long a token": (f"{head}.{'A' * 20_000}.{signature}", "too long"),
    }


async def test_what_the_provider_did_not_say_is_refused_and_nothing_is_stored() -> None:
    clock = Clock()
    async with served_at(clock, address=REMOTE, **FULL) as (client, runtime):
        admin = await key(runtime, "admin", tenant="acme")
        for name, (token, why) in forged(clock).items():
            response = await client.post("/chat", json={"message": "hi"}, headers=bearer(token))
            error = refused(response, 401)
            assert response.headers["www-authenticate"] == "Bearer"
            assert why in error["message"], name
            assert token[:20] not in response.text or len(token) < 20
        assert (await read(client, "/sessions", headers=admin))["sessions"] == []
        good = bearer(by_hand(claims(clock)))
        await chat(client, "hi", headers=good)
        assert len((await read(client, "/sessions", headers=admin))["sessions"]) == 1


@pytest.mark.parametrize("leeway", [0, 30])
async def test_a_token_counts_from_its_beginning_to_its_end_and_the_leeway_counts(
    leeway: int,
) -> None:
    clock = Clock()
    begins_at = int(clock.now.timestamp())
    headers = bearer(by_hand(claims(clock, nbf=begins_at, exp=begins_at + 300)))
    chosen = {**FULL, "jwt_leeway_seconds": float(leeway)}
    async with served_at(clock, address=REMOTE, **chosen) as (client, _):

        async def at_second(moment: int) -> httpx.Response:
            clock.now = datetime.fromtimestamp(begins_at + moment, UTC)
            return await client.get("/sessions", headers=headers)

        for moment in (-leeway, 0, 299, 299 + leeway):
            assert (await at_second(moment)).status_code == 200
        early, late = await at_second(-leeway - 1), await at_second(300 + leeway)
        theirs = await client.get("/v1/models", headers=headers)
    assert "not count yet" in refused(early, 401)["message"]
    assert refused(late, 401)["code"] == "token_expired"
    assert refused(theirs, 401)["code"] == "invalid_api_key"


async def test_api_keys_work_beside_tokens_and_nobody_comes_in_without_either() -> None:
    clock = Clock()
    async with served_at(clock, api_key="a.dotted.key", **HS) as (client, runtime):
        ada = await key(runtime, "user", user="ada")
        for good in (ada, {"X-API-Key": "a.dotted.key"}, bearer("a.dotted.key")):
            assert (await client.get("/v1/models", headers=good)).status_code == 200
    async with served(**HS) as (here, _):
        refused(await here.get("/stats"), 401)
    async with served(address=REMOTE, allow_anonymous=True, **HS) as (client, _):
        refused(await client.get("/stats"), 401)


async def test_without_the_settings_a_token_is_a_key_that_nobody_has() -> None:
    clock = Clock()
    async with served_at(clock, api_key="the-key-of-the-settings") as (client, _):
        error = refused(await client.get("/stats", headers=bearer(by_hand(claims(clock)))), 401)
    assert error["code"] == "unauthenticated"


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"jwt_secret": "s" * 31}, "JWT_SECRET must have at least 32 bytes"),
        ({"jwt_tenant_claim": "org"}, "JWT_TENANT_CLAIM"),
        ({"jwt_filter_claim": "documents"}, "JWT_FILTER_CLAIM"),
        ({"jwt_issuer": "https://login.example"}, "JWT_ISSUER"),
        ({"jwt_jwks_url": "https://login.example/keys"}, "JWT_AUDIENCE"),
        ({"jwt_jwks_url": "http://login.example/keys", "jwt_issuer": "x"}, "https://"),
        ({"jwt_jwks_url": "https://u:p@login.example/keys", "jwt_issuer": "x"}, "password"),
        ({"jwt_jwks_url": "https://:443/keys", "jwt_issuer": "x"}, "https://"),
        ({"jwt_jwks_url": "https://[::1/keys", "jwt_issuer": "x"}, "https://"),
        ({"jwt_jwks_url": "https://login\n.example/keys", "jwt_issuer": "x"}, "https://"),
        ({"jwt_jwks_url": "https://login.example:70000/keys", "jwt_issuer": "x"}, "https://"),
        ({"jwt_jwks_url": "file:///etc/keys", "jwt_issuer": "x"}, "https://"),
        ({"jwt_jwks_url": "login.example/keys", "jwt_issuer": "x"}, "https://"),
        (
            {"jwt_secret": "-----BEGIN PUBLIC KEY-----\nMFkwEwYH\n-----END PUBLIC KEY-----"},
            "not a public key",
        ),
    ],
)
async def test_settings_that_could_let_the_wrong_ones_in_are_refused_at_the_start(
    chosen: Json, told: str
) -> None:
    with pytest.raises(Misconfigured) as refusal:
        async with open_runtime(settings(**chosen)):
            pass
    assert told in refusal.value.message
    for secret in ("s" * 31, "u:p@", "MFkwEwYH"):
        assert secret not in refusal.value.message


def test_a_user_of_a_token_stands_in_logs_without_its_name() -> None:
    one, other = (caller_of(Claims("ada@example.com", tenant)) for tenant in ("acme", "globex"))
    assert one.name.startswith("jwt:user:")
    assert "ada" not in one.name
    assert one.name != other.name
    assert (one.user_id, one.role, one.tenant_id) == ("ada@example.com", "user", "acme")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64"]), JSON) | JSON


@st.composite
def tokens(draw: st.DrawFn) -> bytes:
    """Return what has the form of a token, signed with another secret or cut somewhere."""
    parts = [json.dumps(draw(one)).encode() for one in (HEADERS, JSON)]
    text = b".".join(base64.urlsafe_b64encode(one).rstrip(b"=") for one in parts)
    return text + b"." + base64.urlsafe_b64encode(draw(st.binary(max_size=40))).rstrip(b"=")


@pytest.fixture(scope="module")
def remote() -> Iterator[TestClient]:
    app = create_app(settings(**FULL))
    with TestClient(app, raise_server_exceptions=True, base_url="http://localhost") as client:
        yield client


@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(presented=tokens() | st.binary(max_size=200))
@example(presented=b"")
@example(presented=b"...")
@example(presented=by_hand({"sub": "ada"}, header={"alg": "HS256", "kid": "\ud800"}).encode())
def test_whatever_is_presented_is_refused_and_nothing_breaks(
    remote: TestClient, presented: bytes
) -> None:
    response = remote.get("/sessions", headers=[(b"authorization", b"Bearer " + presented)])
    assert response.status_code == 401
    assert set(response.json()) == {"error"}
