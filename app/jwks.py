"""The public keys of an identity provider. Touches: its key set, over HTTP.

A key is bound to the one algorithm of its kind when it is read, so that what a token says of its
algorithm can't turn one into another.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt

from app.errors import Misconfigured, UpstreamUnavailable

log = logging.getLogger(__name__)

MOST_SET_BYTES = 2**20
FETCH_SECONDS = 5.0
PAUSE = timedelta(seconds=10)  # between two fetches, however many unknown keys are presented
KEPT = timedelta(hours=1)  # how long a set that can't be fetched again is used
_ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}

Keys = Mapping[tuple[str, str], jwt.PyJWK]  # by their name and algorithm


class KeySet:
    """The public keys of a provider: cached, fetched anew when they are old or one is unknown.

    Raises `Misconfigured` for an address that anybody on the way could change.
    """

    def __init__(
        self, url: str, *, cache_seconds: float, deadline_seconds: float = FETCH_SECONDS
    ) -> None:
        self._url = _checked_url(url)
        self._fresh_for = timedelta(seconds=cache_seconds)
        self._kept_for = max(KEPT, self._fresh_for)
        self._deadline_seconds = deadline_seconds
        self._keys: Keys | None = None
        self._fetched_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._fetching = asyncio.Lock()
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/json"},
            follow_redirects=False,
            timeout=None,  # noqa: S113 - the deadline is around the whole fetch
        )
        self.trouble: str | None = None  # why the last fetch failed

    async def find(self, name: str | None, algorithm: str, now: datetime) -> jwt.PyJWK | None:
        """Return the key of a name; without a name, the only key for the algorithm.

        Raises `UpstreamUnavailable` where there is no set that may still be used.
        """
        if self._wants(name, algorithm, now):
            async with self._fetching:  # who waited here finds what the one before has fetched
                if self._wants(name, algorithm, now):
                    await self._fetch(now)
        fetched_at = self._fetched_at
        if fetched_at is None or now - fetched_at > self._kept_for:
            raise UpstreamUnavailable(
                "identity",
                "the identity provider's keys can't be had now",
                retry_after=PAUSE.total_seconds(),
            )
        return self._known(name, algorithm)

    async def close(self) -> None:
        await self._client.aclose()

    def _wants(self, name: str | None, algorithm: str, now: datetime) -> bool:
        if self._tried_at is not None and now - self._tried_at < PAUSE:
            return False
        is_fresh = self._fetched_at is not None and now - self._fetched_at < self._fresh_for
        return not is_fresh or self._known(name, algorithm) is None

    def _known(self, name: str | None, algorithm: str) -> jwt.PyJWK | None:
        keys = self._keys or {}
        if name is not None:
            return keys.get((name, algorithm))
        fitting = [key for (_, kind), key in keys.items() if kind == algorithm]
        return fitting[0] if len(fitting) == 1 else None

    async def _fetch(self, now: datetime) -> None:
        """Fetch the set; a failure keeps the old one."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                keys = await asyncio.to_thread(read_keys, await self._content())
        except (httpx.HTTPError, ValueError, RecursionError, TimeoutError) as error:
            self.trouble = f"the key set can't be had ({type(error).__name__})"
            log.warning("JWT_JWKS_URL: %s", self.trouble)
        else:
            self._keys, self._fetched_at, self.trouble = keys, now, None
        self._tried_at = now

    async def _content(self) -> bytes:
        content = bytearray()
        async with self._client.stream("GET", self._url) as response:
            if response.status_code != 200:
                raise ValueError(f"status {response.status_code}")
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MOST_SET_BYTES:
                    raise ValueError("it is too large")
        return bytes(content)


def read_keys(content: bytes) -> Keys:
    """Return the keys of a JWKS that can verify; others are passed over. Raises `ValueError`."""
    document = json.loads(content)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is no key set")
    found: dict[tuple[str, str], jwt.PyJWK] = {}
    for number, one in enumerate(listed):
        if isinstance(one, dict) and (key := _read_key(one)) is not None:
            name = one.get("kid")
            unnamed = f"\0{number}"
            found.setdefault((name if isinstance(name, str) else unnamed, key.algorithm_name), key)
    return found


def _read_key(given: Mapping[str, Any]) -> jwt.PyJWK | None:
    algorithm = _ALGORITHMS.get(str(given.get("kty")))
    operations = given.get("key_ops", ["verify"])
    if (
        algorithm is None
        or given.get("alg", algorithm) != algorithm
        or given.get("use", "sig") != "sig"
        or not (isinstance(operations, list) and "verify" in operations)
        or (algorithm == "ES256" and given.get("crv") != "P-256")
        or "d" in given  # a private key has no place here, and is anybody's by now
    ):
        return None
    try:
        return jwt.PyJWK(dict(given), algorithm)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_whole = bool(httpx.URL(url).host) and parts.port != 0 and parts.username is None
    except (ValueError, httpx.InvalidURL):
        is_whole = False
    if not is_whole or not (
        parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.hostname or ""))
    ):
        raise Misconfigured(
            "JWT_JWKS_URL must be an https:// address without a name and password (http:// is "
            "for this machine only)"
        )
    return url


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
