"""E-mail and IP addresses. Touches nothing."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

Span = tuple[int, int]

_LOCAL_CHARS = 64
_DOMAIN = re.compile(
    r"(?:[^\W_](?:[\w-]{0,62})\.){1,8}([^\W\d_]{2,24}|xn--[a-z0-9-]{2,50})(?![\w@])"
)
_FILES = re.compile(  # names of files end so, "logo@2x.png"
    r"png|jpe?g|gif|svg|webp|bmp|ico|pdf|css|js|mjs|tsx?|jsx|json|ya?ml|toml|xml|html?|md|txt|csv|tsv"
    r"|zip|gz|tar|exe|dll|so|py|java|cpp|rs|rb|php|log|mp[34]|wav|mov|docx?|xlsx?|pptx?",
    re.IGNORECASE,
)
_LOGINS = re.compile(r"git|hg|svn")  # "git@github.com:owner/name" is a path

_V4 = re.compile(r"(?<![\w.-])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w-]|\.[0-9])")
_V6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}+(?:(?:\.[0-9]{1,3}){3})?(?![\w:])"
)
_VERSION_WORDS = re.compile(
    r"(?:\bv|\bver\.?|version|section|chapter|release|§|abschnitt|kapitel|clause|paragraph|upgrade"
    r"|update|build|article|figure|table|step|appendix|firmware|section s)\W{0,3}$"
    r"|[A-Za-z]/$|==\s?$|[<>~^]=?\s?$",
    re.IGNORECASE,
)
_IP_WORDS = re.compile(
    r"\bip(?:v4)?\b|address|adresse|server|host|ping|\bdns\b|client|gateway|router|ssh|://|subnet"
    r"|netz|network|proxy|firewall|remote|node|endpoint",
    re.IGNORECASE,
)
_IP_AFTER = re.compile(r"\bdns\b|\bip\b|\baddress", re.IGNORECASE)
WORDS_BEFORE = 30  # characters, and after, in which a word tells what a number is
SMALL = 31  # versions and sections have no greater numbers


def find_emails(text: str) -> Iterator[Span]:
    """Return where e-mail addresses stand: from each `@` both ways."""
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        start = at if domain is None else _local_start(text, at)
        if domain is not None and start < at and not _is_no_mail(text, start, at, domain):
            yield start, domain.end()
        at = text.find("@", at + 1)


def _local_start(text: str, at: int) -> int:
    start, first = at, max(0, at - _LOCAL_CHARS)
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "._+-'"):
        start -= 1
    while start < at and not text[start].isalnum():
        start += 1
    return at if text[at - 1] in ".'" else start


def _is_no_mail(text: str, start: int, at: int, domain: re.Match[str]) -> bool:
    if _FILES.fullmatch(domain[1]):
        return True
    is_path = text[domain.end() : domain.end() + 1] == ":"
    return is_path and _LOGINS.fullmatch(text, start, at) is not None


def find_ips(text: str) -> Iterator[Span]:
    if text.count(".") >= 3:
        yield from (match.span() for match in _V4.finditer(text) if _is_v4(text, match))
    if text.count(":") >= 2:
        yield from (match.span() for match in _V6.finditer(text) if _is_v6(match[0]))


def _is_v4(text: str, match: re.Match[str]) -> bool:
    try:
        address = ipaddress.IPv4Address(match[0])
    except ValueError:
        return False
    before = text[max(0, match.start() - WORDS_BEFORE) : match.start()]
    if address.is_loopback or address.is_unspecified:  # it is nobody's
        return False
    if _VERSION_WORDS.search(before):
        return False
    if max(address.packed) > SMALL or address.packed[0] == 10:
        return not match[0].endswith(".0.0.0")
    after = text[match.end() : match.end() + WORDS_BEFORE]
    return _IP_WORDS.search(before) is not None or _IP_AFTER.search(after) is not None


def _is_v6(found: str) -> bool:
    """Say whether it is an address, and not a name with two colons in a program."""
    first = found.partition(":")[0]
    if found.count(":") < 3 and not (len(first) == 4 and any(map(str.isdigit, first))):
        return False
    try:
        ipaddress.IPv6Address(found)
    except ValueError:
        return False
    return any(map(str.isdigit, found))
