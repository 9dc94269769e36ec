"""Texts with placeholders for what must not be kept. Touches nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.redact.base import ALWAYS, PERSONAL, Detector, Kind


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
        """Return a text as it may be kept. keeps_personal: what its user's consent says."""
        kinds = self._always if keeps_personal else self._always | PERSONAL
        seen: dict[tuple[Kind, str], str] = {}
        counts: Counter[str] = Counter()
        pieces, last = [], 0
        for found in self._detector.find(text, kinds):
            value = text[found.start : found.end]
            if (found.kind, value) not in seen:
                counts[found.kind] += 1
                seen[found.kind, value] = f"[{found.kind}_{counts[found.kind]}]"
            pieces += [text[last : found.start], seen[found.kind, value]]
            last = found.end
        return Cleaned("".join([*pieces, text[last:]]), counts) if pieces else Cleaned(text)

    def clean_json(self, value: Any, *, keeps_personal: bool = True) -> Any:
        """Return JSON with every string in it as it may be kept, keys left alone."""
        if isinstance(value, str):
            return self.clean(value, keeps_personal=keeps_personal).text
        if isinstance(value, Mapping):
            return {
                key: self.clean_json(part, keeps_personal=keeps_personal)
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.clean_json(part, keeps_personal=keeps_personal) for part in value]
        return value
