"""The door without keys: a web page in a browser on this machine must not come in. Touches nothing.

A page of any site may send requests to this machine (a form needs nobody's leave), and one whose
name was pointed here (DNS rebinding) may read the answers as well. A browser says in `Origin` whose
page asks, and in `Host` by which name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from app.errors import Forbidden


def check_keyless(
    headers: Mapping[str, str], *, base_url: str, origins: Collection[str], any_host: bool
) -> None:
    """Raise `Forbidden` for a call without a key that a foreign page may have sent.

    base_url: ours from outside, whose host counts as local, or "". origins: of pages that may
    call; `*` does not open this door. any_host: other machines are answered too.
    """
    host = headers.get("host", "")
    name = _host_of(f"//{host}")
    if not (any_host or _is_local(name) or (name and name == _host_of(base_url))):
        raise Forbidden(
            f"without a key only localhost is answered, not the host {host[:100]!r}: a web page "
            "may have pointed that name here. Call http://localhost, set PUBLIC_BASE_URL to this "
            "URL, or use a key"
        )
    origin = headers.get("origin")
    if origin is not None and origin not in origins and origin.partition("://")[2] != host:
        raise Forbidden(
            f"without a key, web pages of {origin[:100]!r} are not answered: name it in "
            "CORS_ORIGINS (* does not count here), or use a key"
        )


def _is_local(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_of(url: str) -> str:
    """Return the host of a URL, without its port; "" where there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
