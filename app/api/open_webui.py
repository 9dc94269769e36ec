"""Open WebUI's signed word on who asks. Touches nothing."""

from __future__ import annotations

import json
from datetime import datetime

import jwt
from jwt.algorithms import HMACAlgorithm

from app.errors import Forbidden

HEADER = "X-OpenWebUI-User-Jwt"
ISSUER = "open-webui"


class _AnyLength(HMACAlgorithm):
    """HS256 with a secret of any length: its length is settled where Open WebUI is set up."""

    def check_key_length(self, key: bytes) -> None:
        return None


_signatures = jwt.PyJWS(algorithms=["HS256"])
_signatures.unregister_algorithm("HS256")
_signatures.register_algorithm("HS256", _AnyLength(HMACAlgorithm.SHA256))


def signed_user(token: str, secret: str, now: datetime) -> str:
    """Return the user that a token names.

    secret: what Open WebUI signs with, its FORWARD_USER_INFO_HEADER_JWT_SECRET.
    Raises `Forbidden` for a token of somebody else, and for one that has run out.
    """
    try:
        claims = json.loads(_signatures.decode(token, secret, algorithms=["HS256"]))
        issuer, ends_at = claims["iss"], float(claims["exp"])
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise _refused(
            "it is no token of Open WebUI, or not signed as OPEN_WEBUI_JWT_SECRET says"
        ) from error
    if issuer != ISSUER:
        raise _refused("it is no token of Open WebUI")
    if not ends_at > now.timestamp():
        raise _refused("it has run out")
    return str(claims.get("sub") or "")


def _refused(why: str) -> Forbidden:
    return Forbidden(f"{HEADER}: {why}", param=HEADER)
