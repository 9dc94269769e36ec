"""Cards, IBANs and social security numbers, by the checks that they carry. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Span = tuple[int, int]

_RUN = re.compile(r"(?<![A-Za-z0-9])[0-9](?:[ .-]?[0-9]){12,}+")
_DECIMAL = re.compile(r"(?<![0-9])[0-9]{1,4}[.,]$")  # what stands before decimal places
_WORD = re.compile(r"[A-Za-z0-9]")
_GROUP = re.compile(r"[0-9]+")
_CARD_WORDS = re.compile(
    r"card|karte|visa|mastercard|amex|\bpan\b|tarjeta|carte|carta|kaart|cartão|karta", re.IGNORECASE
)
# Digits in each group, as issuers print them; a group alone may have any length.
_LAYOUTS = {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 5), (4, 4, 4, 1), (8, 8)}
_AMBIGUOUS = {(13,), (18,), (19,)}  # articles' numbers, and those that machines count
_ISSUERS: Sequence[tuple[range, int, frozenset[int]]] = (  # first digits, how many, lengths
    (range(4, 5), 1, frozenset({13, 16, 19})),  # Visa
    (range(51, 56), 2, frozenset({16})),  # Mastercard
    (range(2221, 2721), 4, frozenset({16})),
    (range(34, 35), 2, frozenset({15})),  # American Express
    (range(37, 38), 2, frozenset({15})),
    (range(300, 306), 3, frozenset({14, 16})),  # Diners Club
    (range(36, 37), 2, frozenset({14, 16})),
    (range(38, 40), 2, frozenset({14, 16})),
    (range(3528, 3590), 4, frozenset({16, 17, 18, 19})),  # JCB
    (range(6011, 6012), 4, frozenset({16, 19})),  # Discover
    (range(644, 660), 3, frozenset({16, 19})),
    (range(62, 63), 2, frozenset({16, 17, 18, 19})),  # UnionPay
    (range(2200, 2205), 4, frozenset({16, 17, 18, 19})),  # Mir
    (range(50, 51), 2, frozenset({13, 16, 18, 19})),  # Maestro
    (range(56, 70), 2, frozenset({13, 16, 18, 19})),
    (range(81, 83), 2, frozenset({16})),  # RuPay
)

_IBAN_HEAD = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z]{2}|[A-Z]{2} )[0-9]{2}(?=[ -]?[A-Za-z0-9])")
_IBAN_PIECE = re.compile(r"[ -]?([A-Za-z0-9])")
_IBAN_LENGTHS = {
    country: int(length)
    for country, length in re.findall(
        r"([A-Z]{2})([0-9]{2})",
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 "
        "DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 "
        "IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 "
        "MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 "
        "SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30",
    )
}

_SSN = re.compile(
    r"(?<![\w-])(?!000|666|9)([0-9]{3})([ -]?)(?!00)([0-9]{2})\2(?!0000)[0-9]{4}(?![\w-])"
)
_SSN_WORDS = re.compile(r"\bssn\b|social[ -]?sec|soc\.? sec|\btax ?payer id", re.IGNORECASE)
WORDS_BEFORE = 40  # characters in which a word tells what a number is


def find_cards(text: str) -> Iterator[Span]:
    for run in _RUN.finditer(text):
        groups = [m.span() for m in _GROUP.finditer(text, run.start(), run.end())]
        at = 0
        while at < len(groups):
            count = _card_at(text, groups, at)
            if count:
                yield groups[at][0], groups[at + count - 1][1]
            at += count or 1


def _card_at(text: str, groups: Sequence[Span], at: int) -> int:
    """Return how many groups from one on are a card; 0: none is."""
    start = groups[at][0]
    if _DECIMAL.search(text, max(0, start - 6), start):
        return 0
    for count in (5, 4, 3, 2, 1):
        part = groups[at : at + count]
        if len(part) < count:
            continue
        if _WORD.match(text, part[-1][1]):
            continue
        separators = {text[end] for _, end in part[:-1]}
        layout = tuple(end - begin for begin, end in part)
        if len(separators) > 1 or (count > 1 and layout not in _LAYOUTS):
            continue
        digits = "".join(text[begin:end] for begin, end in part)
        if _is_issued(digits) and _passes_luhn(digits):
            before = text[max(0, start - WORDS_BEFORE) : start]
            if layout not in _AMBIGUOUS or _CARD_WORDS.search(before):
                return count
    return 0


def _is_issued(digits: str) -> bool:
    return any(
        len(digits) in lengths and int(digits[:count]) in firsts
        for firsts, count, lengths in _ISSUERS
    )


def _passes_luhn(digits: str) -> bool:
    """Say whether the last digit checks the others. Source: ISO/IEC 7812-1, annex B."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def find_ibans(text: str) -> Iterator[Span]:
    for head in _IBAN_HEAD.finditer(text):
        length = _IBAN_LENGTHS.get(head[0][:2].upper())
        end = None if length is None else _iban_end(text, head, length)
        if end is not None:
            yield head.start(), end


def _iban_end(text: str, head: re.Match[str], length: int) -> int | None:
    chars, end = list(head[0].replace(" ", "")), head.end()
    while len(chars) < length:
        piece = _IBAN_PIECE.match(text, end)
        if piece is None:
            return None
        chars.append(piece[1])
        end = piece.end()
    if end < len(text) and text[end].isalnum():
        return None
    return end if _passes_mod_97("".join(chars)) else None


def _passes_mod_97(iban: str) -> bool:
    """Say whether the check digits fit. Source: ISO 13616, ISO/IEC 7064 (MOD 97-10)."""
    if sum(map(str.isdigit, iban)) < 8:
        return False
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def find_ssns(text: str) -> Iterator[Span]:
    """Return where US social security numbers stand; without hyphens a word must say so."""
    for match in _SSN.finditer(text):
        before = text[max(0, match.start() - WORDS_BEFORE) : match.start()]
        if match[2] == "-" or _SSN_WORDS.search(before):
            yield match.span()
