"""Keys, tokens and passwords in texts, found. Touches nothing.

Every pattern starts at a literal and takes no character twice, so that the time grows with the
length of a text alone, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

_KEY = re.compile(
    r"(?:sk-|sk_live_|sk_test_|rk_live_|gsk_|pcsk_|rag_|gh[pousr]_|github_pat_|glpat-|hf_|npm_|"
    r"nvapi-|pypi-|whsec_|dop_v1_|xox[a-z]-|xapp-|SG\.|lsv2_|r8_)[A-Za-z0-9_.-]++"
)
_FIXED = re.compile(
    r"(?:A(?:KIA|SIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,40}"
    r"|hooks\.slack\.com/services/[0-9A-Za-z/]{20,80}+)(?![0-9A-Za-z_-])"
)
_JWT = re.compile(
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+)?"
)
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]*+")
_HEADER = re.compile(
    r"\b(?:(?P<named>authorization[\"']?:[ \"']{0,3}(?:bearer|basic|token))|bearer) {1,4}"
    r"(?P<value>[A-Za-z0-9._~+/=-]++)",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(?<=://)[^/?#\s:@]*+:[^/?#\s@]++(?=@)")
_NAMED = re.compile(
    r"(?P<password>pass(?:word|wd|phrase|code|wort)|pwd|kennwort|contraseña|mot de passe|wachtwoord"
    r"|hasło|senha|\b(?:pw|pass)(?=[\"']?\s{0,3}[:=]))"
    r"|(?:api|access|secret|private|account|signing|encryption|auth)[_ -]?keys?|secret|token",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"[\"']?\s{0,3}(?P<sign>=>|[:=](?=(?P<space>\s)?)|(?:is|ist|lautet|est|es)\b:?|(?<= ))\s{0,3}"
    r"(?:(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{4,300})(?P=quote)|(?P<bare>[^\s\"'`,;<>]{4,300}))",
    re.IGNORECASE,
)
_NAMES = ("pass", "pw", "key", "secret", "token", "wort", "contraseña", "hasło", "senha", "woord")
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[]")  # a call, not a value
_NO_PASSWORDS = frozenset({"true", "false", "none", "null", "text", "required", "password"})
_PLACEHOLDER = ("[", "<", "{", "$", "%", "*")
_BEFORE_KEY = re.compile(r"[A-Za-z0-9]")


def find_secrets(text: str) -> Iterator[Span]:
    """Return where keys, tokens and passwords stand, in order, none within another."""
    last: Span | None = None
    for start, end in sorted(_candidates(text)):
        if last is not None and start < last[1]:
            last = last[0], max(last[1], end)
            continue
        if last is not None:
            yield last
        last = start, end
    if last is not None:
        yield last


def _candidates(text: str) -> Iterator[Span]:
    yield from _keys(text)
    if "PRIVATE KEY" in text:
        yield from _pem_blocks(text)
    if "://" in text:
        yield from (match.span() for match in _USERINFO.finditer(text))
    lowered = text.lower()
    if "bearer" in lowered or "authorization" in lowered:
        for match in _HEADER.finditer(text):
            if match["named"] or _is_random(match["value"], least=12):
                yield match.span("value")
    if any(map(lowered.__contains__, _NAMES)):
        yield from _assigned(text)


def _keys(text: str) -> Iterator[Span]:
    for match in _KEY.finditer(text):
        start, end = match.start(), match.start() + len(match[0].rstrip(".-_"))
        prefix = re.match(r"[A-Za-z0-9]+(?:_pat|_live|_test|_v1)?[_.-]", match[0])
        body = text[start + (prefix.end() if prefix else 0) : end]
        if _stands_alone(text, start) and _is_random(body, least=16):
            yield start, end
    for pattern in (_FIXED, _JWT):
        yield from (m.span() for m in pattern.finditer(text) if _stands_alone(text, m.start()))


def _stands_alone(text: str, start: int) -> bool:
    return start == 0 or _BEFORE_KEY.match(text[start - 1]) is None


def _pem_blocks(text: str) -> Iterator[Span]:
    last = 0
    while (begin := _PEM.search(text, last)) is not None:
        body = _PEM_BODY.match(text, begin.end())
        last = begin.end() if body is None else body.end()
        if (end := _PEM_END.match(text, last)) is not None:
            last = end.end()
        yield begin.start(), last


def _assigned(text: str) -> Iterator[Span]:
    """Return the values of what is named a password, a key, a secret or a token."""
    for name in _NAMED.finditer(text):
        match = _VALUE.match(text, name.end())
        is_flag = text.endswith("--", 0, name.start())  # "--password ..." of a command
        if match is None or not (match["sign"] or is_flag):
            continue
        group = "bare" if match["quoted"] is None else "quoted"
        value = match[group]
        if group == "bare":
            value = value.partition("&")[0] if match["sign"] == "=" else value
            value = "" if _CODE.match(value) else value.rstrip(".,;:!?)]}")
        is_set = group == "bare" and match["sign"] == "=" and not match["space"]
        is_secret = _is_token(value) if name["password"] is None else _is_password(value, is_set)
        if is_secret and not value.startswith(_PLACEHOLDER) and "://" not in value:
            yield match.start(group), match.start(group) + len(value)


def _is_password(value: str, is_set: bool) -> bool:
    """Say whether a word is more than a word: two kinds of characters, or digits alone.

    is_set: it stands as in a file of settings, where any word is one.
    """
    if value.isdigit() or (is_set and value.isalpha()):
        return 4 <= len(value) <= 100 and value.lower() not in _NO_PASSWORDS
    if not 6 <= len(value) <= 100 or sum(map(str.isalnum, value)) < 4 or value.count(" ") > 3:
        return False
    kinds = [any(map(str.islower, value)), any(map(str.isupper, value[1:]))]
    kinds += [any(map(str.isdigit, value)), any(not c.isalnum() and c not in " -" for c in value)]
    return sum(kinds) >= 2


def _is_token(value: str) -> bool:
    return " " not in value and _is_random(value, least=12)


def _is_random(value: str, *, least: int) -> bool:
    """Say whether a word has letters and digits mixed, as no word of a language has."""
    if len(value) < least or not any(map(str.isdigit, value)):
        return False
    if len(value) >= 20 and any(map(str.isupper, value)) and any(map(str.islower, value)):
        return True
    parts = re.split(r"[-_.]", value)
    return any(len(part) >= 8 and not part.isalpha() and not part.isdigit() for part in parts)
