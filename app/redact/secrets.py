"""What must not be logged, masked. Touches nothing."""

from __future__ import annotations

import re

_SECRETS = re.compile(
    r"""(?x)
    \b(?:gsk_|pcsk_|sk-|sk_|rag_)[A-Za-z0-9_-]{6,}      # provider keys and ours
    | \bBearer\s+[A-Za-z0-9._~+/=-]{6,}                  # authorization headers
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                    # user:password in a URL
    """
)


def mask_secrets(text: str) -> str:
    """Return `text` with keys, bearer tokens and passwords in URLs replaced by `[secret]`."""
    return _SECRETS.sub("[secret]", text)
