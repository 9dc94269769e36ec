"""Whether a delivery comes from one who holds the secret, and now. Touches nothing.

Whatever bytes come, the answer is yes, or `BadSignature`. Comparisons take constant time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ingest.providers.base import BadSignature, NotConfigured, Source

WINDOW = timedelta(minutes=5)
MILLISECOND = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STAMP = re.compile(r"[0-9]{1,16}")
_TOKEN_HEADERS = ("x-webhook-token", "x-api-key")

Headers = Mapping[str, str]


def secrets_of(source: Source) -> tuple[bytes, ...]:
    """Return the configured secrets. Raises `NotConfigured` if there is none."""
    found = tuple(raw(secret) for secret in source.secrets if secret)
    if not found:
        raise NotConfigured(f"no secret is configured for {source.provider}")
    return found


def raw(text: str) -> bytes:
    """Return a configured or composed text as bytes, also if it is no valid Unicode."""
    return text.encode("utf-8", "surrogatepass")


def sent(header: str) -> bytes:
    """Return a header's bytes, which servers hand on as Latin-1."""
    try:
        return header.encode("latin-1")
    except UnicodeEncodeError:
        return raw(header)


def required(headers: Headers, name: str) -> str:
    """Return a header. Raises `BadSignature` if it is not there."""
    if not (value := headers.get(name, "")):
        raise BadSignature(f"expected the header {name}, there is none")
    return value


def check_time(headers: Headers, name: str, now: datetime, unit: timedelta) -> str:
    """Return the header's time as it came; it may be `WINDOW` off, to either side."""
    stamp = required(headers, name)
    if not _STAMP.fullmatch(stamp):
        raise BadSignature(f"expected the header {name} to be a whole number")
    sent_at = int(stamp) * (unit // _MICROSECOND)
    if abs((now - _EPOCH) // _MICROSECOND - sent_at) > WINDOW // _MICROSECOND:
        raise BadSignature(
            f"expected the header {name} within 5 minutes of {now:%Y-%m-%d %H:%M:%S}, got {stamp}"
        )
    return stamp


def check_account(source: Source, named: Iterable[str]) -> None:
    """Raise `BadSignature` if the sender names another account than the configured one."""
    if source.account and any(account != source.account for account in named if account):
        raise BadSignature(f"expected the {source.provider} account {source.account}, got another")


def hmac_base64(secret: bytes, message: bytes) -> bytes:
    return base64.b64encode(hmac.digest(secret, message, hashlib.sha256))


def is_any(given: bytes, expected: Iterable[bytes]) -> bool:
    return any(hmac.compare_digest(given, one) for one in expected)


def has_login(headers: Headers, logins: Sequence[bytes]) -> bool:
    """Say if Basic authentication gives one of these, each `user:password`."""
    return is_any(_basic(headers), logins)


def has_token(headers: Headers, tokens: Sequence[bytes]) -> bool:
    """Say if one of these comes as a bearer token, a token header, or a Basic password."""
    login = _basic(headers)
    given = [_credentials(headers, b"bearer"), login, login.partition(b":")[2]]
    given += [sent(headers.get(name, "")) for name in _TOKEN_HEADERS]
    return any(is_any(one, tokens) for one in given)


def _basic(headers: Headers) -> bytes:
    try:
        return base64.b64decode(_credentials(headers, b"basic"), validate=True)
    except ValueError:
        return b""


def _credentials(headers: Headers, scheme: bytes) -> bytes:
    given, _, rest = sent(headers.get("authorization", "")).strip().partition(b" ")
    return rest.strip() if given.lower() == scheme else b""
