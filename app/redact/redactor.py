"""Texts with placeholders for what must not be kept. Touches nothing."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.redact.base import ALWAYS, PERSONAL, Detector, Finding, Kind

# What is uncovered by a placeholder beside it is found the next time, which is at once.
_TIMES = 8
_LEAST_LONG = 10**11  # a number that may be a card's
_PLACEHOLDER = re.compile(r"\[(SECRET|CARD|IBAN|SSN|EMAIL|PHONE|IP)_([0-9]{1,6})\]")
SHORTEST = 6  # characters of what is found: "a@b.io"
_SEPARATORS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text without what was found in it; how many of each kind that was."""

    text: str
    counts: Mapping[str, int] = field(default_factory=dict)


class Redactor:
    """Puts `[EMAIL_1]` and the like in place of what is found, the same for the same.

    also: kinds that are redacted whatever a user allows, beside secrets, cards, IBANs and SSNs.
    """

    def __init__(self, detector: Detector, *, also: frozenset[Kind] = frozenset()) -> None:
        self._detector = detector
        self._always = ALWAYS | also

    def clean(self, text: str, *, keeps_personal: bool = True) -> Cleaned:
        """Return a text as it may be kept. keeps_personal: what its user's consent says.

        What was cleaned is clean: cleaning it again changes nothing.
        """
        names = _Names()
        cleaned = self._cleaned(text, names, self._kinds(keeps_personal))
        return Cleaned(cleaned, dict(names.counts))

    def clean_json(self, value: Any, *, keeps_personal: bool = True) -> Any:
        """Return JSON with every string in it as it may be kept, keys too."""
        return self.clean_part(value, keeps_personal=keeps_personal)[0]

    def clean_part(
        self, value: Any, *, keeps_personal: bool = True
    ) -> tuple[Any, Mapping[str, int]]:
        """Return JSON as it may be kept, and how many of each kind were found in it."""
        names = _Names()
        cleaned = self._json(value, names, self._kinds(keeps_personal))
        return cleaned, dict(names.counts)

    def _kinds(self, keeps_personal: bool) -> frozenset[Kind]:
        return self._always if keeps_personal else self._always | PERSONAL

    def _json(self, value: Any, names: _Names, kinds: frozenset[Kind]) -> Any:
        if isinstance(value, str):
            return self._cleaned(value, names, kinds)
        if isinstance(value, int | float) and abs(value) >= _LEAST_LONG:
            written = str(int(value)) if value == value // 1 else str(value)
            cleaned = self._cleaned(written, names, kinds)
            return value if cleaned == written else cleaned
        if isinstance(value, Mapping):
            return {
                self._json(key, names, kinds): self._json(part, names, kinds)
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._json(part, names, kinds) for part in value]
        return value

    def _cleaned(self, text: str, names: _Names, kinds: frozenset[Kind]) -> str:
        for _ in range(_TIMES if len(text) >= SHORTEST else 0):
            found = _outside_placeholders(text, self._detector.find(text, kinds))
            if not found:
                break
            names.leave_out(text)
            pieces, last = [], 0
            for one in found:
                pieces += [text[last : one.start], names.of(one.kind, text[one.start : one.end])]
                last = one.end
            text = "".join([*pieces, text[last:]])
        return text


class _Names:
    """The placeholders of one message. counts: different values of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._given: dict[tuple[Kind, str], str] = {}
        self._taken: set[str] = set()
        self._last: Counter[str] = Counter()

    def leave_out(self, text: str) -> None:
        """Take note of placeholders that somebody wrote: they mean nothing of ours."""
        self._taken.update(match[0] for match in _PLACEHOLDER.finditer(text))

    def of(self, kind: Kind, value: str) -> str:
        """Return the placeholder of a value, however it is written."""
        bare = value if kind == "SECRET" else _SEPARATORS.sub("", value).casefold()
        if (kind, bare) not in self._given:
            self.counts[kind] += 1
            self._given[kind, bare] = self._next(kind)
        return self._given[kind, bare]

    def _next(self, kind: Kind) -> str:
        while True:
            self._last[kind] += 1
            name = f"[{kind}_{self._last[kind]}]"
            if name not in self._taken:
                self._taken.add(name)
                return name


def _outside_placeholders(text: str, found: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings that touch no placeholder: these stand for what was found already."""
    if not found or "_" not in text or _PLACEHOLDER.search(text) is None:
        return found
    taken = [match.span() for match in _PLACEHOLDER.finditer(text)]
    starts = [start for start, _ in taken]
    return [
        one
        for one in found
        if (at := bisect(starts, one.end - 1)) == 0 or taken[at - 1][1] <= one.start
    ]
