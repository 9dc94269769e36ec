"""The detector that ships: patterns with the checks that numbers carry. Touches nothing."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Sequence

from app.redact.addresses import find_emails, find_ips
from app.redact.base import Finding, Kind
from app.redact.folding import fold
from app.redact.numbers import find_cards, find_ibans, find_ssns
from app.redact.phones import find_phones
from app.redact.secrets import find_secrets

_HAS_DIGIT = re.compile(r"[0-9]")


class PatternDetector:
    """A `Detector`. region: the country of telephone numbers that name none, two letters."""

    def __init__(self, *, region: str = "US") -> None:
        self._region = region

    def find(self, text: str, kinds: frozenset[Kind]) -> Sequence[Finding]:
        """Return what is found; where two kinds claim the same, the one that checks more has it."""
        folded = fold(text)
        found: list[Finding] = []
        for kind, spans in self._candidates(folded.text, kinds):
            for start, end in spans:
                if start < end:
                    found.append(Finding(*folded.span(start, end), kind))
        return _apart(found)

    def _candidates(
        self, text: str, kinds: frozenset[Kind]
    ) -> Iterable[tuple[Kind, Iterable[tuple[int, int]]]]:
        if "SECRET" in kinds:
            yield "SECRET", find_secrets(text)
        if _HAS_DIGIT.search(text):
            if "CARD" in kinds:
                yield "CARD", find_cards(text)
            if "IBAN" in kinds:
                yield "IBAN", find_ibans(text)
            if "SSN" in kinds:
                yield "SSN", find_ssns(text)
        if "EMAIL" in kinds and "@" in text:
            yield "EMAIL", find_emails(text)
        if "IP" in kinds:
            yield "IP", find_ips(text)
        if "PHONE" in kinds and _HAS_DIGIT.search(text):
            yield "PHONE", find_phones(text, self._region)


def _apart(found: Sequence[Finding]) -> list[Finding]:
    """Return findings in order, none within another: those that came first have their place."""
    if len(found) < 2:
        return list(found)
    starts: list[int] = []
    taken: list[Finding] = []
    for finding in found:
        at = bisect(starts, finding.start)
        is_free = at == 0 or taken[at - 1].end <= finding.start
        if is_free and (at == len(taken) or finding.end <= starts[at]):
            starts.insert(at, finding.start)
            taken.insert(at, finding)
    return taken
