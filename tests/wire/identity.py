"""An identity provider's key set over real HTTP, with real keys, and the tokens that it signs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.wire.serving import serving

Json = dict[str, Any]


_made: Json = {}


def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return one of some keys, the same in a whole test run."""
    name = f"rsa {number} {bits}"
    if name not in _made:
        _made[name] = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    return cast(rsa.RSAPrivateKey, _made[name])


def ec_key(curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    """Return the key on a curve (P-256), the same in a whole test run."""
    chosen = curve or ec.SECP256R1()
    if chosen.name not in _made:
        _made[chosen.name] = ec.generate_private_key(chosen)
    return cast(ec.EllipticCurvePrivateKey, _made[chosen.name])


def public(key: Any, **fields: Any) -> Json:
    """Return the JWK of a key's public half."""
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    told: Json = algorithm.to_jwk(key.public_key(), as_dict=True)
    return {**told, **fields}


def signed(claims: Json, key: Any, name: str | None, algorithm: str | None = None) -> str:
    """Return a token that a key signs, in the way that fits it."""
    fitting = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    headers = {} if name is None else {"kid": name}
    return jwt.encode(claims, key, algorithm or fitting, headers=headers)


@dataclass
class Provider:
    """keys: what it lists. status, body: what it answers instead. fetches: how often it did.

    held: whether it waits, until that is cleared, before it answers.
    """

    url: str = ""
    keys: list[Json] = field(default_factory=list)
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    fetches: int = 0
    held: bool = False

    async def answer(self, request: Request) -> Response:
        self.fetches += 1
        while self.held:
            await asyncio.sleep(0.01)
        content = json.dumps({"keys": self.keys}).encode() if self.body is None else self.body
        return Response(content, self.status, self.headers, "application/json")


@contextmanager
def providing(*keys: Json) -> Iterator[Provider]:
    provider = Provider(keys=list(keys))
    with serving(Starlette(routes=[Route("/{path:path}", provider.answer)])) as root:
        provider.url = f"{root}/jwks.json"
        yield provider
