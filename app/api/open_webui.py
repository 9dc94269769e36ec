"""Open WebUI's signed word on who asks. Touches nothing."""

from __future__ import annotations

import base64
import hmac
import json
from datetime import datetime

from app.errors import Forbidden

HEADER = "X-OpenWebUI-User-Jwt"
ISSUER = "open-webui"


def signed_user(token: str, secret: str, now: datetime) -> str:
    """Return the user that a token names.

    secret: what Open WebUI signs with, its FORWARD_USER_INFO_HEADER_JWT_SECRET.
    Raises `Forbidden` for a token of somebody else, and for one that has run out.
    """
    signed, _, signature = token.rpartition(".")
    wanted = hmac.digest(secret.encode(), signed.encode(), "sha256")
    try:
        if not hmac.compare_digest(_decoded(signature), wanted):
            raise _refused("it is not signed with OPEN_WEBUI_JWT_SECRET")
        header, claims = (json.loads(_decoded(part)) for part in signed.split("."))
        algorithm, issuer, ends_at = header["alg"], claims["iss"], float(claims["exp"])
    except (ValueError, TypeError, KeyError) as error:
        raise _refused("it is no token of Open WebUI") from error
    if (algorithm, issuer) != ("HS256", ISSUER):
        raise _refused("it is no token of Open WebUI")
    if not ends_at > now.timestamp():
        raise _refused("it has run out")
    return str(claims.get("sub") or "")


def _decoded(part: str) -> bytes:
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


def _refused(why: str) -> Forbidden:
    return Forbidden(f"{HEADER}: {why}", param=HEADER)
