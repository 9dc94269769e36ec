"""What must not be logged, masked. Touches nothing."""

from __future__ import annotations

import re

from app.redact.numbers import find_cards, find_ibans, find_ssns
from app.redact.secrets import find_secrets

# Shorter than a key is: in a log, a word that is masked for nothing costs little.
_FOR_LOGS = re.compile(
    r"""(?x)
    \b(?:gsk_|pcsk_|sk-|sk_|rag_)[A-Za-z0-9_-]{6,}+      # provider keys and ours
    | \bBearer\s+[A-Za-z0-9._~+/=-]{6,}+                  # authorization headers
    | (?<=://)[^/\s:@]*+:[^/\s@]++(?=@)                   # user:password in a URL
    """
)


def mask_secrets(text: str) -> str:
    """Return `text` with `[secret]` for keys, tokens, passwords, cards, IBANs and SSNs."""
    text = _FOR_LOGS.sub("[secret]", text)
    found = [*find_secrets(text), *find_cards(text), *find_ibans(text), *find_ssns(text)]
    masked, last = [], 0
    for start, end in sorted(found):
        if start >= last:
            masked += [text[last:start], "[secret]"]
        last = max(last, end)
    return "".join([*masked, text[last:]])
