"""Users of an identity provider: JSON Web Tokens. Touches: the provider's key set."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jwt

from app.errors import Misconfigured, TokenExpired, Unauthenticated
from app.jwks import KeySet

SECRET_BYTES = 32  # of HS256: RFC 7518, 3.2
MOST_TOKEN_CHARS = 16_384


@dataclass(frozen=True, slots=True)
class Claims:
    """Whom a verified token names, as it says so: nothing of it is checked for its form.

    tenant, document_filter: None only where no claim is set for it.
    """

    user_id: Any
    tenant: Any = None
    document_filter: Any = None


class Jwts:
    """Verifies tokens: their signature, issuer, audience and times. `close` ends the fetching.

    secret: of HS256, or "". key_set: of RS256 and ES256. issuer, audience: "" is any.
    tenant_claim, filter_claim: which claims every token must have then; "" is none.
    Raises `Misconfigured` for settings by which tokens of others would count.
    """

    name = "identity provider"

    def __init__(
        self,
        *,
        secret: str,
        key_set: KeySet | None,
        issuer: str,
        audience: str,
        tenant_claim: str,
        filter_claim: str,
        leeway: timedelta,
    ) -> None:
        self._secret = _secret_key(secret) if secret else None
        self._key_set = key_set
        if key_set is not None and not (issuer or audience):
            raise Misconfigured(
                "JWT_JWKS_URL needs JWT_ISSUER, JWT_AUDIENCE, or better both: the provider may "
                "sign tokens for other applications with the same keys"
            )
        self._issuer = issuer or None
        self._audience = audience or None
        self._tenant_claim = tenant_claim
        self._filter_claim = filter_claim
        self._leeway = leeway.total_seconds()

    @property
    def trouble(self) -> str | None:
        return None if self._key_set is None else self._key_set.trouble

    async def verify(self, token: str, now: datetime) -> Claims:
        """Return whom a token names.

        Raises `Unauthenticated` for one that may not count, and says which part of it is wrong;
        `UpstreamUnavailable` while the provider's keys can't be had.
        """
        if len(token) > MOST_TOKEN_CHARS:
            raise _refused("it is too long")
        try:
            key = await self._key(jwt.get_unverified_header(token), now)
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                audience=self._audience,
                options={
                    "require": ["exp", "sub"],
                    "enforce_minimum_key_length": True,
                    "verify_aud": self._audience is not None,
                    # By our own clock, see below.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.MissingRequiredClaimError as error:
            raise _refused(f"it has no {error.claim}") from error
        except jwt.InvalidIssuerError as error:
            raise _refused("it is not of JWT_ISSUER") from error
        except jwt.InvalidAudienceError as error:
            raise _refused("it is not for JWT_AUDIENCE") from error
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise _refused("its signature or its form is wrong") from error
        self._check_times(claims, now.timestamp())
        return Claims(
            claims["sub"],
            tenant=_claim(claims, self._tenant_claim),
            document_filter=_claim(claims, self._filter_claim),
        )

    async def close(self) -> None:
        if self._key_set is not None:
            await self._key_set.close()

    async def _key(self, header: Mapping[str, Any], now: datetime) -> jwt.PyJWK:
        algorithm = header.get("alg")
        if algorithm == "HS256" and self._secret is not None:
            return self._secret
        if algorithm in ("RS256", "ES256") and self._key_set is not None:
            if (key := await self._key_set.find(header.get("kid"), algorithm, now)) is not None:
                return key
            raise _refused("it is signed with a key that the provider does not list")
        raise _refused("it is signed in a way that does not count here")

    def _check_times(self, claims: Mapping[str, Any], now: float) -> None:
        if now >= _time(claims, "exp") + self._leeway:
            raise TokenExpired("the JWT has expired")
        if claims.get("nbf") is not None and now < _time(claims, "nbf") - self._leeway:
            raise _refused("it does not count yet")


def looks_like_jwt(secret: str) -> bool:
    """Say whether it has the three parts of a signed token; an API key has no dots."""
    return secret.count(".") == 2


def _secret_key(secret: str) -> jwt.PyJWK:
    if len(secret.encode()) < SECRET_BYTES:
        raise Misconfigured(f"JWT_SECRET must have at least {SECRET_BYTES} bytes")
    told = base64.urlsafe_b64encode(secret.encode()).decode()
    key = jwt.PyJWK({"kty": "oct", "k": told}, "HS256")
    try:
        jwt.encode({}, key)
    except jwt.InvalidKeyError as error:  # PyJWT knows a public key when it sees one
        raise Misconfigured("JWT_SECRET must be a secret, not a public key") from error
    return key


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim that every token must have; None where no name is set."""
    if not name:
        return None
    if claims.get(name) is None:
        raise _refused(f"it has no {name}")
    return claims[name]


def _time(claims: Mapping[str, Any], name: str) -> float:
    told = claims[name]
    if isinstance(told, int | float) and not isinstance(told, bool) and abs(told) < 2**53:
        return float(told)  # no nan is smaller than anything
    raise _refused(f"its {name} is no time")


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"the JWT does not count: {why}")
